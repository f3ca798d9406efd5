package enforce

import (
	"strings"

	"golang.org/x/sys/unix"
)

// open carries out open, openat and creat.
func (t *task) open(dir int32, addr uint64, flags int, mode uint32) answer {
	if contradicts(flags) {
		return done(unix.EINVAL)
	}
	name, e := t.path(addr)
	if e != 0 {
		return done(e)
	}
	if fd, ok := t.instead(dir, name, flags); ok {
		return opened(fd, flags, 0)
	}
	if fd, e, handled := t.direct(dir, name, flags); handled {
		return opened(fd, flags, e)
	}
	if flags&(unix.O_CREAT|unix.O_TRUNC|tmpfile) != 0 && t.full() {
		return done(unix.EMFILE) // which the kernel asks before it looks for a file
	}
	base, e := t.base(dir, name)
	if e != 0 {
		return done(e)
	}
	fd, e := t.openExactly(base, name, flags, mode)
	return opened(fd, flags, e)
}

// contradicts reports whether the kernel refuses flags together, whatever the path.
func contradicts(flags int) bool {
	return flags&(unix.O_CREAT|unix.O_DIRECTORY) == unix.O_CREAT|unix.O_DIRECTORY ||
		flags&tmpfile != 0 && (flags&unix.O_DIRECTORY == 0 || flags&unix.O_ACCMODE == unix.O_RDONLY)
}

func (t *task) openExactly(base int, name string, flags int, mode uint32) (int, unix.Errno) {
	if flags&tmpfile != 0 {
		return t.openUnnamed(base, name, flags, mode)
	}
	for range maxLinks {
		if makes := flags&unix.O_CREAT != 0; !makes || flags&unix.O_EXCL == 0 && !strings.HasSuffix(name, "/") {
			fd, e := t.openExisting(base, name, flags)
			if e != unix.ENOENT || flags&unix.O_CREAT == 0 {
				return fd, e
			}
		}
		fd, target, e := t.create(base, name, flags, mode)
		switch {
		case target != nil: // a link that leads to nothing: what it names is created
			base, name = target.base, target.name
		case e == unix.EEXIST && flags&unix.O_EXCL == 0: // just now
		default:
			return fd, e
		}
	}
	return -1, unix.ELOOP
}

// openExisting opens what is there. O_TRUNC is carried out only when it is permitted.
func (t *task) openExisting(base int, name string, flags int) (int, unix.Errno) {
	path, e := t.find(base, name, flags&unix.O_NOFOLLOW == 0)
	if e != 0 {
		return -1, e
	}
	write := flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_TRUNC != 0
	if flags&unix.O_TRUNC != 0 && mayPoint(name) {
		if fd, e, ok := t.oldPointer(path, base, name, flags); ok {
			return fd, e
		}
	}
	o, e := t.permit(path, write)
	switch {
	case e != 0:
		return -1, e
	case o.kind() == unix.S_IFLNK:
		return -1, unix.ELOOP
	case o.isDir() && flags&(unix.O_CREAT|unix.O_TRUNC) != 0:
		return -1, unix.EISDIR
	case !o.isDir() && (strings.HasSuffix(name, "/") || flags&unix.O_DIRECTORY != 0):
		return -1, unix.ENOTDIR
	case o.kind() == unix.S_IFCHR && o.stat.Rdev_major == 5 && o.stat.Rdev_minor == 0:
		return t.openTerminal(flags)
	}
	if o.kind() == unix.S_IFIFO {
		return t.openFIFO(path, flags, &o)
	}
	fd, e := reopen(path, flags&openFlags, 0)
	if e == 0 && flags&unix.O_TRUNC != 0 && o.kind() == unix.S_IFREG {
		if e = t.cut(fd, flags, 0); e != 0 {
			_ = unix.Close(fd)
		}
	}
	return fd, e
}

// cut truncates a file that is open with flags.
func (t *task) cut(fd, flags int, size int64) unix.Errno {
	if !t.waits() {
		return unix.EINTR
	}
	if mode := flags & unix.O_ACCMODE; mode == unix.O_WRONLY || mode == unix.O_RDWR {
		return number(unix.Ftruncate(fd, size))
	}
	return number(unix.Truncate("/proc/self/fd/"+decimal(fd), size))
}

