package fleet

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// detached has a process live on when gander, or the console that it runs in, ends.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS}
}
