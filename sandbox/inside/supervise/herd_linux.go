package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox"
)

// herd is S's side of a shepherd.
type herd struct {
	conn *fdConn
	pid  int
	// answer takes the started or failed event of the run that was asked for.
	answer chan shepherdEvent

	// mu guards the fields below.
	mu   sync.Mutex
	run  *run // the current one
	last uint64
	// condemned shepherds are being killed by S and run nothing further.
	condemned bool
}

// run is a command that a shepherd runs. It implements tree.
type run struct {
	flock          *flock
	herd           *herd
	number         uint64
	process        int // 0 until the shepherd has said
	infrastructure bool
	private        bool
	status         chan sandbox.ExitStatus
	exitOnce       sync.Once
	empty          chan struct{}
}

func (r *run) pid() int                          { return r.process }
func (r *run) exited() <-chan sandbox.ExitStatus { return r.status }
func (r *run) gone() <-chan struct{}             { return r.empty }

func (r *run) exit(s sandbox.ExitStatus) { r.exitOnce.Do(func() { r.status <- s }) }

func (r *run) signal(name string) error {
	sig := unix.SignalNum("SIG" + name)
	if sig == 0 {
		return fmt.Errorf("there is no signal %q", name)
	}
	select {
	case <-r.empty:
		return errNoProcess
	default:
	}
	return r.herd.conn.send(shepherdRequest{Method: "signal", Run: r.number, Signal: int(sig)})
}

// kill asks the shepherd first, which is quick. One that does not deliver (it was
// stopped or killed from inside, or the command forks faster than it looks) is
// killed, and S takes its flock over.
func (r *run) kill(ctx context.Context) error {
	_ = r.herd.conn.send(shepherdRequest{Method: "kill", Run: r.number})
	quick, cancel := context.WithTimeout(ctx, shepherdKillTime)
	defer cancel()
	select {
	case <-r.empty:
		return nil
	case <-quick.Done():
	}
	if !r.herd.condemn(r) {
		return nil
	}
	if err := r.flock.s.killBelow(ctx, r.herd.pid); err != nil {
		return err
	}
	select {
	case <-r.empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// flock is the set of shepherds: those that run something, and a few that wait,
// so that starting a command does not wait for a shepherd's own start.
type flock struct {
	s        *linux
	launcher *fdConn
	ready    func() error // waits for it, see awaitLauncher
	wg       sync.WaitGroup

	// lmu makes a request to L and its answer one.
	lmu sync.Mutex

	// mu guards the fields below.
	mu     sync.Mutex
	idle   []*herd
	herds  map[int]*herd // all, by process id
	making chan struct{} // one is being made for idle, and closed when it is there; else nil
	closed bool
}

const (
	// maxIdle is how many shepherds are kept waiting.
	maxIdle = 2
	// fillPause is how long a command has to end before a shepherd is made for the next
	// one: a short one gives its own back, and shares the processors with no start.
	fillPause = 20 * time.Millisecond
)

// add starts a shepherd and follows it until it ends. A launcher that does not
// answer is of no use any more: it is killed, and with it the sandbox ends.
func (f *flock) add() (*herd, error) {
	f.lmu.Lock()
	defer f.lmu.Unlock()
	ours, theirs, err := connect()
	if err != nil {
		return nil, err
	}
	var reply launcherReply
	err = f.launcher.send(launcherRequest{}, int(theirs[0].Fd()), int(theirs[1].Fd()))
	closeFiles(theirs...)
	if err == nil {
		awake := f.s.keepAwake(f.s.launcher)
		_ = f.launcher.frameReader.file.SetReadDeadline(time.Now().Add(answerTime))
		_, err = f.launcher.receive(&reply)
		awake()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = unix.Kill(f.s.launcher, unix.SIGKILL)
	}
	if err == nil && reply.Error != "" {
		err = fmt.Errorf("%s", reply.Error)
	}
	if err != nil {
		_ = ours.Close()
		return nil, fmt.Errorf("asking the launcher for a shepherd: %w; the supervisor's log has the launcher's own words", err)
	}
	return f.tend(ours, reply.PID), nil
}

// tend follows a shepherd that was started.
func (f *flock) tend(conn *fdConn, shepherd int) *herd {
	h := &herd{conn: conn, pid: shepherd, answer: make(chan shepherdEvent, 1)}
	f.mu.Lock()
	f.herds[h.pid] = h
	f.mu.Unlock()
	f.wg.Go(func() { f.follow(h) })
	return h
}

// take gives an idle shepherd, or a new one, and sees to it that one waits again.
func (f *flock) take() (*herd, error) {
	for {
		h, making := f.takeIdle()
		if h != nil {
			return h, nil
		}
		if making == nil {
			return f.add()
		}
		<-making // ends: whoever makes one is answered, or given up
	}
}

// takeIdle gives an idle shepherd, or says when one will be there that nobody waits for yet.
func (f *flock) takeIdle() (h *herd, making chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.idle); n > 0 {
		h = f.idle[n-1]
		f.idle = f.idle[:n-1]
	} else {
		making = f.making
	}
	if len(f.idle) == 0 {
		time.AfterFunc(fillPause, f.fill)
	}
	return h, making
}

// fill makes a shepherd for idle where none waits.
func (f *flock) fill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.idle) > 0 || f.making != nil || f.closed {
		return
	}
	made := make(chan struct{})
	f.making = made
	f.wg.Go(func() {
		defer close(made)
		h, err := f.add()
		f.mu.Lock()
		f.making = nil
		f.mu.Unlock()
		if err != nil {
			f.s.log.Warn("no shepherd waits for the next command", "error", err)
			return
		}
		f.putBack(h)
	})
}

