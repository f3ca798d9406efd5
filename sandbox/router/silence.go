package router

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sessions"
)

// When nothing comes of an agent for a while, the person is told who is waited for, in one
// notice that grows in place at longer and longer intervals. A long build is one notice.

// A waiter is a Model that knows since when a call waits for its answer.
type waiter interface {
	Waiting() (since time.Time, ok bool)
}

// noticed counts an update of the agent as a sign of life. mu is held.
func (r *relay) noticed() { r.latest = time.Now() }

// quiet says since when nothing came of the agent, and the tool that runs, if one does. It is
// false between turns and while the person is asked something.
func (r *relay) quiet() (since time.Time, tool string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if open := r.tools.all(); len(open) > 0 {
		last := open[len(open)-1]
		tool = cmp.Or(last.tool, last.kind, "a tool")
	}
	return r.latest, tool, r.turn != nil && r.asking.Load() == 0
}

// watchSilence tells of silence until ctx ends.
func (t *turn) watchSilence(ctx context.Context, b *backend) {
	limit := t.s.r.opts.Silence
	look := time.NewTicker(limit / 4)
	defer look.Stop()
	id, next := "", limit
	var told time.Time // the start of the silence that the notice tells of
	update := func(kind string, more map[string]any) {
		u := acp.WithFields(json.RawMessage(`{"sessionUpdate":"`+kind+`"}`), more)
		t.s.record(t.id, sessions.Update{Sent: []json.RawMessage{u}})
		t.s.send(t.s.now, u)
	}
	end := func(title string) {
		if id != "" {
			update("tool_call_update", map[string]any{"toolCallId": id, "title": title, "status": "completed"})
		}
		id, next = "", limit
	}
	defer end("Waited for what has ended")
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		since, tool, ok := b.relay.quiet()
		silent := time.Since(since)
		if !ok || !since.Equal(told) {
			end("Waited, and it went on")
		}
		if !ok || silent < next {
			continue
		}
		told = since
		next *= 2
		title := fmt.Sprintf("Waiting for %s since %s (%v); cancel ends it", b.waitedFor(tool), since.Format("15:04:05"), silent.Round(time.Second))
		if id == "" {
			id = "gander-silence-" + newID()
			update("tool_call", map[string]any{"toolCallId": id, "title": title, "kind": "other", "status": "in_progress"})
		} else {
			update("tool_call_update", map[string]any{"toolCallId": id, "title": title})
		}
	}
}

// waitedFor names who does not answer.
func (b *backend) waitedFor(tool string) string {
	m, ok := b.place.Model.(waiter)
	if ok {
		_, ok = m.Waiting()
	}
	switch {
	case ok:
		return "the model"
	case tool == "":
		return b.agent.Name()
	}
	name := "the tool " + confine.Printable(tool)
	if v := b.s.servers.ofTool(tool); v != nil {
		name += " of the MCP server " + confine.Printable(v.Name)
	}
	return name
}

// ofTool returns the server that a tool is of, by the name that agents give it: the server's,
// underscores, and the tool's. It is nil for tools of the agent's own.
func (m *servers) ofTool(tool string) (of *server) {
	plain := func(name string) string {
		return strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return '_'
		}, strings.ToLower(name))
	}
	for _, v := range m.all {
		if strings.HasPrefix(plain(tool), plain(v.Name)+"_") && (of == nil || len(v.Name) > len(of.Name)) {
			of = v
		}
	}
	return of
}
