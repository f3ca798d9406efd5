package sandboxtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/trials/probe"
)

// leastProven is how many cases must be blocked while their control succeeds.
const leastProven = 150

// dependOnMachine are attempts whose control does not succeed on every machine: the
// kernel lacks what they are about, or root has not all of its rights.
func dependOnMachine() map[string]bool {
	names := map[string]bool{}
	for _, id := range []string{
		"files/by a name of an x32 call", "files/by a 32 bit call", "files/by io_uring", "files/by an overlay", "network/a socket of the kernel's crypto", "network/a vsock",
		"network/tcp6 loopback", "network/udp6 loopback", "network/a device of its own", "network/seeing the machine's routes", "network/a netlink socket of the kernel's log",
		"proc/a lower chance of being killed for memory",
		"kernel/init_module", "kernel/delete_module", "kernel/iopl", "kernel/ioperm", "kernel/rlimit", "kernel/modify_ldt", "kernel/perf_event_open", "kernel/userfaultfd", "kernel/io_uring_setup",
		"kernel/core-dumps", "kernel/mount cgroup", "kernel/syslog",
	} {
		names[id] = true
	}
	return names
}

// OfPlace returns the classes of attempts that each kind of sandbox blocks in its own way.
// The others are blocked by the supervisor, which is the same in all of them.
func OfPlace() []string {
	return []string{probe.Machine, probe.Everyday, probe.Proc, probe.Kernel, probe.Processes, probe.Network, probe.Environment, probe.Protocol}
}

// TestProbe runs the catalogue of sandbox/trials/probe, or the classes in only: nothing may
// get out, and what is blocked must be proven by its control, a race also by as many rounds
// as the variable GANDER_RACE_ROUNDS says. executable is gander, or a program that has
// its attempts; owner is as for TestDriver.
func TestProbe(t *testing.T, newDriver NewDriver, executable string, owner int, only ...string) {
	rounds := 50
	if n := os.Getenv("GANDER_RACE_ROUNDS"); n != "" {
		if _, err := fmt.Sscan(n, &rounds); err != nil {
			t.Fatal(err)
		}
	}
	driver, state := newDriver(t), t.TempDir()
	report, err := probe.Run(t.Context(), probe.Options{
		Create: func(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
			return confine.CreateHiding(ctx, driver, spec, filepath.Join(state, spec.ID))
		},
		Executable: executable, Owner: owner, Rounds: rounds, Only: only,
	})
	if err != nil {
		t.Fatal(err)
	}
	takesRoot, depends := map[string]bool{}, dependOnMachine()
	for _, c := range probe.Catalogue() {
		takesRoot[c.ID] = c.Root || c.Namespaced
	}
	for _, r := range report.Results {
		excused := depends[r.ID] || takesRoot[r.ID] && os.Geteuid() != 0 || r.Verdict == probe.Untried && strings.HasPrefix(r.Inside, "this machine has no") ||
			strings.HasPrefix(r.ID, "proc/reading /sys") || strings.HasPrefix(r.ID, "everyday/the device") // empty on some machines
		switch {
		case r.Verdict == probe.Escaped:
			t.Errorf("%s got through: %s", r.ID, r.Inside)
		case r.Verdict != probe.Blocked && !excused:
			t.Errorf("%s: %s: outside %q, inside %q", r.ID, r.Verdict, r.Outside, r.Inside)
		case r.Verdict != probe.Blocked:
			t.Logf("%s: %s: outside %q, inside %q", r.ID, r.Verdict, r.Outside, r.Inside)
		}
	}
	blocked := report.Count(probe.Blocked)
	t.Logf("%d blocked, %d unproven, %d not tried", blocked, report.Count(probe.Unproven), report.Count(probe.Untried))
	least := leastProven
	if len(only) > 0 {
		least = len(report.Results) / 2
	}
	if blocked < least {
		t.Errorf("%d of %d cases were blocked with a control that succeeds, want %d", blocked, len(report.Results), least)
	}
}
