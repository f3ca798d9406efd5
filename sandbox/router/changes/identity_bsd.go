//go:build darwin || freebsd || netbsd

package changes

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
)

const noWait = syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_NOCTTY

func identify(fi fs.FileInfo) (in info) {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		in.dev, in.ino, in.names, in.uid, in.gid, in.ctime = uint64(st.Dev), uint64(st.Ino), uint64(st.Nlink), st.Uid, st.Gid, st.Ctimespec.Nano()
	}
	return in
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
