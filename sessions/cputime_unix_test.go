//go:build unix

package sessions_test

import (
	"syscall"
	"time"
)

// processTime is the processor time of this process: unlike the clock's it is the
// same on a machine that has other work.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it is always there
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
