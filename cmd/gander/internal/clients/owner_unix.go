//go:build unix

package clients

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a file to the owner that another one has: root, who edits a
// person's file, must not take it away from them.
func keepOwner(file string, like fs.FileInfo) error {
	is, err := os.Stat(file)
	if err != nil {
		return err
	}
	want, ok := like.Sys().(*syscall.Stat_t)
	have, okToo := is.Sys().(*syscall.Stat_t)
	if !ok || !okToo || want.Uid == have.Uid && want.Gid == have.Gid {
		return nil
	}
	return os.Chown(file, int(want.Uid), int(want.Gid))
}