// putBack keeps an empty shepherd for the next command, or lets it go.
func (f *flock) putBack(h *herd) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.idle) >= maxIdle || f.closed || h.isCondemned() {
		_ = h.conn.Close()
		return
	}
	f.idle = append(f.idle, h)
}

// awaitLauncher waits until L has closed itself to others and takes its signals. Nothing runs
// before: what a command sends to all that it may would end L, and with it the sandbox.
func (f *flock) awaitLauncher() error {
	_ = f.launcher.frameReader.file.SetReadDeadline(time.Now().Add(answerTime))
	var ready launcherReply
	if _, err := f.launcher.receive(&ready); err != nil {
		return fmt.Errorf("waiting for the launcher: %w; the supervisor's log has the launcher's own words", err)
	}
	return nil
}

// start runs a command under a shepherd.
func (f *flock) start(p startParams, fds []int) (*run, error) {
	if err := f.ready(); err != nil {
		return nil, err
	}
	h, err := f.take()
	if err != nil {
		return nil, err
	}
	r := h.begin(f, p)
	defer f.s.keepAwake(h.pid)()
	err = h.conn.send(shepherdRequest{Method: "run", Run: r.number, Args: p.Args, Env: p.Env, Dir: p.Dir}, fds...)
	if err != nil {
		_ = h.conn.Close()
		return nil, fmt.Errorf("the command's shepherd is gone: %w", err)
	}
	ev, err := h.wait(r)
	if err != nil {
		return nil, err
	}
	if ev.Error != nil {
		h.finish(r)
		f.putBack(h)
		return nil, ev.Error
	}
	return r, nil
}

// wait takes the answer to a request to run something. A shepherd that gives none
// is killed, and with it what it may have started.
func (h *herd) wait(r *run) (shepherdEvent, error) {
	late := time.NewTimer(answerTime)
	defer late.Stop()
	select {
	case ev, ok := <-h.answer:
		if !ok {
			return ev, errors.New("the command's shepherd is gone")
		}
		return ev, nil
	case <-late.C:
		h.condemn(r)
		_ = unix.Kill(h.pid, unix.SIGKILL) // follow clears up
		return shepherdEvent{}, fmt.Errorf("the command's shepherd did not answer within %v; it was killed, try again", answerTime)
	}
}

