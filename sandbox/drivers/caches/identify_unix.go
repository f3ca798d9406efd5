//go:build unix

package caches

import (
	"fmt"
	"os"
	"syscall"
)

// identify returns what tells a directory, and its owner, from another one at its path.
func identify(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", nil
	}
	return fmt.Sprintf("inode %d of uid %d", st.Ino, st.Uid), nil
}
