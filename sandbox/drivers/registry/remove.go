package registry

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// RemoveDir removes a directory that agents have worked in, also what they left
// without the right to be removed (module caches are read-only), and however deep it
// is. Nothing may run in it any more.
func RemoveDir(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = os.Chmod(dir, 0o700) // if this fails, removing fails
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	r := remover{root: root, prefix: rand.Text(), bits: 0o700}
	if err := errors.Join(r.empty(root, "."), root.Close()); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// Empty removes all that is in a directory, as RemoveDir does, but what is in
// directories that may not be read: nobody has seen that.
func Empty(root *os.Root) error {
	r := remover{root: root, prefix: rand.Text(), bits: 0o300}
	return r.empty(root, ".")
}

// remover empties a directory. Those below are moved into it before they are emptied: no
// path gets long, and a few directories are open at a time.
type remover struct {
	root   *os.Root
	prefix string      // of the names of those that were moved
	bits   fs.FileMode // that directories get
	moved  int
}

// empty removes what is in a directory, which is the root, or by that name in it.
func (r *remover) empty(dir *os.Root, name string) error {
	for {
		names, err := some(dir)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, child := range names {
			if err := dir.Remove(child); err == nil || errors.Is(err, fs.ErrNotExist) {
				continue // it was no directory, or empty, or another gander is at it, too
			}
			if info, err := dir.Lstat(child); err == nil && info.IsDir() {
				_ = dir.Chmod(child, info.Mode().Perm()|r.bits) // if this fails, the rest does
			}
			if dir == r.root {
				err = r.remove(child)
			} else {
				r.moved++
				err = r.root.Rename(filepath.Join(name, child), r.prefix+strconv.Itoa(r.moved))
			}
			if err != nil {
				return err
			}
		}
	}
}

// remove removes a directory in the root.
func (r *remover) remove(name string) error {
	dir, err := r.root.OpenRoot(name)
	if err != nil {
		return err
	}
	if err := errors.Join(r.empty(dir, name), dir.Close()); err != nil {
		return err
	}
	return r.root.Remove(name)
}

// some are names of what is in a directory, none when it is empty.
func some(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(1000)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, errors.Join(err, f.Close())
}
