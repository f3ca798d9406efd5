package supervise

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"gander.dev/gander/sandbox"
)

// Bounds of looking for repositories.
const (
	repositoriesTime = 10 * time.Second
	maxRepositories  = 64
)

// repositories implements keeper.
func (c *closure) repositories() sandbox.Repositories {
	s := &search{
		project: c.project(), roots: c.roots(), closed: func(dir string) bool { return c.ignored(dir, true) },
		until: time.Now().Add(repositoriesTime), found: map[sandbox.Repository]bool{},
	}
	for _, root := range s.roots {
		s.below(root, root)
	}
	found := s.result()
	c.naming.Lock()
	c.known = found.Found
	c.naming.Unlock()
	return found
}

// search looks for repositories by the names of directory entries. Of files it reads
// those that say where a git directory is.
type search struct {
	project string
	roots   []string // where it looks, the project or a directory above it among them
	closed  func(dir string) bool
	until   time.Time
	found   map[sandbox.Repository]bool
	partial bool
}

// below looks through a directory, whose files are, or would be, at tree. What cannot
// be looked at cannot be read inside either.
func (s *search) below(dir, tree string) {
	at := func(path string) string { return tree + strings.TrimPrefix(filepath.Dir(path), dir) }
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || path == dir:
		case d.IsDir() && (len(s.found) > maxRepositories || time.Now().After(s.until)):
			s.partial = true
			return fs.SkipAll
		case d.Name() == ".git":
			s.entry(path, at(path))
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Name() == "HEAD" && isBare(filepath.Dir(path)):
			s.gitDir(filepath.Dir(path), at(path))
			return fs.SkipDir // of what it is in
		}
		return nil
	})
}

// entry takes a ".git" of a work tree: a directory, or what leads to one. That of the
// project, or another root, is one whatever it is.
func (s *search) entry(path, tree string) {
	switch dir, err := gitDirOf(path); {
	case err == nil && s.has(dir) && (exists(dir, "HEAD") || exists(dir, "objects")):
		s.gitDir(dir, tree)
	case tree == s.project, slices.Contains(s.roots, tree):
		s.add(path, tree)
	}
}

// gitDirOf is the git directory that a ".git" is, or leads to.
func gitDirOf(path string) (string, error) {
	dir, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	text, err := readPlain(dir)
	if err != nil {
		return dir, nil //nolint:nilerr // it is no file
	}
	to, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir:")
	if !ok {
		return "", errors.New("not a file that leads to a git directory")
	}
	return filepath.EvalSymlinks(from(filepath.Dir(path), strings.TrimSpace(to)))
}

// isBare reports whether git takes a directory itself for a repository.
func isBare(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// readPlain reads a regular file that may be somebody else's.
func readPlain(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe has no other end
	if err != nil {
		return nil, err
	}
	return readRegular(f)
}

// gitDir takes a git directory. Those of submodules are below it, also of such that
// have no work tree now; they are called as it was.
func (s *search) gitDir(dir, tree string) {
	if s.add(dir, tree) {
		s.below(filepath.Join(dir, "modules"), tree)
	}
}

// add adds a repository and reports whether it is a new one. What is in a closed
// directory is closed anyway.
func (s *search) add(dir, tree string) bool {
	r := sandbox.Repository{Dir: nameIn(s.project, dir), Tree: nameIn(s.project, tree)}
	if s.found[r] || s.closed(dir) {
		return false
	}
	s.found[r] = true
	return true
}

func (s *search) has(path string) bool {
	return slices.ContainsFunc(s.roots, func(root string) bool { return isIn(path, root) })
}

func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

// result is what was found, in order.
func (s *search) result() sandbox.Repositories {
	all := slices.SortedFunc(maps.Keys(s.found), func(a, b sandbox.Repository) int {
		return cmp.Or(strings.Compare(a.Dir, b.Dir), strings.Compare(a.Tree, b.Tree))
	})
	dirs := map[string]bool{}
	for _, r := range all {
		dirs[r.Dir] = true
	}
	for i := range all {
		all[i].Linked = s.linked(all[i].Dir, dirs)
	}
	if len(all) > maxRepositories {
		all, s.partial = all[:maxRepositories], true
	}
	return sandbox.Repositories{Found: all, Partial: s.partial}
}

// linked reports whether a git directory is that of a linked work tree of one that was
// found.
func (s *search) linked(dir string, found map[string]bool) bool {
	at := placeIn(s.project, dir)
	text, err := readPlain(filepath.Join(at, "commondir"))
	if err != nil {
		return false
	}
	common, err := filepath.EvalSymlinks(from(at, strings.TrimSpace(string(text))))
	return err == nil && common != at && found[nameIn(s.project, common)]
}
