package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processAttempts reach into a process outside, or into those that run the sandbox.
func processAttempts() map[string]attempt {
	on := func(try func(pid int) error) attempt {
		return func(f Facts, _ []string) ([]byte, error) {
			if err := victim(f); err != nil {
				return nil, err
			}
			return nil, try(f.Victim)
		}
	}
	reads := func(try func(pid int) ([]byte, error)) attempt {
		return func(f Facts, _ []string) ([]byte, error) {
			if err := victim(f); err != nil {
				return nil, err
			}
			return try(f.Victim)
		}
	}
	return map[string]attempt{
		"signal": on(func(pid int) error { return unix.Kill(pid, 0) }),
		"pidfd-signal": on(func(pid int) error {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return err
			}
			return unix.PidfdSendSignal(fd, 0, nil, 0)
		}),
		"tgkill": on(func(pid int) error { return unix.Tgkill(pid, pid, 0) }),
		"ptrace-attach": on(func(pid int) error {
			return locked(func() error {
				if err := unix.PtraceAttach(pid); err != nil {
					return err
				}
				_, _ = unix.Wait4(pid, nil, unix.WALL, nil)
				return unix.PtraceDetach(pid)
			})
		}),
		"ptrace-seize": on(seize),
		"vm-read":      reads(func(pid int) ([]byte, error) { return eachRange(pid, readRemote) }),
		"vm-write": on(func(pid int) error {
			_, err := eachRange(pid, func(pid int, from, size uintptr) ([]byte, error) {
				b := make([]byte, 8) // what is there is written back
				if _, err := remote(unix.SYS_PROCESS_VM_READV, pid, b, from); err != nil {
					return nil, err
				}
				_, err := remote(unix.SYS_PROCESS_VM_WRITEV, pid, b, from)
				return []byte(secretPrefix), err
			})
			return err
		}),
		"proc-mem":     reads(memoryByProc),
		"proc-environ": reads(func(pid int) ([]byte, error) { return os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) }),
		"proc-syscall": on(func(pid int) error {
			_, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
			return err
		}),
		"proc-fd": reads(func(pid int) ([]byte, error) { return os.ReadFile(fmt.Sprintf("/proc/%d/fd/3", pid)) }),
		"pidfd-getfd": reads(func(pid int) ([]byte, error) {
			process, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return nil, err
			}
			fd, err := unix.PidfdGetfd(process, 3, 0)
			if err != nil {
				return nil, err
			}
			_, err = unix.Seek(fd, 0, io.SeekStart)
			return readFD(fd, err)
		}),
		"prlimit": on(func(pid int) error { return unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &unix.Rlimit{}) }),
		"sched": on(func(pid int) error {
			var set unix.CPUSet
			return errors.Join(unix.SchedGetaffinity(pid, &set), unix.SchedSetaffinity(pid, &set))
		}),
		"setpriority": on(func(pid int) error { return unix.Setpriority(unix.PRIO_PROCESS, pid, 19) }),
		"kcmp": on(func(pid int) error {
			_, _, e := unix.Syscall6(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(pid), 2, 0, 0, 0)
			return failed(e)
		}),
		"move-pages": on(func(pid int) error {
			_, _, e := unix.Syscall6(unix.SYS_MOVE_PAGES, uintptr(pid), 0, 0, 0, 0, 0)
			return failed(e)
		}),
		"memory-of-all": memoryOfAll,
		"inherited":     inherited,
		"owner-stream":  ownerStream, "owner-sockets": ownerSockets, "owner-memory": ownerMemory,
		"owner-kill": ownerKill, "owner-trace": ownerTrace, "owner-limits": ownerLimits, "owner-scheduling": ownerScheduling,
	}
}

func seize(pid int) error {
	return locked(func() error {
		const seize = 0x4206
		if _, _, e := unix.RawSyscall6(unix.SYS_PTRACE, seize, uintptr(pid), 0, 0, 0, 0); e != 0 {
			return e
		}
		return nil // it is let go when the thread ends
	})
}

func remote(nr uintptr, pid int, b []byte, at uintptr) (int, error) {
	local, theirs := unix.Iovec{Base: &b[0]}, unix.RemoteIovec{Base: at, Len: len(b)}
	local.SetLen(len(b))
	n, _, e := unix.Syscall6(nr, uintptr(pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&theirs)), 1, 0)
	return int(n), failed(e)
}

func readRemote(pid int, from, size uintptr) ([]byte, error) {
	b := make([]byte, min(size, 1<<22))
	n, err := remote(unix.SYS_PROCESS_VM_READV, pid, b, from)
	return b[:max(n, 0)], err
}

// eachRange goes through the writable memory of a process until the secret is found.
func eachRange(pid int, read func(pid int, from, size uintptr) ([]byte, error)) ([]byte, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	err = errors.New("the secret is not in it")
	for line := range strings.Lines(string(maps)) {
		span, rest, _ := strings.Cut(line, " ")
		lo, hi, _ := strings.Cut(span, "-")
		from, err1 := strconv.ParseUint(lo, 16, 64)
		to, err2 := strconv.ParseUint(hi, 16, 64)
		if err1 != nil || err2 != nil || !strings.HasPrefix(rest, "rw") {
			continue
		}
		b, readErr := read(pid, uintptr(from), uintptr(to-from))
		if i := bytes.Index(b, []byte(secretPrefix)); i >= 0 {
			return b[i:min(len(b), i+100)], nil
		}
		if readErr != nil {
			err = readErr
		}
	}
	return nil, err
}

