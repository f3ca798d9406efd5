//go:build unix

package supervise

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// quietLooks are how many looks in a row have to find nothing: a list of processes is not
// made at one stroke.
const quietLooks = 5

// endSession kills every process of a session whose leader has ended, and returns when
// none lives. A group is killed at one stroke; all of it is in one session.
func endSession(ctx context.Context, leader int, list func() ([]proc, error)) error {
	for pass, quiet := 0, 0; ; pass++ {
		all, err := list()
		if err != nil {
			return fmt.Errorf("ending what supervisor %d has left: %w", leader, err)
		}
		found := 0
		for _, p := range all {
			if session, err := unix.Getsid(p.pid); err != nil || session != leader || p.dead || p.group <= 1 {
				continue
			}
			found++
			_ = unix.Kill(-p.group, unix.SIGKILL)
		}
		if quiet++; found > 0 {
			quiet = 0
		}
		if quiet == quietLooks {
			return nil
		}
		if err := pause(ctx, pass); err != nil {
			return fmt.Errorf("%d processes that supervisor %d has left do not die: %w", found, leader, err)
		}
	}
}
