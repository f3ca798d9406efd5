package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// Two threads work in one project at the same time. Each is told of the other, an undo takes
// back what its own thread did and names what it leaves, and a redo brings it back.
func TestUndoWhileAnotherThreadWorks(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		e := w.gander(nil)
		e.initialize()
		project := w.mkdir("project")
		w.write(project, "edited.txt", "old\n")
		w.write(project, "both.txt", "old\n")
		a, b := e.session(project), e.session(project)
		b.prompt(script(t, w.shell("true"), says("ready"))).done("end_turn")
		running := a.prompt(script(t, w.shell("echo a > by-a.txt; echo a >> both.txt; touch begun; while ! test -e go; do sleep 0.1; done; echo a >> by-a.txt"), says("done")))
		eventually(t, "the first thread to work", func() bool { return exists(filepath.Join(project, "begun")) })
		second := b.prompt(script(t, w.shell("echo b > by-b.txt; echo b > edited.txt; echo b >> both.txt"), says("done"))).done("end_turn")
		w.write(project, "go", "")
		first := running.done("end_turn")
		for name, turn := range map[string]*turn{"first": first, "second": second} {
			if said := everything(turn); !strings.Contains(said, "Another thread works in this project at the same time") {
				t.Errorf("the %s thread is not told of the other: %s", name, said)
			}
		}
		holds := func(when string, want map[string]string) {
			t.Helper()
			for name, text := range want {
				got := ""
				if path := filepath.Join(project, name); exists(path) {
					got = w.read(path)
				}
				if got != text {
					t.Errorf("%s %s holds %q, want %q", when, name, got, text)
				}
			}
		}
		said := a.prompt("/undo").done("end_turn").text()
		holds("after the undo", map[string]string{"by-a.txt": "", "begun": "", "by-b.txt": "b\n", "edited.txt": "b\n", "both.txt": "old\na\nb\n"})
		for _, want := range []string{"removed by-a.txt", "both.txt stays as it is: the turn of another thread", "Not by this turn, so that what changed there stays: by-b.txt, edited.txt, go"} {
			if !strings.Contains(said, want) {
				t.Errorf("/undo says %q, without %q", said, want)
			}
		}
		if said := a.prompt("/redo").done("end_turn").text(); !strings.Contains(said, "made by-a.txt again") {
			t.Errorf("/redo says %q", said)
		}
		holds("after the redo", map[string]string{"by-a.txt": "a\na\n", "by-b.txt": "b\n", "edited.txt": "b\n", "both.txt": "old\na\nb\n"})
	})
}

// everything is all that was said in a turn.
func everything(t *turn) string {
	var said strings.Builder
	for _, u := range t.updates {
		said.WriteString(u.text() + " ")
	}
	return said.String()
}
