package enforce

import (
	"bytes"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// walker resolves a path one component at a time, where the kernel would follow
// links of /proc that mean the Guard's process when the Guard follows them.
type walker struct {
	t      *task
	dir    int      // where the rest begins
	own    bool     // dir is the walker's to close
	rest   []string // components that are to come
	links  int
	follow bool // also a link at the end
}

// walk resolves like find.
func (t *task) walk(base int, name string, follow bool) (int, unix.Errno) {
	w := &walker{t: t, dir: base, rest: components(name), follow: follow || strings.HasSuffix(name, "/")}
	if name[0] == '/' {
		w.dir = t.g.slash
	}
	defer w.end()
	for len(w.rest) > 0 {
		if e := w.step(); e != 0 {
			return -1, e
		}
	}
	if strings.HasSuffix(name, "/") {
		if o, e := t.g.inspect(w.dir); e != 0 || !o.isDir() {
			return -1, unix.ENOTDIR
		}
	}
	return w.dir, 0
}

// enter goes on from a descriptor and lets go of the one before: a path can have
// thousands of components, and whoever waits for a FIFO at its end keeps what it has.
func (w *walker) enter(fd int, own bool) {
	if w.own {
		_ = unix.Close(w.dir)
	}
	w.dir, w.own = fd, own
}

// end leaves what was reached to the task.
func (w *walker) end() {
	if w.own {
		w.t.keep(w.dir)
	}
}

func components(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(c string) bool { return c == "" })
}

// step goes one component on.
func (w *walker) step() unix.Errno {
	name := w.rest[0]
	w.rest = w.rest[1:]
	next, err := unix.Openat(w.dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return number(err)
	}
	if kindOf(next) != unix.S_IFLNK || len(w.rest) == 0 && !w.follow {
		w.enter(next, true)
		return 0
	}
	defer func() { _ = unix.Close(next) }()
	if w.links++; w.links > maxLinks {
		return unix.ELOOP
	}
	return w.through(name, next)
}

// through follows a link.
func (w *walker) through(name string, link int) unix.Errno {
	if w.t.inProc(link) {
		if target, ok := w.self(name); ok {
			w.rest = append(components(target), w.rest...)
			return 0
		}
		if w.magic(name) {
			return w.into(name)
		}
	}
	var buf [maxPath]byte
	n, err := unix.Readlinkat(link, "", buf[:])
	if err != nil {
		return number(err)
	}
	target := string(buf[:n])
	if target == "" {
		return unix.ENOENT
	}
	if target[0] == '/' {
		w.enter(w.t.g.slash, false)
	}
	w.rest = append(components(target), w.rest...)
	return 0
}

// self is what the links self and thread-self in the root of proc are to the caller.
func (w *walker) self(name string) (string, bool) {
	const procRoot = 1 // its inode
	var st unix.Stat_t
	if unix.Fstat(w.dir, &st) != nil || st.Ino != procRoot {
		return "", false
	}
	switch name {
	case "self":
		return decimal(w.t.process()), true
	case "thread-self":
		return decimal(w.t.process()) + "/task/" + decimal(w.t.tid), true
	}
	return "", false
}

// magic reports whether a link does not lead over its text.
func (w *walker) magic(name string) bool {
	fd, err := unix.Openat2(w.dir, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if err == nil {
		_ = unix.Close(fd)
	}
	return errors.Is(err, unix.ELOOP)
}

// into follows a link into a process, if that is one of the caller's own kind.
func (w *walker) into(name string) unix.Errno {
	o, e := w.t.g.inspect(w.dir)
	if e != 0 {
		return e
	}
	rest, ok := w.t.g.mounts.proc(o.stat.Mnt_id, o.path)
	if !ok {
		return unix.EACCES
	}
	if e := w.t.permitProc(rest+"/"+name, false); e != 0 {
		return e
	}
	fd, err := unix.Openat(w.dir, name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return number(err)
	}
	if thread, ok := strings.CutSuffix(rest, "/fd"); ok && !w.t.g.hasName(fd) {
		held, e := w.held(path.Base(thread), name, fd)
		if held != fd {
			_ = unix.Close(fd)
		}
		if e != 0 {
			return e
		}
		fd = held
	}
	w.enter(fd, true)
	return 0
}

// hasName reports whether what a descriptor stands for can be judged by its path.
func (g *Guard) hasName(fd int) bool {
	o, e := g.inspect(fd)
	return e == 0 && strings.HasPrefix(o.path, "/") && o.stat.Nlink > 0
}

// held is what a thread really has open by a number, as an O_PATH descriptor. Nobody is asked
// about a descriptor that is made with O_PATH, also of one in /proc of a process that is
// closed; what has no name, as a pipe, cannot be judged by that when it is opened. The thread
// may have another file by that number since fd was reached by it, or that again: it is looked
// at once, in a copy. Where the kernel makes none, fd itself has to be what the thread holds.
func (w *walker) held(thread, name string, fd int) (int, unix.Errno) {
	tid, _ := strconv.Atoi(thread)
	its, _ := strconv.Atoi(name)
	copied, failed := descriptor(tid, its)
	if failed == nil {
		defer func() { _ = unix.Close(copied) }()
	}
	// The walker's directory leads to this only while the thread lives: its id was no other's.
	info, err := readFile(w.dir, "../fdinfo/"+name)
	if err != nil || failed != nil && !w.t.g.isOf(fd, info) {
		return -1, unix.EACCES
	}
	if failed != nil {
		return fd, 0
	}
	flags, err := unix.FcntlInt(uintptr(copied), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_PATH != 0 {
		return -1, unix.EACCES
	}
	return reopen(copied, unix.O_PATH, 0)
}

// isOf reports whether a file is the one that a text of /proc/PID/fdinfo is about, which is not
// open by O_PATH. A number of an inode is that of one file only on the same mount.
func (g *Guard) isOf(fd int, info []byte) bool {
	o, e := g.inspect(fd)
	flags, err := strconv.ParseUint(statusField(info, "flags:"), 8, 64)
	return e == 0 && err == nil && flags&unix.O_PATH == 0 &&
		statusField(info, "mnt_id:") == strconv.FormatUint(o.stat.Mnt_id, 10) && statusField(info, "ino:") == strconv.FormatUint(o.stat.Ino, 10)
}

// openTerminal opens the caller's controlling terminal: /dev/tty would be the Guard's.
func (t *task) openTerminal(flags int) (int, unix.Errno) {
	const first, last, perMajor = 136, 143, 256 // majors of /dev/pts
	raw, err := t.g.procFile(decimal(t.tid) + "/stat")
	if err != nil {
		return -1, unix.ENXIO
	}
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) < 5 {
		return -1, unix.ENXIO
	}
	n, err := strconv.ParseUint(string(fields[4]), 10, 32)
	major, minor := int(unix.Major(n)), int(unix.Minor(n))
	if err != nil || major < first || major > last {
		return -1, unix.ENXIO
	}
	fd, err := unix.Open("/dev/pts/"+decimal((major-first)*perMajor+minor), flags&openFlags|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	return fd, number(err)
}
