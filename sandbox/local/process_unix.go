//go:build unix && !linux

package local

import (
	"os/exec"
	"syscall"
)

// held is how processes are held together, in words for people.
const held = "by process group; one that daemonizes may escape"

// detach keeps the terminal's signals from the supervisor; its stream's end is
// its sign.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
