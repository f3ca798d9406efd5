package changes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox/router/changes"
)

func (y *yard) undo() (*changes.Undone, error) { return y.tree.Undo(context.Background(), "session") }

// Whatever a turn did, the tree is as before after an undo, to the byte and the mode.
func TestUndoPutsEverythingBack(t *testing.T) {
	for _, tt := range []struct{ name, during string }{
		{"content", "echo other > a"},
		{"creation", "echo x > new; mkdir -p deep/er; echo y > deep/er/new"},
		{"deletion", "rm a"},
		{"deletion of directories", "rm -r d"},
		{"a rename", "mv a z"},
		{"a rename of a directory", "mv d z"},
		{"a rename with an edit", "mv big z; echo more >> z"},
		{"two that changed places", "mv a x; mv b a; mv x b"},
		{"a mode", "chmod 755 a; chmod 600 b"},
		{"a directory's mode", "chmod 700 d"},
		{"a directory that its owner may not write to", "echo other > d/c; chmod 555 d"},
		{"a directory that its owner may do nothing with", "echo other > a; chmod 000 d"},
		{"a new directory that its owner may not write to", "mkdir new; echo x > new/x; chmod 555 new"},
		{"deletion of a directory that its owner may not write to", "chmod 755 closed closed/e; rm -r closed"},
		{"content of a directory that its owner may not write to", "chmod 755 closed closed/e; echo other > closed/a; rm closed/e/f; echo x > closed/e/x; chmod 555 closed closed/e"},
		{"a link", "ln -s a new; rm l"},
		{"a link that points elsewhere", "ln -sfn b l"},
		{"a link for a file", "ln -sf b a"},
		{"a file for a link", "rm l; echo x > l"},
		{"a file for a directory", "rm -r d; echo x > d"},
		{"a directory for a file", "rm a; mkdir a; echo x > a/x"},
		{"an empty directory", "mkdir new; rmdir empty"},
		{"names in no alphabet", `printf x > "$(printf 'bad\377name')"; printf y > 'two
lines'`},
		{"a pipe", "mkfifo p"},
		{"everything", "rm -r d a; mv b d; echo x > a; chmod 700 a; mkdir -p q/w; ln -s q r; rm l; mv big q/w/big; echo 1 > q/w/2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			y := newYard(t)
			y.sh("echo one > a; echo two > b; mkdir -p d/e; echo three > d/c; echo four > d/e/f; chmod 750 d/e; ln -s a l; mkdir empty; seq 100 > big; mkdir -p closed/e; echo five > closed/a; echo six > closed/e/f; chmod 555 closed/e closed")
			before := y.state()
			turn := y.turn(func() { y.sh(tt.during) })
			after := y.state()
			if before == after || turn.Empty() {
				t.Fatal("nothing happened, so nothing is tried")
			}
			y.reopen() // it is another process that undoes
			if _, err := y.undo(); err != nil {
				t.Fatal(err)
			}
			if got := y.state(); got != before {
				t.Errorf("it was\n%sand is\n%s", before, got)
			}
			if _, err := y.undo(); !errors.Is(err, changes.ErrNothing) {
				t.Errorf("once more: %v", err)
			}
			if tt.name == "a pipe" {
				return // which is nothing that could be made again
			}
			if _, err := y.tree.Redo(t.Context(), "session"); err != nil {
				t.Fatal(err)
			}
			if got := y.state(); got != after {
				t.Errorf("done again it was\n%sand is\n%s", after, got)
			}
			y.undoTo(before)
		})
	}
}

// The mode of the project's own directory is not compared. It stays as it is, and stands
// in the way of nothing.
func TestUndoWhereTheProjectIsNotWritable(t *testing.T) {
	y := newYard(t)
	y.sh("mkdir d; echo one > d/a; chmod 555 .")
	before := y.state()
	y.turn(func() { y.sh("chmod 755 .; echo x > d/a; chmod 555 .") })
	y.undoTo(before)
}

