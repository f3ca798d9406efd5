package acp

import (
	"os/exec"
	"syscall"
)

// inShell is a command of the model. cmd has rules of its own for quotes: it gets
// the command as it is.
func inShell(command string) *exec.Cmd {
	cmd := exec.Command("cmd")
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd /s /c "` + command + `"`}
	return cmd
}

// apart does nothing: there are no sessions here.
func apart(*exec.Cmd) {}
