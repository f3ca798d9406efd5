package enforce

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// Work that opens file after file, alone and beside the same work.
const (
	endlessUse  = "a streak until it is told to stop"
	streakUse   = "a streak"
	togetherUse = "streaks together"
)

func streakUses() map[string]func(string) ([]byte, error) {
	const opens = `for i in $(seq 1000); do : < open; done; ! cat .env 2>/dev/null`
	return map[string]func(string) ([]byte, error){
		endlessUse:  script(`until [ -e stop ]; do : < open; done`),
		streakUse:   script(opens),
		togetherUse: script(`(` + opens + `) & one=$!; (` + opens + `) & two=$!; wait $one; wait $two`),
	}
}

// neverBusy makes the near worker wanted whatever else runs.
func neverBusy(t *testing.T) {
	t.Helper()
	processors = func() int { return 1 << 20 }
	t.Cleanup(func() { processors = runtime.NumCPU })
}

// hog keeps every processor busy.
func hog(t *testing.T) {
	t.Helper()
	for range 2 * runtime.NumCPU() {
		cmd := exec.Command("/bin/sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
}

// Who opens file after file is answered by the near worker.
func TestNear(t *testing.T) {
	requireSupport(t)
	neverBusy(t)
	dir, _ := stage(t)
	s := start(t, dir, testPolicy(), placement{}, "use", endlessUse)
	waitFor(t, "the near worker", func() bool { return s.guard.crew.near.state.Load() != nearAway })
	if err := os.WriteFile(filepath.Join(dir, "stop"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	var r report
	s.run(t, &r)
	if !r.Leak {
		t.Errorf("the work fails: %s", r.Said)
	}
	waitFor(t, "its giving the turn back", func() bool { return s.guard.crew.near.state.Load() == nearAway })
}

// The near worker, who runs only where nobody else does, does not hold up the calls of
// a busy machine: the turn is taken from it.
func TestNearStarves(t *testing.T) {
	requireSupport(t)
	neverBusy(t)
	hog(t)
	work := func(use string) (barred bool) {
		dir, _ := stage(t)
		s := start(t, dir, testPolicy(), placement{}, "use", use)
		var r report
		s.run(t, &r)
		if !r.Leak {
			t.Fatalf("%s fails: %s", use, r.Said)
		}
		return s.guard.crew.near.barred.Load() > 0
	}
	work(togetherUse)
	for range 20 { // where work is too slow for a streak there is no near worker
		if work(streakUse) {
			return
		}
	}
	t.Error("the near worker was never asked, or never too slow")
}

func TestStreak(t *testing.T) {
	var s streak
	add := func() (goesOn bool) {
		for range streakCalls {
			goesOn = s.add()
		}
		return goesOn
	}
	add() // from the beginning of time
	if !add() {
		t.Error("quick calls, one after the other, are no streak")
	}
	s.crossed = true
	if add() {
		t.Error("calls at the same time are a streak")
	}
	if !add() {
		t.Error("what was is not forgotten")
	}
	s.begun = time.Now().Add(-2 * streakTime)
	if add() {
		t.Error("calls now and then are a streak")
	}
}

// A machine is busy when as many threads run as there are processors: this one does.
func TestBusy(t *testing.T) {
	g, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.release)
	t.Cleanup(func() { processors = runtime.NumCPU })
	for n, want := range map[int]bool{1: true, 1 << 20: false} {
		processors = func() int { return n }
		if got := g.busy(); got != want {
			t.Errorf("%d processors: busy %v", n, got)
		}
	}
}
