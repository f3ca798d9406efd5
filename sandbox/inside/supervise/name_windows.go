package supervise

import (
	"path/filepath"

	"golang.org/x/sys/windows"
)

func processName(pid int) string {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return ""
	}
	defer func() { _ = windows.CloseHandle(h) }()
	name := make([]uint16, 1024)
	size := uint32(len(name))
	if err := windows.QueryFullProcessImageName(h, 0, &name[0], &size); err != nil {
		return ""
	}
	return filepath.Base(windows.UTF16ToString(name[:size]))
}
