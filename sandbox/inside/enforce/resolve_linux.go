package enforce

import (
	"errors"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links the kernel follows in one path.
const maxLinks = 40

// openFlags are those that mean the same when the Guard opens for the caller.
// O_CREAT, O_EXCL and O_TRUNC are carried out apart; openat2 refuses unknown ones.
const openFlags = unix.O_ACCMODE | unix.O_APPEND | unix.O_NONBLOCK | unix.O_DSYNC | unix.O_SYNC | unix.O_ASYNC |
	unix.O_DIRECT | unix.O_LARGEFILE | unix.O_DIRECTORY | unix.O_NOATIME

// fixed is how openat2 has to resolve: never through a link of /proc into a
// process, and, where mounts can change, not into another mount.
func (g *Guard) fixed() uint64 {
	if g.o.StaticMounts {
		return unix.RESOLVE_NO_MAGICLINKS
	}
	return unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV
}

// direct opens a file for reading before it is judged, which takes fewer system calls than
// to look at it first. handled is false when it has to be done the exact way.
func (t *task) direct(dir int32, name string, flags int) (fd int, e unix.Errno, handled bool) {
	if name == "" || flags&unix.O_ACCMODE != unix.O_RDONLY || flags&(unix.O_CREAT|unix.O_TRUNC|tmpfile) != 0 {
		return -1, 0, false
	}
	renamed, moved := t.g.renames.mark(), t.g.places.mark()
	absolute, ok := t.absolute(dir, name)
	if device := strings.HasPrefix(absolute, "/dev/") && absolute != "/dev/null"; !ok || device {
		return -1, 0, false
	}
	own, ofCaller := t.own(absolute)
	base, rest := t.g.nearest(own)
	how := unix.OpenHow{ // O_NONBLOCK: it may be a FIFO
		Flags:   uint64(flags&(openFlags|unix.O_NOFOLLOW) | unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_NONBLOCK),
		Resolve: t.g.fixed() | unix.RESOLVE_NO_SYMLINKS,
	}
	fd, err := unix.Openat2(base, rest, &how)
	links := errors.Is(err, unix.ELOOP)
	if links {
		how.Resolve = t.g.fixed()
		fd, err = unix.Openat2(base, rest, &how)
	}
	switch {
	case errors.Is(err, unix.ENOENT) && !links && !ofCaller && t.missing(dir, name):
		return -1, unix.ENOENT, true
	case err != nil:
		return -1, 0, false
	}
	kind := uint16(0)
	switch {
	case name[0] != '/' && t.g.renames.since(renamed): // it may be another directory's file
		kind, handled = kindOf(fd), false
	case links || strings.Contains(own, "/.."):
		kind, e, handled = t.judgeReached(fd)
	default:
		kind, e, handled = t.judgeDirect(fd, cleaned(own))
	}
	if e == 0 && t.g.places.since(moved) {
		handled = false // it was asked about by a path that may be another's by then
	}
	if !handled || e == 0 && kind == unix.S_IFIFO && flags&unix.O_NONBLOCK == 0 {
		if kind == unix.S_IFIFO || kind == unix.S_IFCHR {
			// Who waits at the other end of a FIFO has been let in, and must not find this one
			// gone meanwhile, nor who reads from a pseudo terminal.
			t.keep(fd)
		} else {
			_ = unix.Close(fd)
		}
		return -1, 0, false
	}
	if e == 0 && flags&unix.O_NONBLOCK == 0 {
		e = blocking(fd, flags)
	}
	if e != 0 {
		_ = unix.Close(fd)
		return -1, e, true
	}
	return fd, 0, true
}

// missing reports whether a path that led nowhere from where the caller was leads nowhere,
// and over no links, from where it is: a directory may have moved since its path was read.
func (t *task) missing(dir int32, name string) bool {
	if name[0] == '/' {
		return true
	}
	base, e := t.base(dir, name)
	if e != 0 {
		return false
	}
	fd, err := unix.Openat2(base, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: t.g.fixed() | unix.RESOLVE_NO_SYMLINKS})
	if err == nil {
		_ = unix.Close(fd)
	}
	return errors.Is(err, unix.ENOENT)
}

// judgeReached decides about a file that was opened by a path that does not say where it
// is: over links, or by "..", which leads elsewhere once the directory before it is moved.
// The file has the path that the kernel knows it by. handled is as for judgeDirect.
func (t *task) judgeReached(fd int) (kind uint16, e unix.Errno, handled bool) {
	o, e := t.g.inspect(fd)
	if e != 0 || o.kind() != unix.S_IFREG && !o.isDir() || t.inProc(fd) {
		return o.kind(), 0, false
	}
	return o.kind(), t.permitObject(&o, false), true
}

// own is a path through the caller's own directory in /proc without the link that leads
// there, as programs that start look themselves up. /proc is a proc file system: the Guard
// needs one itself.
func (t *task) own(absolute string) (path string, ofCaller bool) {
	rest, ok := strings.CutPrefix(absolute, "/proc/self/")
	if !ok || !t.leads() {
		return absolute, false
	}
	return "/proc/" + decimal(t.tid) + "/" + rest, true
}