// undoTo undoes the last turn, after which the tree is to be as it was before.
func (y *yard) undoTo(before string) {
	y.Helper()
	if _, err := y.undo(); err != nil {
		y.Fatal(err)
	}
	if got := y.state(); got != before {
		y.Errorf("it was\n%sand is\n%s", before, got)
	}
}

// A person may have given a directory its mode back.
func TestUndoOfAModeThatIsBack(t *testing.T) {
	y := newYard(t)
	y.sh("echo one > a; mkdir d")
	before := y.state()
	y.turn(func() { y.sh("echo x > a; chmod 000 d") })
	y.sh("chmod 755 d")
	y.undoTo(before)
}

func TestUndoGoesBackTurnByTurn(t *testing.T) {
	y := newYard(t)
	y.write("a", "0")
	for i := range 4 {
		y.turn(func() { y.write("a", fmt.Sprint(i+1)) })
	}
	for i := range 4 {
		if _, err := y.undo(); err != nil || y.read("a") != fmt.Sprint(3-i) {
			t.Fatalf("%v, and it says %s", err, y.read("a"))
		}
	}
	if _, err := y.undo(); !errors.Is(err, changes.ErrNothing) {
		t.Error(err)
	}
}

// Before an undo a person is shown the turn that it puts back, and not a later one that
// changed no file of its own.
func TestUndoable(t *testing.T) {
	y := newYard(t)
	if _, err := y.tree.Undoable("s"); !errors.Is(err, changes.ErrNothing) {
		t.Errorf("before any turn: %v", err)
	}
	y.sh("mkdir node_modules")
	want := y.turn(func() { y.write("a", "1") })
	y.turn(func() { y.sh("echo x > node_modules/x") })
	turn, err := y.tree.Undoable(want.Session)
	if err != nil || turn.ID != want.ID {
		t.Errorf("turn %+v, %v; want %s", turn, err, want.ID)
	}
}

// The look after a turn may use up its time, or the person cancels it: what it found is
// kept all the same, so that no undo takes an earlier turn for that one.
func TestATurnIsKeptWhenTheLookIsOutOfTime(t *testing.T) {
	y := newYard(t)
	y.write("good", "0")
	y.turn(func() { y.write("good", "1") })
	before, err := y.tree.Begin(t.Context())
	y.must(err)
	y.sh("for i in $(seq 40); do head -c 6000000 /dev/urandom > junk$i; done")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	turn, err := y.tree.End(ctx, before, "session", "turn-0002")
	if err != nil || ctx.Err() == nil || len(turn.Changes) != 40 {
		t.Fatalf("%d changes, %v, %v", len(turn.Changes), err, ctx.Err())
	}
	y.reopen()
	u, err := y.undo()
	if err != nil || u.Turn.ID != "turn-0002" || y.read("good") != "1" {
		t.Errorf("undid %+v, %v; good says %q", u, err, y.read("good"))
	}
}

// What a turn did that could not be written down is written before the next undo, and
// nothing is undone when that fails.
func TestATurnThatCouldNotBeKept(t *testing.T) {
	y := newYard(t)
	y.write("good", "0")
	y.turn(func() { y.write("good", "1") })
	turns, err := filepath.Glob(filepath.Join(y.store, "*", "turns"))
	y.must(err)
	before, err := y.tree.Begin(t.Context())
	y.must(err)
	y.write("junk", "x")
	y.must(os.Rename(turns[0], turns[0]+"-away"))
	y.must(os.WriteFile(turns[0], nil, 0o600))
	turn, err := y.tree.End(t.Context(), before, "session", "turn-0002")
	if err == nil || turn == nil || len(turn.Changes) != 1 {
		t.Fatalf("%+v, %v", turn, err)
	}
	kept, err := y.tree.Session("session") // there is nothing on disk now
	if err == nil || len(kept) != 1 || kept[0].ID != "turn-0002" || !strings.Contains(strings.Join(kept[0].Notes(), " "), "not kept yet") {
		t.Errorf("the session's turns are %+v, %v", kept, err)
	}
	if _, err := y.undo(); err == nil || !strings.Contains(err.Error(), "nothing was undone") || y.read("good") != "1" || y.read("junk") != "x" {
		t.Errorf("an undo says %v\n%s", err, y.state())
	}
	y.must(os.Remove(turns[0]))
	y.must(os.Rename(turns[0]+"-away", turns[0]))
	if u, err := y.undo(); err != nil || u.Turn.ID != "turn-0002" || y.read("good") != "1" || y.read("junk") != "(nothing)" {
		t.Errorf("undid %+v, %v\n%s", u, err, y.state())
	}
}

