//go:build !linux

package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// root is the project's directory, held open: what is below it is reached from
// there. A link on the way is refused.
type root struct{ r *os.Root }

func openRoot(dir string) (*root, error) {
	r, err := os.OpenRoot(dir)
	return &root{r}, err
}

func (r *root) Close() error { return r.r.Close() }

// file opens a regular file for reading. It may be another one than was listed: ask it.
func (r *root) file(rel string) (*os.File, info, error) {
	before, err := r.lookup(rel)
	if err != nil {
		return nil, info{}, err
	}
	if before.kind != kindFile {
		return nil, info{}, fmt.Errorf("%s is not a regular file", rel)
	}
	f, err := r.r.OpenFile(filepath.FromSlash(rel), os.O_RDONLY|noWait, 0)
	if err != nil {
		return nil, info{}, err
	}
	in, err := stat(f)
	if err == nil && in.kind != kindFile {
		err = fmt.Errorf("%s is not a regular file any more", rel)
	}
	if err != nil {
		f.Close()
		return nil, info{}, err
	}
	return f, in, nil
}

// readLink is the target of a link.
func (r *root) readLink(rel string) (string, error) {
	if err := r.plain(path.Dir(rel)); err != nil {
		return "", err
	}
	return r.r.Readlink(filepath.FromSlash(rel))
}

// lookup is what is at a path now.
func (r *root) lookup(rel string) (info, error) {
	if err := r.plain(path.Dir(rel)); err != nil {
		return info{}, err
	}
	fi, err := r.r.Lstat(filepath.FromSlash(rel))
	if err != nil {
		return info{}, err
	}
	return infoOf(fi), nil
}

// plain says that no part of a directory's path is a link.
func (r *root) plain(dir string) error {
	for ; dir != "." && dir != ""; dir = path.Dir(dir) {
		fi, err := r.r.Lstat(filepath.FromSlash(dir))
		if err != nil {
			return err
		}
		if !fi.IsDir() {
			return &fs.PathError{Op: "open", Path: dir, Err: fs.ErrInvalid}
		}
	}
	return nil
}

// isNotDir says that a part of a path is no directory, or a link.
func isNotDir(err error) bool { return errors.Is(err, fs.ErrInvalid) }

// stat is what an open file is now.
func stat(f *os.File) (info, error) {
	fi, err := f.Stat()
	if err != nil {
		return info{}, err
	}
	return infoOf(fi), nil
}

func infoOf(fi fs.FileInfo) info {
	in := identify(fi)
	in.size, in.mtime, in.mode = fi.Size(), fi.ModTime().UnixNano(), fi.Mode().Perm()
	switch {
	case fi.Mode().IsRegular():
		in.kind = kindFile
	case fi.Mode()&fs.ModeSymlink != 0:
		in.kind = kindLink
	case fi.IsDir():
		in.kind, in.stamp = kindDir, stamp{dev: in.dev, ino: in.ino}
	default:
		in.kind = kindSpecial
	}
	return in
}

// A lister reads directories, one after the other.
type lister struct{ r *root }

func newLister(r *root) *lister { return &lister{r} }

// list calls fn for every name in a directory until it returns false. ask tells
// what the name is.
func (l *lister) list(dir string, fn func(name []byte, ask func(name string) (info, error)) bool) error {
	if err := l.r.plain(dir); err != nil {
		return err
	}
	sub, err := l.r.r.OpenRoot(filepath.FromSlash(path.Join(".", dir)))
	if err != nil {
		return err
	}
	defer sub.Close()
	f, err := sub.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	ask := func(name string) (info, error) {
		fi, err := sub.Lstat(name)
		if err != nil {
			return info{}, err
		}
		return infoOf(fi), nil
	}
	for {
		names, err := f.Readdirnames(1024)
		for _, name := range names {
			if !fn([]byte(name), ask) {
				return nil
			}
		}
		if len(names) == 0 { // the end, as io.EOF, or an error
			return ignoreEOF(err)
		}
	}
}
