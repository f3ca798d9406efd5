package changes

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// at calls fn with the open directory of a path and the path's last name. No part
// of the directory's path is a link.
func (r *root) at(op, rel string, fn func(dir int, base string) error) error {
	dir, err := r.open(path.Dir(rel), unix.O_DIRECTORY)
	if err == nil {
		err = fn(dir, path.Base(rel))
		_ = unix.Close(dir)
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: rel, Err: err}
	}
	return nil
}

// create makes a file, which must not be there.
func (r *root) create(rel string) (f *os.File, err error) {
	err = r.at("create", rel, func(dir int, base string) error {
		fd, err := unix.Openat(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err == nil {
			f = os.NewFile(uintptr(fd), rel)
		}
		return err
	})
	return f, err
}

func (r *root) symlink(target, rel string) error {
	return r.at("symlink", rel, func(dir int, base string) error { return unix.Symlinkat(target, dir, base) })
}

func (r *root) mkdir(rel string, mode fs.FileMode) error {
	return r.at("mkdir", rel, func(dir int, base string) error { return unix.Mkdirat(dir, base, uint32(mode)) })
}

// syncDir makes the names in a directory last.
func (r *root) syncDir(rel string) error {
	fd, err := r.open(rel, unix.O_DIRECTORY)
	if err != nil {
		return &fs.PathError{Op: "sync", Path: rel, Err: err}
	}
	f := os.NewFile(uintptr(fd), rel)
	return errors.Join(syncNames(f), f.Close())
}

// remove removes a file, or a link itself.
func (r *root) remove(rel string) error {
	return r.at("remove", rel, func(dir int, base string) error { return unix.Unlinkat(dir, base, 0) })
}

// rmdir removes an empty directory.
func (r *root) rmdir(rel string) error {
	return r.at("rmdir", rel, func(dir int, base string) error { return unix.Unlinkat(dir, base, unix.AT_REMOVEDIR) })
}

// move renames; it replaces nothing.
func (r *root) move(from, to string) error {
	return r.at("rename", from, func(fromDir int, fromBase string) error {
		return r.at("rename", to, func(toDir int, toBase string) error {
			err := unix.Renameat2(fromDir, fromBase, toDir, toBase, unix.RENAME_NOREPLACE)
			if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
				return err
			}
			var st unix.Stat_t // a file system without that flag
			if err := unix.Fstatat(toDir, toBase, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
				return unix.EEXIST
			}
			return unix.Renameat(fromDir, fromBase, toDir, toBase)
		})
	})
}

// chmodDir sets a directory's permissions, also of one that cannot be opened for reading.
func (r *root) chmodDir(rel string, mode fs.FileMode) error {
	fd, err := r.open(rel, unix.O_DIRECTORY|unix.O_PATH)
	if err == nil { // fchmod takes no such descriptor; what it leads to is no link
		err = unix.Fchmodat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), uint32(mode), 0)
		_ = unix.Close(fd)
	}
	if err != nil {
		return &fs.PathError{Op: "chmod", Path: rel, Err: err}
	}
	return nil
}

// giveDir gives a directory that was made to its owner where root works for somebody.
func (t *Tree) giveDir(rel string) error {
	fd, err := t.root.open(rel, unix.O_DIRECTORY)
	if err != nil {
		return &fs.PathError{Op: "open", Path: rel, Err: err}
	}
	f := os.NewFile(uintptr(fd), rel)
	return errors.Join(setMode(f, ownerDoesAll, t.ownerOfNew), f.Close())
}

// setMode sets an open file's permissions, and its owner's where root works for somebody.
func setMode(f *os.File, mode fs.FileMode, owner func() (uid, gid int, ok bool)) error {
	if uid, gid, ok := owner(); ok {
		if err := f.Chown(uid, gid); err != nil {
			return err
		}
	}
	return unix.Fchmod(int(f.Fd()), uint32(mode))
}
