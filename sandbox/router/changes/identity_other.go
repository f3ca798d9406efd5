//go:build !linux && !darwin && !freebsd && !netbsd

package changes

import (
	"errors"
	"io"
	"io/fs"
)

const noWait = 0

// identify knows no inode and no change time here: a forged modification time
// hides a change of the same size.
func identify(fs.FileInfo) info { return info{names: 1} }

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
