package enforce

import (
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Tree is a directory whose entries a policy judges.
type Tree struct {
	// Path is absolute and resolved, as the processes inside see it.
	Path string
	// Policy returns the policy of now; it is asked on every open.
	Policy func() Policy
}

// Identity is whom the supervised processes run as.
type Identity struct{ UID, GID int }

// Options of a Guard.
type Options struct {
	Trees []Tree
	// Identity is taken by the Guard's own threads, so that it never opens what the
	// caller could not; nil where the caller is whoever the Guard is, without
	// capabilities.
	Identity *Identity
	// Public are directories in which, outside of the trees, only what everybody may read
	// is opened: to a caller who owns the machine's files their modes say nothing.
	Public []string
	// Writable are the directories below which changes are permitted, as Landlock does for
	// the callers, who have the Guard open; nil leaves that to mounts.
	Writable []string
	// Inside reports whether a process is a supervised one that others inside may
	// look into. /proc, the memory and the sockets of the rest are closed.
	Inside func(pid int) bool
	// StaticMounts promises that no mount comes or goes while the Guard lives, as
	// in a mount namespace of its own without propagation.
	StaticMounts bool
	// OwnNetwork promises that every socket of the network namespace belongs to a
	// supervised process, or to one that they may talk to.
	OwnNetwork bool
	// Lead says to which address a stream that is to be connected to one of IP is connected
	// instead, mostly the same, on the thread that the caller waits for. May be nil.
	Lead func(to netip.AddrPort) netip.AddrPort
	// Machine has the Guard keep rules for files alone: the callers have the rights of this
	// process, may change their user, and use the sockets of the machine. Each call is carried
	// out as who makes it. It excludes Identity.
	Machine bool
	// Denied is told of what was refused, on the thread that the caller waits
	// for: it must be quick. May be nil.
	Denied func(Denial)
	// Log is optional.
	Log *slog.Logger
}

// Guard carries out or refuses what supervised processes ask of the kernel. It
// belongs into a process that they cannot touch, in their mount and PID namespace.
type Guard struct {
	o     Options
	trees []*tree
	// O_PATH descriptors of /, /proc and /proc/self/fd.
	slash, proc, descriptors int
	load                     int // /proc/loadavg; -1 where there is none
	mounts                   *mountTable
	listener                 listener
	calls                    map[int32]func(*task) answer
	names                    map[int32]string
	self                     int
	program                  inode       // what this process executes
	writable                 []string    // Options.Writable, without links
	readsAll                 bool        // this process may read the memory of any other inside
	users                    atomic.Bool // callers may have other rights than this process
	foreign                  atomic.Bool // process_vm_readv is refused: /proc/PID/mem is read
	crew                     *crew
	moves                    sync.RWMutex // held by who must not see names move, see Hold
	entries                  sync.RWMutex // held for writing by renames, and for reading by what makes or removes entries
	renames                  renames      // all
	places                   renames      // those of directories
	parking                  parking
	tracing                  tracing
	made                     *ownMade
	pointers                 pointers
	touched                  touched
}

// New prepares a Guard. The trees must exist.
func New(o Options) (*Guard, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Denied == nil {
		o.Denied = func(Denial) {}
	}
	g := &Guard{o: o, crew: newCrew(), made: newOwnMade(), slash: -1, proc: -1, descriptors: -1, load: -1, self: unix.Getpid(), calls: map[int32]func(*task) answer{}, names: map[int32]string{}}
	for _, c := range openCalls() {
		g.calls[int32(c.nr)], g.names[int32(c.nr)] = c.do, "open"
	}
	for _, c := range (Filter{Connect: true, Machine: o.Machine}).table() {
		if c.rule == supervise {
			g.calls[int32(c.nr)], g.names[int32(c.nr)] = c.do, c.name
		}
	}
	g.calls[unix.SYS_PRCTL], g.names[unix.SYS_PRCTL] = (*task).hide, "prctl"
	g.calls[unix.SYS_PRLIMIT64], g.names[unix.SYS_PRLIMIT64] = (*task).limit, "prlimit"
	for _, nr := range schedulingCalls() {
		g.calls[int32(nr)], g.names[int32(nr)] = (*task).schedule, "scheduling"
	}
	for _, c := range priorityCalls() {
		g.calls[int32(c.nr)], g.names[int32(c.nr)] = func(t *task) answer { return t.prioritize(c.first, c.last) }, "priority"
	}
	g.parking.most = mostParked()
	g.order()
	g.readsAll = capability(unix.CAP_SYS_PTRACE)
	if err := g.open(); err != nil {
		g.release()
		return nil, err
	}
	return g, nil
}

func (g *Guard) open() (err error) {
	if g.slash, err = openPath("/"); err != nil {
		return err
	}
	if g.proc, err = openPath("/proc"); err != nil {
		return err
	}
	if g.descriptors, err = openPath("/proc/self/fd"); err != nil {
		return err
	}
	if fd, err := unix.Openat(g.proc, "loadavg", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		g.load = fd
	}
	if g.mounts, err = newMountTable(g.o.StaticMounts); err != nil {
		return err
	}
	if err := g.findProgram(); err != nil {
		return err
	}
	for _, dir := range g.o.Writable {
		if real, err := filepath.EvalSymlinks(dir); err == nil { // else nothing is there to be changed
			g.writable = append(g.writable, real)
		}
	}
	for _, t := range g.o.Trees {
		opened, err := g.newTree(t)
		if err != nil {
			return err
		}
		g.trees = append(g.trees, opened)
	}
	return nil
}

func (g *Guard) findProgram() error {
	var o object
	if err := unix.Statx(g.proc, "self/exe", 0, unix.STATX_BASIC_STATS, &o.stat); err != nil {
		return fmt.Errorf("looking at this program: %w", err)
	}
	g.program = o.inode()
	return nil
}

func openPath(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("opening %s: %w", path, err)
	}
	return fd, nil
}