// cleaned is path.Clean, which costs as much as a system call, where it would change
// nothing.
func cleaned(absolute string) string {
	if strings.Contains(absolute, "//") || strings.Contains(absolute, "/.") || strings.HasSuffix(absolute, "/") {
		return path.Clean(absolute)
	}
	return absolute
}

// blocking takes O_NONBLOCK from a file that is open with flags besides it.
func blocking(fd, flags int) unix.Errno {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags&openFlags)
	return number(err)
}

// absolute makes a path of the caller absolute, without looking at its links.
func (t *task) absolute(dir int32, name string) (string, bool) {
	if name[0] == '/' {
		return name, true
	}
	var buf [1024]byte
	n, err := t.begins.path(t, dir, buf[:])
	if err != nil || n == len(buf) || buf[0] != '/' {
		return "", false
	}
	at := string(buf[:n])
	return strings.TrimSuffix(at, "/") + "/" + name, !strings.HasSuffix(at, deleted)
}

// nearest is the descriptor to begin at and the rest of the path.
func (g *Guard) nearest(absolute string) (fd int, rest string) {
	for _, t := range g.trees {
		if rel, ok := below(absolute, t.path); ok && !t.isElsewhere() {
			return t.fd, orHere(strings.TrimLeft(rel, "/"))
		}
	}
	return g.slash, orHere(strings.TrimLeft(absolute, "/"))
}

func orHere(rest string) string {
	if rest == "" {
		return "."
	}
	return rest
}

// judgeDirect decides about a file that was opened by its own path, without links and
// "..". handled is false when that path may not be all there is to know.
func (t *task) judgeDirect(fd int, clean string) (kind uint16, e unix.Errno, handled bool) {
	var o object
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &o.stat) != nil {
		return 0, 0, false
	}
	if k := o.kind(); k != unix.S_IFREG && k != unix.S_IFDIR && k != unix.S_IFIFO && clean != "/dev/null" {
		return k, 0, false // devices have their own rules
	}
	if rest, ok := t.g.mounts.proc(o.stat.Mnt_id, clean); ok {
		return o.kind(), t.permitProc(rest, false), true
	}
	access, inTree := Full, false
	for _, tree := range t.g.trees {
		if tree.shows(clean) {
			return o.kind(), 0, false
		}
		if rel, ok := below(clean, tree.path); ok {
			access, inTree = max(access, tree.accessTo(&o, rel, false)), true
		}
		if o.kind() == unix.S_IFREG && o.stat.Nlink > 1 {
			access = max(access, tree.links.access(o.inode(), o.stat.Uid))
		}
	}
	if forbids(access, false) {
		return o.kind(), t.denied(clean), true
	}
	if !inTree && t.g.isPrivate(&o, clean) {
		return o.kind(), unix.EACCES, true
	}
	return o.kind(), 0, true
}

// find resolves a path exactly as the kernel would for the caller and returns an
// O_PATH descriptor of what it leads to. follow says what a link at its end means.
func (t *task) find(base int, name string, follow bool) (int, unix.Errno) {
	if name == "" {
		return -1, unix.ENOENT
	}
	from, rest := base, name
	if name[0] == '/' {
		from, rest = t.g.nearest(name)
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: t.g.fixed()}
	if !follow {
		how.Flags |= unix.O_NOFOLLOW
	}
	fd, err := unix.Openat2(from, rest, &how)
	switch {
	case err == nil && !t.inProc(t.keep(fd)):
		return fd, 0
	case err == nil, errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOENT) && overLinks(from, rest):
		// /proc/self is not the Guard, which has not all that the caller has there, and
		// links into processes are to be looked at.
		return t.walk(base, name, follow)
	}
	return -1, number(err)
}

// overLinks reports whether a path leads over symbolic links as far as it leads.
func overLinks(base int, rest string) bool {
	fd, err := unix.Openat2(base, rest, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err == nil {
		_ = unix.Close(fd)
	}
	return errors.Is(err, unix.ELOOP)
}

// inProc reports whether a descriptor is of a proc file system.
func (t *task) inProc(fd int) bool {
	var f unix.Statfs_t
	return unix.Fstatfs(fd, &f) != nil || f.Type == unix.PROC_SUPER_MAGIC
}

// parent resolves all of a path but its last component.
func (t *task) parent(base int, name string) (fd int, last string, e unix.Errno) {
	trimmed := strings.TrimRight(name, "/")
	switch {
	case name == "":
		return -1, "", unix.ENOENT
	case trimmed == "":
		return -1, "", unix.EBUSY // the root
	}
	i := strings.LastIndexByte(trimmed, '/')
	if i < 0 && !t.inProc(base) {
		return base, trimmed, 0
	}
	dir, last := orHere(trimmed[:i+1]), trimmed[i+1:]
	fd, e = t.find(base, dir, true)
	return fd, last, e
}

// reopen opens what an O_PATH descriptor stands for, and nothing else.
func reopen(fd, flags int, mode uint32) (int, unix.Errno) {
	out, err := unix.Open("/proc/self/fd/"+decimal(fd), flags|unix.O_CLOEXEC|unix.O_NOCTTY, mode)
	return out, number(err)
}
