package enforce

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Flags of seccomp(2) that x/sys does not have.
const (
	newListener  = 1 << 3
	waitKillable = 1 << 5 // Linux 5.19
)

// Filter is what is to be supervised.
type Filter struct {
	// Connect says that the Guard carries out connect, too.
	Connect bool
	// Machine leaves sockets, and what else concerns the machine and no files, to the callers,
	// who may also change their user.
	Machine bool
}

// Install loads the filter into the calling thread, which must be locked to its
// goroutine and must have no_new_privs or CAP_SYS_ADMIN, and returns the listener
// for [Guard.Serve]. From then on the thread, what it executes and what it starts
// wait in every supervised call until the listener is served; the thread itself
// must therefore send it away (sendmsg is not supervised) before it opens anything.
// There is no way back. It fails with ErrUnsupported where something else has taken the
// place, or does not let a filter be loaded.
func (o Filter) Install() (listener int, err error) {
	return install(o.program())
}

func install(f program) (listener int, err error) {
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	// Without waitKillable a signal makes the caller repeat a call that the Guard
	// has carried out already.
	for _, flags := range []uintptr{newListener | waitKillable, newListener} {
		fd, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
		if e == 0 {
			return int(fd), nil
		}
		err = e
		if e != unix.EINVAL {
			break
		}
	}
	return -1, refused(err)
}

// refused says why seccomp(2) failed.
func refused(err error) error {
	switch {
	case errors.Is(err, unix.EBUSY): // a tree of processes has one listener
		return fmt.Errorf("%w: another supervisor already watches this process (%w), as in a sandbox of gander or of some container managers; start gander outside of it", ErrUnsupported, err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: what this process runs in forbids it (%w), as a container without seccomp(2) in its profile does; permit it there", ErrUnsupported, err)
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: this kernel does not have it (%w); Linux 5.14 or newer is needed, with CONFIG_SECCOMP_FILTER", ErrUnsupported, err)
	}
	return fmt.Errorf("loading the system call filter: %w", err)
}
