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
		turn := s.prompt(script(t, w.shell("for i in 1 2 3 4 5 6 7 8 9; do cat .env; done; mkdir -p .vscode; echo x > .vscode/settings.json"), says("done"))).done("end_turn")
		var said strings.Builder
		for _, u := range turn.updates {
			said.WriteString(u.text() + "\n")
		}
		all := said.String()
		for _, want := range []string{"nothing but the model can be reached", ".gooseignore closes .env", "gander policy show"} {
			if !strings.Contains(all, want) {
				t.Errorf("the session does not say %q first: %s", want, all)
			}
		}
		s.prompt(script(t, says("more"))).done("end_turn")
		later := all
		for _, u := range s.prompt(script(t, says("more"))).done("end_turn").updates {
			later += u.text()
		}
		if n := strings.Count(later, ".env is closed by .gooseignore"); n != 1 {
			t.Errorf("the refusal is said %d times: %s", n, later)
		}
		if !strings.Contains(later, "settings.json is protected") && !strings.Contains(later, ".vscode is protected") || !strings.Contains(later, "policy.writes.allow") {
			t.Errorf("what is protected is not said: %s", later)
		}
	})
}
