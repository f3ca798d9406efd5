package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox/inside/enforce"
)

// alternates is the file in which git reads where else it finds objects.
const alternates = "alternates"

// gitView is what is left of git's object stores in a tree once they are closed. What
// is made inside can be read; of the rest what was there at the closing, once that is
// known to be harmless, and while the rules are those by which it is.
type gitView struct {
	tree  string
	dirs  []string        // object stores whose paths do not say so, relative to the tree
	there map[string]bool // at the closing
	roots map[string]bool // the directories that they were in
	made  *madeInside
	rules func() uint64 // their version now

	// opened says that judged is the version of the rules by which there is more to see:
	// what was there, or, where some of it is left out, the stores, which are files that git
	// reads instead of its alternates, by the path of those.
	opened, partly bool
	judged         uint64
	stores         map[string]string
}

// current reports whether the rules are still those that the view was opened by.
func (v *gitView) current() bool { return v != nil && v.opened && v.judged == v.rules() }

// closes reports whether a file is closed as git's.
func (v *gitView) closes(rel string) bool {
	return v.asksFile(rel) && !v.made.has(filepath.Join(v.tree, rel))
}

// asksFile reports whether a path is closed unless the file there was made inside.
func (v *gitView) asksFile(rel string) bool {
	return v != nil && v.isStored(rel) && (v.partly || !v.there[rel] || !v.current())
}

// isStored reports whether a path is that of a file in an object store. By name it is one
// wherever it is; in a directory of git's everything is but what has no content of files.
func (v *gitView) isStored(rel string) bool {
	if isObject(rel) {
		return true
	}
	for dir, rest := range gitStores(rel, v.dirs) {
		if first, below, ok := strings.Cut(rest, "/"); dir != "" && (first != "info" || !ok || below == "") {
			return true
		}
	}
	return false
}

// gitStores are the object stores that a path is in, with the rest of the path.
func gitStores(rel string, dirs []string) func(yield func(store, rest string) bool) {
	return func(yield func(string, string) bool) {
		for at := 0; ; {
			i := strings.Index(rel[at:], "/objects/")
			if i < 0 {
				break
			}
			i += at
			inGit := func(name string) bool { return strings.HasSuffix(name, ".git") }
			if slices.ContainsFunc(strings.Split(rel[:i], "/"), inGit) && !yield(rel[:i]+"/objects", rel[i+len("/objects/"):]) {
				return
			}
			at = i + 1
		}
		for _, dir := range dirs {
			if rest, ok := strings.CutPrefix(rel, dir+"/"); ok && !yield(dir, rest) {
				return
			}
		}
	}
}

// isObject reports whether a path is a pack or an object of git's by its name,
// wherever it is: a store may be anywhere.
func isObject(rel string) bool {
	dir, name := filepath.Split(rel)
	switch {
	case strings.HasSuffix(name, ".pack"):
		return true
	case len(name) != 38 && len(name) != 62: // of SHA-1 and SHA-256, without the directory
		return false
	}
	dir = filepath.Base(dir)
	return len(dir) == 2 && strings.Trim(dir+name, "0123456789abcdef") == ""
}

// madeInside knows files by what no other file ever has, as long as they exist.
type madeInside struct {
	// mu guards the fields below. Whoever makes a file holds it until that is known.
	mu    sync.RWMutex
	files map[fileID]bool
}

// fileID names a file as long as its file system exists, also when its number is
// given to another one.
type fileID struct {
	inode, device, born uint64
	handle              string
}

// maxMade bounds the files that are known; what is made beyond is closed.
const maxMade = 1 << 20

// identify names the file at a path, or a descriptor when the path is empty.
func identify(at int, path string) (fileID, error) {
	var st unix.Statx_t
	flags := 0
	if path == "" {
		flags = unix.AT_EMPTY_PATH
	}
	if err := unix.Statx(at, path, flags|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return fileID{}, err
	}
	id := fileID{inode: st.Ino, device: unix.Mkdev(st.Dev_major, st.Dev_minor)}
	if h, _, err := unix.NameToHandleAt(at, path, flags); err == nil {
		id.handle = string(h.Bytes())
	}
	if st.Mask&unix.STATX_BTIME != 0 {
		id.born = uint64(st.Btime.Sec)*1e9 + uint64(st.Btime.Nsec)
	}
	if id.handle == "" && id.born == 0 {
		return id, errors.New("the file system tells a file from a later one of the same number by nothing")
	}
	return id, nil
}

// has reports whether the file that is at a path now was made inside. One that is gone by
// now was not: who had it open before does not get it for that.
func (m *madeInside) has(path string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	id, err := identify(unix.AT_FDCWD, path)
	return err == nil && m.files[id]
}

// isGone reports whether there is nothing at a path.
func isGone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// making notes the file that is about to be made.
func (m *madeInside) making() func(fd int) {
	m.mu.Lock()
	return func(fd int) {
		defer m.mu.Unlock()
		if fd < 0 || len(m.files) >= maxMade {
			return
		}
		if id, err := identify(fd, ""); err == nil {
			m.files[id] = true
		}
	}
}

// gitPolicy is a tree's policy while its object stores are closed.
type gitPolicy struct{ *treePolicy }

var _ enforce.Witness = gitPolicy{}

// Making implements enforce.Witness.
func (p gitPolicy) Making(rel string) func(fd int) {
	if !p.git.isStored(rel) {
		return nil
	}
	return p.git.made.making()
}

// ByFile implements enforce.Witness.
func (p gitPolicy) ByFile(rel string) bool { return p.git.asksFile(rel) }

