package probe

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fileAttempts read the closed file, .env in the working directory, or change it.
func fileAttempts() map[string]attempt {
	all := map[string]attempt{
		"openat-directory": reading(func(f Facts) (int, error) {
			fd, err := unix.Open(f.Dir, unix.O_DIRECTORY, 0)
			if err != nil {
				return -1, err
			}
			return unix.Openat(fd, ".env", unix.O_RDONLY, 0)
		}),
		"openat-path-directory": reading(func(f Facts) (int, error) {
			fd, err := unix.Open(f.Dir, unix.O_PATH, 0)
			if err != nil {
				return -1, err
			}
			return unix.Openat(fd, "./private//key", unix.O_RDONLY, 0)
		}),
		"openat-closed": reading(func(f Facts) (int, error) {
			fd, err := unix.Open(f.Dir+"/private/deep", unix.O_PATH|unix.O_DIRECTORY, 0)
			if err != nil {
				return -1, err
			}
			return unix.Openat(fd, "er/key", unix.O_RDONLY, 0)
		}),
		"reopen":        reading(func(f Facts) (int, error) { return reopenAs(f, "/proc/self/fd/%d", unix.O_RDONLY) }),
		"reopen-thread": reading(func(f Facts) (int, error) { return reopenAs(f, "/proc/thread-self/fd/%d", unix.O_RDWR) }),
		"empty-path": reading(func(f Facts) (int, error) {
			fd, err := unix.Open(f.Dir+"/.env", unix.O_PATH, 0)
			if err != nil {
				return -1, err
			}
			// The kernel has no such open; openat2 and "." below a file are the next best.
			for _, name := range []string{"", ".", "./", "/proc/self/fd/" + fmt.Sprint(fd)} {
				if got, err := unix.Openat(fd, name, unix.O_RDONLY, 0); err == nil {
					return got, nil
				}
			}
			return -1, unix.EACCES
		}),
		"openat2": reading(func(f Facts) (int, error) {
			return unix.Openat2(unix.AT_FDCWD, f.Dir+"/.env", &unix.OpenHow{Flags: unix.O_RDONLY})
		}),
		"openat2-beneath": reading(func(f Facts) (int, error) {
			fd, err := unix.Open(f.Dir, unix.O_PATH, 0)
			if err != nil {
				return -1, err
			}
			return unix.Openat2(fd, ".env", &unix.OpenHow{Flags: unix.O_RDONLY, Resolve: unix.RESOLVE_BENEATH})
		}),
		"read-write":    reading(func(f Facts) (int, error) { return unix.Open(f.Dir+"/.env", unix.O_RDWR, 0) }),
		"with-creat":    reading(func(f Facts) (int, error) { return unix.Open(f.Dir+"/.env", unix.O_RDWR|unix.O_CREAT, 0o600) }),
		"with-nonblock": reading(func(f Facts) (int, error) { return unix.Open(f.Dir+"/.env", unix.O_NONBLOCK, 0) }),
		"unusual-flags": reading(func(f Facts) (int, error) {
			return unix.Open(f.Dir+"/.env", unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_SYNC|unix.O_CLOEXEC, 0)
		}),
		"nonsense-bits": reading(func(f Facts) (int, error) {
			fd, _, e := unix.Syscall6(unix.SYS_OPENAT, ^uintptr(99), pointer(f.Dir+"/.env"), 1<<27, 0, 0, 0)
			return int(fd), failed(e)
		}),
		"high-words": reading(func(f Facts) (int, error) {
			fd, _, e := unix.Syscall6(unix.SYS_OPENAT, ^uintptr(99), pointer(f.Dir+"/.env"), 0xdead<<32, 0, 0, 0)
			return int(fd), failed(e)
		}),
		"dangling": reading(func(f Facts) (int, error) {
			if err := os.Symlink(f.Dir+"/sub/../.env", f.Dir+"/dangling"); err != nil {
				return -1, err
			}
			return unix.Open(f.Dir+"/dangling", unix.O_RDWR|unix.O_CREAT, 0o600)
		}),
		"own-cwd": reading(func(f Facts) (fd int, err error) {
			fd = -1
			err = locked(func() error {
				if err := unix.Unshare(unix.CLONE_FS); err != nil {
					return err
				}
				if err := unix.Chdir(f.Dir + "/private/deep"); err != nil {
					return err
				}
				var err error
				fd, err = unix.Open("er/key", unix.O_RDONLY, 0)
				return err
			})
			return fd, err
		}),
		"link-descriptor": linkDescriptor, "child": copyToChild, "pass-descriptor": passDescriptor, "mmap": mapFile,
		"exchange":             exchange(".env", "plain", "plain"),
		"exchange-directories": exchange("private", "sub", "sub/key"),
		"handle":               handle, "io_uring": ringOpen,
		"truncate-reading": func(f Facts, _ []string) ([]byte, error) {
			_, err := unix.Open(f.Dir+"/.env", unix.O_RDONLY|unix.O_TRUNC, 0)
			return nil, err
		},
		"truncate-call": through(func(f Facts) error { return unix.Truncate(f.Dir+"/sub/../.env", 1) }),
		"truncate-proc": through(func(f Facts) error {
			fd, err := unix.Open(f.Dir+"/.env", unix.O_PATH, 0)
			if err != nil {
				return err
			}
			return unix.Truncate(fmt.Sprintf("/proc/self/fd/%d", fd), 1)
		}),
		"tmpfile": through(tmpfileOver),
		"write-executable": through(func(f Facts) error {
			path := f.Executable
			if f.Outside { // the control is about a copy
				raw, err := os.ReadFile(path)
				path = filepath.Join(f.Dir, "copy")
				if err := errors.Join(err, os.WriteFile(path, raw, 0o755)); err != nil {
					return err
				}
			}
			fd, err := unix.Open(path, unix.O_WRONLY, 0)
			if err == nil {
				_ = unix.Close(fd)
			}
			return err
		}),
	}
	for _, more := range []map[string]attempt{
		apart("bind-mount", bindMount), apart("overlay", overlay), apart("open-tree", openTree), apart("chroot", changeRoot),
	} {
		maps.Copy(all, more)
	}
	return all
}

