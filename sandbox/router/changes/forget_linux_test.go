package changes_test

import (
	"strings"
	"testing"

	"gander.dev/gander/sandbox/router/changes"
)

// What files were before the turns of a session goes with it, and nothing else; while
// the project is open its content stays for the turn that may run.
func TestForget(t *testing.T) {
	// contents are read in what is kept as they are: too short to become shorter.
	has := func(y *yard, text string) bool { y.Helper(); return strings.Contains(y.stored(), text) }
	y := newYard(t)
	y.write("a", "first-a")
	y.write("b", "first-b")
	y.turn(func() { y.write("a", "second-a") })
	other, err := y.tree.Begin(t.Context())
	y.must(err)
	y.write("b", "second-b")
	if _, err := y.tree.End(t.Context(), other, "another", "9"); err != nil {
		t.Fatal(err)
	}
	running, err := y.tree.Begin(t.Context())
	y.must(err)
	y.must(changes.Forget(t.Context(), y.store, y.dir, "session"))
	if turns, err := y.tree.Session("session"); err != nil || len(turns) != 0 {
		t.Errorf("the turns are %v, %v", turns, err)
	}
	if !has(y, "first-a") {
		t.Error("content went while the project is open")
	}
	y.write("a", "third-a")
	if _, err := y.tree.End(t.Context(), running, "third", "10"); err != nil {
		t.Fatal(err)
	}
	if _, err := y.tree.Undo(t.Context(), "third"); err != nil || y.read("a") != "second-a" {
		t.Errorf("the turn that ran meanwhile: %v, a is %q", err, y.read("a"))
	}
	y.must(y.tree.Close())
	if has(y, "first-a") {
		t.Error("the content of the session is still there")
	}
	if !has(y, "first-b") {
		t.Error("the content of another session went with it")
	}
	y.must(changes.Forget(t.Context(), y.store, y.dir, "another"))
	if has(y, "first-b") {
		t.Error("content of a project that nobody has open is still there")
	}
	y.must(changes.Forget(t.Context(), y.store, y.dir, "third"))
	if has(y, "third-a") || has(y, "second-b") {
		t.Error("the project's files are still kept when nothing can be undone")
	}
	y.must(changes.Forget(t.Context(), y.store, y.dir, "nobody"))
	y.must(changes.Forget(t.Context(), y.store, "/nowhere", "session"))
	y.open()
}
