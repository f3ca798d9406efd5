package enforce

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// deleted is what the kernel appends to the path of a removed file. A file of that
// name can exist, too.
const deleted = " (deleted)"

// inode names a file, whatever its paths.
type inode struct{ dev, ino uint64 }

// object is a file that is open: what is judged is what was really reached.
type object struct {
	stat  unix.Statx_t
	path  string // as the kernel has it; "pipe:[1]" and the like for what has none
	trees []*tree
}

// kindOf is the kind of file that a descriptor stands for, 0 when that is not known.
func kindOf(fd int) uint16 {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return uint16(st.Mode & unix.S_IFMT)
}

func (o *object) kind() uint16 { return o.stat.Mode & unix.S_IFMT }
func (o *object) isDir() bool  { return o.kind() == unix.S_IFDIR }

func (o *object) inode() inode {
	return inode{unix.Mkdev(o.stat.Dev_major, o.stat.Dev_minor), o.stat.Ino}
}

// descriptorPath is the path of a descriptor of this process.
func (g *Guard) descriptorPath(fd int) (string, error) {
	var buf [256]byte // most are short
	if n, err := unix.Readlinkat(g.descriptors, decimal(fd), buf[:]); err == nil && n < len(buf) {
		return string(buf[:n]), nil
	}
	return os.Readlink("/proc/self/fd/" + decimal(fd))
}

// inspect looks at what a descriptor stands for.
func (g *Guard) inspect(fd int) (object, unix.Errno) {
	var o object
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME|unix.STATX_MNT_ID, &o.stat)
	if err != nil {
		return o, unix.EACCES
	}
	if o.path, err = g.descriptorPath(fd); errors.Is(err, unix.ENAMETOOLONG) {
		return o, unix.ENAMETOOLONG
	} else if err != nil {
		return o, unix.EACCES
	}
	if !strings.HasPrefix(o.path, "/") {
		return o, 0
	}
	for _, t := range g.trees {
		if t.has(g, o.stat.Mnt_id, o.path) {
			o.trees = append(o.trees, t)
		}
	}
	return o, 0
}

// permit decides whether the caller may have a descriptor. write says that it
// could change the object by it.
func (t *task) permit(fd int, write bool) (object, unix.Errno) {
	before := t.g.places.mark()
	o, e := t.look(fd, write)
	if e != 0 || !t.g.places.since(before) {
		return o, e
	}
	// A directory has moved. Rules that are in one are asked for by its path, where they may
	// be no more. Who keeps directories from moving has returned above.
	t.g.entries.RLock()
	defer t.g.entries.RUnlock()
	return t.look(fd, write)
}

func (t *task) look(fd int, write bool) (object, unix.Errno) {
	o, e := t.g.inspect(fd)
	if e != 0 {
		return o, e
	}
	return o, t.permitObject(&o, write)
}

func (t *task) permitObject(o *object, write bool) unix.Errno {
	if o.kind() == unix.S_IFBLK {
		return unix.EPERM // a disk has all files
	}
	if !strings.HasPrefix(o.path, "/") {
		return 0
	}
	if rest, ok := t.g.mounts.proc(o.stat.Mnt_id, o.path); ok {
		return t.permitProc(rest, write)
	}
	if access := t.g.access(o, write); forbids(access, write) && !(access == ReadOnly && t.g.made.isLock(o.inode())) {
		return t.denied(o.path)
	}
	if write && !t.g.mayChange(o) {
		return unix.EACCES
	}
	if len(o.trees) == 0 && t.g.isPrivate(o, o.path) {
		return unix.EACCES
	}
	if write && len(o.trees) > 0 {
		t.g.touched.add(o.path, false)
	}
	return 0
}

// mayChange reports whether an object, or what is in a directory, may be changed, as far as
// that depends on where it is. The Guard's own program never is: those who start commands
// are the same program, and in the moment before they close themselves to others a command
// gets a descriptor of it, past the mounts of the sandbox.
func (g *Guard) mayChange(o *object) bool {
	switch {
	case len(o.trees) == 0 && o.inode() == g.program:
		return false
	case g.o.Writable == nil, !strings.HasPrefix(o.path, "/"), strings.HasPrefix(o.path, "/memfd:"):
		return true
	}
	permits := func(path string) bool {
		return slices.ContainsFunc(g.writable, func(dir string) bool {
			_, ok := below(path, dir)
			return ok
		})
	}
	return permits(o.path) || slices.ContainsFunc(o.trees, func(t *tree) bool { return permits(t.path) }) // which was moved
}

