package enforce

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stuckUse has a call in the background that waits for the host, and goes on meanwhile.
const stuckUse = "going on beside a call that waits"

// slowUse makes calls at the same time, all of which take long.
const slowUse = "calls together that take long"

// unhurriedUse does something for a while between its calls.
const unhurriedUse = "a call now and then"

func stuckUses() map[string]func(string) ([]byte, error) {
	const opens = `for i in $(seq 200); do : < open; done`
	return map[string]func(string) ([]byte, error){
		unhurriedUse: script(`for i in $(seq 300); do
: < open
for j in 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9; do for k in 0 1 2 3 4 5 6 7 8 9; do :; done; done
done`),
		slowUse: script(`(` + opens + `) & one=$!; (` + opens + `) & two=$!; wait $one && wait $two`),
		stuckUse: script(`echo > a; mv a b & echo $! > pid.new; cp pid.new pid
until [ -e go ]; do sleep 0.02; done; cat open > copy; wait; test -e b`),
	}
}

// Who answers a call that takes long does not keep the others from being answered.
func TestStuckCall(t *testing.T) {
	requireSupport(t)
	dir, _ := stage(t)
	s := start(t, dir, testPolicy(), placement{}, "use", stuckUse)
	release := s.guard.Hold(time.Minute)
	defer release()
	var pid string
	waitFor(t, "the process that is to be stuck", func() bool {
		raw, err := os.ReadFile(filepath.Join(dir, "pid"))
		pid = strings.TrimSpace(string(raw))
		return err == nil && pid != ""
	})
	waitFor(t, "a rename that waits", func() bool {
		raw, _ := os.ReadFile("/proc/" + pid + "/syscall") // mv is not there yet, or on its way
		var call int
		_, err := fmt.Sscan(string(raw), &call)
		return err == nil && (call == unix.SYS_RENAMEAT || call == unix.SYS_RENAMEAT2)
	})
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "what is done beside it", func() bool {
		info, err := os.Stat(filepath.Join(dir, "copy"))
		return err == nil && info.Size() > 0
	})
	if !release() {
		t.Fatal("the names were let go too early to know")
	}
	var r report
	s.run(t, &r)
	if !r.Leak {
		t.Errorf("the work fails: %s", r.Said)
	}
}

// slowRules take long to judge a file, and count who is asked at the same time.
type slowRules struct {
	rules
	asked, together, beside atomic.Int64
}

func (r *slowRules) Closed(rel string, dir bool) bool {
	if rel == "open" {
		r.asked.Add(1)
		if r.together.Add(1) > 1 {
			r.beside.Add(1)
		}
		defer r.together.Add(-1)
		time.Sleep(lateLook / 2)
	}
	return r.rules.Closed(rel, dir)
}

// Calls that all take long are answered at the same time, also when none is so late that
// somebody looks after it.
func TestSlowCalls(t *testing.T) {
	requireSupport(t)
	dir, _ := stage(t)
	policy := &slowRules{}
	s := start(t, dir, func() Policy { return policy }, placement{}, "use", slowUse)
	var r report
	s.run(t, &r)
	if !r.Leak {
		t.Fatalf("the work fails: %s", r.Said)
	}
	if asked, beside := policy.asked.Load(), policy.beside.Load(); beside < asked/2 {
		t.Errorf("of %d slow calls %d were answered beside another", asked, beside)
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(50 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// oneProcessor leaves all threads, and what they start, one of the processors.
func oneProcessor(t *testing.T) {
	t.Helper()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	for i := 0; one.Count() == 0; i++ {
		if before.IsSet(i) {
			one.Set(i)
		}
	}
	set := func(cpus *unix.CPUSet) {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, thread := range threads {
			tid, err := strconv.Atoi(thread.Name())
			if err == nil {
				err = unix.SchedSetaffinity(tid, cpus)
			}
			if err != nil && !errors.Is(err, unix.ESRCH) { // it ended meanwhile
				t.Fatal(err)
			}
		}
	}
	set(&one)
	t.Cleanup(func() { set(&before) })
}

// A program that is alone is no crowd, also where it runs, and calls again, in the place
// of who gave it its answer.
func TestAloneIsNoCrowd(t *testing.T) {
	requireSupport(t)
	oneProcessor(t)
	dir, _ := stage(t)
	s := start(t, dir, testPolicy(), placement{}, "use", unhurriedUse)
	var r report
	s.run(t, &r)
	if !r.Leak {
		t.Fatalf("the work fails: %s", r.Said)
	}
	if left := s.guard.crew.crowd.Load(); left != 0 {
		t.Errorf("the turn would be passed on at once for %d more calls", left)
	}
}

// Workers that are all busy leave most descriptors to who kills what keeps them so.
func TestMostWorkers(t *testing.T) {
	was := descriptorLimit
	t.Cleanup(func() { descriptorLimit = was })
	for limit, want := range map[uint64]int{24: fewWorkers, 1024: 32, 4096: 128, 1 << 20: maxWorkers} {
		descriptorLimit = func() uint64 { return limit }
		if got := mostWorkers(); got != want {
			t.Errorf("of %d descriptors: %d workers, not %d", limit, got, want)
		}
	}
}
