package sessions

import (
	"os"

	"golang.org/x/sys/windows"
)

// lockedAt is a place far behind any transcript's end: locks are mandatory here,
// and one on content would keep readers away.
const lockedAt = 1 << 30 // of 4 GiB

// lockFile waits until no other writer is at f. The lock ends with unlockFile, or
// with the process.
func lockFile(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &windows.Overlapped{OffsetHigh: lockedAt})
}

func unlockFile(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{OffsetHigh: lockedAt})
}

// tryLockFile is lockFile without waiting; false when somebody has the lock.
func tryLockFile(f *os.File) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{OffsetHigh: lockedAt})
	if err == windows.ERROR_LOCK_VIOLATION || err == windows.ERROR_IO_PENDING {
		return false, nil
	}
	return err == nil, err
}
