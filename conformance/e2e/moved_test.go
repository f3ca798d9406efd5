package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A project that is replaced, or gone, under an open thread is noticed before the next
// turn: nothing is written into the old one, and the thread goes on in the new one when the
// person says it again.
func TestProjectMoves(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		e := w.gander(nil)
		e.initialize()
		project := w.mkdir("project")
		w.write(project, "a.txt", "old\n")
		s := e.session(project)
		s.prompt(script(t, w.shell("echo 1 > first"), says("done"))).done("end_turn")

		old := project + ".bak"
		if err := os.Rename(project, old); err != nil {
			t.Fatal(err)
		}
		gone := s.prompt(script(t, w.shell("echo 2 > second"), says("done"))).end()
		if said := string(gone.err); !strings.Contains(said, "is not there any more") || !strings.Contains(said, "session/fork") {
			t.Errorf("of a project that is gone the person reads %s", said)
		}
		w.mkdir("project")
		w.write(project, "a.txt", "new\n")
		replaced := s.prompt(script(t, w.shell("echo 3 > third"), says("done"))).end()
		if said := string(replaced.err); !strings.Contains(said, "was replaced") || !strings.Contains(said, "Send the prompt again") {
			t.Errorf("of a project that was replaced the person reads %s", said)
		}
		s.prompt(script(t, w.shell("cat a.txt > fourth"), says("done"))).done("end_turn")
		if got := w.read(filepath.Join(project, "fourth")); got != "new\n" {
			t.Errorf("the new project holds %q", got)
		}
		for _, name := range []string{"second", "third", "fourth"} {
			if exists(filepath.Join(old, name)) {
				t.Errorf("%s was written into the old project", name)
			}
		}
	})
}
