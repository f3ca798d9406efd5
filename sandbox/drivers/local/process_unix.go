//go:build unix && !linux

package local

import (
	"context"
	"os/exec"
	"syscall"

	"gander.dev/gander/sandbox/inside/supervise"
)

// held is how processes are held together, in words for people.
const held = "by process group; one that daemonizes may escape"

// isolating is what a person can do for isolation.
const isolating = "use the docker driver"

// detach keeps the terminal's signals from the supervisor, which leads a session; its
// stream's end is its sign.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// sweep ends what a supervisor that has just ended left in its session.
func sweep(supervisor int) error {
	ctx, cancel := context.WithTimeout(context.Background(), exitTimeout)
	defer cancel()
	return supervise.EndSession(ctx, supervisor)
}
