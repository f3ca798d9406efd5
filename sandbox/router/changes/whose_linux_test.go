package changes_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/router/changes"
)

// An undo takes back what its own turn did. What others did meanwhile stays, and so does what
// perhaps they did, or did to the same file, each said. A redo makes of it what it was.
func TestUndoIsOfItsOwnTurn(t *testing.T) {
	y := newYard(t)
	y.sh("echo old > edited; echo old > both; echo old > perhaps; mkdir d; echo old > d/moved")
	before, err := y.tree.Begin(context.Background())
	y.must(err)
	during, err := y.tree.Begin(context.Background())
	y.must(err)
	y.sh("echo mine > own; echo theirs > edited; echo theirs > theirs; echo all > both; echo who > perhaps; mv d/moved moved; mkdir -p e; echo theirs > e/theirs")
	whose := map[string]changes.Owner{"own": changes.Own, "both": changes.Own, "perhaps": changes.Unsure, "moved": changes.Own, "d/moved": changes.Own}
	of := func(own map[string]changes.Owner) func([]string) []changes.Owner {
		return func(paths []string) []changes.Owner {
			owners := make([]changes.Owner, len(paths))
			for i, p := range paths {
				rel, err := filepath.Rel(y.dir, p)
				y.must(err)
				if owner, ok := own[rel]; ok {
					owners[i] = owner
				} else {
					owners[i] = changes.Others
				}
			}
			return owners
		}
	}
	during.Whose = of(map[string]changes.Owner{"both": changes.Own, "theirs": changes.Own, "edited": changes.Own, "e": changes.Own, "e/theirs": changes.Own})
	_, err = y.tree.End(context.Background(), during, "another", "turn-0001")
	y.must(err)
	before.Whose = of(whose)
	turn, err := y.tree.End(context.Background(), before, "session", "turn-0002")
	y.must(err)
	y.expect(turn, "created own", "modified both", "modified perhaps (perhaps by another thread)", "renamed d/moved to moved")
	if got := turn.Notes(); !slices.Contains(got, "Changed meanwhile, and not by this turn: e/theirs, edited, theirs.") {
		t.Errorf("the notes are %q", got)
	}
	all := y.state()
	done, err := y.undo()
	y.must(err)
	for name, want := range map[string]string{
		"own": "(nothing)", "edited": "theirs\n", "theirs": "theirs\n", "both": "all\n", "perhaps": "who\n", "moved": "(nothing)", "d/moved": "old\n", "e/theirs": "theirs\n",
	} {
		if got := y.read(name); got != want {
			t.Errorf("after the undo %s holds %q, want %q", name, got, want)
		}
	}
	said := strings.Join(done.Skipped, "\n")
	for _, want := range []string{"both stays as it is: the turn of another thread that began at", "perhaps stays as it is: whether this turn changed it", "Not by this turn, so that what changed there stays: e/theirs, edited, theirs."} {
		if !strings.Contains(said, want) {
			t.Errorf("it says %q, without %q", said, want)
		}
	}
	y.reopen()
	if _, err := y.tree.Redo(context.Background(), "session"); err != nil {
		t.Fatal(err)
	}
	if got := y.state(); got != all {
		t.Errorf("after the redo:\n%s\nwant:\n%s", got, all)
	}
	if _, err := y.tree.Redo(context.Background(), "session"); err == nil || !strings.Contains(err.Error(), "no turn is undone") {
		t.Errorf("again: %v", err)
	}
}

// A redo changes nothing when a file is not as the undo left it.
func TestRedoConflicts(t *testing.T) {
	y := newYard(t)
	y.sh("echo old > a; echo old > b")
	y.turn(func() { y.sh("echo new > a; echo new > b") })
	_, err := y.undo()
	y.must(err)
	y.write("b", "the person's")
	if _, err := y.tree.Redo(context.Background(), "session"); err == nil || !strings.Contains(err.Error(), "b changed after the undo, so nothing was done again") {
		t.Errorf("the redo says %v", err)
	}
	if got := y.read("a") + y.read("b"); got != "old\nthe person's" {
		t.Errorf("the files hold %q", got)
	}
}