func memoryByProc(pid int) ([]byte, error) {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil, err
	}
	defer func() { _ = mem.Close() }()
	return eachRange(pid, func(_ int, from, size uintptr) ([]byte, error) {
		b := make([]byte, min(size, 1<<22))
		n, err := mem.ReadAt(b, int64(from))
		return b[:n], err
	})
}

// others are the processes to be seen that are not this one.
func others() (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(d)); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func memoryOfAll(f Facts, _ []string) ([]byte, error) {
	pids := others()
	if f.Outside {
		pids = []int{f.Victim} // what else the person runs is nobody's business
	}
	for _, pid := range pids {
		if got, err := memoryByProc(pid); err == nil {
			return got, nil
		}
	}
	return nil, errors.New("it is in the memory of none")
}

// inherited reads what it has open without having opened it.
func inherited(Facts, []string) ([]byte, error) {
	for fd := 3; fd < 256; fd++ {
		b := make([]byte, 256)
		if n, err := unix.Pread(fd, b, 0); err == nil && hasSecret(b[:n]) {
			return b[:n], nil
		}
	}
	return nil, errors.New("no descriptor has it")
}

// owners are the processes that run the sandbox, and their threads, which no list shows;
// outside the victim stands for them.
func owners(f Facts) (ids []int) {
	owner := map[int]bool{f.Victim: f.Outside}
	for _, pid := range others() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if !f.Outside && (strings.Contains(string(line), "\x00supervise") || pid == 1) {
			owner[pid] = true
		}
	}
	for pid := range owner {
		for id := pid; owner[pid] && id < pid+threads; id++ {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", id))
			if strings.Contains(string(status), fmt.Sprintf("\nTgid:\t%d\n", pid)) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// threads are how many numbers behind a process's own are looked at for its threads.
const threads = 64

// ownerStream writes into whatever the owners have open: one of it leads outside.
func ownerStream(f Facts, _ []string) ([]byte, error) {
	for _, pid := range owners(f) {
		for fd := range 32 {
			file, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", pid, fd), os.O_WRONLY|unix.O_NONBLOCK, 0)
			if err != nil {
				continue
			}
			// A frame of yamux for a stream that does not exist, and nonsense.
			_, err = file.WriteString("\x00\x00\x00\x01\xff\xff\xff\xff\x7f\xff\xff\xff" + f.Mark + "\n")
			_ = file.Close()
			if err == nil {
				return nil, nil
			}
		}
	}
	return nil, errors.New("nothing of theirs can be opened")
}

func ownerSockets(f Facts, _ []string) ([]byte, error) {
	err := errors.New("there is no owner to be seen")
	for _, pid := range owners(f) {
		var process, got int
		if process, err = unix.PidfdOpen(pid, 0); err != nil {
			continue
		}
		for fd := range 32 {
			if got, err = unix.PidfdGetfd(process, fd, 0); err == nil {
				_ = unix.Close(got)
				return nil, nil
			}
		}
	}
	return nil, err
}

func ownerMemory(f Facts, _ []string) ([]byte, error) {
	for _, pid := range owners(f) {
		if file, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid)); err == nil {
			_ = file.Close()
			return nil, nil
		}
		b := make([]byte, 1)
		if _, err := remote(unix.SYS_PROCESS_VM_READV, pid, b, 0x400000); err == nil {
			return nil, nil
		}
	}
	return nil, errors.New("their memory cannot be opened")
}

// ownerLimits gives them limits, those that they have.
func ownerLimits(f Facts, _ []string) ([]byte, error) {
	err := errors.New("there is no owner to be seen")
	for _, pid := range owners(f) {
		var now unix.Rlimit
		if err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &now); err == nil {
			err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &now, nil)
		}
		if err == nil {
			return nil, nil
		}
	}
	return nil, err
}

// ownerScheduling has them run when nothing else does. Outside they are given the priority that they have.
func ownerScheduling(f Facts, _ []string) ([]byte, error) {
	const idle = 5 // SCHED_IDLE
	err := errors.New("there is no owner to be seen")
	for _, pid := range owners(f) {
		var set unix.CPUSet
		tries := []func() error{
			func() error { return errors.Join(unix.SchedGetaffinity(pid, &set), unix.SchedSetaffinity(pid, &set)) },
		}
		if !f.Outside {
			tries = append(tries,
				func() error {
					return unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: idle}, 0)
				},
				func() error { return unix.Setpriority(unix.PRIO_PROCESS, pid, 19) },
				func() error { return unix.Setpriority(unix.PRIO_USER, os.Geteuid(), 19) })
		}
		for _, try := range tries {
			if err = try(); err == nil {
				return nil, nil
			}
		}
	}
	return nil, err
}

func ownerTrace(f Facts, _ []string) ([]byte, error) {
	err := errors.New("there is no owner to be seen")
	for _, pid := range owners(f) {
		if err = seize(pid); err == nil {
			return nil, nil
		}
	}
	return nil, err
}

// ownerKill kills the owners. It is through when it lives on without them.
func ownerKill(f Facts, _ []string) ([]byte, error) {
	signals := []syscall.Signal{unix.SIGTERM, unix.SIGQUIT, unix.SIGSEGV, unix.SIGKILL}
	for _, pid := range owners(f) {
		for _, s := range signals {
			if f.Outside {
				s = 0
			}
			_ = unix.Kill(pid, s)
		}
	}
	if !f.Outside {
		time.Sleep(2 * time.Second) // to be found and killed
	}
	return nil, nil
}
