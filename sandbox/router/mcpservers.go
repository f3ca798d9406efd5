package router

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/outbound/doorway"
	"gander.dev/gander/sandbox/rules/permit"
	"gander.dev/gander/sessions"
)

// MCP servers that the editor passes are programs of this machine, or addresses with
// the person's tokens: ways out of the sandbox. Programs run outside, and inside is a
// bridge to their streams; of addresses the agent gets one on loopback, and the
// headers are added outside. A server is used when the configuration allows its name
// or the person has said so: an editor may pass servers that a repository brought
// along, or its own (which runs commands), that nobody meant for an agent in a
// sandbox. The person is asked once per server and project, before the first prompt.

// server is an MCP server of the editor.
type server struct {
	Type    string            `json:"type"` // empty is stdio
	Name    string            `json:"name"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     []acp.EnvVariable `json:"env"`
	URL     string            `json:"url"`
	Headers []acp.EnvVariable `json:"headers"` // which have the same members

	// The session's mu guards what follows.
	allowed, refused bool // neither: to be asked
	health           health
}

// servers are those of a session.
type servers struct {
	s   *session
	all []*server

	// mu guards what follows.
	mu     sync.Mutex
	host   sandbox.Sandbox // supervises the programs; nil until there is one
	closed bool
}

// takeServers notes what the editor passed; what cannot be had is said.
func (s *session) takeServers(raw []json.RawMessage) {
	for i, r := range raw {
		v := new(server)
		err := json.Unmarshal(r, v)
		s.r.opts.LearnSecrets(ServerValues(r))
		switch {
		case err != nil || v.Name == "":
			s.notice("warning", fmt.Sprintf("The editor's MCP server %s cannot be read and is left out: %s.", cmp.Or(confine.Printable(v.Name), fmt.Sprintf("number %d", i+1)), whyUnread(err)))
		case (v.Type == "" || v.Type == "stdio") && v.Command != "", v.Type == "http" && v.URL != "":
			s.decideServer(v)
			s.servers.all = append(s.servers.all, v)
		default:
			s.notice("warning", fmt.Sprintf("The editor's MCP server %s is left out: gander passes on those that are programs (stdio) and those of type http, not %q.", v.Name, v.Type))
		}
	}
}

// ServerValues are the variables and headers of an MCP server as an editor passes it, also
// where they are a map, as other clients have them.
func ServerValues(raw json.RawMessage) []acp.EnvVariable {
	var lists server
	_ = json.Unmarshal(raw, &lists) // what is not a list is as good as absent
	all := slices.Concat(lists.Env, lists.Headers)
	var maps struct{ Env, Headers map[string]string }
	_ = json.Unmarshal(raw, &maps)
	for _, m := range []map[string]string{maps.Env, maps.Headers} {
		for name, value := range m {
			all = append(all, acp.EnvVariable{Name: name, Value: value})
		}
	}
	return all
}

// whyUnread is why a server cannot be read, without what may be secret; err is nil when
// it has no name.
func whyUnread(err error) string {
	if err == nil {
		return "it has no name"
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
		return fmt.Sprintf("its %q is not of the type that ACP says", e.Field)
	}
	return "it is not an object"
}

// subject is what the person is asked about a server. Its variables can decide what a
// program runs, and are kept as a sum, as they may be secret.
func (v *server) subject() permit.Subject {
	all := map[string]any{"command": v.Command, "args": v.Args, "url": v.URL}
	if len(v.Env) > 0 {
		env, _ := json.Marshal(v.Env) // strings always marshal
		all["env"] = fmt.Sprintf("%x", sha256.Sum256(env))
	}
	text, _ := json.Marshal(all)
	return permit.Subject{Kind: permit.KindServer, Tool: v.Name, Text: string(text)}
}

// where is how a server is reached, for people; without what may be secret.
func (v *server) where() string {
	if v.URL != "" {
		address, _, _ := strings.Cut(v.URL, "?")
		return address
	}
	text := strings.Join(append([]string{v.Command}, v.Args...), " ")
	if len(v.Env) == 0 {
		return text
	}
	names := make([]string, len(v.Env))
	for i, e := range v.Env {
		names[i] = confine.Printable(e.Name)
	}
	return text + " (with variables of its own: " + strings.Join(names, ", ") + ")"
}

// leak is where something was seen that goes to a server.
func (v *server) leak() string { return "what the agent sends to the MCP server " + v.Name }

// decideServer looks for what the configuration or the person has said.
func (s *session) decideServer(v *server) {
	if allow := s.r.opts.AllowServers; slices.Contains(allow, "*") || slices.Contains(allow, v.Name) {
		v.allowed = true
		return
	}
	if store := s.r.opts.Permissions; store != nil {
		rule, found, err := store.Find(s.cwd, v.subject(), true)
		if err != nil {
			s.notice("warning", err.Error())
		}
		v.allowed, v.refused = found && rule.Allow, found && !rule.Allow
	}
}

// undecided are the servers that the person is to be asked about.
func (s *session) undecided() []*server {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, is := s.agent.(sandbox.Hosted); is { // asked for whom it gives work
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.servers.all), func(v *server) bool { return v.allowed || v.refused })
}

// startEarly starts the agent before there is a prompt, unless the person is to be
// asked something first.
func (s *session) startEarly() {
	if len(s.undecided()) == 0 {
		s.start()
	}
}

// askServers asks the person about the servers that nobody has decided on yet.
func (t *turn) askServers() {
	for _, v := range t.s.undecided() {
		if t.ctx.Err() != nil {
			return
		}
		allow := t.askServer(v)
		if t.ctx.Err() != nil {
			return // asked again with the next prompt
		}
		t.s.mu.Lock()
		v.allowed, v.refused = allow, !allow
		t.s.mu.Unlock()
	}
}

func (t *turn) askServer(v *server) bool {
	s, id := t.s, "gander-server-"+newID()
	about := v.where()
	if files := s.writable(v); len(files) > 0 {
		about += "\n\nThe agent can write " + strings.Join(files, ", ") + ": where that is a program, it decides what runs outside of the sandbox."
	}
	call := marshal(map[string]any{
		"sessionUpdate": "tool_call", "toolCallId": id, "kind": "other", "status": "pending",
		"title":   fmt.Sprintf("Let the agent in the sandbox use the MCP server %s, which runs outside", v.Name),
		"content": []any{acp.ToolContent(about)},
	})
	show := func(update json.RawMessage) {
		s.record(t.id, sessions.Update{Sent: []json.RawMessage{update}})
		s.send(t.ctx, update)
	}
	show(call)
	req := &acp.RequestPermissionRequest{SessionID: s.id, ToolCall: call, Options: []acp.PermissionOption{
		{OptionID: "always", Kind: "allow_always", Name: "Always allow " + v.Name + " in this project"},
		{OptionID: "once", Kind: "allow_once", Name: "Allow in this session"},
		{OptionID: "reject", Kind: "reject_once", Name: "Not in this session"},
		{OptionID: "never", Kind: "reject_always", Name: "Never in this project"},
	}}
	question := newID()
	s.append(sessions.Record{ID: question, TurnID: t.id, Body: sessions.Permission{Request: marshal(req)}})
	resp, err := s.askPermission(t.ctx, "gander", req)
	if err != nil || !selects(req.Options, resp.Outcome) {
		resp = acp.CancelledOutcome()
	}
	s.append(sessions.Record{ID: question, TurnID: t.id, Body: sessions.Permission{Outcome: marshal(resp.Outcome)}})
	chosen := resp.Outcome.OptionID
	allow := chosen == "always" || chosen == "once"
	if store := s.r.opts.Permissions; store != nil && (chosen == "always" || chosen == "never") {
		if _, err := store.Add(s.cwd, permit.Rule{Subject: v.subject(), Title: "MCP server " + v.Name + ": " + v.where(), Allow: allow}); err != nil {
			s.notice("warning", "Your answer holds for this session only: "+err.Error())
		}
	}
	status, text := "completed", "Allowed."
	if !allow {
		status, text = "failed", "Not allowed: the agent works without it."
	}
	show(acp.ToolCallFinal(id, status, text))
	return allow
}

// serverDoor is the name of the door to a server.
func serverDoor(i int) string { return fmt.Sprintf("mcp%d", i) }

// openServers opens the ways to the servers that are allowed.
func (b *backend) openServers() []sandbox.Door {
	s := b.s
	s.mu.Lock()
	defer s.mu.Unlock()
	var doors []sandbox.Door
	places := doorway.NewPlaces(largeToServers)
	for i, v := range s.servers.all {
		if !v.allowed || v.health.down {
			continue
		}
		dial := s.servers.program(v)
		if v.URL != "" {
			way, err := newServerWay(v, s.servers.patience(v), b.complains(v), s.leaks.Check, places)
			if err != nil {
				b.s.work.Go(func() { s.notice("warning", err.Error()) }) // tell takes mu
				continue
			}
			b.ways = append(b.ways, way)
			dial = way.listener.Dial
		}
		doors = append(doors, sandbox.Door{Name: serverDoor(i), Dial: dial})
	}
	return doors
}

// giveServers tells the agent of the servers as they are to be had inside.
func (b *backend) giveServers(p *sandbox.SessionParams) {
	info := b.sb.Info()
	for i, v := range b.s.servers.all {
		addr := info.Doors[serverDoor(i)]
		switch {
		case addr == "":
		case v.URL != "":
			p.Servers = append(p.Servers, marshal(map[string]any{"type": "http", "name": v.Name, "url": "http://" + addr + serverPath, "headers": []any{}}))
		case info.Executable == "":
			b.s.notice("warning", fmt.Sprintf("The MCP server %s cannot be had in this %s sandbox: gander is not inside.", v.Name, info.Driver))
		default:
			p.Servers = append(p.Servers, marshal(acp.MCPServerStdio{Name: v.Name, Command: info.Executable, Args: []string{sandbox.BridgeVerb, addr}, Env: []acp.EnvVariable{}}))
		}
	}
}

// maxPrograms bounds how many programs of one server run at a time: an agent has
// one, and a moment two when it starts again.
const maxPrograms = 2

// program returns the dialer of a server that is a program: every connection starts
// one, which ends with it.
func (m *servers) program(v *server) func(context.Context) (net.Conn, error) {
	slots := make(chan struct{}, maxPrograms)
	return func(ctx context.Context) (net.Conn, error) {
		m.s.mu.Lock()
		down := v.health.down
		m.s.mu.Unlock()
		if down {
			return nil, fmt.Errorf("the MCP server %s is down", v.Name)
		}
		select {
		case slots <- struct{}{}:
		default:
			return nil, fmt.Errorf("%d programs of the MCP server %s run already", maxPrograms, v.Name)
		}
		conn, err := m.run(ctx, v, func() { <-slots }, func(how string) { m.failed(v, how) })
		if err != nil {
			<-slots
			m.failed(v, "could not be started: "+err.Error())
			return nil, err
		}
		m.s.mu.Lock()
		patience := m.patience(v)
		m.s.mu.Unlock()
		return watchAnswers(conn, patience, func(method string) { m.failed(v, unanswered(method, patience)) }), nil
	}
}

// supervisor is what the programs run under: it ends them, and all that they start,
// with the session, and when gander dies.
func (m *servers) supervisor(ctx context.Context) (sandbox.Sandbox, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, sandbox.ErrGone
	}
	if m.host != nil {
		select {
		case <-m.host.Done():
		default:
			return m.host, nil
		}
	}
	i := slices.IndexFunc(m.s.r.opts.Drivers, func(d sandbox.Driver) bool { return d.Name() == sandbox.Off })
	if i < 0 {
		return nil, errors.New("nothing here supervises programs outside of a sandbox")
	}
	dir, err := registry.Claim(m.s.r.opts.StateDir, m.id())
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, workDir), 0o700); err != nil {
		return nil, fmt.Errorf("making a directory for the editor's MCP servers: %w", err)
	}
	m.host, err = m.s.r.opts.Drivers[i].Create(ctx, sandbox.Spec{
		ID: m.id(), WorkingDir: m.s.cwd, Home: dir, Labels: map[string]string{"session": string(m.s.id), "for": "the editor's MCP servers"},
	})
	return m.host, err
}

func (m *servers) id() string { return "mcp-" + string(m.s.id) }

// dir is where what supervises the programs keeps its files, and workDir where in it the
// programs begin.
func (m *servers) dir() string { return filepath.Join(m.s.r.opts.StateDir, "sandboxes", m.id()) }

const workDir = "work"

// close ends the programs.
func (m *servers) close() {
	m.mu.Lock()
	host := m.host
	m.closed = true
	m.mu.Unlock()
	if host == nil {
		return
	}
	if err := host.Close(); err != nil {
		m.s.log.Warn("ending the editor's MCP servers", "err", err)
	}
	if err := registry.RemoveDir(m.dir()); err != nil {
		m.s.log.Warn("removing what supervised the editor's MCP servers", "err", err)
	}
}
