//go:build unix

package files

import (
	"io/fs"
	"os"
	"syscall"
	"time"
)

// chown gives a new file the old one's owner and group, when they differ.
func chown(f *os.File, old fs.FileInfo) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	was, ok2 := old.Sys().(*syscall.Stat_t)
	if !ok || !ok2 || is.Uid == was.Uid && is.Gid == was.Gid {
		return nil
	}
	return f.Chown(int(was.Uid), int(was.Gid))
}

// isOurs reports whether the user of this process owns a file.
func isOurs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// An inode is a file, whatever it is called.
type inode struct{ dev, ino uint64 }

// inodeOf says which file it is, how many names it has and when it last got or
// lost one, or changed otherwise.
func inodeOf(info fs.FileInfo) (id inode, links uint64, changed time.Time) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{}, 1, time.Time{}
	}
	return inode{uint64(st.Dev), st.Ino}, uint64(st.Nlink), changeTime(st)
}
