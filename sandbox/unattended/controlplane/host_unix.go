//go:build unix

package controlplane

import (
	"io/fs"
	"syscall"
)

// nonblock keeps opening a pipe that an agent has put there from waiting for its other end.
const nonblock = syscall.O_NONBLOCK

// ownerOf is who a file belongs to.
func ownerOf(info fs.FileInfo) (uid, gid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), true
}
