package e2e

import (
	"encoding/json"
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

// Where prices are known a session tells what it has cost, in the person's currency, by
// what the endpoint counted and not by what the agent takes for the price.
func TestSessionTellsItsCost(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		w.write(w.mkdir("gander"), "config.json", `{"policy": {"model": {"currency": "EUR", "prices": {"*": {"input": 1000, "output": 10000}}}}}`)
		e := w.gander(nil)
		e.initialize()
		s := e.session(w.mkdir("project"))
		usage := map[string]any{"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000}
		turn := s.prompt(script(t, step{"text": "one", "usage": usage})).done("end_turn")
		calls := 0
		for _, r := range w.model.Requests() {
			if r.Method == "POST" {
				calls++
			}
		}
		var told float64
		for _, u := range turn.updates {
			var cost struct {
				Cost *struct {
					Amount   float64
					Currency string
				}
			}
			if err := json.Unmarshal(u.raw, &cost); err != nil {
				t.Fatal(err)
			}
			if cost.Cost == nil {
				continue
			}
			if cost.Cost.Currency != "EUR" {
				t.Errorf("the cost is in %s: %s", cost.Cost.Currency, u.raw)
			}
			told = cost.Cost.Amount
		}
		// 900 tokens at 1000 a million and 100 at 10,000; agents may have the session named, too.
		if least, most := 1.9, 1.9*float64(calls); told < least-0.001 || told > most+0.001 {
			t.Errorf("the cost told is %v, want from %v to %v for %d calls", told, least, most, calls)
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