// procFile is the first kilobyte of a file of /proc.
func (g *Guard) procFile(name string) ([]byte, error) { return readFile(g.proc, name) }

// readFile is the first kilobyte of a file below a directory of /proc.
func readFile(dir int, name string) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	text := make([]byte, 1024)
	n, err := unix.Read(fd, text)
	return text[:max(n, 0)], err
}

// Filter is what this Guard can answer for. Where the kernel, or a container's
// manager, does not let it copy the sockets of others (Docker before 23), connect
// is left alone; nothing else stands between a process and a socket in the file
// system there.
func (g *Guard) Filter() Filter {
	if g.o.Machine {
		return Filter{Machine: true}
	}
	process, err := unix.PidfdOpen(g.self, 0)
	if err != nil {
		return Filter{}
	}
	defer func() { _ = unix.Close(process) }()
	fd, err := unix.PidfdGetfd(process, g.slash, 0)
	if err != nil {
		return Filter{}
	}
	_ = unix.Close(fd)
	return Filter{Connect: true}
}

// Serve answers the calls that wait at a listener, which it takes over, until no
// supervised process is left. It returns at once.
func (g *Guard) Serve(fd int) {
	g.listener = listener(fd)
	g.listener.prepare()
	_ = unix.Umask(0) // what is created for a caller has the caller's
	g.crew.turn <- struct{}{}
	g.crew.wg.Go(g.hasten)
	g.hire()
}

// Close waits until no supervised process is left and lets go of everything.
// Whoever calls it has killed them.
func (g *Guard) Close() {
	g.crew.wg.Wait()
	g.release()
}

