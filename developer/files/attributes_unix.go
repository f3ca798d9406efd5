//go:build linux || darwin

package files

import (
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ownAttributes are those that the system keeps for one file's content or maker.
var ownAttributes = []string{"security.capability", "security.ima", "security.evm", "com.apple.provenance"}

// copyAttributes gives a file the extended attributes of another, and no others. Access
// lists of Linux are among them.
func copyAttributes(to, from *os.File) error {
	want, err := attributes(from)
	if err != nil {
		return err
	}
	has, err := attributes(to)
	if err != nil {
		return err
	}
	for _, name := range has {
		if !slices.Contains(want, name) {
			if err := unix.Fremovexattr(int(to.Fd()), name); err != nil && strings.HasPrefix(name, "system.") {
				return os.NewSyscallError("removing "+name, err)
			}
		}
	}
	for _, name := range want {
		value, err := attribute(from, name)
		if err != nil {
			return err
		}
		if slices.Contains(has, name) {
			if old, err := attribute(to, name); err == nil && string(old) == string(value) {
				continue
			}
		}
		if err := unix.Fsetxattr(int(to.Fd()), name, value, 0); err != nil {
			return os.NewSyscallError("setting "+name, err)
		}
	}
	return nil
}

// attributes returns the names of a file's extended attributes; none where the file system
// has none.
func attributes(f *os.File) ([]string, error) {
	buf, err := grown(func(buf []byte) (int, error) { return unix.Flistxattr(int(f.Fd()), buf) })
	if err == unix.ENOTSUP || err == unix.ENOSYS {
		return nil, nil
	}
	if err != nil {
		return nil, os.NewSyscallError("listing attributes", err)
	}
	names := strings.Split(strings.TrimSuffix(string(buf), "\x00"), "\x00")
	return slices.DeleteFunc(names, func(name string) bool { return name == "" || slices.Contains(ownAttributes, name) }), nil
}

func attribute(f *os.File, name string) ([]byte, error) {
	value, err := grown(func(buf []byte) (int, error) { return unix.Fgetxattr(int(f.Fd()), name, buf) })
	return value, os.NewSyscallError("reading "+name, err)
}

// grown calls with more room until what is read fits.
func grown(read func([]byte) (int, error)) ([]byte, error) {
	for size := 1 << 10; ; size *= 8 {
		buf := make([]byte, size)
		n, err := read(buf)
		if err == nil {
			return buf[:n], nil
		}
		if err != unix.ERANGE || size > 1<<20 {
			return nil, err
		}
	}
}
