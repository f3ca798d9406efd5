package supervise

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// killMeFirst is the launcher's, and so the commands', share of the blame when
// memory is short: they go before the supervisor does.
const killMeFirst = "500"

// ownTasks are the processes and threads that gander itself may have in a sandbox. The
// rlimit counts them with those of the commands, whose user they have, and a Go program
// that gets no thread ends.
const ownTasks = 64

// takeBlame makes this process one of those that go first, as what it starts then will
// be, until the returned function is called. It is a preference.
func takeBlame() (giveBack func()) {
	const file = "/proc/self/oom_score_adj"
	before, err := os.ReadFile(file)
	if err != nil || os.WriteFile(file, []byte(killMeFirst), 0) != nil {
		return func() {}
	}
	return func() { _ = os.WriteFile(file, before, 0) }
}

// noCoreDumps sets the limit that means none, also where the kernel pipes them to a program
// of the machine's (core(5)): that is root's, and reads what a command has made of itself.
// Who may not raise the limit of 0 keeps that.
func noCoreDumps() error {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &now); err != nil {
		return err
	}
	bound := min(1, now.Max)
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: bound, Max: bound})
}

// limitUse sets limits for this process and all that it starts.
func limitUse(limits *Resources) error {
	if limits == nil {
		return nil
	}
	for _, l := range []struct {
		what  int
		bound int64
	}{{unix.RLIMIT_DATA, limits.Data}, {unix.RLIMIT_NPROC, processLimit(limits.Processes)}, {unix.RLIMIT_FSIZE, limits.File}} {
		if l.bound <= 0 {
			continue
		}
		var now unix.Rlimit
		if err := unix.Getrlimit(l.what, &now); err != nil {
			return err
		}
		bound := min(uint64(l.bound), now.Max)
		if err := unix.Setrlimit(l.what, &unix.Rlimit{Cur: bound, Max: bound}); err != nil {
			return fmt.Errorf("resource %d: %w", l.what, err)
		}
	}
	return nil
}

// processLimit is the rlimit for so many processes of commands; 0 is none.
func processLimit(n int64) int64 {
	if n <= 0 {
		return 0
	}
	return n + ownTasks
}

// limitsSay tells what holds of a Setup.
func limitsSay(s Setup) (says []string) {
	if l := landlockSays(privileges{Keep: s.KeepPrivileges, Writable: s.Writable}); l != "" {
		says = append(says, l)
	}
	return says
}
