package local_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/trials/sandboxtest"
)

// limited makes a sandbox with bounds.
func limited(t *testing.T, owner int, l sandbox.Limits) sandbox.Sandbox {
	t.Helper()
	spec := sandboxtest.Spec(t, owner)
	spec.Limits = l
	return sandboxtest.Create(t, newLocal(t), spec)
}

// TestLimits: what uses too much ends as promised, and the sandbox lives on.
func TestLimits(t *testing.T) {
	const mib = 1 << 20
	for whose, owner := range owners() {
		t.Run(whose, func(t *testing.T) {
			bounds := sandbox.Limits{Memory: 128 * mib, Processes: 60, Disk: 32 * mib, CPU: 0.5, Time: 20 * time.Second}
			sb, whole := limited(t, owner, bounds), t
			says := strings.Join(sb.Info().Limits, "\n")
			t.Log(says)
			for _, tt := range []struct{ name, script, want, told string }{
				{"a memory hog", `a=x; while :; do a=$a$a; done; echo survived`, "", "more memory"},
				{"a fork bomb", `(ulimit -t 15; bomb() { bomb | bomb & }; bomb; sleep 1) 2>&1; echo over`, "ork", "could not be started"},
				{"a disk filler", `dd if=/dev/zero of=/tmp/fill bs=1M count=100 2>&1; rm -f /tmp/fill`, "No space left|File size limit|File too large", ""},
			} {
				t.Run(tt.name, func(t *testing.T) {
					if tt.name == "a fork bomb" && !strings.Contains(says, "by cgroup") {
						// The bound of a user's processes counts who runs the command, too: the sandbox
						// may end by it, and with it the bomb.
						p := sandboxtest.Start(t, sb, tt.script)
						_, _ = p.Wait(t.Context())
						_ = sb.Close()
						sb = limited(whole, owner, bounds)
						return
					}
					out, errs, st := sandboxtest.Run(t, sb, tt.script)
					text := out + errs
					if strings.Contains(text, "survived") {
						t.Errorf("it was not stopped: %q", text)
					}
					found := tt.want == ""
					for want := range strings.SplitSeq(tt.want, "|") {
						found = found || strings.Contains(text, want)
					}
					if !found {
						t.Errorf("it says %.300q %+v, want %q", text, st, tt.want)
					}
					exceeded := strings.Join(sb.(sandbox.Limited).Exceeded(t.Context()), "\n")
					if (tt.name == "a memory hog" || strings.Contains(says, "by cgroup")) && !strings.Contains(exceeded, tt.told) {
						t.Errorf("of the bounds that were met is said %q, want %q", exceeded, tt.told)
					}
					if out, errs, _ := sandboxtest.Run(t, sb, "echo alive"); out != "alive\n" {
						t.Errorf("afterwards: %q %q", out, errs)
					}
				})
			}
		})
	}
}

// TestFilesInMemory: what the supervisor makes in memory for the commands is in no bound of
// theirs, and bounded by the number of files.
func TestFilesInMemory(t *testing.T) {
	sb := limited(t, -1, sandbox.Limits{Memory: 64 << 20})
	for _, at := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		out, errs, _ := sandboxtest.Run(t, sb, `python3 -c '
import os
for i in range(10000): os.symlink("x"*4000, "`+at+`/link%d" % i)'`)
		if !strings.Contains(errs, "No space left") {
			t.Errorf("in %s 10000 links were made: %q %q", at, out, errs)
		}
	}
}

// TestListsInMemory: access lists of files in memory are in no bound either, and small.
func TestListsInMemory(t *testing.T) {
	out, errs, _ := sandboxtest.Run(t, limited(t, -1, sandbox.Limits{}), `python3 - <<'E'
import errno, os, struct
entry = lambda tag, id=0xffffffff: struct.pack("<HHI", tag, 7, id)
def refused(name, users):
    try: os.setxattr("/tmp/d", name, struct.pack("<I", 2) + entry(1) + entry(2, os.getuid()) * users + entry(4) + entry(16) + entry(32))
    except OSError as e: return e.errno
os.mkdir("/tmp/d")
for name in "system.posix_acl_access", "system.posix_acl_default":
    assert refused(name, 8000) in (errno.ENOSPC, errno.EOPNOTSUPP), (name, refused(name, 8000))
    assert refused(name, 200) in (None, errno.EOPNOTSUPP), (name, refused(name, 200))
print("small")
E`)
	if out != "small\n" {
		t.Errorf("%q %q", out, errs)
	}
}

