package supervise

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Go's runtime has a thread that looks after the others, every 20 µs at first and seldom
// once nothing has happened for a while. While a command starts it looks in S, in L and in
// the command's shepherd, and each look wakes an idle processor or interrupts the command.
// Timer slack (PR_SET_TIMERSLACK of prctl(2)) lets it sleep longer. It is inherited: S gets
// it from the host, and commands get the kernel's usual one back.
const (
	ownSlack     = time.Millisecond
	commandSlack = 50 * time.Microsecond
)

// Relaxed starts a process whose timers may be late by a millisecond, such as S.
func Relaxed(start func() error) error { return withSlack(ownSlack, start) }

// withSlack starts a process with a timer slack.
func withSlack(d time.Duration, start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if own, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err == nil {
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(own), 0, 0, 0) }()
	}
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(d.Nanoseconds()), 0, 0, 0)
	return start()
}
