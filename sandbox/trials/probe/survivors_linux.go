package probe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// survivors are the processes of the machine with tag in their environment. It looks at
// the newest first: what replaces itself all the time lives no longer than a moment.
func survivors(tag string) (found []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	for _, pid := range slices.Backward(pids) {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && bytes.Contains(env, []byte(tag)) {
			found = append(found, pid)
		}
	}
	return found
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
	own, groups := unix.Getpgrp(), map[int]bool{}
	for pass, quiet := 0, 0; pass < killPasses && quiet < quietLooks; pass++ {
		pids := survivors(tag)
		if quiet++; len(pids) > 0 {
			quiet = 0
		}
		for group := range groups {
			if errors.Is(unix.Kill(-group, unix.SIGKILL), unix.ESRCH) {
				delete(groups, group) // its number may be another's next
			}
		}
		for _, pid := range pids {
			if group, err := unix.Getpgid(pid); err == nil && group > 1 && group != own {
				_ = unix.Kill(-group, unix.SIGKILL)
				groups[group] = true
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