// What a mode has to say for everybody to read a file, and to find what is in a directory.
const (
	everybodyReads = 0o004
	everybodyFinds = 0o005
)

// isPrivate reports whether an object is in one of Options.Public, and there are those who
// may not read it, or not find it at its path.
func (g *Guard) isPrivate(o *object, path string) bool {
	for _, dir := range g.o.Public {
		if rel, ok := below(path, dir); !ok || rel == "" {
			continue
		}
		if o.stat.Mode&everybodyReads == 0 {
			return true
		}
		for at := filepath.Dir(path); at != dir; at = filepath.Dir(at) {
			var st unix.Stat_t
			if unix.Stat(at, &st) != nil || st.Mode&everybodyFinds != everybodyFinds {
				return true
			}
		}
	}
	return false
}

// forbids reports whether an access is too little.
func forbids(a Access, write bool) bool { return a == None || a == ReadOnly && write }

// access is what all policies together leave of an object.
func (g *Guard) access(o *object, write bool) Access {
	access := Full
	was, gone := strings.CutSuffix(o.path, deleted)
	for _, t := range g.trees {
		ask := func(rel string) Access { return t.accessTo(o, rel, write) }
		access = max(access, t.judge(g, o.stat.Mnt_id, o.path, ask))
		if gone {
			access = max(access, t.judge(g, o.stat.Mnt_id, was, ask))
		}
		if o.kind() == unix.S_IFREG && o.stat.Nlink > 1 {
			access = max(access, t.links.access(o.inode(), o.stat.Uid))
		}
	}
	return access
}

// harmless are the files of /proc/PID that may be read of any process.
func harmless() []string {
	return []string{"stat", "status", "cmdline", "comm", "statm", "cgroup", "limits"}
}

// permitProc decides about a path in proc: other processes are closed except for
// what ps shows, and nothing but a process's own entries can be written.
func (t *task) permitProc(path string, write bool) unix.Errno {
	first, rest, _ := strings.Cut(path, "/")
	pid, err := strconv.Atoi(first)
	switch {
	case err != nil && write:
		return unix.EACCES
	case err != nil:
		return 0
	case pid == t.tid, pid != t.g.self && (t.g.o.Inside(pid) || pid == t.process()):
		return 0
	case rest == "" || !write && slices.Contains(harmless(), rest):
		return 0
	}
	return unix.EACCES
}

// permitName decides whether the caller may make, remove or replace an entry of a
// directory.
func (t *task) permitName(at *entry, dir bool) unix.Errno {
	path := at.path()
	t.g.touches(at, false)
	if !t.g.mayChange(&at.dir) {
		if !at.goes && exists(at.parent, at.bare()) {
			return unix.EEXIST // which the kernel says first, and mkdir -p is content with
		}
		return unix.EACCES
	}
	for _, tree := range t.g.trees {
		ask := func(rel string) Access { return tree.access(rel, dir, true) }
		access := tree.judge(t.g, at.dir.stat.Mnt_id, path, ask)
		if access == Full || tree.mayMake(t.g, at, dir) {
			continue
		}
		if tree.mayAnyway(t.g, at, dir) {
			at.anyway = true
			continue
		}
		if unix.Faccessat(at.parent, ".", unix.X_OK, unix.AT_EACCESS) != nil {
			return unix.EACCES // also without us
		}
		switch there := exists(at.parent, at.bare()); {
		case at.goes && !there:
			return unix.ENOENT // who cleans up is content with it
		case at.begins && there && access == ReadOnly:
			return unix.EEXIST // git init is content with it
		}
		return t.denied(path)
	}
	return 0
}

func exists(dir int, name string) bool {
	var st unix.Stat_t
	return !errors.Is(unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW), unix.ENOENT)
}
