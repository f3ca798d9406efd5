package changes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// root is the project's directory, held open: what is below it is reached from
// there, never by a path from the top and never through a link.
type root struct{ f *os.File }

func openRoot(dir string) (*root, error) {
	f, err := os.Open(dir)
	return &root{f}, err
}

func (r *root) Close() error { return r.f.Close() }

// how opens without following anything.
const how = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

// open opens a path below the root of which no part is a link.
func (r *root) open(rel string, flags int) (int, error) {
	if rel == "" {
		rel = "."
	}
	all := how | flags
	if flags&unix.O_PATH != 0 { // openat2 refuses flags beside it that say nothing then
		all &^= unix.O_NONBLOCK | unix.O_NOCTTY
	}
	for {
		fd, err := unix.Openat2(int(r.f.Fd()), rel, &unix.OpenHow{
			Flags: uint64(all), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN): // something was renamed meanwhile
			continue
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
			return r.openStepwise(rel, flags)
		}
		return fd, err
	}
}

// openStepwise is open where the kernel, or a container's filter, has no openat2.
func (r *root) openStepwise(rel string, flags int) (int, error) {
	at, err := unix.Openat(int(r.f.Fd()), ".", how|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	parts := strings.Split(path.Clean(rel), "/")
	for i, part := range parts {
		if part == ".." {
			_ = unix.Close(at)
			return -1, unix.EXDEV
		}
		more := unix.O_DIRECTORY
		if i == len(parts)-1 {
			more = flags
		}
		next, err := unix.Openat(at, part, how|more, 0)
		_ = unix.Close(at)
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

// file opens a regular file for reading. It may be another one than was listed: ask it.
func (r *root) file(rel string) (*os.File, info, error) {
	fd, err := r.open(rel, 0)
	if err != nil {
		return nil, info{}, &fs.PathError{Op: "open", Path: rel, Err: err}
	}
	in, err := fstat(fd)
	if err == nil && in.kind != kindFile {
		err = fmt.Errorf("%s is not a regular file any more", rel)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, info{}, err
	}
	return os.NewFile(uintptr(fd), rel), in, nil
}

// readLink is the target of a link.
func (r *root) readLink(rel string) (string, error) {
	dir, err := r.open(path.Dir(rel), unix.O_DIRECTORY)
	if err != nil {
		return "", err
	}
	defer unix.Close(dir)
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, path.Base(rel), buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// lookup is what is at a path now.
func (r *root) lookup(rel string) (info, error) {
	dir, err := r.open(path.Dir(rel), unix.O_DIRECTORY)
	if err != nil {
		return info{}, &fs.PathError{Op: "open", Path: rel, Err: err}
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	if err := unix.Fstatat(dir, path.Base(rel), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return info{}, &fs.PathError{Op: "lstat", Path: rel, Err: err}
	}
	return infoOf(&st), nil
}

// isNotDir says that a part of a path is no directory, or a link.
func isNotDir(err error) bool { return errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) }

func fstat(fd int) (info, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return info{}, err
	}
	return infoOf(&st), nil
}

// stat is what an open file is now.
func stat(f *os.File) (info, error) { return fstat(int(f.Fd())) }

func infoOf(st *unix.Stat_t) info {
	in := info{
		stamp: stamp{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano()},
		mode:  fs.FileMode(st.Mode & 0o7777), names: uint64(st.Nlink), uid: st.Uid, gid: st.Gid,
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		in.kind = kindFile
	case unix.S_IFLNK:
		in.kind = kindLink
	case unix.S_IFDIR: // its size and times move with what is in it
		in.kind, in.stamp = kindDir, stamp{dev: in.dev, ino: in.ino}
	default:
		in.kind = kindSpecial
	}
	return in
}

// A lister reads directories, one after the other.
type lister struct {
	r   *root
	buf []byte
}

func newLister(r *root) *lister { return &lister{r: r, buf: make([]byte, 64<<10)} }

// list calls fn for every name in a directory until it returns false. ask tells
// what the name is; the name is valid during the call only.
func (l *lister) list(dir string, fn func(name []byte, ask func(name string) (info, error)) bool) error {
	fd, err := l.r.open(dir, unix.O_DIRECTORY)
	if err != nil {
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	ask := func(name string) (info, error) {
		if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return info{}, err
		}
		return infoOf(&st), nil
	}
	for {
		n, err := unix.ReadDirent(fd, l.buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return &fs.PathError{Op: "readdirent", Path: dir, Err: err}
		case n <= 0:
			return nil
		}
		for rest := l.buf[:n]; len(rest) > 0; {
			var name []byte
			if name, rest = dirent(rest); name != nil && !fn(name, ask) {
				return nil
			}
		}
	}
}

// dirent takes a name off what getdents64 gave: inode and offset of 8 bytes each,
// length, type, and the name up to a zero. The name is nil for the directory itself
// and the one above.
func dirent(buf []byte) (name, rest []byte) {
	const header = 19
	if len(buf) < header {
		return nil, nil
	}
	size := int(binary.NativeEndian.Uint16(buf[16:]))
	if size < header || size > len(buf) {
		return nil, nil
	}
	name, rest = buf[header:size], buf[size:]
	for i, c := range name {
		if c == 0 {
			name = name[:i]
			break
		}
	}
	if string(name) == "." || string(name) == ".." {
		return nil, rest
	}
	return name, rest
}
