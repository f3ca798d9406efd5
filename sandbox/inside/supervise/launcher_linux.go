package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox/inside/enforce"
)

// launched is what launch has started.
type launched struct {
	launcher int
	// shepherd is the one that S has started itself. What S gets for a child later may
	// have its number, but not its beginning.
	shepherd procID
}

// launch starts L and a shepherd, for the first command, which would wait for the starts of
// both otherwise, one after the other. A thread of S, which ends with that, gives up what
// they may not do and executes the program. What it has given up, and the filter that it
// has taken on, are those of L and of every process that L will ever start. Each gets a
// connection. serve is told the listener of the filter, when there is one, before anything
// is opened behind it.
func launch(p privileges, launcher, shepherd []*os.File, serve func(listener int)) (l launched, err error) {
	umask := unix.Umask(0)
	unix.Umask(umask)
	own, err := json.Marshal(ownArgs{Umask: umask, Limits: p.Limits, EndFirst: !p.Keep})
	if err != nil {
		return l, fmt.Errorf("the launcher's arguments: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return l, err
	}
	defer func() { _ = null.Close() }()
	var first int
	done := make(chan error, 1)
	onThread(func() {
		done <- func() error {
			for _, s := range stages(serve) {
				if err := s.do(p); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
			}
			return Relaxed(func() (err error) {
				if first, err = startRole([]string{roleShepherd, string(own)}, "/", null.Fd(), shepherd); err != nil {
					return err
				}
				l.launcher, err = startRole([]string{roleLauncher, string(own)}, "/", null.Fd(), launcher)
				return err
			})
		}()
	})
	if err := <-done; err != nil {
		return l, fmt.Errorf("starting the launcher and a shepherd: %w", err)
	}
	started, err := readProc(first) // there even if it has ended: nobody collects anything yet
	if err != nil {
		return l, fmt.Errorf("looking at the first shepherd: %w", err)
	}
	l.shepherd = started.procID
	return l, nil
}

// onThread runs do on a thread that ends with it. It is never the first one, whose user,
// groups and confinement are the process's own to all others.
func onThread(do func()) {
	go func() {
		runtime.LockOSThread() // and not unlocked after do
		if unix.Gettid() != os.Getpid() {
			do()
			return
		}
		did := make(chan struct{})
		onThread(func() {
			defer close(did)
			do()
		})
		<-did // holding this thread
		runtime.UnlockOSThread()
	}()
}

// startRole executes this program in a role, with null as its stdin and stdout and a
// connection. Nobody waits for it here: there are those who reap all.
func startRole(role []string, dir string, null uintptr, owner []*os.File) (pid int, err error) {
	files := []uintptr{null, null, 2}
	for _, f := range owner {
		files = append(files, f.Fd())
	}
	return syscall.ForkExec("/proc/self/exe", append([]string{os.Args[0], Verb}, role...), &syscall.ProcAttr{Dir: dir, Files: files})
}

type stage struct {
	name string
	do   func(privileges) error
}

// stages lists what the calling thread gives up, in order. A system call filter belongs at
// the end of the list: it needs no_new_privs, and behind it nothing can be opened until
// its listener is served.
func stages(serve func(listener int)) []stage {
	return []stage{
		{"entering its control groups", enterGroups},
		{"emptying the capability bounding set", emptyBoundingSet},
		{"changing the user", changeIdentity},
		{"dropping capabilities", dropCapabilities},
		{"forbidding new privileges", noNewPrivileges},
		{"confining it to its files", confine},
		{"putting the kernel's questions to the supervisor", func(p privileges) error { return filterCalls(p, serve) }},
	}
}

// privileges are what L shall end up with: those of an identity or, with nil, of
// the user that S is; without capabilities unless it keeps them. With a filter,
// what opens files asks S.
type privileges struct {
	Identity *Identity
	Keep     bool
	Filter   *enforce.Filter
	// Writable are the paths below which files may be changed; nil leaves that to mounts.
	Writable []string
	Limits   *Resources // L's own
	Groups   int        // see Setup
}

// groupsFD is the first descriptor of Setup.Groups in S.
const groupsFD = ownerFD + 1

func enterGroups(p privileges) error {
	for i := range p.Groups {
		if _, err := unix.Write(groupsFD+i, []byte("0")); err != nil { // whoever writes it
			return fmt.Errorf("%w: %w", ErrGroups, err)
		}
	}
	return nil
}

// emptyBoundingSet keeps uid 0 from getting capabilities back when it executes a
// program. Who lacks CAP_SETPCAP has nothing to drop.
func emptyBoundingSet(p privileges) error {
	if p.Keep {
		return nil
	}
	for c := 0; ; c++ {
		switch err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err {
		case nil:
		case unix.EINVAL, unix.EPERM: // past the last capability; not ours to drop
			return nil
		default:
			return err
		}
	}
}

// changeIdentity uses system calls of this thread only: the others are S's.
func changeIdentity(p privileges) error {
	id := p.Identity
	if id == nil {
		return nil
	}
	// Refused where the namespace was made by an ordinary user, who has to keep
	// the groups; they are then those that the user has anyway.
	if _, _, e := syscall.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); e != 0 && e != unix.EPERM {
		return fmt.Errorf("setgroups: %w", e)
	}
	gid, uid := uintptr(id.GID), uintptr(id.UID)
	if _, _, e := syscall.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); e != 0 {
		return fmt.Errorf("setresgid %d: %w", id.GID, e)
	}
	if _, _, e := syscall.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); e != 0 {
		return fmt.Errorf("setresuid %d: %w", id.UID, e)
	}
	// The kernel does as fs.suid_dumpable says, for all threads of S.
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

