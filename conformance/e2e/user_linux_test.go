package e2e

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// become makes a command run as the world's user.
func (w *world) become(cmd *exec.Cmd) {
	if w.uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.gid)}}
	}
}

// groupOf is the group that a file belongs to.
func groupOf(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Sys().(*syscall.Stat_t).Gid)
}
