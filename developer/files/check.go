package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Check says whether a name may be read: nil, a [RestrictedError] or an
// [OutsideError]. The name need not exist. It is decided on the name as given and
// on what its links lead to; a further name of a hidden file (a hard link) is
// hidden, too.
func (s *Space) Check(name string) error {
	_, err := s.find(name, reading)
	return err
}

// CheckChange says whether what a name leads to may be changed, as Check does.
func (s *Space) CheckChange(name string) error {
	_, err := s.find(name, changing)
	return err
}

// checkPath holds one spelling against the rules; shown is the one to report.
func (s *Space) checkPath(abs, shown string) error {
	if s.o.Rules == nil {
		return nil
	}
	info, err := os.Stat(abs)
	if s.o.Rules.Ignored(abs, err == nil && info.IsDir()) {
		return &RestrictedError{Path: shown}
	}
	return nil
}

// maxLinks is Linux's bound of links on the way to a file.
const maxLinks = 40

// followLinks resolves a path whose last components need not exist, a link to
// nothing included.
func followLinks(abs string, links int) (string, error) {
	if links == 0 {
		return "", errors.New("too many levels of symbolic links")
	}
	real, err := filepath.EvalSymlinks(abs)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	if target, err := os.Readlink(abs); err == nil {
		if !filepath.IsAbs(target) {
			parent, err := followLinks(filepath.Dir(abs), links-1)
			if err != nil {
				return "", err
			}
			target = filepath.Join(parent, target)
		}
		return followLinks(filepath.Clean(target), links-1)
	}
	parent := filepath.Dir(abs)
	if parent == abs {
		return abs, nil
	}
	real, err = followLinks(parent, links)
	return filepath.Join(real, filepath.Base(abs)), err
}

// isStill says that an open file is what a path without links leads to: what was
// decided about the path holds for the file. Where the kernel does not say where
// the file is, the path is looked at several times; who changes it in step with
// that is not noticed.
func isStill(f *os.File, real string, info fs.FileInfo) bool {
	if same, known := isAt(f, real); known {
		return same
	}
	for range looks {
		now, err := os.Lstat(real)
		if err != nil || !os.SameFile(now, info) {
			return false
		}
		if again, err := filepath.EvalSymlinks(real); err != nil || again != real {
			return false
		}
	}
	return true
}

// looks is how often isStill looks.
const looks = 3

// attempts bounds how often something is decided anew because it changed in
// between. Whoever wins this often is playing.
const attempts = 20

func errUnsteady(abs string) error {
	return fmt.Errorf("'%s' is being replaced all the time; try again when nothing else works on it", abs)
}