// MayMake implements enforce.Witness.
func (p gitPolicy) MayMake(rel string, dir bool) bool {
	if _, protected := p.protection.Protects(rel); protected || p.set.Ignored(p.below+rel, dir) {
		return false
	}
	return isGone(p.below + rel)
}

// Replaces implements enforce.Witness.
func (p gitPolicy) Replaces() string { return alternates }

// Instead implements enforce.Witness: an object store has another one beside it.
func (p gitPolicy) Instead(rel string) string {
	if store := p.git.stores[rel]; store != "" && p.git.current() {
		return store
	}
	return ""
}

// closeGit implements keeper.
func (c *closure) closeGit() uint64 {
	for _, g := range c.guarded {
		v := &gitView{tree: g.tree, there: map[string]bool{}, roots: map[string]bool{}, made: &madeInside{files: map[fileID]bool{}}, rules: c.rulesVersion}
		if before := g.now.Load().git; before != nil {
			v.made = before.made
		}
		git, _ := gitPlaces(g.tree, "") // what cannot be read is closed by its names
		for _, dir := range git.Dirs {
			v.dirs = append(v.dirs, strings.TrimPrefix(dir+"/objects", "/"))
		}
		// Closed first and looked at then: what comes between is closed, and is there.
		shut := *v
		shut.there = nil
		renew(g.now, func(p *treePolicy) { p.git = &shut })
		v.look(g.tree, func(rel string) {
			v.there[rel], v.roots[filepath.Dir(filepath.Dir(rel))] = true, true
		})
		renew(g.now, func(p *treePolicy) { p.git = v })
	}
	return c.rulesVersion()
}

// look passes on the files of object stores below a directory of the tree. What cannot
// be looked at stays closed.
func (v *gitView) look(dir string, each func(rel string)) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // see above
		}
		if rel, err := filepath.Rel(v.tree, path); err == nil && v.isStored(rel) {
			each(rel)
		}
		return nil
	})
}

// rulesVersion is another number after any change of any rules, which are looked at.
func (c *closure) rulesVersion() (sum uint64) {
	for i, g := range c.guarded {
		c.sets[i].Ignored(filepath.Join(g.tree, ".git"), true)
		sum += c.sets[i].Version()
	}
	return sum
}

// openGit implements keeper.
func (c *closure) openGit(p openGitParams) error {
	stores, err := c.findStores(p.Stores)
	if err != nil {
		return err
	}
	if c.rulesVersion() != p.Rules {
		return errRulesChanged
	}
	partly := len(p.Stores) > 0
	for _, g := range c.guarded {
		before := g.now.Load().git
		switch {
		case before == nil:
			return errors.New("git's objects were not closed before")
		case !g.root && partly:
			continue // nobody has looked for repositories there
		}
		v := *before
		v.opened, v.judged, v.partly, v.stores = true, p.Rules, partly, stores[g.tree]
		renew(g.now, func(p *treePolicy) { p.git = &v })
	}
	return nil
}

// findStores are the stores that are given, by tree and the paths of the alternates that
// they are for. One in a tree within another is in both.
func (c *closure) findStores(given map[string]string) (map[string]map[string]string, error) {
	stores := map[string]map[string]string{}
	for objects, file := range given {
		dir, err := filepath.EvalSymlinks(placeIn(c.project(), objects))
		if err != nil {
			return nil, fmt.Errorf("looking for git's objects: %w", err)
		}
		placed := false
		for _, g := range c.guarded {
			if !g.root || !isIn(dir, g.tree) {
				continue
			}
			if stores[g.tree] == nil {
				stores[g.tree] = map[string]string{}
			}
			stores[g.tree][nameIn(g.tree, dir)+"/info/"+alternates] = filepath.Join(c.gitStore, file)
			placed = true
		}
		if !placed || c.gitStore == "" || !filepath.IsLocal(file) {
			return nil, fmt.Errorf("%s cannot have an object store beside it in this sandbox", objects)
		}
	}
	return stores, nil
}

// gitChanged implements keeper.
func (c *closure) gitChanged() (changed bool) {
	for _, g := range c.guarded {
		v := g.now.Load().git
		if v == nil {
			continue
		}
		if v.opened && !v.current() {
			return true
		}
		roots := maps.Clone(v.roots)
		roots[".git"] = true
		for root := range roots {
			v.look(filepath.Join(v.tree, root), func(rel string) {
				path := filepath.Join(v.tree, rel)
				changed = changed || !v.there[rel] && !v.made.has(path) && !isGone(path)
			})
		}
	}
	return changed
}

// storePolicy is that of the directory with object stores that gander has made for
// inside: they are for reading, while the rules are those by which they were made.
type storePolicy struct{ c *closure }

// Access implements enforce.Policy.
func (p storePolicy) Access(rel string, dir bool) enforce.Access {
	if p.c.guarded[0].now.Load().git.current() && (dir || !isLeftOut(rel)) {
		return enforce.ReadOnly
	}
	return enforce.None
}

// isLeftOut reports whether a path below the directory of stores is that of an object
// which git is not to read.
func isLeftOut(rel string) bool {
	store, _, below := strings.Cut(rel, "/")
	return below && strings.HasSuffix(store, LeftOut)
}

// Closed implements enforce.Policy.
func (p storePolicy) Closed(rel string, dir bool) bool { return p.Access(rel, dir) == enforce.None }

// ByName implements enforce.Policy.
func (storePolicy) ByName() bool { return true }

// MayMove implements enforce.Policy.
func (storePolicy) MayMove(string, string) bool { return false }

// Moving implements enforce.Policy.
func (storePolicy) Moving() (over func()) { return func() {} }

// MayLink implements enforce.Policy.
func (storePolicy) MayLink(string) bool { return false }
