package enforce

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxPath is PATH_MAX with its terminator.
const maxPath = 4096

// task is one call that waits for its answer.
type task struct {
	g      *Guard
	n      *notification
	call   uint64 // see crew
	buf    []byte // of maxPath, for one path at a time
	begins *beginning
	said   []byte // the beginning of the caller's status, once it was asked for
	tid    int    // the caller's thread, as this process's PID namespace has it
	memory int    // a descriptor of the caller's memory, or -1
	files  []int
}

func (t *task) arg(i int) uint64 { return t.n.args[i] }

// fd is an argument that is a descriptor of the caller.
func (t *task) fd(i int) int32 { return int32(uint32(t.n.args[i])) }

// keep closes fd when the call is answered.
func (t *task) keep(fd int) int {
	t.files = append(t.files, fd)
	return fd
}

// keepOnly closes everything else that was kept.
func (t *task) keepOnly(fd int) {
	for _, other := range t.files {
		if other != fd {
			_ = unix.Close(other)
		}
	}
	t.files, t.memory = append(t.files[:0], fd), -1
}

func (t *task) close() {
	for _, fd := range t.files {
		_ = unix.Close(fd)
	}
}

// waits reports that the caller is still there: what was read of it is its own.
// It is asked before anything is changed.
func (t *task) waits() bool { return t.g.listener.valid(t.n.id) }

// path copies a string out of the caller's memory. It is read once: what happens
// to it there afterwards does not matter.
func (t *task) path(addr uint64) (string, unix.Errno) {
	buf := t.buf
	for n := 0; n < len(buf); {
		size := maxPath - int((addr+uint64(n))%maxPath) // up to the end of the page
		if n == 0 {
			size = min(size, 256) // most paths are short
		}
		size = min(size, len(buf)-n)
		got := t.read(buf[n:n+size], addr+uint64(n))
		if got <= 0 {
			return "", unix.EFAULT
		}
		if i := bytes.IndexByte(buf[n:n+got], 0); i >= 0 {
			return string(buf[:n+i]), 0
		}
		n += got
	}
	return "", unix.ENAMETOOLONG
}

// read copies the caller's memory and returns how much, 0 or less when none of it
// can be read.
func (t *task) read(buf []byte, addr uint64) int {
	if !t.g.foreign.Load() {
		local := unix.Iovec{Base: &buf[0]}
		local.SetLen(len(buf))
		n, err := unix.ProcessVMReadv(t.tid, []unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(buf)}}, 0)
		if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOSYS) {
			return n
		}
		t.g.foreign.Store(true) // Docker before 23 refuses it without CAP_SYS_PTRACE
	}
	if t.memory < 0 {
		fd, err := unix.Openat(t.g.proc, decimal(t.tid)+"/mem", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1
		}
		t.memory = t.keep(fd)
	}
	n, err := unix.Pread(t.memory, buf, int64(addr))
	if err != nil {
		return -1
	}
	return n
}

