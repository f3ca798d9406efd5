package devices

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// The numbers of devices that no sandbox gets (admin-guide/devices.txt of Linux).
const (
	majorMemory    = 1 // but for null, zero, full, random, urandom
	majorTerminal  = 4
	majorTerminals = 5
	firstPTY       = 128 // of two ranges side by side
	lastPTY        = 143
)

// refusal says why no sandbox gets a device; empty when it may.
func refusal(path string) string {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fmt.Sprintf("cannot be looked at (%v)", err)
	}
	major, minor := unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev))
	switch kind := st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFBLK:
		return "is a disk, and no sandbox gets one"
	case kind != unix.S_IFCHR:
		return "is no device"
	case major == majorMemory && (minor < 3 || minor == 4 || minor == 11 || minor == 12):
		return "is the machine's memory or its kernel's messages, and no sandbox gets them"
	case major == majorTerminal, major == majorTerminals, major >= firstPTY && major <= lastPTY:
		return "is a terminal, and no sandbox gets one"
	}
	return ""
}

func isDirectory(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}