func dropCapabilities(p privileges) error {
	if p.Keep {
		return nil
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clearing ambient capabilities: %w", err)
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	_, _, e := syscall.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&none[0])), 0)
	if e != 0 {
		return fmt.Errorf("capset: %w", e)
	}
	return nil
}

// noNewPrivileges leaves set-uid programs their effect only where privileges are kept and
// nothing is closed.
func noNewPrivileges(p privileges) error {
	if p.Keep && p.Filter == nil {
		return nil
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// filterCalls is the last stage: from here on S answers for whatever is opened.
func filterCalls(p privileges, serve func(listener int)) error {
	if p.Filter == nil {
		return nil
	}
	listener, err := p.Filter.Install()
	if errors.Is(err, enforce.ErrUnsupported) {
		return fmt.Errorf("%w: %w", ErrRules, err)
	}
	if err != nil {
		return err
	}
	serve(listener)
	return nil
}

// ownArgs are what who was started by S sets for itself and all that it starts: threads of
// S have them in common.
type ownArgs struct {
	Umask  int        `json:"umask"` // that of S when it began
	Limits *Resources `json:"limits,omitempty"`
	// EndFirst has the kernel end these processes first when memory is short.
	EndFirst bool `json:"endFirst,omitempty"`
}

func (a ownArgs) apply() error {
	unix.Umask(a.Umask)
	if a.EndFirst {
		endFirst()
	}
	return limitUse(a.Limits)
}

// launcherRequest asks L for a shepherd; both sockets of its connection come with it.
type launcherRequest struct{}

// launcherReply has its process id; the first is that L is ready.
type launcherReply struct {
	PID   int    `json:"pid,omitempty"`
	Error string `json:"error,omitempty"`
}

// serveLauncher is L: it says that it is ready, and starts a shepherd per request until S is
// gone.
func serveLauncher(conn *fdConn) error {
	if conn.send(launcherReply{}) != nil {
		return nil
	}
	started := make(chan struct{}, 1)
	go reapShepherds(started) // ends with the process
	for {
		var req launcherRequest
		fds, err := conn.receive(&req)
		if err != nil {
			return nil
		}
		var reply launcherReply
		if reply.PID, err = startShepherd(fds); err != nil {
			reply.Error = err.Error()
		}
		select {
		case started <- struct{}{}:
		default:
		}
		if err := conn.send(reply); err != nil {
			return nil
		}
	}
}

func startShepherd(fds []int) (int, error) {
	if len(fds) != 2 {
		closeFDs(fds)
		return 0, fmt.Errorf("got %d descriptors, not two", len(fds))
	}
	owner := []*os.File{os.NewFile(uintptr(fds[0]), "owner"), os.NewFile(uintptr(fds[1]), "owner")}
	defer closeFiles(owner...)
	pid, err := startRole([]string{roleShepherd}, "", 0, owner) // L has the null device itself
	if err != nil {
		return 0, fmt.Errorf("starting a shepherd: %w", err)
	}
	return pid, nil
}

// reapShepherds collects shepherds that have ended, all of them on one thread: room for
// threads may be scarce.
func reapShepherds(started <-chan struct{}) {
	for {
		_, err := unix.Wait4(-1, nil, unix.WALL, nil)
		if errors.Is(err, unix.ECHILD) {
			<-started
		}
	}
}
