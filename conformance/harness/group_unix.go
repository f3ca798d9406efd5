//go:build unix

package harness

import (
	"os/exec"
	"syscall"
)

// OwnGroup puts a program into a process group of its own: what a terminal sends
// to the harness is not for it.
func OwnGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// KillGroup kills the group of a program that OwnGroup prepared.
func KillGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// Terminate sends SIGTERM.
func Terminate(cmd *exec.Cmd) error { return cmd.Process.Signal(syscall.SIGTERM) }

// CanTerminate says whether this system has SIGTERM.
const CanTerminate = true
