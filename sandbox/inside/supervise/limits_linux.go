package supervise

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ownTasks are the processes and threads that gander itself may have in a sandbox. The
// rlimit counts them with those of the commands, whose user they have, and a Go program
// that gets no thread ends.
const ownTasks = 64

// endFirst has the kernel end this process, and what it starts from now on, before others
// when memory is short. It is a preference: where there is no such file nothing is lost. It
// comes before the process closes itself to others, which makes the file root's.
func endFirst() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
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
	}{
		{unix.RLIMIT_NPROC, processLimit(limits.Processes)},
		{unix.RLIMIT_FSIZE, limits.File},
		{unix.RLIMIT_SIGPENDING, ofUser},
		{unix.RLIMIT_MSGQUEUE, ofUser},
	} {
		if l.bound == 0 {
			continue
		}
		var now unix.Rlimit
		if err := unix.Getrlimit(l.what, &now); err != nil {
			return err
		}
		bound := min(uint64(l.bound), now.Max)
		if l.bound == ofUser {
			bound = now.Max / share
		}
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

// share is how much of what the kernel gives each user, and not each process, a sandbox may
// have: with all of it nothing else of the user's, on the machine or in another sandbox, would
// get any.
const share = 2

// ofUser is the bound of such a thing: its share.
const ofUser = -1

// watchLimits are those of inotify(7). As settings of a user namespace they bound what is in
// it, also by those above, of which the machine's have names of their own, too.
func watchLimits() map[string]string {
	return map[string]string{
		"/sys/user/max_inotify_instances": "/sys/fs/inotify/max_user_instances",
		"/sys/user/max_inotify_watches":   "/sys/fs/inotify/max_user_watches",
	}
}

// boundWatches sets them in the user namespace, by a proc file system that can be written.
// The machine's own are left alone. watchesSay tells whether it worked.
func boundWatches(proc string) {
	for own, machine := range watchLimits() {
		now, all := setting(proc+own), setting(proc+machine)
		if all > 0 && now > all {
			_ = os.WriteFile(proc+own, strconv.AppendInt(nil, max(all/share, 1), 10), 0)
		}
	}
}

// watchesSay tells whether they are bounded.
func watchesSay() string {
	for own, machine := range watchLimits() {
		if now, all := setting("/proc"+own), setting("/proc"+machine); now <= 0 || now >= all {
			return ""
		}
	}
	return "inotify: a half of what a user has, by the user namespace"
}

// setting is one of the kernel's that is a number, or -1.
func setting(path string) int64 {
	raw, err := os.ReadFile(path)
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// limitsSay tells what holds of a Setup.
func limitsSay(s Setup) (says []string) {
	if l := landlockSays(privileges{Keep: s.KeepPrivileges, Writable: s.Writable}); l != "" {
		says = append(says, l)
	}
	if w := watchesSay(); w != "" {
		says = append(says, w)
	}
	return says
}
