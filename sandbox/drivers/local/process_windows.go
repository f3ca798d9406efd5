package local

import (
	"os/exec"
	"syscall"
)

// held is how processes are held together, in words for people.
const held = "by job object"

// isolating is what a person can do for isolation: no container can show a project at
// the path that it has here.
const isolating = "run gander inside WSL"

// detach keeps the console's signals from the supervisor.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// sweep has nothing to do: the supervisor's jobs end with it.
func sweep(int) error { return nil }