// openUnnamed carries out O_TMPFILE.
func (t *task) openUnnamed(base int, name string, flags int, mode uint32) (int, unix.Errno) {
	dir, e := t.find(base, name, flags&unix.O_NOFOLLOW == 0)
	if e != 0 {
		return -1, e
	}
	o, e := t.permit(dir, true)
	if e != 0 {
		return -1, e
	}
	if !o.isDir() {
		return -1, unix.ENOTDIR
	}
	if mode, e = t.mode(dir, mode); e != 0 {
		return -1, e
	}
	return reopen(dir, flags&(openFlags|tmpfile|unix.O_EXCL), mode)
}

// missing is what a link leads to that has nothing at its end.
type missing struct {
	base int
	name string
}

// create makes a new file; what was there meanwhile is EEXIST.
func (t *task) create(base int, name string, flags int, mode uint32) (int, *missing, unix.Errno) {
	there := unix.EISDIR // what a directory gives that is there for sure
	if flags&unix.O_EXCL != 0 {
		there = unix.EEXIST
	}
	if name != "" && strings.Trim(name, "/") == "" { // the root
		return -1, nil, there
	}
	t.g.entries.RLock()
	defer t.g.entries.RUnlock()
	at, e := t.entryOf(base, name)
	switch {
	case e != 0:
		return -1, nil, e
	case at.dots():
		if _, e := t.find(base, name, true); e != 0 {
			return -1, nil, e
		}
		return -1, nil, there
	case strings.HasSuffix(name, "/"):
		if unix.Faccessat(at.parent, ".", unix.X_OK, unix.AT_EACCESS) != nil {
			return -1, nil, unix.EACCES
		}
		return -1, nil, unix.EISDIR
	}
	if !exists(at.parent, at.bare()) {
		if fd, e, ok := t.newPointer(at, flags, mode); ok {
			return fd, nil, e
		}
	}
	at.begins = flags&unix.O_EXCL != 0
	if e := t.permitName(at, false); e != 0 {
		return -1, nil, e
	}
	if flags&(unix.O_EXCL|unix.O_NOFOLLOW) == 0 {
		var buf [maxPath]byte
		if n, err := unix.Readlinkat(at.parent, at.name, buf[:]); err == nil {
			return -1, &missing{at.parent, string(buf[:n])}, 0
		}
	}
	if mode, e = t.mode(at.parent, mode); e != 0 {
		return -1, nil, e
	}
	if !t.waits() {
		return -1, nil, unix.EINTR
	}
	made := t.g.making(at)
	fd, err := unix.Openat(at.parent, at.name, flags&openFlags|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NOCTTY, mode)
	made(fd)
	if err != nil {
		return -1, nil, number(err)
	}
	if at.begins && t.g.isLock(at) {
		t.g.made.addLock(fd)
	}
	if at.anyway {
		return fd, nil, 0
	}
	if _, e := t.permit(fd, true); e != 0 { // the directory may have moved
		_ = unix.Close(fd)
		return -1, nil, e
	}
	return fd, nil, 0
}

func (t *task) truncate() answer {
	name, e := t.path(t.arg(0))
	if e != 0 {
		return done(e)
	}
	base, e := t.base(here, name)
	if e != 0 {
		return done(e)
	}
	path, e := t.find(base, name, true)
	if e != 0 {
		return done(e)
	}
	o, e := t.permit(path, true)
	switch {
	case e != 0:
		return done(e)
	case o.isDir():
		return done(unix.EISDIR)
	case o.kind() != unix.S_IFREG:
		return done(unix.EINVAL)
	}
	fd, e := reopen(path, unix.O_WRONLY, 0)
	if e != 0 {
		return done(e)
	}
	size := int64(t.arg(1))
	if size > int64(o.stat.Size) {
		e = t.permitSize(size)
	}
	if e == 0 {
		e = t.cut(fd, unix.O_WRONLY, size)
	}
	_ = unix.Close(fd) // before the answer: a file that is open for writing cannot be run
	return done(e)
}

// permitSize decides whether a file of the caller may grow so large, by its own limit, and
// does otherwise what the kernel does then (setrlimit(2), RLIMIT_FSIZE).
func (t *task) permitSize(size int64) unix.Errno {
	var most unix.Rlimit
	if unix.Prlimit(t.tid, unix.RLIMIT_FSIZE, nil, &most) == nil && uint64(size) <= most.Cur {
		return 0
	}
	if t.waits() {
		_ = unix.Tgkill(t.process(), t.tid, unix.SIGXFSZ)
	}
	return unix.EFBIG
}
