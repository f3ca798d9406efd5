package editor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"gander.dev/gander/developer/files"
)

// A Files is the file system of one call; a *files.Space is one.
type Files interface {
	Abs(name string) string
	CheckChange(name string) error
	Stat(name string) (fs.FileInfo, error)
	ReadFile(name string, limit int64) ([]byte, fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	WriteFile(name string, data []byte, perm fs.FileMode) error
	Remove(name string) error
}

// maxEditBytes bounds what is edited: a file is in memory several times over, and
// once more for undo.
const maxEditBytes = 32 << 20

// newFile is the mode of a file that an edit makes.
const newFile fs.FileMode = 0o644

// A change is one file before and after an edit.
type change struct {
	path, key     string
	before, after file
}

// resolve is the file that a path leads to, whatever links are on the way: what
// locks and history go by. Its last parts need not exist.
func resolve(path string) string { return resolveAt(path, 40) }

// resolveAt follows at most so many links that lead to nothing.
func resolveAt(path string, links int) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if target, err := os.Readlink(path); err == nil && links > 0 {
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		return resolveAt(target, links-1)
	}
	dir := filepath.Dir(path)
	if dir == path {
		return path
	}
	return filepath.Join(resolveAt(dir, links), filepath.Base(path))
}

// read is the present state of a file; that it is not there is a state too.
func read(f Files, path string) (file, error) {
	data, info, err := f.ReadFile(path, maxEditBytes)
	if large, ok := errors.AsType[*files.TooLargeError](err); ok {
		return file{}, fmt.Errorf("it is too large (%.2fMB). Maximum size for editing is %dMB; use the shell for it", float64(large.Size)/(1<<20), maxEditBytes>>20)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return file{missing: true, perm: newFile}, nil
	case err != nil && info != nil && info.IsDir():
		return file{}, syscall.EISDIR
	case err != nil:
		return file{}, err
	}
	return file{data: data, perm: info.Mode().Perm()}, nil
}

// commit makes all the changes or none, and remembers them for undo. The caller
// holds the locks of the keys.
func (e *Editor) commit(f Files, changes []change) error {
	for _, c := range changes {
		if err := unchanged(f, c); err != nil {
			return err
		}
	}
	for i, c := range changes {
		if err := apply(f, c.path, c.after); err != nil {
			return errors.Join(failed("write", err), rollback(f, changes[:i]))
		}
	}
	for _, c := range changes {
		e.history.push(c.key, c.before, c.after)
	}
	return nil
}

// unchanged says whether a file is still what the edit was computed from: other
// programs, and other servers like this one, do not know the locks. What they do
// between this look and the writing is lost; that is microseconds.
func unchanged(f Files, c change) error {
	now, err := read(f, c.path)
	if err != nil {
		return failed("read", err)
	}
	if now.missing != c.before.missing || !bytes.Equal(now.data, c.before.data) {
		return invalid("File '%s' was changed by somebody else during the edit. Nothing was changed; view the file and try again.", c.path)
	}
	return nil
}

// rollback takes changes back after a later one failed. It touches only what is
// still as the change left it.
func rollback(f Files, done []change) (err error) {
	for i := len(done) - 1; i >= 0; i-- {
		c := done[i]
		now, readErr := read(f, c.path)
		if readErr == nil && now.missing == c.after.missing && bytes.Equal(now.data, c.after.data) {
			readErr = apply(f, c.path, c.before)
		}
		if readErr != nil {
			err = errors.Join(err, fmt.Errorf("taking back the change of '%s', which stays: %w", c.path, readErr))
		}
	}
	return err
}

// apply brings the file that a path leads to to a state.
func apply(f Files, path string, want file) error {
	if !want.missing {
		return f.WriteFile(path, want.data, want.perm)
	}
	if err := f.Remove(resolve(path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
