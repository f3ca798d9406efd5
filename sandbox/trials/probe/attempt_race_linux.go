package probe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// raceAttempts try often, and get through when once is enough.
func raceAttempts() map[string]attempt {
	return map[string]attempt{
		"race": raceHost, "flip-path": flipPath, "flip-descriptor": flipDescriptor, "flip-directory": flipDirectory,
		"flip-link": flipLink, "flip-exchange": flipExchange, "flip-rename": flipRename, "flip-kind": flipKind,
	}
}

// raceHost reads what the host is at work on until the host has done.
func raceHost(f Facts, args []string) ([]byte, error) {
	read, err := reader(args[0])
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(readyName, nil, 0o644); err != nil {
		return nil, err
	}
	var got []byte
	until := time.Now().Add(raceTime)
	reads := 0
	over := false
	for !over && time.Now().Before(until) {
		if b, err := read(); err == nil && hasSecret(b) {
			got = b
		}
		if reads++; reads == f.Rounds {
			if err := os.WriteFile(enoughName, nil, 0o644); err != nil {
				return nil, err
			}
		}
		if reads%20 == 0 {
			_, err := os.Stat(stopName)
			over = err == nil
		}
	}
	switch {
	case got != nil:
		return got, nil
	case !over || reads < f.Rounds:
		return nil, fmt.Errorf("not in %d reads, and there was no time for more", reads)
	}
	return nil, fmt.Errorf("not in %d reads, %s", reads, allRounds)
}

// reader is a way to read the file that the host works on.
func reader(way string) (func() ([]byte, error), error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	name := map[string]string{
		"name": ".env", "absolute": dir + "/.env", "dots": "sub/../.env", "proc": "/proc/self/cwd/.env", "link": "link", "chain": "link2",
		"below": "private/key", "linked": "new-link", "moved": "moved/private/key", "swapped": "swap/key",
	}[way]
	switch way {
	case "link", "chain":
		err = errors.Join(os.Symlink(".env", "link"), os.Symlink("link", "link2"))
	case "descriptor":
		return func() ([]byte, error) {
			fd, err := unix.Open(".env", unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				return nil, err
			}
			defer func() { _ = unix.Close(fd) }()
			return readFD(unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0))
		}, nil
	case "openat2":
		return func() ([]byte, error) {
			return readFD(unix.Openat2(unix.AT_FDCWD, ".env", &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC}))
		}, nil
	case "below":
		return func() ([]byte, error) {
			b, err := os.ReadFile(name)
			if err != nil {
				b, err = os.ReadFile("other/key")
			}
			return b, err
		}, nil
	}
	return func() ([]byte, error) { return os.ReadFile(name) }, err
}

// contestTime is how long a contest has to get through outside.
const contestTime = 10 * time.Second

// contest reads by a way while others disturb it, for as many rounds as Facts say.
func contest(f Facts, disturb func(round int), read func() ([]byte, error)) ([]byte, error) {
	var stop atomic.Bool
	var disturbed atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread()
		for i := 0; !stop.Load(); i++ {
			disturb(i)
			disturbed.Add(1)
		}
	})
	defer wg.Wait()
	defer stop.Store(true)
	var last error
	opened := 0
	begun, most := time.Now(), raceTime
	if f.Outside {
		most = contestTime
	}
	for reads := 0; f.Outside || reads < f.Rounds*20 || disturbed.Load() < int64(f.Rounds); reads++ {
		if time.Since(begun) > most {
			return nil, fmt.Errorf("not in %d reads and %d rounds, and there was no time for more", reads, disturbed.Load())
		}
		b, err := read()
		if err == nil {
			opened++
		} else {
			last = err
		}
		if hasSecret(b) || bytes.Contains(b, []byte(f.Mark)) {
			return b, nil
		}
	}
	return nil, fmt.Errorf("not in %d rounds, %s; %d opened something, the last error was: %v", disturbed.Load(), allRounds, opened, last)
}