// Where it is not known what a turn changed, the next undo says so, and only the one after
// it goes further back.
func TestUndoOfWhatIsNotKnown(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name       string
		begin, end context.Context
	}{
		{"no look before it", nil, t.Context()},
		{"no time after it", t.Context(), over},
	} {
		t.Run(tt.name, func(t *testing.T) {
			y := newYard(t)
			y.write("good", "0")
			y.turn(func() { y.write("good", "1") })
			var before *changes.Before
			if tt.begin != nil {
				var err error
				before, err = y.tree.Begin(tt.begin)
				y.must(err)
			}
			y.write("junk", "x")
			_, _ = y.tree.End(tt.end, before, "session", "turn-0002")
			y.reopen()
			if _, err := y.undo(); err == nil || !strings.Contains(err.Error(), "is not known") || y.read("good") != "1" {
				t.Errorf("an undo says %v, and good %q", err, y.read("good"))
			}
			if _, err := y.undo(); err != nil || y.read("good") != "0" || y.read("junk") != "x" {
				t.Errorf("another says %v\n%s", err, y.state())
			}
		})
	}
}

// A turn whose record cannot be read is not taken for none: an undo goes no further, until
// that is mended or removed.
func TestUndoOfWhatCannotBeRead(t *testing.T) {
	for name, damage := range map[string]func(y *yard, path string) error{
		"cut off":         func(_ *yard, path string) error { return os.Truncate(path, 10) },
		"empty":           func(_ *yard, path string) error { return os.Truncate(path, 0) },
		"of another kind": func(_ *yard, path string) error { return os.WriteFile(path, []byte("{}"), 0o600) },
		"a directory": func(_ *yard, path string) error {
			return errors.Join(os.Remove(path), os.Mkdir(path, 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			y.write("good", "0")
			y.turn(func() { y.write("good", "1") })
			y.turn(func() { y.write("other", "x") })
			found, err := filepath.Glob(filepath.Join(y.store, "*", "turns", "turn-0002.json"))
			y.must(err)
			y.must(damage(y, found[0]))
			for range 2 {
				if _, err := y.undo(); err == nil || !strings.Contains(err.Error(), "is not known") || !strings.Contains(err.Error(), "remove "+found[0]) || y.read("good") != "1" {
					t.Errorf("an undo says %v, and good %q", err, y.read("good"))
				}
			}
			turns, err := y.tree.Session("session")
			if err != nil || len(turns) != 2 || turns[0].ID != "turn-0002" || len(turns[0].Notes()) == 0 {
				t.Errorf("the session's turns are %+v, %v", turns, err)
			}
			y.must(changes.Forget(t.Context(), y.store, y.dir, "another"))
			if _, err := os.Lstat(found[0]); err != nil {
				t.Errorf("it went with another session: %v", err)
			}
			y.must(os.Remove(found[0]))
			if _, err := y.undo(); err != nil || y.read("good") != "0" || y.read("other") != "x" {
				t.Errorf("an undo of what is left says %v\n%s", err, y.state())
			}
		})
	}
}

// What a person did after the turn is never lost: nothing is undone then.
func TestUndoRefusesWhatWasEdited(t *testing.T) {
	for _, tt := range []struct {
		name, after string
		paths       []changes.Path
	}{
		{"an edit", "echo mine > a", []changes.Path{"a"}},
		{"an edit of a new file", "echo mine > new", []changes.Path{"new"}},
		{"a file where one was deleted", "echo mine > gone", []changes.Path{"gone"}},
		{"a deletion", "rm a", []changes.Path{"a"}},
		{"a mode", "chmod 600 a", []changes.Path{"a"}},
		{"a directory in its place", "rm a; mkdir a", []changes.Path{"a"}},
		{"a link in its place, to the same content", "mv a x; ln -s x a", []changes.Path{"a"}},
		{"a link in place of the directory", "mv d x; ln -s x d", []changes.Path{"d/c"}},
		{"several", "echo mine > a; echo mine > gone", []changes.Path{"a", "gone"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			y := newYard(t)
			y.sh("echo one > a; echo two > gone; mkdir d; echo three > d/c")
			y.turn(func() { y.sh("echo two > a; rm gone; echo x > new; echo y > d/c") })
			y.sh(tt.after)
			before := y.state()
			_, err := y.undo()
			conflict, ok := errors.AsType[*changes.ConflictError](err)
			if !ok || !slices.Equal(conflict.Paths, tt.paths) {
				t.Fatalf("%v, want a conflict at %q", err, tt.paths)
			}
			for _, p := range tt.paths {
				if !strings.Contains(err.Error(), string(p)) {
					t.Errorf("%q does not name %s", err, p)
				}
			}
			if got := y.state(); got != before {
				t.Errorf("it was\n%sand is\n%s", before, got)
			}
		})
	}
}

// What is elsewhere may change as it likes.
func TestUndoLeavesTheRestAlone(t *testing.T) {
	y := newYard(t)
	y.sh("echo one > a; echo two > b")
	y.turn(func() { y.sh("echo x > a; mkdir d; echo y > d/new") })
	y.sh("echo mine > b; echo mine > d/mine")
	if _, err := y.undo(); err != nil {
		t.Fatal(err)
	}
	if y.read("a") != "one\n" || y.read("b") != "mine\n" || y.read("d/mine") != "mine\n" || y.read("d/new") != "(nothing)" {
		t.Error(y.state())
	}
}

// An undo that fails in the middle leaves what was there.
func TestUndoIsAllOrNothing(t *testing.T) {
	y := newYard(t)
	y.sh("mkdir p q; echo one > p/a; echo two > q/b")
	y.turn(func() { y.sh("echo x > p/a; echo y > q/b; chmod 555 q") })
	before := y.state()
	for _, at := range undoPhases {
		if err := changes.UndoFailingAt(y.tree, "session", at); err == nil {
			t.Fatalf("%s: no error", at)
		}
		if got := y.state(); got != before {
			t.Fatalf("after a failure at %s it was\n%sand is\n%s", at, before, got)
		}
	}
	if _, err := y.undo(); err != nil || y.read("p/a") != "one\n" || y.read("q/b") != "two\n" {
		t.Errorf("%v\n%s", err, y.state())
	}
}

// undoPhases are the moments at which an undo ends in tests.
var undoPhases = []string{"openDirs", "stage", "takeAway", "dropDirs", "makeDirs", "place", "giveModes", "done"}

// A process that is killed in an undo leaves a note; whoever opens the tree next mends it,
// also when an older gander wrote the note.
func TestACrashInAnUndoIsMended(t *testing.T) {
	for _, at := range undoPhases {
		for _, older := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, older %t", at, older), func(t *testing.T) {
				y := newYard(t)
				y.sh("echo one > a; echo two > gone; mkdir -p d/e p q/r shut; echo three > d/e/c; ln -s a l; echo four > p/a; echo five > q/r/a; chmod 555 q/r .")
				before := y.state()
				y.turn(func() {
					y.sh("chmod 755 . q/r; echo x > a; rm -r gone d l q/r; mkdir n; echo y > n/new; echo z > d; echo x > p/a; chmod 555 n p .; chmod 000 shut")
				})
				after := y.state()
				changes.CrashUndoAt(y.tree, "session", at)
				if older {
					changes.AsNotedBefore(y.tree)
				}
				y.reopen()
				want := after
				if at == "done" {
					want = before
				}
				if got := y.state(); got != want {
					t.Fatalf("it is\n%swant\n%s", got, want)
				}
				_, err := y.undo()
				if at == "done" && !errors.Is(err, changes.ErrNothing) || at != "done" && err != nil {
					t.Fatal(err)
				}
				if got := y.state(); got != before {
					t.Errorf("undone it is\n%swant\n%s", got, before)
				}
			})
		}
	}
}

