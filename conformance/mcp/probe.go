package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gander.dev/gander/conformance/harness"
)

const latestVersion = "2025-11-25"

// versions are the protocol versions that a server has to speak.
func versions() []string { return []string{"2024-11-05", "2025-03-26", "2025-06-18", latestVersion} }

// A probe is one check in progress: its directory, its servers and what it found.
type probe struct {
	*runner
	ctx      context.Context
	check    Check
	dir      string // a directory of its own, as the harness sees it
	own      []*server
	marks    []string
	problems []string
	skipped  bool
	used     bool // the shared server was
}

// stop ends a check from within.
type stop struct{}

// fail ends the check: the server does not pass.
func (p *probe) fail(format string, args ...any) {
	p.problem(format, args...)
	panic(stop{})
}

// problem notes what is wrong and goes on.
func (p *probe) problem(format string, args ...any) {
	const enough = 12
	if len(p.problems) < enough {
		p.problems = append(p.problems, fmt.Sprintf(format, args...))
	}
}

// skip ends the check: it does not apply.
func (p *probe) skip(format string, args ...any) {
	if len(p.problems) == 0 {
		p.skipped = true
		p.problem(format, args...)
	}
	panic(stop{})
}

func (p *probe) perform() {
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(stop); !ok {
				panic(v)
			}
		}
	}()
	if p.facts.broken != "" && p.check.area() != "lifecycle" && p.check.area() != "transport" {
		p.fail("the server cannot be used: %s", p.facts.broken)
	}
	p.check.run(p)
}

// finish ends what the check started. A shared server that may be spoilt is not
// used again.
func (p *probe) finish() {
	for _, s := range p.own {
		s.Discard()
	}
	for _, m := range p.marks {
		harness.KillMarked(m)
	}
	if p.used && (len(p.problems) > 0 && !p.skipped || !p.shared.Alive()) {
		p.shared.Discard()
		p.shared = nil
	}
	_ = removeAll(p.dir)
}

func (p *probe) state() harness.State {
	switch {
	case p.skipped:
		return NotApplicable
	case len(p.problems) > 0:
		return Fail
	}
	return Pass
}

// server is one that is initialised, shared with other checks.
func (p *probe) server() *server {
	if p.shared == nil || !p.shared.Alive() {
		s, err := p.runner.start(launch{raw: true})
		if err != nil {
			p.fail("%v", err)
		}
		p.handshake(s, latestVersion)
		p.runner.shared = s
	}
	p.used = true
	return p.shared
}

// begin is a server of the check's own.
func (p *probe) begin(l launch) *server {
	if l.dir == "" {
		l.dir = p.dir
	}
	s, err := p.runner.start(l)
	if err != nil {
		p.fail("%v", err)
	}
	p.own = append(p.own, s)
	if !l.raw {
		p.handshake(s, latestVersion)
	}
	return s
}

// handshake initialises a server.
func (p *probe) handshake(s *server, version string) {
	f := p.frame(s.Ask("initialize", initializeParams(version)), "initialize")
	if f.Error != nil {
		p.fail("initialize is answered with error %s %s", f.Error.Code, f.Error.Message)
	}
	s.initialized = f
	s.Tell("notifications/initialized", nil)
}

func initializeParams(version string) map[string]any {
	return map[string]any{
		"protocolVersion": version, "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "gander-conformance", "version": "1"},
	}
}

// learn reads what an initialised server offers.
func (p *probe) learn(s *server) {
	var result struct {
		ProtocolVersion string                     `json:"protocolVersion"`
		ServerInfo      json.RawMessage            `json:"serverInfo"`
		Instructions    string                     `json:"instructions"`
		Capabilities    map[string]json.RawMessage `json:"capabilities"`
	}
	if err := json.Unmarshal(s.initialized.Result, &result); err != nil {
		p.fail("the result of initialize: %v", err)
	}
	f := &p.runner.facts
	f.version, f.serverInfo, f.instructions, f.capabilities = result.ProtocolVersion, result.ServerInfo, result.Instructions, result.Capabilities
	f.tools = p.tools(s)
	if f.has("shell") {
		p.learnShell(s)
	}
}

// tools asks for the inventory, all pages of it.
func (p *probe) tools(s *server) []tool {
	var all []tool
	cursor := ""
	for range 100 {
		var params any
		if cursor != "" {
			params = map[string]any{"cursor": cursor}
		}
		f := p.frame(s.Ask("tools/list", params), "tools/list")
		var page struct {
			Tools      []tool `json:"tools"`
			NextCursor string `json:"nextCursor"`
		}
		if f.Error != nil || json.Unmarshal(f.Result, &page) != nil {
			p.fail("tools/list is answered with %s", excerpt(f.Raw))
		}
		all = append(all, page.Tools...)
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	return all
}

// frame waits for the answer to a request.
func (p *probe) frame(r *request, what string) *frame {
	select {
	case <-r.Done:
	case <-p.ctx.Done():
		p.fail("interrupted")
	case <-time.After(p.o.Timeout):
		p.fail("%s is not answered within %v", what, p.o.Timeout)
	}
	if r.Answer == nil {
		p.fail("the server ended (%v) without answering %s; stderr: %s", r.Peer.Exit, what, excerpt(strings.TrimSpace(r.Peer.Complaints())))
	}
	return r.Answer
}

// eventually waits until something is so.
func (p *probe) eventually(what string, is func() bool) {
	for begun := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > p.o.Timeout || p.ctx.Err() != nil {
			p.fail("waited %v for %s", p.o.Timeout, what)
		}
	}
}

// ping shows that a server lives and reads on.
func (p *probe) ping(s *server, after string) {
	if f := p.frame(s.Ask("ping", nil), "ping, after "+after+","); f.Error != nil {
		p.fail("ping, after %s, is answered with error %s %s", after, f.Error.Code, f.Error.Message)
	}
}

// newMark is a word that only the processes of one command carry.
func (p *probe) newMark() string {
	p.runner.marks++
	m := fmt.Sprintf("%s_m%d_", p.mark, p.runner.marks)
	p.marks = append(p.marks, m)
	return m
}

// path is a file of the check's directory, as the server names it.
func (p *probe) path(elem ...string) string { return p.target(p.host(elem...)) }

func (p *probe) host(elem ...string) string {
	return filepath.Join(append([]string{p.dir}, elem...)...)
}

// write makes a file and the directories above it.
func (p *probe) write(name, text string) {
	file := p.host(name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		p.fail("%v", err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		p.fail("%v", err)
	}
}

// read is the text of a file; what cannot be read is a problem of its own.
func (p *probe) read(name string) string {
	text, err := os.ReadFile(p.host(name))
	if err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	return string(text)
}

func (p *probe) exists(name string) bool {
	_, err := os.Lstat(p.host(name))
	return err == nil
}

// holds notes a problem unless a text contains each of the words.
func (p *probe) holds(what, text string, words ...string) {
	for _, w := range words {
		if !strings.Contains(text, w) {
			p.problem("%s does not contain %q: %s", what, w, excerpt(text))
		}
	}
}

// equal notes a problem unless two texts are the same.
func (p *probe) equal(what, got, want string) {
	if got != want {
		p.problem("%s is %s, want %s", what, excerpt(got), excerpt(want))
	}
}

// classic says which of two profiles the run is for.
func (p *probe) classic() bool { return p.o.Profile == Classic }
