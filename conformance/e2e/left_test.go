package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a killed gander leaves, an agent's home with what was said in it, the next
// one clears away, and says so.
func TestKilledGanderIsClearedAway(t *testing.T) {
	for _, c := range []cell{home, {agents[0], drivers[1]}} {
		c.run(t, 0, func(t *testing.T, w *world) {
			e := w.gander(nil)
			e.dies = true
			e.initialize()
			s := e.session(w.mkdir("project"))
			s.prompt(script(t, says("a secret of somebody"))).done("end_turn")
			if n := len(left(t, w)); n != 1 {
				t.Fatalf("%d directories are there to be left", n)
			}
			e.do("kill", map[string]any{"signal": "SIGKILL"})
			e.exit()
			if len(left(t, w)) != 1 {
				t.Fatal("nothing is left: the test proves nothing")
			}
			next := w.gander(nil)
			next.initialize()
			eventually(t, "it to be cleared away", func() bool { return len(left(t, w)) == 0 })
			next.end()
			if said := next.stderr(); !strings.Contains(said, "cleared away what a killed gander left: goose-"+s.id) {
				t.Errorf("it is not said: %s", said)
			}
			w.noContainers()
		})
	}
}

// left lists the sandboxes' directories of a world.
func left(t *testing.T, w *world) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(w.ganderHome(), "sandboxes", "[^.]*"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return slices.DeleteFunc(dirs, func(dir string) bool {
		_, notKept := os.Stat(filepath.Join(dir, "keep")) // the agent's own conversation, for the next time
		_, noSandbox := os.Stat(filepath.Join(dir, "sandbox.json"))
		return notKept == nil && noSandbox != nil
	})
}
