package enforce

import (
	"golang.org/x/sys/unix"
)

// olderAttacks use system calls that other architectures do not have.
func olderAttacks() []attack {
	return []attack{
		openWith("by open, the older call", func(dir string) (int, error) {
			fd, _, e := unix.Syscall(unix.SYS_OPEN, cstring(dir+"/.env"), 0, 0)
			if e != 0 {
				return -1, e
			}
			return int(fd), nil
		}),
		{"by link, the older call", func(dir string) ([]byte, error) {
			if _, _, e := unix.Syscall(unix.SYS_LINK, cstring(dir+"/.env"), cstring(dir+"/older"), 0); e != 0 {
				return nil, e
			}
			return readFD(unix.Open(dir+"/older", unix.O_RDONLY, 0))
		}},
		{"by rename, the older call", func(dir string) ([]byte, error) {
			if _, _, e := unix.Syscall(unix.SYS_RENAME, cstring(dir+"/.env"), cstring(dir+"/older"), 0); e != 0 {
				return nil, e
			}
			return readFD(unix.Open(dir+"/older", unix.O_RDONLY, 0))
		}},
	}
}
