//go:build unix && !linux && !darwin

package supervise

import (
	"errors"
	"syscall"
)

func allProcs() ([]proc, error) { return nil, errors.ErrUnsupported }

// ProcessStart says when a process began. Here nothing does.
func ProcessStart(int) (uint64, error) { return 0, errors.ErrUnsupported }

func maxRSS(u *syscall.Rusage) int64 { return int64(u.Maxrss) << 10 }
