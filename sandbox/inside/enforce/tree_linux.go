package enforce

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// tree is a Tree that is open.
type tree struct {
	path   string
	policy func() Policy
	fd     int    // O_PATH
	mount  uint64 // the mount that it is on
	// whole says that the mount shows the tree and nothing else: what has another
	// path on it was moved out of the tree while it was held.
	whole  bool
	device string // and where it is inside of the file system
	inner  string
	// aliases are other mounts in whose paths it may show up.
	aliases []string
	links   *linkIndex
	// fixed says that the directory cannot be moved: it is a mount point for good.
	fixed bool
	// watch is an inotify descriptor that tells when the directory, or one above, is
	// moved; -1 where there is none.
	watch int
	// moved says that it was, or that nobody would tell.
	moved atomic.Bool
}

func (g *Guard) newTree(o Tree) (*tree, error) {
	fd, err := openPath(o.Path)
	if err != nil {
		return nil, err
	}
	t := &tree{path: o.Path, policy: o.Policy, fd: fd, watch: -1}
	t.links = newLinkIndex(t, g)
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil {
		t.close()
		return nil, fmt.Errorf("looking at %s: %w", o.Path, err)
	}
	t.mount, t.whole = st.Mnt_id, st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	var ok bool
	if t.device, t.inner, ok = g.mounts.inner(t.mount, o.Path); !ok {
		t.close()
		return nil, fmt.Errorf("%s is not in the table of mounts under that name; name it without symbolic links", o.Path)
	}
	t.aliases = g.mounts.aliases(t.mount, t.device, t.inner)
	t.fixed = t.whole && g.o.StaticMounts
	if !t.fixed {
		t.moved.Store(!t.watchMoves())
	}
	return t, nil
}

// watches makes an inotify instance; tests have none left.
var watches = unix.InotifyInit1

// watchMoves has it told when the host moves the directory away, and reports whether
// it will be: a user has only so many watches (inotify(7)).
func (t *tree) watchMoves() bool {
	fd, err := watches(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return false
	}
	t.watch = fd
	for p := t.path; p != "/"; p = filepath.Dir(p) {
		if _, err := unix.InotifyAddWatch(fd, p, unix.IN_MOVE_SELF); err != nil {
			return false
		}
	}
	return true
}

func (t *tree) close() {
	_ = unix.Close(t.fd)
	if t.watch >= 0 {
		_ = unix.Close(t.watch)
	}
	t.links.close()
}

// isElsewhere reports whether paths of the tree may begin otherwise than with its
// own: it was moved.
func (t *tree) isElsewhere() bool {
	if t.fixed || t.moved.Load() {
		return t.moved.Load()
	}
	var buf [256]byte
	if n, _ := unix.Read(t.watch, buf[:]); n > 0 {
		t.moved.Store(true)
	}
	return t.moved.Load()
}

// shows reports whether a path that is not below the tree's may yet lead into it.
func (t *tree) shows(path string) bool {
	for _, a := range t.aliases {
		if _, ok := below(path, a); ok {
			return true
		}
	}
	return t.isElsewhere()
}

// judge is what the tree's policy leaves of what has the path on the mount: by the name
// that it has there, and by where it is in the file system. ask asks the policy about one
// of them.
func (t *tree) judge(g *Guard, mount uint64, path string, ask func(rel string) Access) Access {
	access := Full
	rel, ok := below(path, t.path)
	switch {
	case ok:
		access = ask(rel)
	case t.whole && mount == t.mount:
		return None
	}
	if really, is := t.really(g, mount, path); is && (!ok || really != rel) {
		access = max(access, ask(really))
	}
	return access
}

// has reports whether the path on the mount is the tree, or in it.
func (t *tree) has(g *Guard, mount uint64, path string) bool {
	_, ok := t.really(g, mount, path)
	return ok
}

// really is a path of a mount, as the kernel has it, relative to the tree.
func (t *tree) really(g *Guard, mount uint64, path string) (string, bool) {
	if mount == t.mount {
		if rel, ok := below(path, t.path); ok {
			return rel, true
		}
		if t.fixed {
			return "", false
		}
		now, err := g.descriptorPath(t.fd)
		if err != nil {
			return "", false
		}
		return below(path, now)
	}
	device, inner, ok := g.mounts.inner(mount, path)
	if !ok || device != t.device {
		return "", false
	}
	return below(inner, t.inner)
}

// access is what the policy leaves of an entry; who does not mean to write is not told
// whether it could.
func (t *tree) access(rel string, dir, write bool) Access { return leaves(t.policy(), rel, dir, write) }

func leaves(p Policy, rel string, dir, write bool) Access {
	switch {
	case rel == "":
		return Full
	case write:
		return p.Access(rel, dir)
	case p.Closed(rel, dir):
		return None
	}
	return Full
}

// accessTo is access to an object that was reached by the entry. Where that depends on
// which file is there, the object has to be it still: somebody may have put the file that
// was asked about in its place.
func (t *tree) accessTo(o *object, rel string, write bool) Access {
	p := t.policy()
	access := leaves(p, rel, o.isDir(), write)
	w, ok := p.(Witness)
	if !ok || access == None || o.kind() != unix.S_IFREG || !w.ByFile(rel) {
		return access
	}
	var is object
	err := unix.Statx(unix.AT_FDCWD, filepath.Join(t.path, rel), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &is.stat)
	if err != nil || is.inode() != o.inode() { // o is open: its number is no other file's
		return None
	}
	return access
}

// leads reports whether something that is protected is reached over an entry.
func (t *tree) leads(rel string) bool {
	p := t.policy()
	return !p.MayLink(rel) && !p.MayMove(rel, rel)
}

// holdsRestricted reports whether anything below a directory of the tree is
// closed, or cannot be looked at.
func (t *tree) holdsRestricted(rel string) bool {
	var top *place
	if rel != "" {
		top = &place{nil, rel}
	}
	for todo := []*place{top}; len(todo) > 0; {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		below, ok := t.isFull(p)
		if !ok {
			return true
		}
		todo = append(todo, below...)
	}
	return false
}

// isFull reports whether there is full access to a directory and all in it but what is in the
// directories there, which it returns.
func (t *tree) isFull(p *place) (below []*place, ok bool) {
	rel := p.rel()
	if t.access(rel, true, true) != Full {
		return nil, false
	}
	fd, err := unix.Open(filepath.Join(t.path, rel), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	dir := os.NewFile(uintptr(fd), rel)
	defer func() { _ = dir.Close() }()
	err = eachEntry(dir, func(e fs.DirEntry) error {
		if e.IsDir() {
			below = append(below, &place{p, e.Name()})
		} else if t.access(join(rel, e.Name()), false, true) != Full {
			return fs.ErrPermission
		}
		return nil
	})
	return below, err == nil
}
