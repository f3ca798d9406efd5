package enforce

import (
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
}

// Install loads the filter into the calling thread, which must be locked to its
// goroutine and must have no_new_privs or CAP_SYS_ADMIN, and returns the listener
// for [Guard.Serve]. From then on the thread, what it executes and what it starts
// wait in every supervised call until the listener is served; the thread itself
// must therefore send it away (sendmsg is not supervised) before it opens anything.
// There is no way back.
func (o Filter) Install() (listener int, err error) {
	f := filter(o.table())
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
	return -1, fmt.Errorf("loading the system call filter: %w", err)
}
