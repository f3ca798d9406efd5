package probe

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// olderAttempts use calls that other architectures do not have.
func olderAttempts() map[string]attempt {
	return map[string]attempt{
		"open-older": reading(func(f Facts) (int, error) {
			fd, _, e := unix.Syscall(unix.SYS_OPEN, pointer(f.Dir+"/.env"), 0, 0)
			return int(fd), failed(e)
		}),
		"link-older": func(f Facts, _ []string) ([]byte, error) {
			if _, _, e := unix.Syscall(unix.SYS_LINK, pointer(f.Dir+"/.env"), pointer(f.Dir+"/older"), 0); e != 0 {
				return nil, e
			}
			return os.ReadFile(f.Dir + "/older")
		},
		"rename-older": func(f Facts, _ []string) ([]byte, error) {
			if _, _, e := unix.Syscall(unix.SYS_RENAME, pointer(f.Dir+"/.env"), pointer(f.Dir+"/older"), 0); e != 0 {
				return nil, e
			}
			return os.ReadFile(f.Dir + "/older")
		},
		"truncate-older": through(func(f Facts) error {
			_, _, e := unix.Syscall(unix.SYS_CREAT, pointer(f.Dir+"/.env"), 0o600, 0)
			return failed(e)
		}),
		"x32": reading(func(f Facts) (int, error) {
			// Where the kernel has no x32 this is ENOSYS outside, too; the number itself must
			// not be taken for another call's.
			fd, _, e := unix.Syscall(0x40000000|unix.SYS_OPEN, pointer(f.Dir+"/.env"), 0, 0)
			return int(fd), failed(e)
		}),
		"compat": compatOpen,
	}
}

// compatOpen opens by int 0x80, whose numbers are the 32 bit kernel's.
func compatOpen(f Facts, _ []string) ([]byte, error) {
	page, err := unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_32BIT)
	if err != nil {
		return nil, err
	}
	copy(page[4096:], f.Dir+"/.env\x00")
	at := uint32(uintptr(unsafe.Pointer(&page[4096])))
	code := []byte{
		0x53,             // push rbx
		0xb8, 5, 0, 0, 0, // mov eax, 5 (open)
		0xbb, byte(at), byte(at >> 8), byte(at >> 16), byte(at >> 24), // mov ebx, path
		0x31, 0xc9, // xor ecx, ecx
		0x31, 0xd2, // xor edx, edx
		0xcd, 0x80, // int 0x80
		0x48, 0x98, // cdqe
		0x5b, // pop rbx
		0xc3, // ret
	}
	copy(page, code)
	entry := uintptr(unsafe.Pointer(&page[0]))
	value := unsafe.Pointer(&entry)
	call := *(*func() int)(unsafe.Pointer(&value))
	fd := call()
	if fd < 0 {
		return nil, errors.Join(errors.New("int 0x80"), unix.Errno(-fd))
	}
	return readFD(fd, nil)
}

// ports asks for the machine's input and output.
func ports(name string) error {
	if name == "iopl" {
		return locked(func() error {
			_, _, e := unix.RawSyscall(unix.SYS_IOPL, 3, 0, 0)
			return failed(e)
		})
	}
	return locked(func() error {
		_, _, e := unix.RawSyscall(unix.SYS_IOPERM, 0x80, 1, 1)
		return failed(e)
	})
}

// localTable asks for a segment of its own.
func localTable() error {
	_, _, e := unix.Syscall(unix.SYS_MODIFY_LDT, 0, 0, 0)
	return failed(e)
}
