//go:build !linux

package changes

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// create makes a file, which must not be there.
func (r *root) create(rel string) (*os.File, error) {
	if err := r.plain(path.Dir(rel)); err != nil {
		return nil, err
	}
	return r.r.OpenFile(filepath.FromSlash(rel), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func (r *root) symlink(target, rel string) error {
	if err := r.plain(path.Dir(rel)); err != nil {
		return err
	}
	return r.r.Symlink(target, filepath.FromSlash(rel))
}

func (r *root) mkdir(rel string, mode fs.FileMode) error {
	if err := r.plain(path.Dir(rel)); err != nil {
		return err
	}
	return r.r.Mkdir(filepath.FromSlash(rel), mode)
}

// syncDir makes the names in a directory last.
func (r *root) syncDir(rel string) error {
	if err := r.plain(rel); err != nil {
		return err
	}
	f, err := r.r.Open(filepath.FromSlash(rel))
	if err != nil {
		return err
	}
	return errors.Join(syncNames(f), f.Close())
}

// remove removes a file, or a link itself.
func (r *root) remove(rel string) error {
	in, err := r.lookup(rel)
	if err != nil {
		return err
	}
	if in.kind == kindDir {
		return &fs.PathError{Op: "remove", Path: rel, Err: fs.ErrInvalid}
	}
	return r.r.Remove(filepath.FromSlash(rel))
}

// rmdir removes an empty directory.
func (r *root) rmdir(rel string) error {
	in, err := r.lookup(rel)
	if err != nil {
		return err
	}
	if in.kind != kindDir {
		return &fs.PathError{Op: "rmdir", Path: rel, Err: fs.ErrInvalid}
	}
	return r.r.Remove(filepath.FromSlash(rel))
}

// move renames; it replaces nothing that is there when it looks.
func (r *root) move(from, to string) error {
	if err := r.plain(path.Dir(from)); err != nil {
		return err
	}
	if _, err := r.lookup(to); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist})
	}
	return r.r.Rename(filepath.FromSlash(from), filepath.FromSlash(to))
}

// chmodDir sets a directory's permissions.
func (r *root) chmodDir(rel string, mode fs.FileMode) error {
	if err := r.plain(rel); err != nil {
		return err
	}
	return r.r.Chmod(filepath.FromSlash(rel), mode.Perm())
}

// giveDir lets the owner of a directory that was made do everything there.
func (t *Tree) giveDir(rel string) error { return t.root.chmodDir(rel, ownerDoesAll) }

// setMode sets an open file's permissions, and its owner's where root works for somebody.
func setMode(f *os.File, mode fs.FileMode, owner func() (uid, gid int, ok bool)) error {
	if uid, gid, ok := owner(); ok {
		if err := f.Chown(uid, gid); err != nil {
			return err
		}
	}
	return f.Chmod(mode.Perm())
}
