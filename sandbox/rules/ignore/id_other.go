//go:build !linux && !darwin && !freebsd && !netbsd

package ignore

import (
	"io/fs"
	"time"
)

// A fileID is what else tells files apart; nothing here, where the time of the
// last modification and the size have to do.
type fileID struct{}

func identify(fs.FileInfo) fileID { return fileID{} }

func (fileID) latest(modified time.Time) time.Time { return modified }
