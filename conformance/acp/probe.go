package acp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gander.dev/gander/conformance/harness"
)

// A probe is one check in progress: its directory, its agents and what it found.
type probe struct {
	*runner
	ctx      context.Context
	check    Check
	dir      string
	own      []*agent
	opened   []*session
	marks    []string
	problems []string
	skipped  bool
	used     *session // shared with other checks
}

// stop ends a check from within.
type stop struct{}

// fail ends the check: the agent does not pass.
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
	if p.facts.broken != "" && p.check.area() != "lifecycle" && p.check.area() != "overall" {
		p.fail("the agent cannot be used: %s", p.facts.broken)
	}
	p.check.run(p)
}

// finish ends what the check started. What it shared and may have spoilt is not
// used again.
func (p *probe) finish() {
	for _, a := range p.own {
		a.Discard()
	}
	for _, m := range p.marks {
		harness.KillMarked(m)
	}
	spoilt := len(p.problems) > 0 && !p.skipped
	if p.used != nil && (spoilt || !p.used.Alive()) {
		p.used.Discard()
		p.runner.shared = nil
	}
	if p.runner.asking != nil && p.check.area() == "permission" && (spoilt || !p.runner.asking.Alive()) {
		p.runner.asking.Discard()
		p.runner.asking = nil
	}
	p.closeSessions()
}

// closePatience bounds the closing of a session between two checks.
const closePatience = 10 * time.Second

// closeSessions closes what the check opened on the agent that others go on to use:
// an agent may need hundreds of megabytes for each. How it closes is judged elsewhere.
func (p *probe) closeSessions() {
	if p.shared == nil || !p.facts.session["close"] {
		return
	}
	for _, s := range p.opened {
		if s.agent != p.shared.agent || s == p.shared || !s.Alive() {
			continue
		}
		select {
		case <-s.ask("session/close", byID(s)).Done:
		case <-time.After(closePatience):
		case <-p.ctx.Done():
		}
	}
}

func (p *probe) state() harness.State {
	switch {
	case p.skipped:
		return harness.NotApplicable
	case len(p.problems) > 0:
		return harness.Fail
	}
	return harness.Pass
}

// begin is an agent of the check's own, initialised.
func (p *probe) begin(l launch) *agent {
	a := p.raw(l)
	p.initialize(a)
	return a
}

// raw is an agent of the check's own, to which nothing was said.
func (p *probe) raw(l launch) *agent {
	a, err := p.runner.start(l)
	if err != nil {
		p.fail("%v", err)
	}
	p.own = append(p.own, a)
	return a
}

func initializeParams(version any) map[string]any {
	return map[string]any{
		"protocolVersion": version,
		"clientCapabilities": map[string]any{
			"fs": map[string]any{"readTextFile": false, "writeTextFile": false}, "terminal": false,
		},
		"clientInfo": map[string]any{"name": "gander-conformance", "version": "1"},
	}
}

// initialize opens the connection and returns the answer.
func (p *probe) initialize(a *agent) *frame {
	f := p.frame(a.ask("initialize", initializeParams(1)), "initialize")
	if f.Error != nil {
		p.fail("initialize is answered with error %s %s", f.Error.Code, f.Error.Message)
	}
	return f
}

// frame waits for the answer to a request.
func (p *probe) frame(r *request, what string) *frame {
	return p.within(r, what, p.o.Timeout)
}

func (p *probe) within(r *request, what string, limit time.Duration) *frame {
	limit = min(limit, p.o.Timeout)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-r.Done:
	case <-p.ctx.Done():
		p.fail("interrupted")
	case <-timer.C:
		p.fail("%s is not answered within %v", what, limit)
	}
	if r.Answer == nil {
		p.fail("the agent ended (%v) without answering %s; stderr: %s", r.Peer.Exit, what, tail(r.Peer.Complaints()))
	}
	return r.Answer
}

// tail is the end of what an agent complained of.
func tail(text string) string {
	const enough = 300
	text = strings.TrimSpace(text)
	return harness.Excerpt(text[max(0, len(text)-enough):])
}

// good is frame for a request that has to be answered with a result.
func (p *probe) good(r *request, what string) *frame {
	f := p.frame(r, what)
	if f.Error != nil {
		p.fail("%s is answered with error %s %s", what, f.Error.Code, f.Error.Message)
	}
	return f
}

// refused notes a problem unless a request is answered with an error.
func (p *probe) refused(r *request, what string) *frame {
	f := p.frame(r, what)
	if f.Error == nil {
		p.problem("%s is answered with a result, want an error: %s", what, harness.Excerpt(f.Raw))
	}
	return f
}

// eventually waits until something is so.
func (p *probe) eventually(what string, is func() bool) {
	for begun := time.Now(); !is(); time.Sleep(3 * time.Millisecond) {
		if time.Since(begun) > p.o.Timeout || p.ctx.Err() != nil {
			p.fail("waited %v for %s", p.o.Timeout, what)
		}
	}
}

// noSuch is a method that no agent has; its error shows that the agent reads on.
const noSuch = "_gander.dev/conformance"

// ping shows that an agent lives and reads on.
func (p *probe) ping(a *agent, after string) {
	f := p.frame(a.ask(noSuch, map[string]any{}), "an unknown method, after "+after+",")
	if f.Error == nil {
		p.problem("an unknown method, after %s, is answered with a result: %s", after, harness.Excerpt(f.Raw))
	}
}

// newMark is a word that only the processes of one command carry.
func (p *probe) newMark() string {
	p.runner.marks++
	m := fmt.Sprintf("%s_m%d_", p.mark, p.runner.marks)
	p.marks = append(p.marks, m)
	return m
}

// mkdir makes a directory in the check's own.
func (p *probe) mkdir(name string) string {
	dir := filepath.Join(p.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.fail("%v", err)
	}
	return dir
}

func (p *probe) write(dir, name, text string) string {
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		p.fail("%v", err)
	}
	return file
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}

// holds notes a problem unless a text contains each of the words.
func (p *probe) holds(what, text string, words ...string) {
	for _, w := range words {
		if !strings.Contains(text, w) {
			p.problem("%s does not contain %q: %s", what, w, harness.Excerpt(text))
		}
	}
}
