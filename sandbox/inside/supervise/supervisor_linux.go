package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// shepherdKillTime is how long a shepherd has to kill what is below it before
	// S does so.
	shepherdKillTime = 150 * time.Millisecond
	// freezePass is the pass of a kill at which the namespace is frozen.
	freezePass = 3
	// quietPasses is how many undisturbed looks in a row must find nothing.
	quietPasses = 2
	// markLooks bounds how often a mark looks again.
	markLooks = 8
	// answerTime is how long L and a shepherd have to answer. What runs inside can
	// stop them, and nothing may wait for them for good.
	answerTime = 30 * time.Second
	// awakePause is between two signals to one of them to go on.
	awakePause = 500 * time.Millisecond
)

// linux is the platform with a launcher and shepherds.
type linux struct {
	log      *slog.Logger
	pid      int
	signals  chan struct{}         // closed when none can do harm
	launched                       // set in setup
	flock    atomic.Pointer[flock] // set at the end of setup
	identity *Identity             // whom commands run as; nil for S's own user
	keeps    bool                  // commands keep S's privileges, see noNewPrivileges
	closure  *closure              // of files, nil without rules
	road     atomic.Pointer[road]  // of plain connections; nil without
	ending   atomic.Bool           // shutdown has begun
	// freezing is held while the namespace is stopped: of two that stop it, the
	// first to thaw would let go what the second waits for.
	freezing sync.Mutex
}

func newPlatform(log *slog.Logger) (platform, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("becoming a subreaper: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("closing the process to others: %w", err)
	}
	l := &linux{log: log, pid: os.Getpid(), signals: make(chan struct{})}
	go func() {
		takeSignals(harmful()...)
		close(l.signals)
	}()
	return l, nil
}

func (l *linux) keeper() keeper {
	if l.closure == nil {
		return nil
	}
	return l.closure
}

// transport takes stdin and stdout over and puts the null device in their place,
// so that nothing that is started can hold or disturb the stream.
func transport() (io.ReadWriteCloser, error) {
	in, err := takeOver(0, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	out, err := takeOver(1, os.O_WRONLY)
	if err != nil {
		return nil, err
	}
	return stdioConn{in, out}, nil
}

func takeOver(fd, mode int) (*os.File, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("taking descriptor %d over: %w", fd, err)
	}
	null, err := unix.Open(os.DevNull, mode|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the null device: %w", err)
	}
	defer func() { _ = unix.Close(null) }()
	if err := unix.Dup3(null, fd, 0); err != nil {
		return nil, fmt.Errorf("replacing descriptor %d: %w", fd, err)
	}
	if err := unix.SetNonblock(own, true); err != nil {
		return nil, fmt.Errorf("preparing the stream: %w", err)
	}
	return os.NewFile(uintptr(own), "stream"), nil
}

func (l *linux) setup(s Setup, tell events) (warnings []string, err error) {
	if l.flock.Load() != nil {
		return nil, errors.New("the supervisor was set up before")
	}
	if s.Root != nil {
		if err := buildRoot(*s.Root); err != nil {
			return nil, err
		}
	}
	if s.Loopback {
		if err := loopbackUp(); err != nil {
			return nil, fmt.Errorf("%w: bringing up the loopback device: %w", ErrIsolation, err)
		}
	}
	if s.Hostname != "" {
		if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
			return nil, fmt.Errorf("%w: setting the host name: %w", ErrIsolation, err)
		}
	}
	l.identity, l.keeps = s.Identity, s.KeepPrivileges
	p := privileges{Identity: s.Identity, Keep: s.KeepPrivileges, Writable: s.Writable, Groups: s.Groups}
	if !p.Keep {
		p.Limits = s.Limits
	}
	if s.Rules != nil {
		if l.closure, err = l.newClosure(s, tell.denied); err != nil {
			return nil, err
		}
		p.Filter = l.closure.filter()
	}
	if err := l.startLauncher(p); err != nil {
		return nil, err
	}
	if s.Limits != nil && s.Limits.Memory > 0 {
		go l.boundMemory(s.Limits.Memory, tell.exceeded) // ends with the process
	}
	return nil, nil
}

