package enforce

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A program that opens file after file, as grep and tar do, waits for every answer. A
// kernel that has an idle processor wakes it there, and the worker at the next one, so
// that each open sends two processors to sleep and wakes them: on most virtual machines
// that costs four times what the answer does. The near worker is for calls of which one
// comes after the other: it goes to the processor of who calls, and runs there only
// while that one waits, so that it goes on at once and both stay. That is what
// SCHED_IDLE (sched(7)) does to a worker, whom the kernel does not count when it looks
// for a place. On a busy machine, where nobody is moved about either, it would starve:
// it has the turn only while a processor is idle, and loses it when a call waits for it.
const (
	// streakCalls is after how many calls it is judged whether they are a streak.
	streakCalls = 32
	// streakTime is how long they may take.
	streakTime = 8 * time.Millisecond
	// nearPatience is how long the near worker waits for the next call.
	nearPatience = 5 * time.Millisecond
	// busyLook is how often it looks whether a processor is idle, busyLooks after how
	// many without one it gives up: most threads run for a moment only.
	busyLook, busyLooks = time.Millisecond, 3
	// busyFor is for how long a busy machine is thought to stay so.
	busyFor = 10 * time.Millisecond
	// nearBarred is for how long there is none when it was too slow.
	nearBarred = time.Second
)

// processors is how many there are; tests pretend.
var processors = runtime.NumCPU

// streak is whether calls come quickly, one after the other. It belongs to who has the
// turn.
type streak struct {
	calls   int
	crossed bool // one came while another waited
	begun   time.Time
	goesOn  bool
}

// add counts a call and reports whether the last ones were a streak.
func (s *streak) add() bool {
	if s.calls++; s.calls == streakCalls {
		now := time.Now()
		*s = streak{begun: now, goesOn: !s.crossed && now.Sub(s.begun) < streakTime}
	}
	return s.goesOn
}

// What the near worker does with the turn.
const (
	nearAway    int32 = iota // it does not have it
	nearWaiting              // it waits for a call, unless the turn is taken from it
	nearBusy
)

// near is what the others know of the near worker.
type near struct {
	turn   chan struct{} // without room: it is given only to who is there
	hired  bool          // guarded by the turn
	state  atomic.Int32
	barred atomic.Int64 // until when, in nanoseconds since the epoch
}

// take takes the turn from the near worker when it waits for a call.
func (r *near) take() bool { return r.state.CompareAndSwap(nearWaiting, nearAway) }

func (r *near) bar(d time.Duration) { r.barred.Store(time.Now().Add(d).UnixNano()) }

// lend gives the turn to the near worker, if it can have it.
func (g *Guard) lend() bool {
	r := &g.crew.near
	if time.Now().UnixNano() < r.barred.Load() {
		return false
	}
	if g.busy() {
		r.bar(busyFor)
		return false
	}
	if !r.hired {
		r.hired = true
		g.start(g.workNear)
	}
	select {
	case r.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

// workNear is the near worker.
func (g *Guard) workNear() {
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0); err != nil {
		g.o.Log.Debug("a program that opens many files waits longer for each", "err", fmt.Errorf("sched_setattr: %w", err))
		return
	}
	w := newWorker()
	defer w.begins.close()
	for {
		select {
		case <-g.crew.near.turn:
			g.stayNear(w)
		case <-g.crew.over:
			return
		}
	}
}

// stayNear answers the calls of a streak, until the turn is taken away.
func (g *Guard) stayNear(w *worker) {
	r := &g.crew.near
	defer r.state.Store(nearAway)
	f := newFollower(g.proc)
	defer f.close()
	var looked time.Time
	busy := 0
	for {
		r.state.Store(nearWaiting)
		called, over := g.listener.await(nearPatience)
		if !r.state.CompareAndSwap(nearWaiting, nearBusy) {
			return
		}
		if over {
			g.crew.end()
			return
		}
		if !called {
			g.crew.streak = streak{}
			g.pass()
			return
		}
		if !g.listener.receive(w.n) {
			continue
		}
		now := time.Now()
		f.follow(w.thread(), now)
		if now.Sub(looked) > busyLook {
			looked = now
			if busy++; !g.busy() {
				busy = 0
			}
		}
		if !g.serve(w) {
			return
		}
		if !g.crew.streak.add() || busy == busyLooks {
			g.pass()
			return
		}
	}
}

// busy reports whether there is no idle processor, by the number of threads that run
// (proc_loadavg(5)), of which this is one.
func (g *Guard) busy() bool {
	var text [64]byte
	n, err := unix.Pread(g.load, text[:], 0)
	if err != nil {
		return false
	}
	const averages = 3
	rest := text[:n]
	for range averages {
		_, rest, _ = bytes.Cut(rest, []byte{' '})
	}
	number, _, _ := bytes.Cut(rest, []byte{'/'})
	running, err := strconv.Atoi(string(number))
	return err == nil && running >= processors()
}
