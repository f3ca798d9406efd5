package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// WriteFile gives a file new content at once or not at all: a reader sees the old
// or the new, also after a crash. What was there keeps its mode and owner; a new
// file gets perm, less the umask. Missing parent directories are made. A symbolic
// link is followed, when its target may be touched; another hard link keeps the
// old content. A rules file may become stricter only ([LoosensError]). Where an
// editor has the file, the editor changes it.
//
// Only where a file's owner cannot be kept, or its directory not be written, is
// the file overwritten in place.
func (s *Space) WriteFile(name string, data []byte, perm fs.FileMode) error {
	abs := s.Abs(name)
	for range attempts {
		at, err := s.find(name, changing)
		if err != nil {
			return err
		}
		if err := s.checkRules(at.real, data); err != nil {
			return err
		}
		if ok, err := s.writeBuffer(abs, data); ok {
			return err
		}
		err = s.writeReal(at, data, perm)
		if !errors.Is(err, errMoved) {
			return err
		}
	}
	return errUnsteady(abs)
}

// writeReal writes a path without links, through a handle of its directory: what
// happens to the names above is of no consequence then.
func (s *Space) writeReal(at place, data []byte, perm fs.FileMode) error {
	real := at.real
	dir, err := at.openParent(true)
	if err != nil {
		return err
	}
	defer dir.Close()
	base := filepath.Base(real)
	old, err := dir.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return replace(dir, base, data, perm, nil)
	case err != nil:
		return err
	case old.Mode()&fs.ModeSymlink != 0 || s.twins.hides(old):
		return errMoved
	case !old.Mode().IsRegular():
		return fmt.Errorf("writing '%s': %w", real, ErrNotRegular)
	}
	err = replace(dir, base, data, perm, old)
	if errors.Is(err, fs.ErrPermission) {
		return overwrite(dir, base, data, old)
	}
	return err
}

// openParent opens the directory of a path without links, and makes it, and those
// above it, when asked to.
func (p place) openParent(make bool) (*os.Root, error) {
	parent := filepath.Dir(p.real)
	dir, err := p.openDir(parent)
	if errors.Is(err, fs.ErrNotExist) && make {
		return p.makeParent(parent)
	}
	if err != nil {
		return nil, err
	}
	return dir, verify(dir, parent)
}

// makeParent makes a directory within the deepest one above it that is there.
func (p place) makeParent(parent string) (*os.Root, error) {
	above := filepath.Dir(parent)
	for above != filepath.Dir(above) {
		if _, err := os.Lstat(above); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		above = filepath.Dir(above)
	}
	dir, err := p.openDir(above)
	if err != nil {
		return nil, err
	}
	if err := verify(dir, above); err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(above, parent)
	if err != nil {
		dir.Close()
		return nil, err
	}
	for name := range strings.SplitSeq(rel, string(filepath.Separator)) {
		next, err := makeDir(dir, name)
		dir.Close()
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, verify(dir, parent)
}

// makeDir makes a directory, if it is not there, and opens it; a link that took
// its place is not followed.
func makeDir(in *os.Root, name string) (*os.Root, error) {
	if err := in.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	there, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if there.Mode()&fs.ModeSymlink != 0 {
		return nil, errMoved
	}
	dir, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	info, err := dir.Stat(".")
	if err == nil && !os.SameFile(info, there) {
		err = errMoved
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// verify closes a handle that is not the directory of that path.
func verify(dir *os.Root, path string) error {
	err := verifyOpen(dir, path)
	if err != nil {
		dir.Close()
	}
	return err
}

func verifyOpen(dir *os.Root, path string) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !isStill(f, path, info) {
		return errMoved
	}
	return err
}

// replace writes a file beside the old one and renames it.
func replace(dir *os.Root, base string, data []byte, perm fs.FileMode, old fs.FileInfo) error {
	if old != nil {
		perm = 0o600 // until it has the old one's mode
	}
	tmp, name, err := createTemp(dir, perm)
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if old != nil && err == nil {
		err = likeOld(tmp, old)
	}
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = dir.Rename(name, base)
	}
	if err != nil {
		return errors.Join(err, dir.Remove(name))
	}
	syncDir(dir)
	return nil
}

func createTemp(dir *os.Root, perm fs.FileMode) (*os.File, string, error) {
	for range 100 {
		name := tempName()
		f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm.Perm())
		if !errors.Is(err, fs.ErrExist) {
			return f, name, err
		}
	}
	return nil, "", errors.New("there are too many temporary files")
}

// likeOld gives a new file the old one's owner and mode; the owner first, because
// changing it clears mode bits.
func likeOld(f *os.File, old fs.FileInfo) error {
	if err := chown(f, old); err != nil {
		return err
	}
	return f.Chmod(old.Mode().Perm())
}

// overwrite writes into the old file, which stays what it was but for a moment
// when it is not whole. What does not fit on the disk leaves the old content: that is
// written over before anything is cut off, and put back, as its place is its own.
func overwrite(dir *os.Root, base string, data []byte, old fs.FileInfo) error {
	f, err := dir.OpenFile(base, os.O_RDWR|noWait, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !os.SameFile(info, old) {
		return errors.Join(err, errMoved)
	}
	before := make([]byte, min(int64(len(data)), info.Size()))
	if _, err := f.ReadAt(before, 0); err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		_, back := f.WriteAt(before, 0)
		return errors.Join(err, back, f.Truncate(info.Size()))
	}
	return errors.Join(f.Truncate(int64(len(data))), f.Sync())
}

// syncDir makes a rename last. Not every file system can, and the file is whole in
// any case.
func syncDir(dir *os.Root) {
	if d, err := dir.Open("."); err == nil {
		_ = d.Sync()
		d.Close()
	}
}

// Remove removes a file, a link itself, or an empty directory.
func (s *Space) Remove(name string) error {
	if err := s.CheckChange(name); err != nil {
		return err
	}
	abs := s.Abs(name)
	for range attempts {
		at, err := s.findEntry(abs)
		if err != nil {
			return err
		}
		if err := errors.Join(s.checkPath(at.real, abs), s.checkRules(at.real, nil)); err != nil {
			return err
		}
		dir, err := at.openParent(false)
		if errors.Is(err, errMoved) {
			continue
		}
		if err != nil {
			return err
		}
		err = dir.Remove(filepath.Base(at.real))
		dir.Close()
		return err
	}
	return errUnsteady(abs)
}

// findEntry is find for a change of an entry of a directory, which may be a link: it is
// not followed.
func (s *Space) findEntry(abs string) (place, error) {
	parent, err := s.find(filepath.Dir(abs), reading)
	if err != nil {
		return place{}, err
	}
	real := filepath.Join(parent.real, filepath.Base(abs))
	return s.checkRoots(abs, abs, real, changing)
}

// A LoosensError says that a rules file would hide less than it does. What is kept
// from the tools must not be theirs to change.
type LoosensError struct{ Path string }

func (e *LoosensError) Error() string {
	return fmt.Sprintf("'%s' would hide less than it does now: rules may be added here, but not removed, negated or replaced; ask the person to change the file", e.Path)
}

// checkRules refuses to loosen a rules file.
func (s *Space) checkRules(real string, data []byte) error {
	rules, ok := s.o.Rules.(interface{ Loosens(abs, text string) bool })
	if ok && rules.Loosens(real, string(data)) {
		return &LoosensError{Path: real}
	}
	return nil
}