// base is what a path of the caller starts from.
func (t *task) base(dir int32, path string) (int, unix.Errno) {
	if strings.HasPrefix(path, "/") {
		return t.g.slash, 0
	}
	link, ok := t.baseLink(dir)
	if !ok {
		return -1, unix.EBADF
	}
	fd, err := unix.Openat(t.g.proc, link, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil && dir != here {
		return -1, unix.EBADF
	}
	if err != nil {
		return -1, number(err)
	}
	return t.keep(fd), 0
}

// baseLink is the link in /proc to it.
func (t *task) baseLink(dir int32) (string, bool) {
	if dir == here {
		return decimal(t.tid) + "/cwd", true
	}
	return decimal(t.tid) + "/fd/" + decimal(int(dir)), dir >= 0
}

// beginning is where the last relative path began. Many a program begins there again.
type beginning struct {
	thread int
	dir    int32
	// link is an O_PATH descriptor of the link in /proc, or -1: to read it by that takes
	// half as long. It is of the thread, not of the number, and leads to what it has there now.
	link int
}

func (b *beginning) close() {
	if b.link >= 0 {
		_ = unix.Close(b.link)
		b.link = -1
	}
}

// path is that of a directory of the caller, copied into buf.
func (b *beginning) path(t *task, dir int32, buf []byte) (int, error) {
	again := b.thread == t.tid && b.dir == dir
	if again && b.link >= 0 {
		if n, err := unix.Readlinkat(b.link, "", buf); err == nil {
			return n, nil
		}
		again = false // another thread has the number
	}
	b.close()
	b.thread, b.dir = t.tid, dir
	link, ok := t.baseLink(dir)
	if !ok {
		return 0, unix.EBADF
	}
	if again {
		if fd, err := unix.Openat(t.g.proc, link, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
			b.link = fd
		}
	}
	return unix.Readlinkat(t.g.proc, link, buf)
}

// process is the caller's process id.
func (t *task) process() int {
	if n, err := strconv.Atoi(t.status("Tgid:")); err == nil {
		return n
	}
	return t.tid
}

// leads reports that the caller's thread is its process's first, whose number the
// process has: others have no pidfd (pidfd_open(2)).
func (t *task) leads() bool {
	fd, err := unix.PidfdOpen(t.tid, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// mode is the mode of something new in a directory, with the caller's umask applied,
// which does not count where the directory says what its new entries have (acl(5)).
func (t *task) mode(parent int, mode uint32) (uint32, unix.Errno) {
	mask, err := strconv.ParseUint(t.status("Umask:"), 8, 32)
	if err != nil {
		return 0, unix.EACCES
	}
	if n, err := unix.Getxattr("/proc/self/fd/"+decimal(parent), "system.posix_acl_default", nil); err == nil && n > 0 {
		mask = 0
	}
	return mode &^ uint32(mask) & 0o7777, 0
}

// full reports whether the caller can have no further descriptor. The kernel asks before
// it looks for a file; here nobody counts those of who may have very many.
func (t *task) full() bool {
	const many = 1 << 16
	var most unix.Rlimit
	room, err := strconv.ParseUint(t.status("FDSize:"), 10, 64)
	if err != nil || unix.Prlimit(t.tid, unix.RLIMIT_NOFILE, nil, &most) != nil || room < most.Cur || most.Cur > many {
		return false
	}
	has, err := os.ReadDir("/proc/" + decimal(t.tid) + "/fd")
	used := uint64(0)
	for _, d := range has {
		if n, err := strconv.ParseUint(d.Name(), 10, 64); err == nil && n < most.Cur {
			used++
		}
	}
	return err == nil && used >= most.Cur
}

// status is one of the first fields of the caller's /proc/PID/status.
func (t *task) status(field string) string {
	if t.said == nil {
		t.said, _ = t.g.procFile(decimal(t.tid) + "/status")
	}
	return statusField(t.said, field)
}

func statusField(status []byte, field string) string {
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte(field)); ok {
			return string(bytes.TrimSpace(rest))
		}
	}
	return ""
}

// restart is what the kernel makes EINTR of, or the call again, as the handler of the
// signal that the caller has wants it (sigaction(2), SA_RESTART).
const restart = unix.Errno(512) // ERESTARTSYS

// signalled is what a caller gets that has a signal which it will take when its call is
// over, else 0. One of its process may be for another of its threads.
func (t *task) signalled() unix.Errno {
	status, err := os.ReadFile("/proc/" + decimal(t.tid) + "/status")
	if err != nil {
		return 0
	}
	signals := func(field string) uint64 {
		set, _ := strconv.ParseUint(statusField(status, field), 16, 64)
		return set
	}
	taken := ^signals("SigBlk:")
	switch {
	case signals("SigPnd:")&taken != 0:
		return restart
	case signals("ShdPnd:")&taken == 0 || !t.leads():
		return 0
	case statusField(status, "Threads:") == "1":
		return restart
	}
	return unix.EINTR
}

// number is an error as the caller gets it.
func number(err error) unix.Errno {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return e
	}
	return unix.EIO
}