func (l *linux) startLauncher(p privileges) error {
	if err := unix.CloseRange(ownerFD, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("marking descriptors to be closed: %w", err)
	}
	if err := noCoreDumps(); err != nil {
		return fmt.Errorf("turning off core dumps: %w", err)
	}
	toLauncher, launcher, err := connect()
	if err != nil {
		return err
	}
	toShepherd, shepherd, err := connect()
	if err != nil {
		closeFiles(launcher...)
		_ = toLauncher.Close()
		return err
	}
	l.launched, err = launch(p, launcher, shepherd, func(listener int) { l.closure.guard.Serve(listener) })
	closeFiles(append(launcher, shepherd...)...) // or the end of either would not be noticed
	for i := range p.Groups {
		_ = unix.Close(groupsFD + i)
	}
	if err != nil {
		return errors.Join(err, toLauncher.Close(), toShepherd.Close())
	}
	<-l.signals
	go l.reap() // ends with the process
	f := &flock{s: l, launcher: toLauncher, herds: map[int]*herd{}}
	f.ready = sync.OnceValue(f.awaitLauncher)
	f.putBack(f.tend(toShepherd, l.shepherd.pid))
	l.flock.Store(f)
	return nil
}

// isShepherd reports whether p is, or was, a shepherd, of L's or S's making.
func (l *linux) isShepherd(p proc) bool { return p.parent == l.launcher || p.procID == l.shepherd }

// reap collects whatever ends as a child of S: L, which ends the sandbox, the first
// shepherd, and orphans of dead ones.
func (l *linux) reap() {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WALL, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if l.ending.Load() && err == nil {
			continue
		}
		if err != nil && l.ending.Load() {
			return
		}
		if err != nil || pid == l.launcher {
			l.log.Error("the launcher has ended, and with it the sandbox", "status", ws)
			ctx, cancel := context.WithTimeout(context.Background(), exitDeadline)
			l.shutdown(ctx)
			cancel()
			os.Exit(1)
		}
	}
}

