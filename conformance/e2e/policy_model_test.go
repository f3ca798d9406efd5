package e2e

import (
	"strings"
	"testing"
	"time"
)

// A session whose budget is used up ends its turns soon, with a sentence that says
// so, and the model is not called any more. Agents are known to try again for a
// minute or more after other errors.
func TestBudgetIsUsedUp(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		w.write(w.mkdir("gander"), "config.json", `{"policy": {"model": {"maxTokens": 1000}}}`)
		e := w.gander(nil)
		e.initialize()
		s := e.session(w.mkdir("project"))
		usage := map[string]any{"prompt_tokens": 900, "completion_tokens": 200, "total_tokens": 1100}
		s.prompt(script(t, step{"text": "one", "usage": usage})).done("end_turn")
		calls := len(w.model.Requests())
		if calls == 0 {
			t.Fatal("the model was not called: the test proves nothing")
		}
		began := time.Now()
		said := refusedTurn(t, s, script(t, says("two")))
		if !strings.Contains(said, "has used 1100 tokens") || !strings.Contains(said, "policy.model.maxTokens") {
			t.Errorf("the person reads %q", said)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the turn took %v to end", took)
		} else {
			t.Logf("the turn ended after %v", took)
		}
		if n := len(w.model.Requests()); n != calls {
			t.Errorf("the model was called %d times more", n-calls)
		}
	})
}

// A model that the policy does not allow is not called, and the person reads why.
func TestModelIsNotAllowed(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		w.write(w.mkdir("gander"), "config.json", `{"policy": {"model": {"allow": ["small-*"]}}}`)
		e := w.gander(nil)
		e.initialize()
		s := e.session(w.mkdir("project"))
		began := time.Now()
		said := refusedTurn(t, s, script(t, says("never")))
		if !strings.Contains(said, "policy.model.allow") || !strings.Contains(said, "small-*") {
			t.Errorf("the person reads %q", said)
		}
		t.Logf("the turn ended after %v", time.Since(began))
		for _, r := range w.model.Requests() {
			if r.Method == "POST" {
				t.Errorf("the model was called: %s", r.Path)
			}
		}
	})
}

// refusedTurn is a turn that gets no answer from the model; all that the person
// reads of it is returned, its error included.
func refusedTurn(t *testing.T, s *session, prompt string) string {
	t.Helper()
	turn := s.prompt(prompt).end()
	var said strings.Builder
	said.WriteString(turn.text())
	for _, u := range turn.updates {
		said.WriteString(" " + u.text())
	}
	return said.String() + " " + string(turn.err)
}