func (h *herd) begin(f *flock, p startParams) *run {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	h.run = &run{
		flock: f, herd: h, number: h.last, infrastructure: p.Infrastructure, private: p.Private,
		status: make(chan sandbox.ExitStatus, 1), empty: make(chan struct{}),
	}
	return h.run
}

// finish ends a run; false means that it had ended.
func (h *herd) finish(r *run) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.run != r || r == nil {
		return false
	}
	h.run = nil
	return true
}

// condemn keeps the shepherd from running anything after r; false means that r
// has ended already.
func (h *herd) condemn(r *run) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.condemned = h.condemned || h.run == r
	return h.run == r
}

func (h *herd) isCondemned() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.condemned
}

func (h *herd) current() *run {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.run
}

// follow takes the events of a shepherd until it ends.
func (f *flock) follow(h *herd) {
	for {
		var ev shepherdEvent
		fds, err := h.conn.receive(&ev)
		closeFDs(fds)
		if err != nil {
			break
		}
		if r := h.current(); r != nil && r.number == ev.Run {
			f.event(h, r, ev)
		}
	}
	f.lose(h)
}

func (f *flock) event(h *herd, r *run, ev shepherdEvent) {
	switch ev.Event {
	case "started", "failed":
		h.mu.Lock()
		r.process = ev.PID
		h.mu.Unlock()
		select {
		case h.answer <- ev:
		default: // it has answered; a second answer is a lie
		}
	case "exited":
		r.exit(ev.Status)
	case "empty":
		if h.finish(r) {
			r.exit(killedStatus())
			close(r.empty)
			f.putBack(h)
		}
	}
}

func killedStatus() sandbox.ExitStatus { return sandbox.ExitStatus{Code: 128 + 9, Signal: "KILL"} }

// lose ends what a dead shepherd was running: S has inherited its flock, and
// nothing of it shall live.
func (f *flock) lose(h *herd) {
	_ = h.conn.Close()
	f.forget(h)
	r := h.current()
	if r != nil {
		ctx, cancel := context.WithTimeout(context.Background(), killDeadline)
		defer cancel()
		if err := f.s.killBelow(ctx, h.pid); err != nil {
			f.s.log.Warn("a shepherd died and its processes do not", "pid", h.pid, "error", err)
		}
	}
	close(h.answer)
	if r != nil && h.finish(r) {
		r.exit(killedStatus())
		close(r.empty)
	}
}

func (f *flock) forget(h *herd) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.herds, h.pid)
	for i, other := range f.idle {
		if other == h {
			f.idle = append(f.idle[:i], f.idle[i+1:]...)
			return
		}
	}
}

// sparing returns what killSince leaves alone: the shepherds, and of what a shepherd runs an
// infrastructure command itself. Until done is called no shepherd is made; while one was
// being made before, every child of L is taken for one.
func (f *flock) sparing() (spares func(proc) bool, done func()) {
	known, done := f.lmu.TryLock(), func() {}
	if known {
		done = f.lmu.Unlock
	}
	return func(p proc) bool {
		if f.s.isShepherd(p) && (!known || f.herd(p.pid) != nil) {
			return true
		}
		return f.isCommand(p, func(r *run) bool { return r.infrastructure })
	}, done
}

// herd is that of a shepherd, or nil.
func (f *flock) herd(shepherd int) *herd {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.herds[shepherd]
}

// isPrivate reports whether a process is a command that the others may not look into.
func (f *flock) isPrivate(p proc) bool {
	return f.isCommand(p, func(r *run) bool { return r.private })
}

// isCommand reports whether a process is itself a command, of a kind.
func (f *flock) isCommand(p proc, kind func(*run) bool) bool {
	h := f.herd(p.parent)
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.run
	return r != nil && kind(r) && (r.process == 0 || r.process == p.pid)
}

// close lets no further shepherd start.
func (f *flock) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}
