//go:build unix && !linux && !darwin && !freebsd && !netbsd

package files

import (
	"syscall"
	"time"
)

// changeTime is unknown, which makes every look at a file with several names a
// new search.
func changeTime(*syscall.Stat_t) time.Time { return time.Now() }
