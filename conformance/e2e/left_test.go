package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a killed gander leaves, an agent's home with what was said in it, the next
// one clears away, and says so.
func TestKilledGanderIsClearedAway(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
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

// A session of which nothing is to be kept leaves nothing either when gander is killed:
// the next one clears it away.
func TestKilledGanderKeepsNothing(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		e := w.gander(nil)
		e.dies = true
		e.initialize()
		project := w.mkdir("project")
		s := e.sessionWith(map[string]any{"cwd": project, "mcpServers": []any{}, "_meta": map[string]any{"noSession": true}})
		s.prompt("a word: quince-77 " + script(t, w.shell("echo quince-77 > made.txt"), says("made"))).done("end_turn")
		if len(e.list(map[string]any{})) != 0 {
			t.Error("the session is in the list")
		}
		e.do("kill", map[string]any{"signal": "SIGKILL"})
		e.exit()
		if len(holding(t, w.ganderHome(), "quince-77")) == 0 {
			t.Fatal("nothing is left: the test proves nothing")
		}
		next := w.gander(nil)
		next.initialize()
		eventually(t, "it to be cleared away", func() bool { return len(holding(t, w.ganderHome(), "quince-77", s.id)) == 0 })
		next.end()
	})
}

// holding lists the files below a directory that have one of the words in them, or in
// their names.
func holding(t *testing.T, dir string, words ...string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it is being cleared away
		}
		text := path
		if err == nil && d.Type().IsRegular() {
			data, _ := os.ReadFile(path) // gone meanwhile: it has nothing
			text += string(data)
		}
		if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) }) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
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
