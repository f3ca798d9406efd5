package e2e

import (
	"maps"
	"slices"
	"testing"

	"gander.dev/gander/conformance/model"
)

// A session is a conversation with the agent behind an editor.
type session struct {
	*editor
	id     string
	opened newSession
}

type newSession struct {
	SessionID     string
	ConfigOptions []configOption
	Modes         *struct {
		CurrentModeID  string
		AvailableModes []struct{ ID, Name string }
	}
}

// session opens one in a directory.
func (e *editor) session(cwd string) *session {
	e.t.Helper()
	return e.sessionWith(map[string]any{"cwd": cwd, "mcpServers": []any{}})
}

// sessionWith is session with all that the request says.
func (e *editor) sessionWith(params map[string]any) *session {
	e.t.Helper()
	s := &session{editor: e}
	err := e.request("session/new", params, &s.opened)
	if err != nil {
		e.t.Fatalf("session/new: %v", err)
	}
	s.id = s.opened.SessionID
	return s
}

// A pending is a prompt that was sent.
type pending struct {
	*session
	n    int
	text string
	turn *turn // guarded by the editor's mu until it has ended
}

// prompt sends text and does not wait for the answer.
func (s *session) prompt(text string) *pending {
	s.t.Helper()
	s.mu.Lock()
	before := len(s.rec.turns)
	s.mu.Unlock()
	p := &pending{session: s, text: text, n: s.begin("session/prompt", map[string]any{
		"sessionId": s.id, "prompt": []any{map[string]any{"type": "text", "text": text}},
	})}
	s.wait("the prompt to be on the wire", func() bool {
		for _, t := range s.rec.turns[before:] {
			if t.session == s.id {
				p.turn = t
				return true
			}
		}
		return false
	})
	return p
}

// until waits for an update of this turn that fits.
func (p *pending) until(what string, fits func(update) bool) update {
	p.t.Helper()
	var got update
	p.wait(what, func() bool {
		i := slices.IndexFunc(p.turn.updates, fits)
		if i >= 0 {
			got = p.turn.updates[i]
		}
		return i >= 0
	})
	return got
}

// end waits for the answer and returns the turn.
func (p *pending) end() *turn {
	p.t.Helper()
	_ = p.reply(p.n, nil)
	return p.turn
}

// done waits for the answer and fails the test when it is not this stop reason.
func (p *pending) done(stopReason string) *turn {
	p.t.Helper()
	t := p.end()
	if t.err != nil || t.answer.StopReason != stopReason {
		p.t.Fatalf("the prompt ended with %q, error %s; want %q", t.answer.StopReason, t.err, stopReason)
	}
	return t
}

func (s *session) cancel() {
	s.t.Helper()
	s.notify("session/cancel", map[string]any{"sessionId": s.id})
}

// Steps of the model's script, as they are put into a prompt.
type step map[string]any

func (w *world) shell(command string) step { return w.cell.runs(command) }

// with is a step that says or thinks something as well.
func (s step) with(more step) step {
	maps.Copy(s, more)
	return s
}

func says(text string) step { return step{"text": text} }

// script is a prompt that tells the model what to do.
func script(t *testing.T, steps ...step) string {
	t.Helper()
	return "please " + model.Embed(encode(t, steps))
}
