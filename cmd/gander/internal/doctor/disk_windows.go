package doctor

import (
	"golang.org/x/sys/windows"
)

// freeSpace is how many bytes the user can still write where path is.
func freeSpace(path string) (uint64, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
	return free, err
}
