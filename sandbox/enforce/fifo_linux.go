package enforce

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Opening a FIFO waits for somebody at its other end, perhaps for ever. Whoever
// waits so does not count among the workers, so that no number of FIFOs keeps the
// others from being served, and is let go when the caller has died or got a signal,
// which the kernel keeps from it while its call is answered.

const (
	// maxParked bounds the threads that wait for the other ends of FIFOs. As every
	// one of them has a caller that waits, the sandbox's own bound is met before.
	maxParked = 4096
	// parkedLook is how often it is looked for callers that shall not wait any more.
	parkedLook = 250 * time.Millisecond
)

// parking are the opens that wait.
type parking struct {
	// mu guards the fields below.
	mu      sync.Mutex
	waiting map[*parked]struct{}
	looking bool
}

// parked is an open that waits.
type parked struct {
	t       *task
	fifo    int // O_PATH
	write   bool
	stopped bool // its caller has died or got a signal; guarded by parking.mu
	woken   bool // by that of another; guarded by parking.mu
	file    inode
	// early is a reader that does not wait, opened before: a writer may come and go
	// before the one that waits is there, and only this one knows. -1 for writers.
	// Guarded by parking.mu.
	early int
}

// openFIFO opens a FIFO as the caller would.
func (t *task) openFIFO(path, flags int, o *object) (int, unix.Errno) {
	if flags&unix.O_NONBLOCK != 0 || flags&unix.O_ACCMODE == unix.O_RDWR {
		return reopen(path, flags&openFlags, 0)
	}
	p := &parked{t: t, fifo: path, write: flags&unix.O_ACCMODE != unix.O_RDONLY, file: o.inode(), early: -1}
	if e := p.lookOut(); e != 0 {
		return -1, e
	}
	if !t.g.park(p) {
		p.lookAway()
		return -1, unix.ENFILE
	}
	defer p.lookAway() // when nobody watches it any more
	defer t.g.unpark(p)
	for {
		fd, e := reopen(path, flags&openFlags, 0)
		again, stop := t.g.parking.look(p)
		if e == 0 && (again || stop) {
			_ = unix.Close(fd)
		}
		switch {
		case stop:
			return -1, restart
		case !again:
			return fd, e
		}
	}
}

// lookOut opens the reader that knows of writers from now on, and lets go of the one
// before.
func (p *parked) lookOut() unix.Errno {
	if p.write {
		return 0
	}
	fd, e := reopen(p.fifo, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	p.lookAway()
	if e == 0 {
		p.early = fd
	}
	return e
}

func (p *parked) lookAway() {
	if p.early >= 0 {
		_ = unix.Close(p.early)
		p.early = -1
	}
}

// writerCame reports whether there is something to read, or a writer that has gone.
func (p *parked) writerCame() bool {
	fds := []unix.PollFd{{Fd: int32(p.early), Events: unix.POLLIN}} // a negative one is passed over
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

// park gives a worker's place to another while it waits.
func (g *Guard) park(p *parked) bool {
	g.parking.mu.Lock()
	defer g.parking.mu.Unlock()
	if len(g.parking.waiting) >= maxParked {
		return false
	}
	if g.parking.waiting == nil {
		g.parking.waiting = map[*parked]struct{}{}
	}
	g.parking.waiting[p] = struct{}{}
	g.crew.workers.Add(-1)
	g.give(p.t.call)
	if g.crew.idle.Load() == 0 {
		g.hire() // there is room for one more now
	}
	if !g.parking.looking {
		g.parking.looking = true
		g.crew.wg.Go(g.parking.watch)
	}
	return true
}

func (g *Guard) unpark(p *parked) {
	g.parking.mu.Lock()
	defer g.parking.mu.Unlock()
	delete(g.parking.waiting, p)
	g.crew.workers.Add(1)
}

// look says why an open has come back: because it was woken for another, or
// because its own caller waits no more. Else it has found its other end.
func (k *parking) look(p *parked) (again, stop bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if again, p.woken = p.woken, false; again {
		_ = p.lookOut() // the writer that it saw was none
	}
	return again, p.stopped
}

// watch lets those go whose caller has died or has a signal to take, until nobody waits.
func (k *parking) watch() {
	for {
		time.Sleep(parkedLook)
		k.mu.Lock()
		if len(k.waiting) == 0 {
			k.looking = false
			k.mu.Unlock()
			return
		}
		for p := range k.waiting {
			if p.stopped = p.stopped || !p.t.waits() || p.t.signalled(); p.stopped || p.writerCame() {
				k.wake(p)
			}
		}
		k.mu.Unlock()
	}
}

// wake opens the other end for a moment. Others that wait for it, too, are told to
// wait again.
func (k *parking) wake(p *parked) {
	for other := range k.waiting {
		if other != p && other.file == p.file && other.write == p.write && p.stopped {
			other.woken = true
		}
	}
	flags := unix.O_WRONLY
	if p.write {
		flags = unix.O_RDONLY
	}
	if fd, e := reopen(p.fifo, flags|unix.O_NONBLOCK, 0); e == 0 {
		_ = unix.Close(fd)
	}
}
