//go:build linux || darwin || freebsd || netbsd

package ignore

import (
	"io/fs"
	"syscall"
	"time"
)

// A fileID is what a file cannot fake: which one it is, and when it last changed.
type fileID struct {
	dev, ino uint64
	changed  time.Time
}

func identify(info fs.FileInfo) fileID {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}
	}
	return fileID{dev: uint64(st.Dev), ino: st.Ino, changed: changeTime(st)}
}

// latest is the later of its own time and the one that programs may set.
func (f fileID) latest(modified time.Time) time.Time {
	if f.changed.After(modified) {
		return f.changed
	}
	return modified
}