// TestNoCoreDumps: nobody sets the limit of 0, by which a program of the machine gets dumps
// all the same where the kernel pipes them to one.
func TestNoCoreDumps(t *testing.T) {
	for whose, owner := range owners() {
		t.Run(whose, func(t *testing.T) {
			out, errs, _ := sandboxtest.Run(t, limited(t, owner, sandbox.Limits{}), `ulimit -c 0; python3 - <<'E'
import ctypes, errno, os, resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE))
libc, number = ctypes.CDLL(None, use_errno=True), {"x86_64": 160, "aarch64": 164}[os.uname().machine]
assert libc.syscall(number, resource.RLIMIT_CORE, (ctypes.c_ulong * 2)()) == 0
for pid in 0, os.getpid(), os.getppid():
    try: resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
    except OSError as e: assert e.errno == errno.EPERM
    assert resource.prlimit(pid, resource.RLIMIT_CORE) == (1, 1)
print("none")
E`)
			if out != "none\n" {
				t.Errorf("%q %q", out, errs)
			}
		})
	}
}

// TestSharesOfUser: of what the kernel gives a user as a whole a sandbox gets a part, so that
// something is left for what else the user runs.
func TestSharesOfUser(t *testing.T) {
	var instances int
	raw, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err == nil {
		instances, err = strconv.Atoi(strings.TrimSpace(string(raw)))
	}
	var signals, queues unix.Rlimit
	if err := errors.Join(err, unix.Getrlimit(unix.RLIMIT_SIGPENDING, &signals), unix.Getrlimit(unix.RLIMIT_MSGQUEUE, &queues)); err != nil {
		t.Fatal(err)
	}
	for whose, owner := range owners() {
		t.Run(whose, func(t *testing.T) {
			out, errs, _ := sandboxtest.Run(t, limited(t, owner, sandbox.Limits{}), `python3 - <<'E'
import ctypes, os, resource, signal
libc = ctypes.CDLL(None)
watchers = 0
while libc.inotify_init1(0) >= 0: watchers += 1
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
for what in resource.RLIMIT_SIGPENDING, resource.RLIMIT_MSGQUEUE:
    try: resource.setrlimit(what, (resource.getrlimit(what)[1] + 1,) * 2)
    except (OSError, ValueError): pass
sent = 0
while libc.sigqueue(os.getpid(), signal.SIGRTMIN, ctypes.c_void_p()) == 0: sent += 1
print(watchers, sent, resource.getrlimit(resource.RLIMIT_MSGQUEUE)[1])
E`)
			var watchers, sent, bytes uint64
			if _, err := fmt.Sscan(out, &watchers, &sent, &bytes); err != nil {
				t.Fatalf("%q %q: %v", out, errs, err)
			}
			if watchers == 0 || watchers > uint64(instances/2) {
				t.Errorf("it got %d of %d instances of inotify", watchers, instances)
			}
			if sent == 0 || sent > signals.Max/2 {
				t.Errorf("%d of %d signals were pending", sent, signals.Max)
			}
			if bytes == 0 || bytes > queues.Max/2 {
				t.Errorf("it can have %d of %d bytes of message queues", bytes, queues.Max)
			}
		})
	}
}

// TestTimeLimit: an endless command ends, and says why.
func TestTimeLimit(t *testing.T) {
	sb := limited(t, -1, sandbox.Limits{Time: 300 * time.Millisecond})
	_, errs, st := sandboxtest.Run(t, sb, `trap '' TERM; setsid sleep 1000 & while :; do sleep 1; done`)
	if st.Signal != "KILL" || !strings.Contains(errs, "ended after 300ms") {
		t.Errorf("an endless command: %+v %q", st, errs)
	}
	if out, _, _ := sandboxtest.Run(t, sb, "echo quick"); out != "quick\n" {
		t.Errorf("a quick command says %q", out)
	}
}

// needGroups skips a test of a sandbox whose memory no group bounds.
func needGroups(t *testing.T, sb sandbox.Sandbox) {
	t.Helper()
	memory := slices.IndexFunc(sb.Info().Limits, func(says string) bool {
		return strings.HasPrefix(says, "memory: ") && strings.Contains(says, "by cgroup")
	})
	switch {
	case memory >= 0:
	case os.Getenv("GANDER_CHECK") == "1" && os.Geteuid() == 0:
		t.Fatalf("there are no cgroups: %q", sb.Info().Limits)
	default:
		t.Skip("there are no cgroups that this user could make")
	}
}

// TestConsumption: what a sandbox uses is counted by its groups, where there are some.
func TestConsumption(t *testing.T) {
	for whose, owner := range owners() {
		t.Run(whose, func(t *testing.T) {
			needGroups(t, limited(t, owner, sandbox.Limits{}))
			sandboxtest.TestConsumption(t, newLocal, owner)
		})
	}
}