func (l *linux) start(p startParams, stdio [3]*os.File) (tree, error) {
	if l.flock.Load() == nil {
		return nil, errors.New("the supervisor is not set up")
	}
	fds := make([]int, 3)
	for i, f := range stdio {
		fds[i] = int(f.Fd())
		if l.identity != nil && p.instead(i) == "" { // so that /dev/stdout can be opened again
			_ = unix.Fchown(fds[i], l.identity.UID, l.identity.GID)
		}
	}
	r, err := l.flock.Load().start(p, fds)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// live looks until a look was not disturbed; who was seen in any of them counts.
func (l *linux) live() (snapshot, error) {
	seen, ghosts := snapshot{}, snapshot{}
	for range markLooks {
		s := look(l.pid, ghosts, func(p proc) { seen[p.procID] = struct{}{} })
		if s.err != nil {
			return nil, s.err
		}
		if !s.churn {
			break
		}
	}
	return seen, nil
}

func (l *linux) killSince(ctx context.Context, since snapshot) (int, error) {
	spares, done := l.flock.Load().sparing()
	defer done()
	return l.killWhile(ctx, func(p proc) bool {
		_, old := since[p.procID]
		return !old && p.pid != l.launcher && !spares(p)
	})
}

// killBelow kills a shepherd and everything that is or was below it. What has
// lost its shepherd is a child of S.
func (l *linux) killBelow(ctx context.Context, shepherd int) error {
	_, err := l.killWhile(ctx, func(p proc) bool {
		if p.pid == shepherd {
			return l.isShepherd(p)
		}
		return l.below(p, shepherd)
	})
	return err
}

// below says whether p descends from a shepherd, or from none.
func (l *linux) below(p proc, shepherd int) bool {
	for p.parent != shepherd {
		if p.pid == l.launcher || l.isShepherd(p) {
			return false
		}
		if p.parent == l.pid {
			return true
		}
		up, err := readProc(p.parent)
		if err != nil {
			return false // its parent ended just now; the next pass sees the new one
		}
		p = up
	}
	return true
}

// killWhile kills what match picks until nothing that it picks lives. Where set-uid programs
// have their effect, a process that S may not signal is left. It returns how many were killed.
func (l *linux) killWhile(ctx context.Context, match func(proc) bool) (int, error) {
	killed, ghosts, others := snapshot{}, snapshot{}, snapshot{}
	kill := func(p proc) {
		if !match(p) {
			return
		}
		if killProc(p.procID) || !l.keeps {
			killed[p.procID] = struct{}{}
		} else if _, known := others[p.procID]; !known {
			others[p.procID] = struct{}{}
			l.log.Warn("a process of another user's cannot be ended and goes on, as a set-uid program started it; end it as that user", "pid", p.pid, "name", processName(p.pid))
		}
	}
	lives := func(p proc) bool { _, other := others[p.procID]; return !other && match(p) }
	for pass, quiet := 0, 0; quiet < quietPasses; pass++ {
		if pass == freezePass && l.pid == 1 {
			return l.killFrozen(ctx, match, killed)
		}
		s := look(l.pid, ghosts, kill)
		if !slices.ContainsFunc(s.live, lives) && !s.churn && s.err == nil {
			quiet++
			continue
		}
		quiet = 0
		if err := pause(ctx, pass); err != nil {
			return len(killed), fmt.Errorf("some processes do not die, fork faster than they are found, or cannot be looked at: %w", errors.Join(err, s.err))
		}
	}
	return len(killed), nil
}

// killFrozen kills while everything in S's PID namespace is stopped: what forks all the
// time, and what is spared but forks. A process that is to be killed may let itself go on
// all the same, by a timer or when its parent dies, and have a child that no list shows
// yet: only a look that finds nothing to kill is the last. What is born later has only
// spared ancestors.
func (l *linux) killFrozen(ctx context.Context, match func(proc) bool, killed snapshot) (int, error) {
	err := l.frozen(ctx, func(found []proc) (over bool) {
		over = true
		for _, p := range found {
			if match(p) {
				killProc(p.procID)
				killed[p.procID], over = struct{}{}, false
			}
		}
		return over
	})
	return len(killed), err
}

// frozen stops everything else in S's PID namespace and calls do with what lives, again
// and again until do says that it is over, and nothing else has changed meanwhile. A fork
// that was under way has completed then. What was not stopped before goes on after.
func (l *linux) frozen(ctx context.Context, do func(found []proc) (over bool)) error {
	l.freezing.Lock()
	defer l.freezing.Unlock()
	stopped, ghosts := snapshot{}, snapshot{}
	look(l.pid, snapshot{}, func(p proc) {
		if p.stopped {
			stopped[p.procID] = struct{}{}
		}
	})
	defer look(l.pid, snapshot{}, func(p proc) {
		if _, was := stopped[p.procID]; !was {
			signalProc(p.procID, unix.SIGCONT)
		}
	})
	for pass := 0; ; pass++ {
		// Again in every pass: the kernel lets a stopped process group go on when the
		// end of its session leaves it an orphan.
		if err := unix.Kill(-1, unix.SIGSTOP); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("stopping the sandbox's processes: %w", err)
		}
		s := look(l.pid, ghosts, func(proc) {})
		goesOn := slices.ContainsFunc(s.live, func(p proc) bool { return !p.stopped && !p.waiting })
		if do(s.live) && !goesOn && !s.churn && s.err == nil {
			return nil
		}
		if err := pause(ctx, pass); err != nil {
			return fmt.Errorf("the sandbox's processes do not stop or die: %w", errors.Join(err, s.err))
		}
	}
}

// keepAwake lets L or a shepherd go on again and again, until stop is called: what
// runs inside can stop it.
func (l *linux) keepAwake(pid int) (stop func()) {
	var mu sync.Mutex
	var t *time.Timer
	mu.Lock()
	defer mu.Unlock()
	stopped := false
	t = time.AfterFunc(awakePause, func() {
		l.freezing.Lock()
		defer l.freezing.Unlock()
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			_ = unix.Kill(pid, unix.SIGCONT)
			t.Reset(awakePause)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		t.Stop()
	}
}

// shutdown kills everything, in a PID namespace at one stroke.
func (l *linux) shutdown(ctx context.Context) {
	l.ending.Store(true)
	if l.pid == 1 {
		_ = unix.Kill(-1, unix.SIGKILL)
		return
	}
	if l.flock.Load() != nil {
		l.flock.Load().close()
	}
	_, _ = l.killWhile(ctx, func(proc) bool { return true })
}
