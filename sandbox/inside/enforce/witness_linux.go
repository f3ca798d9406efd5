package enforce

import (
	"strings"

	"golang.org/x/sys/unix"
)

// A Witness is a Policy that treats files made inside otherwise than those that come
// from outside. A tree's policy is asked whether it is one for each file that is made.
type Witness interface {
	Policy
	// Making is called before a regular file is made at a path of the tree, as Access has
	// it. What it returns, if anything, is called when the call is over, with a descriptor
	// of the new file, or -1 when there is none; nothing else happens in the tree between.
	// A file with full access that is to get a path by a rename or a link, whether it does
	// or not, is like one that was made there: its content was known inside.
	Making(rel string) func(fd int)
	// ByFile says that Access of a file at a path, where it is not None, depends on which
	// one is there: it counts for no other that was opened by that path.
	ByFile(rel string) bool
	// MayMake says whether an entry may be made at a path although Access denies what is
	// there: nothing is, and what comes is made inside.
	MayMake(rel string, dir bool) bool
	// Replaces is the name of entries that Instead is asked about.
	Replaces() string
	// Instead is the path of a file that is opened for reading in the place of what is,
	// or is not, at a path of the tree; empty for the entry itself. Access is not asked then.
	Instead(rel string) string
}

// mayMake asks the tree's policy.
func (t *tree) mayMake(g *Guard, at *entry, dir bool) bool {
	w, ok := t.policy().(Witness)
	if !ok {
		return false
	}
	rel, ok := at.in(g, t)
	return ok && w.MayMake(rel, dir)
}

// making tells the trees' policies of a file that is about to be made.
func (g *Guard) making(at *entry) func(fd int) {
	var told []func(int)
	for _, tree := range g.trees {
		w, ok := tree.policy().(Witness)
		if !ok {
			continue
		}
		rel, ok := at.in(g, tree)
		if !ok {
			continue
		}
		if f := w.Making(rel); f != nil {
			told = append(told, f)
		}
	}
	return func(fd int) {
		for _, f := range told {
			f(fd)
		}
	}
}

// naming tells the trees' policies of something with full access that is to be at an entry.
func (g *Guard) naming(at *entry, fd int, kind uint16) {
	if kind == unix.S_IFREG {
		g.making(at)(fd)
	}
}

// instead opens what a policy puts in the place of a file; ok is false when that is
// none of its business.
func (t *task) instead(dir int32, name string, flags int) (fd int, ok bool) {
	if flags&unix.O_ACCMODE != unix.O_RDONLY || flags&(unix.O_CREAT|unix.O_TRUNC|unix.O_DIRECTORY|tmpfile) != 0 {
		return -1, false
	}
	for _, tree := range t.g.trees {
		w, ok := tree.policy().(Witness)
		if !ok || !strings.HasSuffix(name, w.Replaces()) {
			continue
		}
		base, e := t.base(dir, name)
		if e != 0 {
			return -1, false
		}
		at, e := t.entryOf(base, name)
		if e != 0 || at.name != w.Replaces() {
			return -1, false
		}
		rel, ok := at.in(t.g, tree)
		if !ok {
			continue
		}
		if other := w.Instead(rel); other != "" {
			fd, err := unix.Open(other, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NOCTTY, 0)
			return fd, err == nil
		}
	}
	return -1, false
}
