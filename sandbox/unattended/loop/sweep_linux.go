package loop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Closed closes the process to others of the same user, so that what the agent runs
// cannot read or write its streams, and makes it inherit what loses its parent, for
// Sweep. It is called once, before anything is started.
func Closed() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("closing the loop's process to others: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming the parent of what loses its own: %w", err)
	}
	return nil
}

// Sweep kills every process below this one and returns when none is left. A supervisor
// leaves nothing; but the agent may have killed its supervisor.
func Sweep(ctx context.Context) error {
	for {
		pids, err := children()
		if err != nil {
			return fmt.Errorf("looking for what is left of an iteration: %w", err)
		}
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids { // theirs become ours when they end
			_ = unix.Kill(pid, unix.SIGKILL)
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes of an iteration do not end", len(pids))
		case <-time.After(time.Millisecond):
		}
	}
}

// children lists the children of this process, those that have ended and were not waited
// for among them: so that none is missed whose parent ends while it is looked for. What
// /proc has about this process itself cannot be read once it is closed.
func children() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	self := strconv.Itoa(os.Getpid())
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it is gone
		}
		// The name is in parentheses and may contain anything; state and parent follow.
		fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
		if len(fields) > 1 && string(fields[1]) == self {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