func (g *Guard) release() {
	g.made.close()
	g.pointers.close()
	for _, t := range g.trees {
		t.close()
	}
	if g.listener > 0 {
		_ = unix.Close(int(g.listener))
	}
	if g.mounts != nil {
		g.mounts.close()
	}
	for _, fd := range []int{g.slash, g.proc, g.descriptors, g.load} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// worker is what one needs to answer calls.
type worker struct {
	n      *notification
	path   []byte
	last   int    // the thread whose call it answered last
	as     rights // taken from a caller; the zero value is the process's own
	begins beginning
	// Of the calls that it answered, when it last counted enough of them, and when it rested.
	calls           int
	counted, rested time.Time
}

func newWorker() *worker {
	return &worker{n: new(notification), path: make([]byte, maxPath), begins: beginning{link: -1}}
}

// thread is that of the caller.
func (w *worker) thread() int { return int(w.n.pid) }

// rest lets the scheduler of goroutines have this one now and then, which takes as long as
// three answers. It wants the processor back of one that is never done, for which it looks,
// in a thread of its own, fifty thousand times a second.
func (w *worker) rest() {
	const (
		someCalls    = 32                   // who answers fewer waits between them
		within       = 3 * time.Millisecond // so does who needs longer for them
		atLeastEvery = 5 * time.Millisecond // of the 10 that it bears
	)
	if w.calls++; w.calls < someCalls {
		return
	}
	now := time.Now()
	quick := now.Sub(w.counted) < within
	w.calls, w.counted = 0, now
	if quick && now.Sub(w.rested) > atLeastEvery {
		w.rested = now
		runtime.Gosched()
	}
}

// work answers calls, one after the other, when it has the turn.
func (g *Guard) work() {
	w := newWorker()
	defer w.begins.close()
	for g.crew.await() {
		for mine := true; mine; {
			called, over := g.listener.next(w.n)
			if over {
				g.crew.end()
				return
			}
			if called {
				mine = g.serve(w) && !(g.crew.streak.add() && g.lend())
			}
		}
	}
}

// serve answers a call and reports whether the turn is still with the worker. Who calls
// again and again is mostly alone: that another waits is seen when that one has its answer,
// or it takes long.
func (g *Guard) serve(w *worker) bool {
	c := g.crew
	more := w.thread() != w.last && g.listener.pending()
	w.last = w.thread()
	c.streak.crossed = c.streak.crossed || more // with begin the turn may go
	call := c.begin()
	if c.crowd.Load() > 0 {
		c.crowd.Add(-1)
		g.give(call)
	}
	g.answer(w, &task{g: g, n: w.n, call: call, buf: w.path, begins: &w.begins, tid: w.thread(), memory: -1})
	mine := c.done(call)
	w.rest()
	return mine
}

// blockSignals keeps all signals from this thread, but for those that are its own
// faults. One that came while the kernel puts a descriptor into a caller would end
// that half way: the caller gets its answer, and descriptor 0 instead of the file's.
func blockSignals() error {
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	for _, own := range []unix.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP} {
		bits := uint(unsafe.Sizeof(all.Val[0])) * 8
		n := uint(own) - 1
		all.Val[n/bits] &^= 1 << (n % bits)
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil); err != nil {
		return fmt.Errorf("blocking signals: %w", err)
	}
	return nil
}

func (g *Guard) answer(w *worker, t *task) {
	defer t.close()
	begun := time.Now()
	a := done(unix.ENOSYS)
	if do := g.calls[t.n.nr]; do != nil {
		if e := w.become(t); e != 0 {
			a = done(e)
		} else {
			if g.pointers.some.Load() {
				t.point()
			}
			a = do(t)
		}
	}
	// Not after the answer, when who has it may run in this one's place, and call again.
	if time.Since(begun) > slowAnswer && g.listener.pending() {
		g.crew.crowd.Store(crowdCalls)
	}
	g.listener.reply(t.n.id, a)
}

// hide answers prctl(PR_SET_DUMPABLE, 0), the only prctl that is asked about. It
// closes a process to its like; those that the Guard has to read pretend.
func (t *task) hide() answer {
	if t.g.readsAll && !t.g.o.Inside(t.process()) {
		return proceed()
	}
	return done(0)
}

// take gives the thread the identity for good. Without one it keeps its user. Of
// the capabilities only that to read other processes is kept: root inside has
// none either.
func (id *Identity) take() error {
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("keeping capabilities: %w", err)
	}
	if id != nil {
		_, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0)
		if e != 0 && e != unix.EPERM {
			return fmt.Errorf("setgroups: %w", e)
		}
		gid, uid := uintptr(id.GID), uintptr(id.UID)
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); e != 0 {
			return fmt.Errorf("setresgid %d: %w", id.GID, e)
		}
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); e != 0 {
			return fmt.Errorf("setresuid %d: %w", id.UID, e)
		}
		// The kernel does as fs.suid_dumpable says, for the whole process.
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return fmt.Errorf("closing the process to others: %w", err)
		}
	}
	have, err := capabilities()
	if err != nil {
		return err
	}
	have[0].Permitted &= 1 << unix.CAP_SYS_PTRACE
	kept := [2]unix.CapUserData{{Permitted: have[0].Permitted, Effective: have[0].Permitted}}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &kept[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	return nil
}

// capabilities are those of the calling thread.
func capabilities() (have [2]unix.CapUserData, err error) {
	if err = unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &have[0]); err != nil {
		err = fmt.Errorf("capget: %w", err)
	}
	return have, err
}

// capability reports whether the thread has one of the first 32.
func capability(c int) bool {
	have, err := capabilities()
	return err == nil && have[0].Permitted&(1<<c) != 0
}

// denied tells of a refusal and is its error.
func (t *task) denied(path string) unix.Errno {
	t.g.o.Denied(Denial{Operation: t.g.names[t.n.nr], Path: path, PID: t.tid})
	return unix.EACCES
}

func decimal(n int) string { return strconv.Itoa(n) }
