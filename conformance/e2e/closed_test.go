package e2e

import (
	"strings"
	"testing"
)

// The first thing that a session says is what the agent does not see and cannot do, and a
// file that was refused is said, with what refused it and what permits it, but for a
// command that tries it many times only once.
func TestSessionSaysWhatIsClosed(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		e := w.gander(nil)
		e.initialize()
		dir := w.mkdir("project")
		w.write(dir, ".env", "closed")
		s := e.session(dir)
		first := s.prompt(script(t, w.shell("for i in 1 2 3 4 5 6 7 8 9; do cat .env; done; mkdir -p .vscode; echo x > .vscode/settings.json"), says("done"))).done("end_turn")
		var said strings.Builder
		add := func(t *turn) {
			for _, u := range t.updates {
				said.WriteString(u.text() + "\n")
			}
		}
		add(first)
		for _, want := range []string{"gander's default rules close .env", "gander policy show"} {
			if !strings.Contains(said.String(), want) {
				t.Errorf("the session does not say %q first: %s", want, said.String())
			}
		}
		for range 2 {
			add(s.prompt(script(t, says("more"))).done("end_turn"))
		}
		all := said.String()
		if n := strings.Count(all, ".env is closed by gander's default rules"); n != 1 {
			t.Errorf("the refusal is said %d times: %s", n, all)
		}
		e.end()
		if n := logged(e, ".env is closed by gander's default rules"); n != 1 {
			t.Errorf("the refusal is logged %d times", n)
		}
		if !strings.Contains(all, "settings.json is protected") && !strings.Contains(all, ".vscode is protected") || !strings.Contains(all, "policy.writes.allow") {
			t.Errorf("what is protected is not said: %s", all)
		}
	})
}

// logged counts the lines of gander's log that say something.
func logged(e *editor, what string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.events {
		if ev.Ev == "stderr" && strings.Contains(ev.Line, what) && !strings.Contains(ev.Line, `"level":"DEBUG"`) {
			n++
		}
	}
	return n
}