// flipPath changes the path in memory between its being looked at and its use.
func flipPath(f Facts, _ []string) ([]byte, error) {
	path := []byte("sub/../open\x00")
	const at = len("sub/../")
	return contest(f, func(i int) {
		copy(path[at:], [][]byte{[]byte(".env\x00"), []byte("open\x00")}[i%2])
	}, func() ([]byte, error) {
		fd, _, e := unix.Syscall6(unix.SYS_OPENAT, ^uintptr(99), uintptr(unsafe.Pointer(&path[0])), unix.O_CLOEXEC, 0, 0, 0)
		return readFD(int(fd), failed(e))
	})
}

// flipDescriptor puts another directory under the descriptor of the open.
func flipDescriptor(f Facts, _ []string) ([]byte, error) {
	dirs, err := openPaths("sub", "private")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile("sub/key", []byte("open"), 0o600); err != nil {
		return nil, err
	}
	const at = 200
	if err := unix.Dup3(dirs[0], at, unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	return contest(f, func(i int) { _ = unix.Dup3(dirs[i%2], at, unix.O_CLOEXEC) }, func() ([]byte, error) {
		return readFD(unix.Openat(at, "key", unix.O_RDONLY|unix.O_CLOEXEC, 0))
	})
}

// flipDirectory changes the working directory of the whole process meanwhile.
func flipDirectory(f Facts, _ []string) ([]byte, error) {
	if err := os.WriteFile("sub/key", []byte("open"), 0o600); err != nil {
		return nil, err
	}
	return contest(f, func(i int) { _ = unix.Chdir(f.Dir + []string{"/sub", "/private"}[i%2]) }, func() ([]byte, error) {
		return readFD(unix.Open("key", unix.O_RDONLY|unix.O_CLOEXEC, 0))
	})
}

// flipLink makes a link lead elsewhere meanwhile.
func flipLink(f Facts, _ []string) ([]byte, error) {
	return contest(f, func(i int) {
		_ = os.Remove("next")
		_ = os.Symlink([]string{"open", ".env"}[i%2], "next")
		_ = os.Rename("next", "flip")
	}, func() ([]byte, error) { return os.ReadFile("flip") })
}

// flipExchange swaps two directories, one of them closed by its place.
func flipExchange(f Facts, _ []string) ([]byte, error) {
	if err := errors.Join(os.Mkdir("swap", 0o700), os.Mkdir("swap/x", 0o700), os.WriteFile("swap/x/key", []byte("open"), 0o600)); err != nil {
		return nil, err
	}
	_ = os.Symlink("swap/x", "way")
	return contest(f, func(i int) {
		_ = unix.Renameat2(unix.AT_FDCWD, "swap/x", unix.AT_FDCWD, "private", unix.RENAME_EXCHANGE)
	}, func() ([]byte, error) { return os.ReadFile("way/key") })
}

// flipRename moves the closed file and what lies at its new place at once.
func flipRename(f Facts, _ []string) ([]byte, error) {
	return contest(f, func(i int) {
		_ = os.Rename(".env", "plain")
		_ = os.Link("private/key", "plain2")
		_ = os.Rename("plain", ".env")
		_ = os.Remove("plain2")
	}, func() ([]byte, error) {
		b, err := os.ReadFile("plain")
		if err != nil {
			b, err = os.ReadFile("plain2")
		}
		return b, err
	})
}

// flipKind puts a directory that must not move in the place of a file that moves.
func flipKind(f Facts, _ []string) ([]byte, error) {
	if err := errors.Join(os.MkdirAll("node_modules/other/.vscode", 0o700), os.WriteFile("node_modules/moves", nil, 0o600)); err != nil {
		return nil, err
	}
	return contest(f, func(int) {
		_ = unix.Renameat2(unix.AT_FDCWD, "node_modules/moves", unix.AT_FDCWD, "node_modules/other", unix.RENAME_EXCHANGE)
	}, func() ([]byte, error) {
		if err := os.Rename("node_modules/moves", "moved"); err != nil {
			return nil, err
		}
		st, err := os.Stat("moved")
		if err == nil && st.IsDir() {
			return []byte(f.Mark), nil
		}
		return nil, errors.Join(err, os.Rename("moved", "node_modules/moves"))
	})
}

func openPaths(names ...string) (fds []int, err error) {
	for _, name := range names {
		fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		fds = append(fds, fd)
	}
	return fds, nil
}
