//go:build unix

package acp

import (
	"os/exec"
	"syscall"

	"gander.dev/gander/conformance/harness"
)

// inShell is a command of the model, in a group of its own.
func inShell(command string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", command)
	harness.OwnGroup(cmd)
	return cmd
}

// apart gives a program a session of its own.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
