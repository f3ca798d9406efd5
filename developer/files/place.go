package files

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// access tells reading from changing.
type access bool

const (
	reading  access = false
	changing access = true
)

// A place is where a name leads to.
type place struct {
	// real is the path without links.
	real string
	// root is the root, without links, that the path is in; empty for none. What is done
	// at the path is done through a handle of it.
	root string
}

// find decides about a name and returns where it leads to.
func (s *Space) find(name string, use access) (place, error) {
	if err := unreadable(name); err != nil {
		return place{}, err
	}
	abs := s.Abs(name)
	if err := s.checkPath(abs, abs); err != nil {
		return place{}, err
	}
	real, err := followLinks(abs, maxLinks)
	if err != nil {
		return place{}, fmt.Errorf("resolving the links of '%s': %w", abs, err)
	}
	if real != abs {
		if err := s.checkPath(real, abs); err != nil {
			return place{}, err
		}
	}
	at, err := s.checkRoots(name, abs, real, use)
	if err != nil {
		return place{}, err
	}
	if info, err := os.Lstat(real); err == nil && s.twins.hides(info) {
		return place{}, &RestrictedError{Path: abs}
	}
	return at, nil
}

// checkRoots refuses a change outside of the roots, and a reading that leaves them by
// ".." or by a link.
func (s *Space) checkRoots(name, abs, real string, use access) (place, error) {
	at := place{real: real}
	if s.o.Roots == nil {
		return at, nil
	}
	leaves := use == changing
	for _, root := range s.o.Roots {
		resolved, err := filepath.EvalSymlinks(root)
		if err != nil {
			continue // nothing is in it
		}
		if below(real, resolved) {
			at.root = resolved
			return at, nil
		}
		leaves = leaves || s.passes(name, root) || s.passes(name, resolved)
	}
	if leaves {
		return place{}, &OutsideError{Path: abs, Target: real, Roots: s.o.Roots, Changing: use == changing}
	}
	return at, nil
}

// passes reports whether a name comes through a directory, as it is spelled.
func (s *Space) passes(name, dir string) bool {
	name = s.absolute(name)
	sep := string(filepath.Separator)
	volume := filepath.VolumeName(name)
	at := volume + sep
	for part := range strings.SplitSeq(filepath.ToSlash(name[len(volume):]), "/") {
		if at = filepath.Join(at, part); below(at, dir) {
			return true
		}
	}
	return false
}

// below says whether path is dir or inside it. Both are clean.
func below(path, dir string) bool {
	if runtime.GOOS == "windows" {
		path, dir = strings.ToLower(path), strings.ToLower(dir)
	}
	sep := string(filepath.Separator)
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, sep)+sep)
}

// openDir opens a directory of the place's root, or any where there is none.
func (p place) openDir(path string) (*os.Root, error) {
	if p.root == "" {
		return os.OpenRoot(path)
	}
	root, rel, err := p.openRoot(path)
	if err != nil || rel == "." {
		return root, err
	}
	defer root.Close()
	dir, err := root.OpenRoot(rel)
	return dir, escaped(err)
}

// openFile opens the place for reading.
func (p place) openFile() (*os.File, error) {
	if p.root == "" {
		return os.OpenFile(p.real, os.O_RDONLY|noWait, 0)
	}
	root, rel, err := p.openRoot(p.real)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(rel, os.O_RDONLY|noWait, 0)
	return f, escaped(err)
}

func (p place) openRoot(path string) (root *os.Root, rel string, err error) {
	if rel, err = filepath.Rel(p.root, path); err != nil {
		return nil, "", err
	}
	root, err = os.OpenRoot(p.root)
	return root, rel, err
}

// escaped is errMoved where a path turned out to leave its root: a link has taken the
// place of something on the way.
func escaped(err error) error {
	if err != nil && strings.HasSuffix(err.Error(), "path escapes from parent") { // os has no value for it
		return errMoved
	}
	return err
}
