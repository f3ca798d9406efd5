//go:build !windows

package fleet

import (
	"syscall"
)

// detached has a process live on when gander, or the terminal that it runs in, ends.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
