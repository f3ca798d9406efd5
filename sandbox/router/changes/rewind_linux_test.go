package changes_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox/router/changes"
)

// The files of several turns go back and come again, all or none.
func TestRewind(t *testing.T) {
	y := newYard(t)
	y.write("a", "0")
	y.write("kept", "0")
	y.turn(func() { y.write("a", "1") })
	y.turn(func() { y.write("a", "2"); y.write("new", "2") })
	y.turn(func() { y.sh("rm new"); y.write("late", "3") })
	rewind := func(to changes.Target) (undone, redone int, err error) {
		u, r, err := y.tree.Rewind(t.Context(), "session", to)
		return len(u), len(r), err
	}
	want := func(when, state string) {
		t.Helper()
		if got := strings.Join([]string{y.read("a"), y.read("new"), y.read("late"), y.read("kept")}, " "); got != state {
			t.Errorf("%s the files are %q, want %q", when, got, state)
		}
	}
	const second, third = "turn-0002", "turn-0003"
	y.write("a", "mine")
	y.write("late", "3")
	var conflict *changes.ConflictError
	if _, _, err := rewind(changes.Target{Back: []string{second, third}}); !errors.As(err, &conflict) {
		t.Errorf("with an edit behind the turns: %v", err)
	}
	want("when it was refused", "mine (nothing) 3 0")
	y.write("a", "2")
	before := time.Now()
	if u, r, err := rewind(changes.Target{Back: []string{second, third}}); err != nil || u != 2 || r != 0 {
		t.Fatalf("%d undone, %d redone, %v", u, r, err)
	}
	want("before the second turn", "1 (nothing) (nothing) 0")
	y.turn(func() { y.write("a", "4") })
	if u, r, err := rewind(changes.Target{Back: []string{"turn-0004"}, Again: []string{"turn-0001", second, third}, Since: before}); err != nil || u != 1 || r != 2 {
		t.Fatalf("%d undone, %d redone, %v", u, r, err)
	}
	want("after the third turn again", "2 (nothing) 3 0")
	if _, _, err := rewind(changes.Target{Back: []string{third, "turn-0000"}, Changed: []string{"turn-0000"}}); err == nil || !strings.Contains(err.Error(), "is not kept any more") {
		t.Errorf("a turn that is not kept: %v", err)
	}
	want("then", "2 (nothing) 3 0")
}