// What a person puts back by hand after an undo was killed is theirs: nothing of it is
// taken away, and nothing stands in the way of the next undo.
func TestMendingKeepsWhatWasPutBackByHand(t *testing.T) {
	crashAt := func(phase string) func(*yard) {
		return func(y *yard) { changes.CrashUndoAt(y.tree, "session", phase) }
	}
	older := func(phase string) func(*yard) {
		return func(y *yard) { changes.CrashUndoAt(y.tree, "session", phase); changes.AsNotedBefore(y.tree) }
	}
	staged := func(n int) func(*yard) {
		return func(y *yard) { changes.CrashWhileStaging(y.tree, "session", n) }
	}
	takingBack := func(phase string) func(*yard) {
		return func(y *yard) { changes.CrashTakingBackAt(y.tree, "session", phase) }
	}
	unstaged := func(y *yard) {
		changes.CrashUndoAt(y.tree, "session", "place")
		y.sh("rm -r .gander-undo-*")
	}
	const edits, deletions = "echo x > a; echo y > b; rm c; rmdir empty", "rm a b c; rmdir empty"
	for _, tt := range []struct {
		name, during string
		crash        func(*yard)
	}{
		{"before there is a stage", edits, crashAt("openDirs")},
		{"before there is a stage, deletions", deletions, crashAt("openDirs")},
		{"before there is a stage, by an older gander", edits, older("openDirs")},
		{"when nothing is staged", edits, staged(0)},
		{"when nothing is staged, deletions", deletions, staged(0)},
		{"when one file is staged", edits, staged(1)},
		{"when one file is staged, deletions", deletions, staged(1)},
		{"when all is staged", edits, crashAt("stage")},
		{"when all is staged, deletions", deletions, crashAt("takeAway")},
		{"when all is staged, by an older gander", edits, older("stage")},
		{"after all was placed, by an older gander", deletions, older("place")},
		{"while what was placed is taken back", deletions, takingBack("place")},
		{"while what was taken away is taken back", edits, takingBack("takeAway")},
		{"and the stage was removed by hand", deletions, unstaged},
	} {
		t.Run(tt.name, func(t *testing.T) {
			y := newYard(t)
			const restore = "echo one > a; echo two > b; echo three > c"
			y.sh(restore + "; mkdir empty")
			y.turn(func() { y.sh(tt.during) })
			tt.crash(y)
			y.sh(restore)
			y.reopen()
			if y.read("a") != "one\n" || y.read("b") != "two\n" || y.read("c") != "three\n" {
				t.Errorf("it is\n%s", y.state())
			}
			if left, _ := filepath.Glob(y.path(".gander-undo-*")); len(left) > 0 {
				t.Errorf("left is %q", left)
			}
			before := y.state()
			y.turn(func() { y.write("later", "x") })
			y.undoTo(before)
		})
	}
}

