package enforce

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrUnsupported is wrapped by errors that mean: this kernel, or what already
// watches this process, does not let a Guard work.
var ErrUnsupported = errors.New("the kernel's system call filter cannot be used")

// Supported tells why Guards cannot work on this machine; nil when they should.
// It looks only. A filter with a listener that is there already, as some container
// managers have, shows when Install fails.
func Supported() error {
	var sizes struct{ notification, response, data uint16 }
	const getSizes = 3
	_, _, e := unix.RawSyscall(unix.SYS_SECCOMP, getSizes, 0, uintptr(unsafe.Pointer(&sizes)))
	if e != 0 {
		return refused(e)
	}
	if int(sizes.notification) != int(unsafe.Sizeof(notification{})) || int(sizes.response) != int(unsafe.Sizeof(response{})) {
		return fmt.Errorf("%w: its structures have other sizes (%d and %d bytes)", ErrUnsupported, sizes.notification, sizes.response)
	}
	return nil
}
