package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// WriteFile gives a file new content at once or not at all: a reader sees the old
// or the new, also after a crash. What was there keeps its mode, owner, access lists and
// extended attributes; a new file gets perm, less the umask. Missing parent directories
// are made. A symbolic link is followed, when its target may be touched. A rules file may
// become stricter only ([LoosensError]). Where an editor has the file, the editor changes
// it.
//
// A file with several names (hard links) is written in place, so that all of them have the
// new content, and so is one whose owner or attributes cannot be given to another, or
// whose directory cannot be written. Until that is done a copy of the old content lies
// beside it, as NAME.gander-….before, and stays there after a crash. The name alone gets
// the new content below the directories of package managers and where another user owns
// the file with several names; [Space.Noting] is told.
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
	_, links, _ := inodeOf(old)
	alone := "" // why the other names keep the old content
	if links > 1 {
		if alone = keptApart(real, old); alone == "" {
			err := overwrite(dir, base, data, old)
			if !errors.Is(err, errInPlace) {
				return err
			}
			alone = err.Error()
		}
	}
	err = replace(dir, base, data, perm, old)
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, errUnlike), errors.Is(err, syscall.EBUSY): // a mount, for the last
		return overwrite(dir, base, data, old)
	case err == nil && alone != "" && s.note != nil:
		s.note(fmt.Sprintf("Only this name of the file has the new content. It had %d names (hard links), and the others keep the old content, because %s.", links, alone))
	}
	return err
}

// storeDirs are the directories whose files package managers and version control link to a
// store of their own, which an edit of one project must not change.
var storeDirs = []string{"node_modules", "bower_components", ".pnpm-store", ".yarn", "site-packages", "dist-packages", ".venv", "venv", ".git", ".hg", ".jj"}

// keptApart tells why the names of a file are not changed together; empty when they are.
func keptApart(real string, old fs.FileInfo) string {
	for part := range strings.SplitSeq(filepath.ToSlash(filepath.Dir(real)), "/") {
		if slices.Contains(storeDirs, part) {
			return "files below " + part + " are linked to a store that other projects use"
		}
	}
	if !isOurs(old) {
		return "another user owns the file"
	}
	return ""
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
		err = likeOld(tmp, dir, base, old)
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

// errUnlike is wrapped where a new file cannot be made what the old one is.
var errUnlike = errors.New("the owner or an attribute of the file cannot be kept")

// likeOld gives a new file the old one's owner, mode, access lists and extended attributes;
// the owner first, because changing it clears mode bits.
func likeOld(f *os.File, dir *os.Root, base string, old fs.FileInfo) error {
	was, err := dir.OpenFile(base, os.O_RDONLY|noWait, 0)
	if err != nil {
		return err
	}
	defer was.Close()
	if info, err := was.Stat(); err != nil || !os.SameFile(info, old) {
		return errors.Join(err, errMoved)
	}
	if err := chown(f, old); err != nil {
		return fmt.Errorf("%w: %w", errUnlike, err)
	}
	if err := f.Chmod(old.Mode()); err != nil {
		return err
	}
	if err := copyAttributes(f, was); err != nil {
		return fmt.Errorf("%w: %w", errUnlike, err)
	}
	return nil
}

// errInPlace is wrapped where a file cannot be opened for writing.
var errInPlace = errors.New("it cannot be written in place")

// overwrite writes into the old file, which stays what it was but for a moment when it is
// not whole. A copy beside it has the old content until then. What does not fit on the
// disk leaves the old content: that is written over before anything is cut off, and put
// back, as its place is its own.
func overwrite(dir *os.Root, base string, data []byte, old fs.FileInfo) error {
	f, err := dir.OpenFile(base, os.O_RDWR|noWait, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", errInPlace, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !os.SameFile(info, old) {
		return errors.Join(err, errMoved)
	}
	before := make([]byte, info.Size())
	if _, err := f.ReadAt(before, 0); err != nil {
		return err
	}
	copied, err := saveCopy(dir, base, before)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = errors.Join(f.Truncate(int64(len(data))), f.Sync())
	}
	if err != nil {
		_, back := f.WriteAt(before, 0)
		back = errors.Join(back, f.Truncate(info.Size()), f.Sync())
		if back != nil {
			return errors.Join(err, back) // the copy stays
		}
	}
	if copied != "" {
		err = errors.Join(err, dir.Remove(copied))
	}
	return err
}

// saveCopy puts the content of a file beside it, for the case of a crash, and returns the
// copy's name. It is empty where the directory cannot be written.
func saveCopy(dir *os.Root, base string, data []byte) (string, error) {
	f, name, err := createTemp(dir, 0o600)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	copied := strings.ToValidUTF8(base[:min(len(base), 200)], "") + strings.TrimSuffix(name, ".tmp") + ".before"
	if err == nil {
		err = dir.Rename(name, copied)
	}
	if err != nil {
		return "", errors.Join(err, dir.Remove(name))
	}
	syncDir(dir)
	return copied, nil
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
