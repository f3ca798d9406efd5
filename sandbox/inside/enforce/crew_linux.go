package enforce

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// spareWorkers is how many workers wait for the turn; surplus ones end.
	spareWorkers = 4
	// maxWorkers bounds the threads that callers can keep busy, by slow file systems
	// and full sockets; FIFOs are apart, see parking. Beyond it the sandbox waits.
	maxWorkers = 512
	// fewWorkers is how many there may be always, perWorker how many descriptors one has at
	// most: those that a path begins at and leads to, the caller's process, memory and
	// socket, a socket that asks, the open itself, and where its last path began.
	fewWorkers = 16
	perWorker  = 8
	// lateLook is how soon it is looked again whether who has the turn is stuck in a call.
	lateLook = 2 * time.Millisecond
	// calmLook is how often it is looked whether a call is being answered.
	calmLook = 8 * time.Millisecond
	// crowdCalls is for how many calls the turn is passed on at once after one waited while
	// an answer took longer than slowAnswer: to pass it takes longer than most answers.
	crowdCalls = 16
	slowAnswer = 200 * time.Microsecond
	// quietLooks is after how many looks without a call nobody looks any more.
	quietLooks = 3
)

// mostWorkers is how many there may be, so that their descriptors are a quarter of what
// this process can have: it looks for processes and kills them by others.
func mostWorkers() int {
	return int(min(maxWorkers, max(fewWorkers, descriptorLimit()/(4*perWorker))))
}

// crew is the workers. One of them, who has the turn, waits in the kernel for the
// next call: the kernel wakes everyone who waits there for each call, and a switch
// of threads costs more than most answers. It keeps the turn while it answers,
// unless the answer takes long, or calls waited for one that did.
type crew struct {
	turn chan struct{}
	over chan struct{} // closed when no supervised process is left
	end  func()        // closes over

	most    int32        // workers that there may be
	idle    atomic.Int32 // workers that wait for the turn
	workers atomic.Int32
	wg      sync.WaitGroup

	calls  uint64 // guarded by the turn
	streak streak // guarded by the turn
	near   near
	crowd  atomic.Int32 // how many calls more the turn is passed on with
	// serving is the number of the call that who has the turn answers; 0 while it waits
	// for one, and when it has given up the turn.
	serving atomic.Uint64
	asleep  atomic.Bool // nobody looks for late answers
	wake    chan struct{}
}

func newCrew() *crew {
	c := &crew{most: int32(mostWorkers()), turn: make(chan struct{}, 1), over: make(chan struct{}), wake: make(chan struct{}, 1)}
	c.near.turn = make(chan struct{})
	c.end = sync.OnceFunc(func() { close(c.over) })
	return c
}

// await waits for the turn. It fails when there are enough others who wait, and in
// the end.
func (c *crew) await() bool {
	defer c.idle.Add(-1)
	if c.idle.Add(1) > spareWorkers {
		return false
	}
	select {
	case <-c.turn:
		return true
	case <-c.over:
		return false
	}
}

// begin says that who has the turn answers a call, which it numbers.
func (c *crew) begin() (call uint64) {
	c.calls++
	call = c.calls // the turn may be gone with the next line
	c.serving.Store(call)
	if c.asleep.Load() {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	return call
}

// done says that a call is answered, and whether the turn is still with who did it.
func (c *crew) done(call uint64) bool { return c.serving.CompareAndSwap(call, 0) }

// give passes the turn on when it is with who answers the call, and reports whether.
func (g *Guard) give(call uint64) bool {
	given := g.crew.done(call)
	if given {
		g.pass()
	}
	return given
}

// pass gives the turn to a worker.
func (g *Guard) pass() {
	g.crew.turn <- struct{}{} // has room: there is one turn
	if g.crew.idle.Load() == 0 {
		g.hire()
	}
}

// hire starts a worker.
func (g *Guard) hire() {
	c := g.crew
	if c.workers.Add(1) > c.most {
		c.workers.Add(-1)
		return
	}
	g.start(func() {
		defer c.workers.Add(-1)
		g.work()
	})
}

// start runs work in a thread of its own.
func (g *Guard) start(work func()) {
	g.crew.wg.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the worker
		if err := g.prepare(); err != nil {
			g.o.Log.Error("a thread that opens files for the sandbox cannot be prepared; the sandbox will not open files", "err", err)
			g.crew.end()
			return
		}
		work()
	})
}

// prepare makes the thread one that is disturbed by nothing and has the caller's rights.
func (g *Guard) prepare() error {
	if err := blockSignals(); err != nil {
		return err
	}
	if g.o.Machine {
		return nil
	}
	return g.o.Identity.take()
}

// hasten passes the turn on for who is late, until the end.
func (g *Guard) hasten() {
	c := g.crew
	tick := time.NewTicker(lateLook)
	defer tick.Stop()
	for last, starves, quiet := uint64(0), false, 0; ; {
		select {
		case <-c.over:
			return
		case <-tick.C:
		}
		now, near := c.serving.Load(), c.near.state.Load()
		if now != 0 && now == last && g.give(now) && near == nearBusy {
			c.near.bar(nearBarred)
		}
		waits := near == nearWaiting && g.listener.pending()
		if waits && starves && c.near.take() {
			c.near.bar(nearBarred)
			g.pass()
		}
		last, starves, quiet = now, waits, quiet+1
		every := lateLook
		switch {
		case waits, near == nearAway && now != 0:
			quiet = 0
		case near != nearAway: // each look may move who calls to another processor
			quiet, every = 0, calmLook
		case quiet < quietLooks:
			every = calmLook
		default:
			quiet = 0
			tick.Stop()
			c.sleep()
		}
		tick.Reset(every)
	}
}

// sleep waits for a call. Either begin sees that nobody looks, or the call is seen here.
func (c *crew) sleep() {
	c.asleep.Store(true)
	defer c.asleep.Store(false)
	if c.serving.Load() != 0 {
		return
	}
	select {
	case <-c.wake:
	case <-c.over:
	}
}
