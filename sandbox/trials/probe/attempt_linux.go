package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attempts are those that are built in, by name.
func attempts() map[string]attempt {
	all := map[string]attempt{}
	for _, more := range []map[string]attempt{fileAttempts(), committedAttempts(), olderAttempts(), kernelAttempts(), processAttempts(), networkAttempts(), raceAttempts()} {
		maps.Copy(all, more)
	}
	return all
}

// through makes an attempt of something that gets through when it does not fail.
func through(try func(f Facts) error) attempt {
	return func(f Facts, _ []string) ([]byte, error) { return nil, try(f) }
}

// reading makes one of something that opens what is then read.
func reading(open func(f Facts) (int, error)) attempt {
	return func(f Facts, _ []string) ([]byte, error) { return readFD(open(f)) }
}

// readFD reads all that a descriptor has.
func readFD(fd int, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "f")
	defer func() { _ = file.Close() }()
	b, err := io.ReadAll(io.LimitReader(file, 1<<20))
	if err == nil && b == nil {
		err = errors.New("it is empty")
	}
	return b, err
}

// hasSecret says whether the secret, or what looks like one, is in b.
func hasSecret(b []byte) bool { return bytes.Contains(b, []byte(secretPrefix)) }

// pointer is a string for a system call.
func pointer(s string) uintptr {
	p, err := unix.BytePtrFromString(s)
	if err != nil {
		panic(err) // the attempts' own strings
	}
	return uintptr(unsafe.Pointer(p))
}

// failed is the error of a system call.
func failed(e syscall.Errno) error {
	if e != 0 {
		return e
	}
	return nil
}

// self runs another attempt as a child, with attributes, and returns what it says.
func self(f Facts, name string, attr *syscall.SysProcAttr, files ...*os.File) ([]byte, error) {
	facts, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe", Verb, name, string(facts))
	cmd.SysProcAttr, cmd.ExtraFiles = attr, files
	out, err := cmd.CombinedOutput()
	if err == nil && (bytes.Contains(out, []byte(f.Mark)) || hasSecret(out)) {
		return out, nil
	}
	return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
}

// apart is an attempt that changes the system. Outside it is carried out in new
// namespaces; inside it first tries to make them, and goes on without.
func apart(name string, try func(f Facts) ([]byte, error)) map[string]attempt {
	const there = " there"
	return map[string]attempt{
		name: func(f Facts, _ []string) ([]byte, error) {
			flags := uintptr(unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWNET | unix.CLONE_NEWPID)
			attr := &syscall.SysProcAttr{Cloneflags: flags}
			if os.Geteuid() != 0 {
				attr.Cloneflags |= unix.CLONE_NEWUSER
				attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
				attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
			}
			got, err := self(f, name+there, attr)
			if err == nil || f.Outside {
				return got, err
			}
			return try(f)
		},
		name + there: func(f Facts, _ []string) ([]byte, error) {
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return nil, fmt.Errorf("making mounts private: %w", err)
			}
			return try(f)
		},
	}
}

// locked runs something on a thread that ends with it.
func locked(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		done <- do()
	}()
	return <-done
}

// beVictim is a process outside that holds the secret: in its environment, on
// descriptor 3, and in its memory. What arrives at descriptor 4 is seen by the host.
// It lives until its stdin ends.
func beVictim(stdin io.Reader, stdout io.Writer) int {
	_ = unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0) // so that the controls work under Yama
	memory, _ := readFD(unix.Dup(3))
	fmt.Fprintln(stdout, "ready")
	_, _ = io.Copy(io.Discard, stdin)
	runtime.KeepAlive(memory)
	return 0
}

// victim fails unless the process outside is to be seen as what it is.
func victim(f Facts) error {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", f.Victim))
	if err == nil && !strings.Contains(string(line), f.VictimName) {
		err = errors.New("it is another process")
	}
	if err != nil {
		return fmt.Errorf("the process outside is not to be seen: %w", err)
	}
	return nil
}