// One that could not be mended when the tree was opened is mended before the next undo, and
// its note is not lost to that of another.
func TestUndoMendsWhatWasCutShort(t *testing.T) {
	for _, at := range undoPhases {
		t.Run(at, func(t *testing.T) {
			y := newYard(t)
			y.sh("echo one > a; echo two > gone")
			before := y.state()
			y.turn(func() { y.sh("echo x > a; rm gone") })
			changes.CrashUndoAt(y.tree, "session", at)
			if _, err := y.undo(); at == "done" && !errors.Is(err, changes.ErrNothing) || at != "done" && err != nil {
				t.Error(err)
			}
			if got := y.state(); got != before {
				t.Errorf("it was\n%sand is\n%s", before, got)
			}
		})
	}
}

// endsAt is a context that has ended when it is asked for the nth time.
type endsAt struct {
	context.Context
	left *int
}

func (c endsAt) Err() error {
	if *c.left--; *c.left < 0 {
		return context.Canceled
	}
	return nil
}

// An undo that is cancelled leaves everything as it was, or is carried out.
func TestUndoIsCancelled(t *testing.T) {
	y := newYard(t)
	y.sh("echo one > a; echo two > b; mkdir d; echo three > d/c")
	before := y.state()
	y.turn(func() { y.sh("echo x > a; echo y > b; rm -r d; echo z > new") })
	after := y.state()
	cancelled := 0
	for ; cancelled < 50; cancelled++ {
		_, err := y.tree.Undo(endsAt{context.Background(), new(cancelled)}, "session")
		if err == nil {
			break
		}
		if got := y.state(); !errors.Is(err, context.Canceled) || got != after {
			t.Fatalf("cancelled at %d: %v\n%swant\n%s", cancelled, err, got, after)
		}
	}
	if got := y.state(); got != before || cancelled < 6 {
		t.Errorf("%d times it was cancelled, and is\n%swant\n%s", cancelled, got, before)
	}
}

