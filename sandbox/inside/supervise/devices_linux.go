package supervise

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// makeDev makes a /dev of the harmless devices and those that are given, with terminals of its own.
func makeDev(r Root) error {
	dev := newRoot + "/dev"
	if err := os.MkdirAll(dev, 0o755); err != nil {
		return err
	}
	if err := mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID, "mode=0755"); err != nil {
		return err
	}
	harmless := []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}
	for _, path := range append(harmless, r.Devices...) {
		at := newRoot + path
		if err := mountPoint(oldRoot+path, at); err != nil {
			return err
		}
		if err := mount(oldRoot+path, at, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		// A device is written to all the same. It is the machine's own: root would give it
		// another mode there, and also by what it covers.
		if err := restrict(at, unix.MS_RDONLY|unix.MS_NOSUID); err != nil {
			return err
		}
	}
	if err := makeDevDirs(dev, r); err != nil {
		return err
	}
	for name, target := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd",
		"stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, dev+"/"+name); err != nil {
			return err
		}
	}
	return mount("", dev, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID, "")
}

func makeDevDirs(dev string, r Root) error {
	for _, name := range []string{"/pts", "/shm"} {
		if err := os.Mkdir(dev+name, 0o755); err != nil {
			return err
		}
	}
	if err := mount("devpts", dev+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"); err != nil {
		return err
	}
	return mount("tmpfs", dev+"/shm", "tmpfs", tmpfsFlags, "mode=1777"+r.temporary("/dev/shm"))
}

// mountProc mounts the PID namespace's own /proc. What in it reaches the whole
// machine is made read-only or covered: uid 0 is the machine's uid 0 there, and
// needs no capability to write to a setting of the kernel.
func mountProc(Root) error {
	proc := newRoot + "/proc"
	if err := os.MkdirAll(proc, 0o755); err != nil {
		return err
	}
	if err := mount("proc", proc, "proc", tmpfsFlags|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	boundWatches(proc)
	_ = os.WriteFile(proc+"/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0) // in the sandbox's own network
	for _, name := range lockedProc() {
		if err := ifPresent(proc+name, lock); err != nil {
			return err
		}
	}
	for _, name := range coveredProc() {
		if err := ifPresent(proc+name, cover); err != nil {
			return err
		}
	}
	return nil
}

func ifPresent(path string, do func(string, fs.FileInfo) error) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return do(path, info)
}

func lock(path string, _ fs.FileInfo) error {
	if err := mount(path, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return restrict(path, unix.MS_RDONLY)
}

func cover(path string, info fs.FileInfo) error { return hide(path, info.IsDir()) }
