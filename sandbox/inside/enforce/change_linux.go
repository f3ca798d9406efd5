package enforce

import (
	"math"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// entry is a name in a directory that a call is about.
type entry struct {
	parent int    // a descriptor of the directory
	name   string // with the slash at its end, if the call has one there
	dir    object // the directory
	goes   bool   // the entry is to be removed
	begins bool   // the entry is to be made, and nothing is to be there
	anyway bool   // a Writer permits that although its access is denied
}

// dots reports whether the name is one that the kernel refuses in its own way.
func (e *entry) dots() bool { return e.bare() == "." || e.bare() == ".." }

// bare is the name alone.
func (e *entry) bare() string { return strings.TrimSuffix(e.name, "/") }

// path is where the entry is, or would be, on the directory's mount.
func (e *entry) path() string { return strings.TrimSuffix(e.dir.path, "/") + "/" + e.bare() }

// in is the entry's path relative to a tree that it is in.
func (e *entry) in(g *Guard, t *tree) (rel string, ok bool) {
	return t.really(g, e.dir.stat.Mnt_id, e.path())
}

func (t *task) entry(dir int32, addr uint64) (*entry, unix.Errno) {
	name, e := t.path(addr)
	if e != 0 {
		return nil, e
	}
	base, e := t.base(dir, name)
	if e != 0 {
		return nil, e
	}
	return t.entryOf(base, name)
}

func (t *task) entryOf(base int, name string) (*entry, unix.Errno) {
	parent, last, e := t.parent(base, name)
	if e != 0 {
		return nil, e
	}
	o, e := t.g.inspect(parent)
	switch {
	case e != 0:
		return nil, e
	case !o.isDir(): // the caller's descriptor
		return nil, unix.ENOTDIR
	}
	if strings.HasSuffix(name, "/") && last != "" {
		last += "/" // rename, mkdir and rmdir of a directory
	}
	return &entry{parent: parent, name: last, dir: o}, 0
}

// at carries out a call that makes or removes one entry.
func (t *task) at(dir int32, addr uint64, isDir bool, do func(parent int, name string) error) answer {
	at, e := t.entry(dir, addr)
	if e != 0 {
		return done(e)
	}
	return t.change(at, isDir, do)
}

// change is at for an entry that was found.
func (t *task) change(at *entry, isDir bool, do func(parent int, name string) error) answer {
	if !at.dots() {
		if e := t.permitName(at, isDir); e != 0 {
			return done(e)
		}
	}
	if !t.waits() {
		return done(unix.EINTR)
	}
	return done(number(do(at.parent, at.name)))
}

func (t *task) mkdir(dir int32, addr uint64, mode uint32) answer {
	at, e := t.entry(dir, addr)
	if e != 0 {
		return done(e)
	}
	at.begins = true
	return t.change(at, true, func(parent int, name string) error {
		mode, e := t.mode(parent, mode)
		if e != 0 {
			return e
		}
		err := unix.Mkdirat(parent, name, mode)
		if o, there := at.object(); err == nil && there && len(at.dir.trees) > 0 {
			t.g.made.setFresh(&o, true)
		}
		return err
	})
}

// mknod makes no devices: nothing inside may.
func (t *task) mknod(dir int32, addr uint64, mode uint32, dev int) answer {
	kind := mode & unix.S_IFMT
	if kind == unix.S_IFBLK || kind == unix.S_IFCHR && dev != 0 { // 0:0 is a whiteout, as overlay file systems have
		return done(unix.EPERM)
	}
	return t.at(dir, addr, false, func(parent int, name string) error {
		mode, e := t.mode(parent, mode)
		if e != 0 {
			return e
		}
		return unix.Mknodat(parent, name, kind|mode, dev)
	})
}

// linkTry is the target of the link by which git init tries, in a git directory that it has just
// made, whether there can be links.
const linkTry = "testing"

// isTry reports whether a link is that one.
func (t *task) isTry(at *entry, text string) bool {
	return text == linkTry && t.g.made.isFresh(&at.dir) && (path.Base(at.dir.path) == ".git" || strings.Contains(at.dir.path, "/.git/modules/"))
}

func (t *task) symlink(target uint64, dir int32, addr uint64) answer {
	text, e := t.path(target)
	if e != 0 {
		return done(e)
	}
	at, e := t.entry(dir, addr)
	if e != 0 {
		return done(e)
	}
	if !at.dots() && !t.isTry(at, text) {
		if e := t.permitSymlink(at); e != 0 {
			return done(e)
		}
	}
	return t.change(at, false, func(parent int, name string) error { return unix.Symlinkat(text, parent, name) })
}

// unlink carries out unlink, unlinkat and rmdir.
func (t *task) unlink(dir int32, addr uint64, flags int) answer {
	at, e := t.entry(dir, addr)
	if e != 0 {
		return done(e)
	}
	at.goes = true
	if e := t.permitLoss(at); e != 0 {
		return done(e)
	}
	return t.change(at, flags&unix.AT_REMOVEDIR != 0, func(parent int, name string) error {
		o, there := at.object()
		err := unix.Unlinkat(parent, name, flags)
		if err == nil && there {
			t.g.made.dropLock(o.inode())
			t.g.made.setFresh(&o, false)
		}
		return err
	})
}

// rename carries out the whole family. Nothing that is restricted may get another
// name, nor anything the name of something restricted.
func (t *task) rename(fromDir int32, fromAddr uint64, toDir int32, toAddr uint64, flags uint) answer {
	from, e := t.entry(fromDir, fromAddr)
	if e != 0 {
		return done(e)
	}
	to, e := t.entry(toDir, toAddr)
	if e != 0 {
		return done(e)
	}
	t.g.touches(from, true)
	t.g.touches(to, true)
	if a, handled := t.replace(from, to, flags); handled {
		return a
	}
	var judged []moved
	if !from.dots() && !to.dots() {
		m, e := t.permitMove(from, to)
		if e != 0 {
			return done(e)
		}
		judged = append(judged, m)
		if flags&unix.RENAME_EXCHANGE != 0 {
			if m, e = t.permitMove(to, from); e != 0 {
				return done(e)
			}
			judged = append(judged, m)
		}
	}
	if !t.waits() {
		return done(unix.EINTR)
	}
	for _, m := range judged {
		t.g.naming(m.at, m.fd, m.kind)
	}
	defer t.moving(judged)()
	if err := unix.Renameat2(from.parent, from.name, to.parent, to.name, flags); err != nil {
		return done(number(err))
	}
	back := flags & unix.RENAME_EXCHANGE
	if back == 0 {
		back = unix.RENAME_NOREPLACE
	}
	for _, m := range judged {
		if !m.arrived() { // somebody outside was quicker
			_ = unix.Renameat2(to.parent, to.bare(), from.parent, from.bare(), back)
			return done(t.denied(to.path()))
		}
	}
	return done(0)
}

// moving says that a rename is under way, until over is called.
func (t *task) moving(what []moved) (over func()) {
	told := []func(){t.g.renames.begin()}
	if slices.ContainsFunc(what, func(m moved) bool { return m.kind == unix.S_IFDIR }) {
		told = append(told, t.g.places.begin())
		for _, tree := range t.g.trees {
			told = append(told, tree.policy().Moving())
		}
	}
	return func() {
		for _, f := range told {
			f()
		}
	}
}

// moved is what a rename was judged by, a descriptor, and where it is to be.
type moved struct {
	fd   int
	at   *entry
	kind uint16
}

// arrived reports whether nothing else is there. Both are looked at now: the numbers of a
// file may change when it is moved.
func (m *moved) arrived() bool {
	var was, is unix.Stat_t
	return unix.Fstat(m.fd, &was) != nil || was.Nlink == 0 /* and was replaced there */ || unix.Fstatat(m.at.parent, m.at.bare(), &is, unix.AT_SYMLINK_NOFOLLOW) != nil ||
		was.Dev == is.Dev && was.Ino == is.Ino
}

// renames counts those of supervised processes, by which the path of a directory can
// become another's.
type renames struct{ begun, over atomic.Uint64 }

// begin counts one, until over is called.
func (r *renames) begin() (over func()) {
	r.begun.Add(1)
	return func() { r.over.Add(1) }
}

// mark is for since. It is passed already while one is under way.
func (r *renames) mark() uint64 {
	if n := r.begun.Load(); n == r.over.Load() {
		return n
	}
	return math.MaxUint64
}

// since reports whether there was one after mark.
func (r *renames) since(mark uint64) bool { return r.begun.Load() != mark }

// permitMove decides whether what is at from may get the name to.
func (t *task) permitMove(from, to *entry) (moved, unix.Errno) {
	fd, err := unix.Openat(from.parent, from.bare(), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return moved{}, number(err)
	}
	o, e := t.permit(t.keep(fd), true)
	if e != 0 {
		return moved{}, e
	}
	for _, n := range []*entry{from, to} {
		if !t.g.mayChange(&n.dir) {
			return moved{}, unix.EACCES
		}
		if e := t.permitName(n, o.isDir()); e != 0 {
			return moved{}, e
		}
		if e := t.permitLoss(n); e != 0 {
			return moved{}, e
		}
	}
	switch {
	case o.kind() == unix.S_IFLNK:
		e = t.permitSymlink(to)
	case o.isDir():
		e = t.permitDirectory(&o, from, to)
	}
	return moved{fd, to, o.kind()}, e
}

// permitDirectory decides whether a directory may move, with all that is in it.
func (t *task) permitDirectory(o *object, from, to *entry) unix.Errno {
	if !sameTrees(from.dir.trees, to.dir.trees) {
		return unix.EXDEV // a tree is like a file system of its own: mv copies, through supervised opens
	}
	if e := t.permitPlace(o, to); e != 0 {
		return e
	}
	return t.permitMoveAll(o)
}

// permitPlace decides whether a directory may be what it would be at another place.
func (t *task) permitPlace(o *object, to *entry) unix.Errno {
	for _, tree := range o.trees {
		was, _ := tree.really(t.g, o.stat.Mnt_id, o.path)
		becomes, ok := to.in(t.g, tree)
		if !ok || !tree.policy().MayMove(was, becomes) {
			return t.denied(to.path())
		}
	}
	return 0
}

// permitSymlink decides whether an entry may become a symbolic link.
func (t *task) permitSymlink(at *entry) unix.Errno {
	for _, tree := range at.dir.trees {
		if rel, ok := at.in(t.g, tree); !ok || !tree.policy().MayLink(rel) {
			return t.denied(at.path())
		}
	}
	return 0
}

// permitLoss decides whether what is at an entry may go from there: not a symbolic link
// over which something protected is reached.
func (t *task) permitLoss(at *entry) unix.Errno {
	var st unix.Stat_t
	if unix.Fstatat(at.parent, at.bare(), &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return 0
	}
	var text [len(linkTry) + 1]byte
	if n, err := unix.Readlinkat(at.parent, at.bare(), text[:]); err == nil && at.goes && t.isTry(at, string(text[:n])) {
		return 0
	}
	for _, tree := range at.dir.trees {
		if rel, ok := at.in(t.g, tree); !ok || tree.leads(rel) {
			return t.denied(at.path())
		}
	}
	return 0
}

// permitMoveAll decides whether everything below a directory may get other paths.
func (t *task) permitMoveAll(o *object) unix.Errno {
	for _, tree := range o.trees {
		rel, _ := tree.really(t.g, o.stat.Mnt_id, o.path)
		if !tree.policy().ByName() && tree.holdsRestricted(rel) {
			return t.denied(o.path)
		}
	}
	return 0
}

func sameTrees(a, b []*tree) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// link carries out link and linkat.
func (t *task) link(fromDir int32, fromAddr uint64, toDir int32, toAddr uint64, flags int) answer {
	if flags&^(unix.AT_SYMLINK_FOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return done(unix.EINVAL)
	}
	to, e := t.entry(toDir, toAddr)
	if e != 0 {
		return done(e)
	}
	source, e := t.reach(fromDir, fromAddr, flags&unix.AT_SYMLINK_FOLLOW != 0, flags&unix.AT_EMPTY_PATH != 0)
	if e != 0 {
		return done(e)
	}
	o, e := t.permit(source, true)
	switch {
	case e != 0:
		return done(e)
	case o.isDir():
		return done(unix.EPERM)
	case strings.HasPrefix(o.path, "/") && !sameTrees(o.trees, to.dir.trees):
		return done(unix.EXDEV)
	case t.g.made.isLock(o.inode()) && exists(to.parent, to.name): // libgit2 tries that before it renames
		return done(unix.EEXIST)
	}
	if e := t.permitName(to, false); e != 0 {
		return done(e)
	}
	if o.kind() == unix.S_IFLNK {
		if e := t.permitSymlink(to); e != 0 {
			return done(e)
		}
	}
	if !t.waits() {
		return done(unix.EINTR)
	}
	t.g.naming(to, source, o.kind())
	err := unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+decimal(source), to.parent, to.name, unix.AT_SYMLINK_FOLLOW)
	return done(number(err))
}

// reach is an O_PATH descriptor of what a path leads to. follow says what a link at its end
// means, and empty that without a path it is the directory, or file, itself.
func (t *task) reach(dir int32, addr uint64, follow, empty bool) (int, unix.Errno) {
	name, e := t.path(addr)
	if e != 0 {
		return -1, e
	}
	base, e := t.base(dir, name)
	if e != 0 {
		return -1, e
	}
	if name == "" && empty {
		return base, 0
	}
	return t.find(base, name, follow)
}
