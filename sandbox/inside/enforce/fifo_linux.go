package enforce

import (
	"maps"
	"slices"
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
	// perParked is how many descriptors one has at most: the FIFO, the early reader, the
	// open itself or the next early reader, and where its worker's last path began.
	perParked = 4
	// parkedLook is how often it is looked for callers that shall not wait any more.
	parkedLook = 250 * time.Millisecond
)

// mostParked is how many may wait, so that their descriptors are half of what this process
// can have: it looks for processes and kills them by others.
func mostParked() int { return int(min(maxParked, descriptorLimit()/(2*perParked))) }

// descriptorLimit is how many descriptors this process can have; tests pretend.
var descriptorLimit = func() uint64 {
	var most unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &most); err != nil {
		return 0
	}
	return most.Cur
}

// parking are the opens that wait.
type parking struct {
	most int // that may wait at a time

	// mu guards the fields below.
	mu      sync.Mutex
	waiting map[*parked]struct{}
	looking bool
}

// parked is an open that waits.
type parked struct {
	t     *task
	id    uint64 // of the call: what it is in is another's once it is answered
	fifo  int    // O_PATH
	write bool
	why   unix.Errno // it waits no more, as its caller has died or got a signal, else 0; guarded by parking.mu
	woken bool       // by that of another; guarded by parking.mu
	file  inode
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
	p := &parked{t: t, id: t.n.id, fifo: path, write: flags&unix.O_ACCMODE != unix.O_RDONLY, file: o.inode(), early: -1}
	if e := p.lookOut(); e != 0 {
		return -1, e
	}
	t.keepOnly(path)
	if !t.g.park(p) {
		p.lookAway()
		return -1, unix.ENFILE
	}
	defer p.lookAway() // when nobody watches it any more
	defer t.g.unpark(p)
	for {
		fd, e := reopen(path, flags&openFlags, 0)
		again, why := t.g.parking.look(p)
		if e == 0 && why != 0 && hasPartner(fd, p.write) {
			return fd, 0
		}
		if e == 0 && (again || why != 0) {
			_ = unix.Close(fd)
		}
		switch {
		case why != 0:
			return -1, why
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
	if len(g.parking.waiting) >= g.parking.most {
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
func (k *parking) look(p *parked) (again bool, why unix.Errno) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if again, p.woken = p.woken, false; again {
		_ = p.lookOut() // the writer that it saw was none
	}
	return again, p.why
}

// watch lets those go whose caller has died or has a signal to take, until nobody waits.
func (k *parking) watch() {
	for {
		time.Sleep(parkedLook)
		k.mu.Lock()
		waiting := slices.Collect(maps.Keys(k.waiting))
		k.looking = len(waiting) > 0
		k.mu.Unlock()
		if len(waiting) == 0 {
			return
		}
		for _, p := range waiting {
			why := p.t.signalled()
			if !p.t.g.listener.valid(p.id) {
				why = unix.EINTR
			}
			k.mu.Lock()
			if _, still := k.waiting[p]; still {
				if p.why == 0 {
					p.why = why
				}
				if p.why != 0 || p.writerCame() {
					k.wake(p)
				}
			}
			k.mu.Unlock()
		}
	}
}

// hasPartner reports whether somebody has the other end of a FIFO, or has written to it.
func hasPartner(fd int, write bool) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 0); err != nil || n == 0 {
		return err == nil
	}
	if write {
		return fds[0].Revents&unix.POLLERR == 0
	}
	return fds[0].Revents&(unix.POLLIN|unix.POLLHUP) != unix.POLLHUP
}

// wake opens the other end for a moment. Others that wait for it, too, are told to
// wait again.
func (k *parking) wake(p *parked) {
	for other := range k.waiting {
		if other != p && other.file == p.file && other.write == p.write && p.why != 0 {
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