// TestCPULimit: the kernel stops what uses more than its part of a processor, also where
// others are idle.
func TestCPULimit(t *testing.T) {
	const bound = 0.1
	for whose, owner := range owners() {
		t.Run(whose, func(t *testing.T) {
			sb := limited(t, owner, sandbox.Limits{CPU: bound})
			needGroups(t, sb)
			if says := strings.Join(sb.Info().Limits, "\n"); !strings.Contains(says, "cpu: 0.1, by cgroup") {
				t.Fatalf("the bound is %q", says)
			}
			throttled := func() (periods int) {
				for _, dir := range groupsOf(sb.Info().ID) {
					stat, _ := os.ReadFile(filepath.Join(dir, "cpu.stat")) // other controllers' groups have none
					for line := range strings.Lines(string(stat)) {
						if n, ok := strings.CutPrefix(line, "nr_throttled "); ok {
							periods, _ = strconv.Atoi(strings.TrimSpace(n))
						}
					}
				}
				return periods
			}
			used := func() time.Duration {
				c, err := sb.(sandbox.Counted).Consumption(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return c.CPU
			}
			p := sandboxtest.Start(t, sb, `while :; do :; done & while :; do :; done`)
			began, before, periods := time.Now(), used(), throttled()
			const least, most = time.Second, 30 * time.Second
			for throttled() < periods+3 || time.Since(began) < least {
				if time.Since(began) > most {
					t.Fatalf("two loops without end were stopped in %d periods of %v", throttled()-periods, most)
				}
				time.Sleep(10 * time.Millisecond)
			}
			spent := used() - before // before the clock is read: what it may be is no less then
			if wall := time.Since(began); spent > time.Duration(3*bound*float64(wall)) {
				t.Errorf("two loops used %v of the processors in %v, their part is %v", spent, wall, bound)
			}
			if err := p.Kill(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBoundsThatTheKernelDoesNotTake: more processes than there can be are as many as there
// can be, and a bound that is refused is said to hold for nothing.
func TestBoundsThatTheKernelDoesNotTake(t *testing.T) {
	sb := limited(t, -1, sandbox.Limits{Processes: 5_000_000, CPU: 0.001})
	needGroups(t, sb)
	says := strings.Join(sb.Info().Limits, "\n")
	for _, want := range []string{"processes: 4194304, by cgroup", "cpu: not limited", "cpu: the kernel does not take the cgroup's bound: "} {
		if !strings.Contains(says, want) {
			t.Errorf("the bounds are\n%s\nwithout %q", says, want)
		}
	}
}

// groupsOf are the groups of a sandbox.
func groupsOf(id string) (found []string) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(d.Name(), id) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// TestOneBound: a bound holds where others are not given, also where all share a group.
func TestOneBound(t *testing.T) {
	const bound = 128 << 20
	for range 10 { // the controllers come in any order
		sb := limited(t, -1, sandbox.Limits{Memory: bound, Processes: -1})
		needGroups(t, sb)
		var found []string
		for _, dir := range groupsOf(sb.Info().ID) {
			for _, name := range []string{"memory.max", "memory.limit_in_bytes"} {
				if raw, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
					found = append(found, strings.TrimSpace(string(raw)))
				}
			}
		}
		if !slices.Equal(found, []string{strconv.Itoa(bound)}) {
			t.Fatalf("the bound of memory is %q, want %d", found, bound)
		}
	}
}

// TestNoGroupsLeft: the groups of a sandbox go with it.
func TestNoGroupsLeft(t *testing.T) {
	spec := sandboxtest.Spec(t, -1)
	sb := sandboxtest.Create(t, newLocal(t), spec)
	left := func() []string { return groupsOf(spec.ID) }
	if strings.Contains(strings.Join(sb.Info().Limits, "\n"), "by cgroup") && len(left()) == 0 {
		t.Error("no group is to be found: the test looks in the wrong place")
	}
	if err := sb.Close(); err != nil {
		t.Fatal(err)
	}
	if found := left(); len(found) > 0 {
		t.Errorf("left are %q", found)
	}
}

// TestClosedGroups: where groups can be made and not be entered, the supervisor sums the memory,
// and the kernel ends the sandbox's processes first.
func TestClosedGroups(t *testing.T) {
	o := options(t)
	o.RefuseGroups = true
	spec := sandboxtest.Spec(t, -1)
	spec.Limits = sandbox.Limits{Memory: 1 << 30}
	sb := sandboxtest.Create(t, local.New(o), spec)
	if says := strings.Join(sb.Info().Limits, "\n"); strings.Contains(says, "by cgroup") {
		t.Errorf("it is bounded by what it is not in: %q", says)
	}
	if out, errs, _ := sandboxtest.Run(t, sb, "cat /proc/self/oom_score_adj"); out != "1000\n" {
		t.Errorf("the kernel's score of a process inside is %q %s", out, errs)
	}
}

// TestSupervisorIsFree: what runs is in the sandbox's groups, and the supervisor is not.
func TestSupervisorIsFree(t *testing.T) {
	sb := limited(t, -1, sandbox.Limits{})
	needGroups(t, sb)
	out, errs, _ := sandboxtest.Run(t, sb, "cat /proc/self/cgroup; echo; cat /proc/1/cgroup")
	command, supervisor, _ := strings.Cut(out, "\n\n")
	if name := "gander-" + sb.Info().ID; !strings.Contains(command, name) || supervisor == "" || strings.Contains(supervisor, name) {
		t.Errorf("a command is in\n%s\nand the supervisor in\n%s\n%s", command, supervisor, errs)
	}
}

// TestLandlock: without namespaces Landlock keeps changes to the project, and signals and
// abstract sockets inside; where rules have the supervisor asked, it does so itself.
func TestLandlock(t *testing.T) {
	for name, rules := range map[string]*sandbox.Rules{"alone": nil, "with rules": {}} {
		t.Run(name, func(t *testing.T) { landlocked(t, rules) })
	}
}

func landlocked(t *testing.T, rules *sandbox.Rules) {
	spec := sandboxtest.Spec(t, -1)
	spec.Rules = rules
	outside := filepath.Join(filepath.Dir(spec.WorkingDir), "beside")
	dir, err := os.MkdirTemp("/var", "gander-landlock-")
	if err == nil {
		outside = filepath.Join(dir, "beside")
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
	} else if os.Geteuid() == 0 {
		t.Fatal(err)
	}
	sb := sandboxtest.Create(t, newRefused(t), spec)
	says := strings.Join(sb.Info().Limits, "\n")
	if !strings.Contains(says, "landlock: changes below") {
		if os.Getenv("GANDER_CHECK") == "1" && os.Geteuid() == 0 {
			t.Fatalf("this kernel has no Landlock: %q", says)
		}
		t.Skip("this kernel has no Landlock")
	}
	if _, errs, st := sandboxtest.Run(t, sb, `echo x > here && mkdir d && mv here d/there && ln d/there again && chmod 600 again && truncate -s 0 again && mkdir -p "$PWD/d/e" && echo y > /dev/null && echo z | tee /dev/stderr`); st.Code != 0 {
		t.Errorf("work in the project: %s", errs)
	}
	if dir != "" {
		kept := filepath.Join(dir, "kept")
		if err := os.WriteFile(kept, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, change := range []string{"echo x > " + outside, "echo y >> " + kept, "truncate -s 0 " + kept, "rm -f " + kept, "mv " + kept + " " + outside, "mkdir " + outside, "ln -s x " + outside, "mkfifo " + outside} {
			if _, _, st := sandboxtest.Run(t, sb, change); st.Code == 0 {
				t.Errorf("outside was changed: %s", change)
			}
		}
		if _, errs, st := sandboxtest.Run(t, sb, "mkdir -p "+dir); st.Code != 0 {
			t.Errorf("a directory that is there: %s", errs)
		}
	}
	if strings.Contains(says, "no signals") {
		if _, _, st := sandboxtest.Run(t, sb, "kill -0 "+pid()); st.Code == 0 {
			t.Error("a process outside was signalled")
		}
		abstractSockets(t, sb)
	}
	if os.WriteFile(outside, []byte("x"), 0o600) != nil && dir != "" {
		t.Error("the control: nobody can write there")
	}
}

// abstractSockets connects to one of this process, and to one of the sandbox's own.
func abstractSockets(t *testing.T, sb sandbox.Sandbox) {
	t.Helper()
	const connect = `import socket,sys
c, l = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
if sys.argv[1] == "own":
    l.bind("\0" + sys.argv[2]); l.listen()
c.connect("\0" + sys.argv[2])`
	name := sandboxtest.Mark()
	if _, errs, st := sandboxtest.Run(t, sb, "python3 -c '"+connect+"' own "+name); st.Code != 0 {
		t.Errorf("the sandbox's own abstract socket: %s", errs)
	}
	l, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if _, _, st := sandboxtest.Run(t, sb, "python3 -c '"+connect+"' outside "+name); st.Code == 0 {
		t.Error("an abstract socket outside was connected to")
	}
	c, err := net.Dial("unix", "@"+name)
	if err != nil {
		t.Fatalf("the control: %v", err)
	}
	_ = c.Close()
}

func pid() string { return strconv.Itoa(os.Getpid()) }
