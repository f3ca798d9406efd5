//go:build unix

package project

import (
	"io/fs"
	"os"
	"syscall"
)

func fileOwner(info fs.FileInfo) (uid, gid int, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), true
}

// Links is how many names a file has.
func Links(info fs.FileInfo) uint64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return uint64(st.Nlink)
}

// SameOwner reports whether two paths belong to the same user.
func SameOwner(a, b string) bool {
	one, err := os.Lstat(a)
	if err != nil {
		return false
	}
	other, err := os.Lstat(b)
	if err != nil {
		return false
	}
	x, _, _ := fileOwner(one)
	y, _, known := fileOwner(other)
	return known && x == y
}