// What somebody saves between a crash and the mending stays.
func TestMendingKeepsWhatWasSavedMeanwhile(t *testing.T) {
	y := newYard(t)
	y.sh("echo one > a; echo two > b")
	y.turn(func() { y.sh("echo x > a; echo y > b") })
	changes.CrashUndoAt(y.tree, "session", "place")
	y.write("a", "mine")
	y.reopen()
	if y.read("a") != "mine" || y.read("b") != "y\n" {
		t.Error(y.state())
	}
	if _, err := y.undo(); err == nil || !strings.Contains(err.Error(), "what was there is in "+y.path(".gander-undo-test")) {
		t.Errorf("another undo says %v", err)
	}
	y.must(os.Remove(y.path("a")))
	if _, err := y.undo(); err != nil || y.read("a") != "one\n" || y.read("b") != "two\n" {
		t.Errorf("when it is out of the way: %v\n%s", err, y.state())
	}
}

// An undo writes through no link.
func TestUndoFollowsNoLink(t *testing.T) {
	y := newYard(t)
	outside := filepath.Join(filepath.Dir(y.dir), "outside")
	y.must(os.MkdirAll(outside, 0o755))
	y.sh("mkdir -p d/e; echo one > d/e/f; echo one > d/e/gone")
	y.turn(func() { y.sh("echo two > d/e/f; rm d/e/gone") })
	y.must(os.Rename(y.path("d"), filepath.Join(outside, "d")))
	y.must(os.Symlink(filepath.Join(outside, "d"), y.path("d")))
	_, err := y.undo()
	if conflict, ok := errors.AsType[*changes.ConflictError](err); !ok || !slices.Equal(conflict.Paths, []changes.Path{"d/e/f"}) {
		t.Errorf("the undo says %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(outside, "d", "e", "f")); err != nil || string(data) != "two\n" {
		t.Errorf("outside: %q, %v", data, err)
	}
	if _, err := os.Lstat(filepath.Join(outside, "d", "e", "gone")); err == nil {
		t.Error("a file was made outside")
	}
}

// What is too large to be kept is said, and the rest is undone.
func TestWhatIsNotKeptIsSaid(t *testing.T) {
	y := newYard(t)
	y.must(y.tree.Close())
	y.open(func(o *changes.Options) { o.MaxFile = 1000 })
	y.sh("head -c 5000 /dev/zero > large; echo one > a; mkdir node_modules")
	turn := y.turn(func() { y.sh("head -c 6000 /dev/zero > large; echo two > a; echo x > node_modules/x") })
	y.expect(turn, "modified a", "modified large")
	u, err := y.undo()
	y.must(err)
	if y.read("a") != "one\n" || len(y.read("large")) != 6000 {
		t.Error("it was undone wrongly")
	}
	if got := strings.Join(u.Skipped, "\n"); !strings.Contains(got, "large stays") || !strings.Contains(got, "node_modules stays") {
		t.Errorf("skipped: %s", got)
	}
}

// What there was no time to read after a turn stays, and does not keep the rest from
// being undone.
func TestWhatWasNotReadIsSaid(t *testing.T) {
	y := newYard(t)
	y.sh("echo one > a; ln -s a l; echo two > unread")
	turn := y.turn(func() { y.sh("echo x > a; ln -sfn b l; echo y > unread") })
	for i := range turn.Changes {
		if turn.Changes[i].Path != "a" {
			turn.Changes[i].After.Sum = ""
		}
	}
	y.must(changes.Rewrite(y.tree, turn))
	u, err := y.undo()
	y.must(err)
	if link, err := os.Readlink(y.path("l")); err != nil || link != "b" || y.read("unread") != "y\n" || y.read("a") != "one\n" {
		t.Error(y.state())
	}
	if got := strings.Join(u.Skipped, "\n"); !strings.Contains(got, "l stays as it is: its content was not read") || !strings.Contains(got, "unread stays") {
		t.Errorf("skipped: %s", got)
	}
}

// Whoever saves a file while it is undone does not lose it.
func TestUndoLosesNothingToARace(t *testing.T) {
	for _, tt := range []struct {
		name, before, edit string
		keeps              map[string]string
	}{
		{"an edit before it is moved away", "takeAway", "echo mine > a", map[string]string{"a": "mine\n", "gone": "(nothing)", "new": "x\n"}},
		{"an edit of what would be removed", "takeAway", "echo mine > new", map[string]string{"a": "two\n", "gone": "(nothing)", "new": "mine\n"}},
		{"a file in a place that is free", "place", "echo mine > gone", map[string]string{"a": "two\n", "gone": "mine\n", "new": "x\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			y := newYard(t)
			y.sh("echo one > a; echo two > gone")
			y.turn(func() { y.sh("echo two > a; rm gone; echo x > new") })
			err := changes.UndoMeanwhile(y.tree, "session", tt.before, func() { y.sh(tt.edit) })
			if _, ok := errors.AsType[*changes.ConflictError](err); !ok {
				t.Errorf("%v is no conflict", err)
			}
			for name, want := range tt.keeps {
				if got := y.read(name); got != want {
					t.Errorf("%s says %q, want %q", name, got, want)
				}
			}
			if left, _ := filepath.Glob(y.path(".gander-undo-*")); len(left) > 0 {
				t.Errorf("left is %q", left)
			}
		})
	}
}

// The work of a session that another one has given it is a part of the turn of that one, and
// is undone with it.
func TestUndoOfWorkThatWasGiven(t *testing.T) {
	y := newYard(t)
	y.write("a", "old\n")
	of := y.tree
	y.open(func(o *changes.Options) { o.Parent = "session" })
	given := y.tree
	y.tree = of
	defer given.Close()
	turn := y.turn(func() {
		before, err := given.Begin(t.Context())
		y.must(err)
		y.write("a", "new\n")
		_, err = given.End(t.Context(), before, "of the session", "turn-0000")
		y.must(err)
	})
	y.expect(turn, "modified a")
	done, err := y.undo()
	if err != nil || len(done.Skipped) > 0 || y.read("a") != "old\n" {
		t.Errorf("undone %+v, %v; a holds %q", done, err, y.read("a"))
	}
}
