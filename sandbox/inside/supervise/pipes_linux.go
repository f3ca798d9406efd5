package supervise

import (
	"os"

	"golang.org/x/sys/unix"
)

// widen makes a pipe larger if the user's share of pipe memory permits.
func widen(f *os.File) {
	raw, err := f.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, bufferSize) })
	}
}
