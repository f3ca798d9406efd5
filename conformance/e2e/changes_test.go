package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a command changed is shown at the end of the turn, as differences with host
// paths; /diff shows it again, /undo puts it back, and nothing of it is in the project.
func TestChangesByCommands(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		e := w.gander(nil)
		e.initialize()
		project := w.mkdir("project")
		w.write(project, "a.txt", "one\ntwo\n")
		w.write(project, ".env", "SECRET=never-kept-5521\n")
		s := e.session(project)
		turn := s.prompt(script(t,
			w.shell("printf 'one\\n2\\n' > a.txt; mkdir d; echo new > d/new.txt; head -c 100 /dev/zero > zeros; rm -f given.txt"),
			says("done"),
		)).done("end_turn")

		shown := shownAtTheEnd(t, turn)
		want := map[string][2]string{"a.txt": {"one\ntwo\n", "one\n2\n"}, "d/new.txt": {"", "new\n"}}
		for name, texts := range want {
			i := slices.IndexFunc(shown.Content, func(c shownItem) bool { return c.Path == filepath.Join(project, name) })
			if i < 0 || shown.Content[i].OldText != texts[0] || shown.Content[i].NewText != texts[1] {
				t.Errorf("%s is not shown as changed: %+v", name, shown)
			}
			if !slices.ContainsFunc(shown.Content, func(c shownItem) bool { return strings.Contains(c.Content.Text, name) }) {
				t.Errorf("%s is not named: %+v", name, shown)
			}
			if !slices.ContainsFunc(shown.Locations, func(l shownItem) bool { return l.Path == filepath.Join(project, name) }) {
				t.Errorf("%s is not among the locations: %+v", name, shown.Locations)
			}
		}
		if !slices.ContainsFunc(shown.Content, func(c shownItem) bool { return strings.Contains(c.Content.Text, "created zeros") }) {
			t.Errorf("what is no text is not named: %+v", shown)
		}

		if got := s.prompt("/diff").done("end_turn").text(); !strings.Contains(got, "-two\n+2\n") || !strings.Contains(got, "+++ b/d/new.txt") {
			t.Errorf("/diff says %q", got)
		}
		w.write(project, "a.txt", "the person's\n")
		if got := s.prompt("/undo").done("end_turn").text(); !strings.Contains(got, "a.txt changed after the turn") {
			t.Errorf("/undo says %q", got)
		}
		if got := w.read(filepath.Join(project, "a.txt")); got != "the person's\n" {
			t.Errorf("a.txt holds %q", got)
		}
		w.write(project, "a.txt", "one\n2\n")
		if got := s.prompt("/undo").done("end_turn").text(); !strings.Contains(got, "put a.txt back as it was") || !strings.Contains(got, "removed d/new.txt, which the turn had created") {
			t.Errorf("/undo says %q", got)
		}
		if got := w.read(filepath.Join(project, "a.txt")); got != "one\ntwo\n" {
			t.Errorf("a.txt holds %q", got)
		}
		names, err := filepath.Glob(filepath.Join(project, "*"))
		for i := range names {
			names[i] = filepath.Base(names[i])
		}
		hidden, _ := filepath.Glob(filepath.Join(project, ".g*")) // .git, .gander-undo-…
		if err != nil || slices.Contains(names, "d") || slices.Contains(names, "zeros") || len(hidden) > 0 {
			t.Errorf("the project holds %q, %q, %v", names, hidden, err)
		}
		e.end()
		w.notKept("never-kept-5521")
	})
}

type shownItem struct {
	Type, Path, OldText, NewText string
	Content                      struct{ Text string }
}

type shownCall struct {
	Content   []shownItem
	Locations []shownItem
}

// shownAtTheEnd is the tool call of gander's own with the changes of a turn.
func shownAtTheEnd(t *testing.T, turn *turn) shownCall {
	t.Helper()
	var call shownCall
	i := slices.IndexFunc(turn.updates, func(u update) bool { return strings.HasPrefix(u.ToolCallID, "gander-changes-") })
	if i < 0 {
		t.Fatalf("the changes are not shown; the updates are: %s", strings.Join(turn.kinds(), ", "))
	}
	if err := json.Unmarshal(turn.updates[i].raw, &call); err != nil {
		t.Fatal(err)
	}
	return call
}

// notKept looks for a text in all that gander keeps.
func (w *world) notKept(text string) {
	w.t.Helper()
	err := filepath.WalkDir(filepath.Join(w.ganderHome(), "snapshots"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), text) {
			w.t.Errorf("%q is in %s", text, path)
		}
		return err
	})
	if err != nil {
		w.t.Error(err)
	}
}
