//go:build unix

package sandboxtest

import (
	"os"
	"syscall"
)

func fileOwner(info os.FileInfo) (uid, gid int) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, -1
	}
	return int(st.Uid), int(st.Gid)
}
