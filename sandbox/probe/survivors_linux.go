package probe

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// survivors are the processes of the machine with tag in their environment.
func survivors(tag string) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		env, err := os.ReadFile(filepath.Join(d, "environ"))
		if pid, numErr := strconv.Atoi(filepath.Base(d)); err == nil && numErr == nil && bytes.Contains(env, []byte(tag)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

const (
	killPasses = 10_000
	// quietLooks in a row find nothing before all are taken for dead: who replaces itself
	// all the time is missed by many a look.
	quietLooks = 20
	quietPause = 2 * time.Millisecond
)

// killAll ends what a control has left, also what that starts meanwhile. Process groups
// are killed as a whole, which the kernel does between two forks; a process that was seen
// may have been replaced by another of its group.
func killAll(tag string) {
	own := unix.Getpgrp()
	for pass, quiet := 0, 0; pass < killPasses && quiet < quietLooks; pass++ {
		pids := survivors(tag)
		if quiet++; len(pids) > 0 {
			quiet = 0
		}
		for _, pid := range pids {
			if group, err := unix.Getpgid(pid); err == nil && group > 1 && group != own {
				_ = unix.Kill(-group, unix.SIGKILL)
			}
			if p, err := unix.PidfdOpen(pid, 0); err == nil {
				_ = unix.PidfdSendSignal(p, unix.SIGKILL, nil, 0)
				_ = unix.Close(p)
			}
		}
		if quiet > 0 {
			time.Sleep(quietPause)
		}
	}
}
