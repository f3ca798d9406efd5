package enforce

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// mover is a thread that goes to the processor it is told.
type mover struct {
	thread int
	to     chan int
	there  chan error
}

func newMover(t *testing.T) *mover {
	t.Helper()
	m := &mover{to: make(chan int), there: make(chan error)}
	begun := make(chan int)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its affinity
		begun <- unix.Gettid()
		for processor := range m.to {
			var only unix.CPUSet
			only.Set(processor)
			m.there <- unix.SchedSetaffinity(0, &only)
		}
	}()
	m.thread = <-begun
	t.Cleanup(func() { close(m.to) })
	return m
}

func (m *mover) move(t *testing.T, processor int) {
	t.Helper()
	m.to <- processor
	if err := <-m.there; err != nil {
		t.Fatal(err)
	}
}

// pinned reports whether this thread may run on one processor only.
func pinned(t *testing.T, to int) bool {
	t.Helper()
	var only unix.CPUSet
	if err := unix.SchedGetaffinity(0, &only); err != nil {
		t.Fatal(err)
	}
	return only.Count() == 1 && only.IsSet(to)
}

func newTestFollower(t *testing.T) *follower {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread ends with its affinity
	g, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.release)
	f := newFollower(g.proc)
	t.Cleanup(f.close)
	return f
}

func TestFollow(t *testing.T) {
	f, first, second := newTestFollower(t), newMover(t), newMover(t)
	last := runtime.NumCPU() - 1
	first.move(t, 0)
	second.move(t, last)
	now := time.Now()
	for _, tt := range []struct{ thread, want int }{
		{first.thread, 0}, {second.thread, last}, {1 << 30, last}, {first.thread, 0},
	} {
		now = now.Add(time.Microsecond)
		if f.follow(tt.thread, now); !pinned(t, tt.want) {
			t.Errorf("not at %d, where thread %d is", tt.want, tt.thread)
		}
	}
}

// Where a thread is that calls as it always did, is looked at now and then only.
func TestFollowsWhoIsLate(t *testing.T) {
	f, caller := newTestFollower(t), newMover(t)
	if runtime.NumCPU() == 1 {
		return // nobody goes anywhere
	}
	const usual = 20 * time.Microsecond
	now := time.Now()
	call := func(after time.Duration) (looked bool) {
		now = now.Add(after)
		f.follow(caller.thread, now)
		return f.looked.Equal(now)
	}
	asUsual := func() {
		for range 200 { // until it is the usual, and up to a look
			call(usual)
		}
		for !call(usual) {
		}
	}
	caller.move(t, 0)
	asUsual()
	caller.move(t, 1)
	if call(usual) || !pinned(t, 0) {
		t.Error("it looked at once")
	}
	for range followOften / usual {
		call(usual)
	}
	if !call(2*usual) || !pinned(t, 1) {
		t.Error("it did not look when the call came late")
	}
	asUsual()
	caller.move(t, 0)
	looks := 0
	for range 2 * followSeldom / usual {
		if call(usual) {
			looks++
		}
	}
	if looks < 1 || looks > 2 || !pinned(t, 0) {
		t.Errorf("it looked %d times in %v", looks, 2*followSeldom)
	}
	call(50 * time.Millisecond)
	for range followOften / usual {
		call(usual)
	}
	if !call(2 * usual) {
		t.Error("it took a rest for the usual")
	}
}
