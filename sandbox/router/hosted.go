package router

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/ports"
	"gander.dev/gander/sessions"
)

// An agent that runs in gander itself has no sandbox: nothing of this file's backend runs
// a program. It may have others do work, by another Router whose Options.Parent is the
// session here, and passes on what these show and ask.

// hosted reports whether the agent runs in gander itself.
func (b *backend) hosted() bool {
	_, is := b.agent.(sandbox.Hosted)
	return is
}

// isHosted is hosted by an agent's name.
func (r *Router) isHosted(name string) bool {
	return slices.ContainsFunc(r.opts.Agents, func(a sandbox.Agent) bool {
		_, is := a.(sandbox.Hosted)
		return is && a.Name() == name
	})
}

// account is the session whose budget a session's model calls are of.
func (r *Router) account(id acp.SessionID) acp.SessionID {
	if r.opts.Parent != "" {
		return r.opts.Parent
	}
	return id
}

// origin is that of new sessions.
func (r *Router) origin() sessions.Origin {
	if r.opts.Parent != "" {
		return sessions.OriginDelegate
	}
	return sessions.OriginEditor
}

// openHosted opens the way to the model, and the conversation.
func (b *backend) openHosted(h sandbox.Hosted, params sandbox.SessionParams) error {
	s := b.s
	var err error
	if b.place, err = confine.Open(b.ctx, confine.Request{
		Terms: s.r.opts.Terms, StateDir: s.r.opts.StateDir, Spec: sandbox.Spec{WorkingDir: s.cwd}, Hosted: true, Way: b.way(), Log: s.log,
	}); err != nil {
		return err
	}
	b.sb = hostedSandbox{s.sandboxID(b.agent)}
	b.ports = ports.NewSet(b.sb, string(s.id), s.log) // none are open
	params.ModelToken = b.place.Model.Token()
	for _, v := range s.servers.all {
		params.Servers = append(params.Servers, v.wire())
	}
	b.conv, err = h.OpenHosted(b.ctx, sandbox.HostedParams{
		SessionParams: params, Session: s.id, Dirs: s.dirs, Dial: b.place.Model.Dial, Children: s.showsChildren(), Unkept: s.unkept,
		Turn: b.relay.turnID, Chosen: s.chosen, Live: b.relay.live, Notice: s.notice,
		Step: func(step sessions.Step) { s.traces.record(sessions.Record{TurnID: b.relay.turnID(), Body: step}) },
	})
	return err
}

// wire is a server as the editor passed it.
func (v *server) wire() json.RawMessage {
	if v.URL == "" {
		return marshal(acp.MCPServerStdio{Name: v.Name, Command: v.Command, Args: list(v.Args), Env: list(v.Env)})
	}
	return marshal(map[string]any{"type": v.Type, "name": v.Name, "url": v.URL, "headers": list(v.Headers)})
}

// list is a list that is one in JSON, too, when it is empty.
func list[T any](of []T) []T { return append([]T{}, of...) }

// chosen returns what the person has chosen for a session and for those that do work for it.
func (s *session) chosen() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]string{
		optionSandbox: s.driver.Name(), optionTools: s.tools, optionPermissions: s.permissions, optionAccess: s.access,
	}
}

// hostedSandbox is in the place of a sandbox that there is not.
type hostedSandbox struct{ id string }

func (h hostedSandbox) Info() sandbox.Info {
	return sandbox.Info{ID: h.id, Isolation: "runs in gander itself and starts no program; an agent that it gives work has a sandbox of its own"}
}

func (hostedSandbox) Start(context.Context, sandbox.Command) (sandbox.Process, error) {
	return nil, errors.New("there is no sandbox to start anything in")
}

func (hostedSandbox) Mark(context.Context) (sandbox.Mark, error) { return 0, nil }

func (hostedSandbox) KillSince(context.Context, sandbox.Mark) (sandbox.KillReport, error) {
	return sandbox.KillReport{}, nil
}

func (hostedSandbox) Done() <-chan struct{} { return nil }

func (hostedSandbox) Close() error { return nil }

// turnID is the id of the turn that runs; empty between turns.
func (r *relay) turnID() string {
	if t := r.running(); t != nil {
		return t.id
	}
	return ""
}

// live shows an update of a turn without recording it.
func (r *relay) live(update json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turn == nil || r.s.leaks.update(acp.UpdateKind(update), update) != nil {
		return
	}
	r.noticed()
	r.s.pass(r.ctx, &acp.SessionNotification{Update: update})
}

// passRequest passes on a request about a file of the editor's, which was judged where it
// came from, by the sandbox of who asks.
func (r *relay) passRequest(ctx context.Context, method string, params json.RawMessage) (any, error) {
	if method != methodReadTextFile && method != methodWriteTextFile {
		return nil, acp.ErrMethodNotFound
	}
	return r.s.r.client.Request(ctx, method, acp.WithFields(params, map[string]any{"sessionId": r.s.id}))
}

// told is the _meta of the answer to who gave the work: which turn it was, and what it changed.
func (t *turn) told(found *sessions.Changes) json.RawMessage {
	return marshal(map[string]any{metaKey: struct {
		Turn    string            `json:"turn"`
		Changes *sessions.Changes `json:"changes,omitempty"`
	}{t.id, found}})
}