func reopenAs(f Facts, format string, flags int) (int, error) {
	fd, err := unix.Open(f.Dir+"/.env", unix.O_PATH, 0)
	if err != nil {
		return -1, err
	}
	return unix.Open(fmt.Sprintf(format, fd), flags, 0)
}

func linkDescriptor(f Facts, _ []string) ([]byte, error) {
	fd, err := unix.Open(f.Dir+"/.env", unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Linkat(fd, "", unix.AT_FDCWD, f.Dir+"/linked", unix.AT_EMPTY_PATH)
	if err != nil {
		err = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, f.Dir+"/linked", unix.AT_SYMLINK_FOLLOW)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(f.Dir + "/linked")
}

func copyToChild(f Facts, _ []string) ([]byte, error) {
	fd, err := unix.Open(f.Dir+"/.env", unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/cat", "/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), "x")}
	return cmd.Output()
}

// passDescriptor sends an O_PATH descriptor over a socket and reopens what arrives.
func passDescriptor(f Facts, _ []string) ([]byte, error) {
	fd, err := unix.Open(f.Dir+"/.env", unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(fd), nil, 0); err != nil {
		return nil, err
	}
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[1], make([]byte, 1), oob, 0)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) == 0 {
		return nil, fmt.Errorf("nothing was passed: %w", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	return readFD(unix.Open(fmt.Sprintf("/proc/self/fd/%d", fds[0]), unix.O_RDONLY, 0))
}

func mapFile(f Facts, _ []string) ([]byte, error) {
	fd, err := unix.Open(f.Dir+"/.env", unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return unix.Mmap(fd, 0, 64, unix.PROT_READ, unix.MAP_PRIVATE)
}

func exchange(a, b, read string) attempt {
	return func(f Facts, _ []string) ([]byte, error) {
		if _, err := os.Stat(b); err != nil {
			if err := os.WriteFile(b, nil, 0o600); err != nil {
				return nil, err
			}
		}
		if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
			return nil, err
		}
		return os.ReadFile(read)
	}
}

func handle(f Facts, _ []string) ([]byte, error) {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, f.Dir+"/.env", 0)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(f.Dir, unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return readFD(unix.OpenByHandleAt(fd, h, unix.O_RDONLY))
}

// tmpfileOver links a file without a name over the closed one.
func tmpfileOver(f Facts) error {
	fd, err := unix.Open(f.Dir, unix.O_TMPFILE|unix.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if _, err := unix.Write(fd, []byte("x")); err != nil {
		return err
	}
	name := fmt.Sprintf("/proc/self/fd/%d", fd)
	return unix.Linkat(unix.AT_FDCWD, name, unix.AT_FDCWD, f.Dir+"/sub/.env", unix.AT_SYMLINK_FOLLOW)
}

func bindMount(f Facts) ([]byte, error) {
	if err := os.MkdirAll(f.Dir+"/m", 0o777); err != nil {
		return nil, err
	}
	if err := unix.Mount(f.Dir+"/private", f.Dir+"/m", "", unix.MS_BIND, ""); err != nil {
		return nil, err
	}
	return os.ReadFile(f.Dir + "/m/key")
}

func overlay(f Facts) ([]byte, error) {
	for _, d := range []string{"/m", "/empty"} {
		if err := os.MkdirAll(f.Dir+d, 0o777); err != nil {
			return nil, err
		}
	}
	if err := unix.Mount("overlay", f.Dir+"/m", "overlay", 0, "lowerdir="+f.Dir+"/private:"+f.Dir+"/empty"); err != nil {
		return nil, err
	}
	return os.ReadFile(f.Dir + "/m/key")
}

// openTree looks at a copy of the mount that is nowhere.
func openTree(f Facts) ([]byte, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, f.Dir, unix.OPEN_TREE_CLONE)
	if err != nil {
		return nil, err
	}
	return readFD(unix.Openat(fd, "private/key", unix.O_RDONLY, 0))
}

func changeRoot(f Facts) ([]byte, error) {
	if err := unix.Chroot(f.Dir + "/private"); err != nil {
		return nil, err
	}
	return os.ReadFile("/key")
}

// ringOpen opens by io_uring, which no filter of system calls sees.
func ringOpen(f Facts, _ []string) ([]byte, error) {
	var params [120]byte // struct io_uring_params
	fd, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params[0])), 0)
	if e != 0 {
		return nil, e
	}
	defer func() { _ = unix.Close(int(fd)) }()
	field := func(at int) int { return int(*(*uint32)(unsafe.Pointer(&params[at]))) }
	sqEntries, cqEntries := field(0), field(4)
	// Offsets of sq_off and cq_off in params: 40 and 80.
	sqArray, cqes := field(40+24), field(80+20)
	sq, err := unix.Mmap(int(fd), 0, sqArray+4*sqEntries, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, err
	}
	cq, err := unix.Mmap(int(fd), 0x8000000, cqes+16*cqEntries, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, err
	}
	sqes, err := unix.Mmap(int(fd), 0x10000000, 64*sqEntries, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, err
	}
	const openAt = 18
	name, err := unix.BytePtrFromString(f.Dir + "/.env")
	if err != nil {
		return nil, err
	}
	sqes[0] = openAt
	*(*int32)(unsafe.Pointer(&sqes[4])) = unix.AT_FDCWD
	*(**byte)(unsafe.Pointer(&sqes[16])) = name
	*(*uint32)(unsafe.Pointer(&sq[sqArray])) = 0
	*(*uint32)(unsafe.Pointer(&sq[field(40+4)])) = 1 // the tail
	if _, _, e := unix.Syscall6(unix.SYS_IO_URING_ENTER, fd, 1, 1, 1, 0, 0); e != 0 {
		return nil, e
	}
	got := *(*int32)(unsafe.Pointer(&cq[cqes+8]))
	if got < 0 {
		return nil, syscall.Errno(-got)
	}
	return readFD(int(got), nil)
}
