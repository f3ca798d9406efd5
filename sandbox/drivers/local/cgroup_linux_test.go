package local

import (
	"crypto/rand"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/sandbox"
)

// fakeGroups are files of a machine with control groups. Those of a group are there before
// it is made, as the kernel would make them.
type fakeGroups map[string]string

func (f fakeGroups) make(t *testing.T) hierarchy {
	t.Helper()
	h := hierarchy(t.TempDir())
	for path, text := range f {
		path = h.at(path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

const (
	mountV2     = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	mountHybrid = "30 24 0:26 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw\n"
	mountMemory = "31 24 0:27 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n"
	mountPids   = "32 24 0:28 / /sys/fs/cgroup/pids rw,nosuid - cgroup cgroup rw,pids\n"
	mountCPU    = "33 24 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"

	scope  = `/user.slice/user-1000.slice/user@1000.service/app\x2dx.slice/editor.scope`
	slice2 = `/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app\x2dx.slice`
)

// v2 are the files of a group of version 2 for these controllers, and of those above it.
func v2(parent, kind, offered string, enabled ...string) fakeGroups {
	group := parent + "/gander-x/"
	f := fakeGroups{
		"/proc/self/mountinfo": mountV2, "/proc/self/cgroup": "0::" + scope + "\n",
		parent + "/cgroup.controllers": offered + "\n", parent + "/cgroup.subtree_control": strings.Join(enabled, " ") + "\n",
		group + "cgroup.procs": "", group + "cgroup.type": kind + "\n",
	}
	for _, controller := range enabled {
		maps.Copy(f, map[string]fakeGroups{
			"memory": {group + "memory.max": "max\n", group + "memory.swap.max": "max\n", group + "memory.events": "oom 1\noom_kill 2\n"},
			"pids":   {group + "pids.max": "max\n", group + "pids.events": "max 3\n"},
			"cpu":    {group + "cpu.max": "max 100000\n"},
		}[controller])
	}
	return f
}

// with adds files.
func (f fakeGroups) with(more fakeGroups) fakeGroups {
	all := maps.Clone(f)
	maps.Copy(all, more)
	return all
}

// v1 are groups of version 1.
func v1() fakeGroups {
	return fakeGroups{
		"/proc/self/mountinfo":                                           mountMemory + mountPids + mountCPU,
		"/proc/self/cgroup":                                              "9:name=systemd:/\n4:memory:/a/b\n3:pids:/a\n2:cpu,cpuacct:/\n",
		"/sys/fs/cgroup/memory/a/b/gander-x/tasks":                       "",
		"/sys/fs/cgroup/memory/a/b/gander-x/memory.limit_in_bytes":       "9\n",
		"/sys/fs/cgroup/memory/a/b/gander-x/memory.oom_control":          "oom_kill_disable 0\noom_kill 4\n",
		"/sys/fs/cgroup/pids/a/gander-x/tasks":                           "",
		"/sys/fs/cgroup/pids/a/gander-x/pids.max":                        "max\n",
		"/sys/fs/cgroup/pids/a/gander-x/pids.events":                     "max 0\n",
		"/sys/fs/cgroup/cpu,cpuacct/gander-x/tasks":                      "",
		"/sys/fs/cgroup/cpu,cpuacct/gander-x/cpu.cfs_period_us":          "100000\n",
		"/sys/fs/cgroup/cpu,cpuacct/gander-x/cpu.cfs_quota_us":           "-1\n",
		"/sys/fs/cgroup/cpu,cpuacct/gander-x/cpuacct.usage":              "5\n",
		"/sys/fs/cgroup/memory/a/b/gander-x/memory.usage_in_bytes":       "1000\n",
		"/sys/fs/cgroup/memory/a/b/gander-x/memory.stat":                 "total_inactive_file 400\n",
		"/sys/fs/cgroup/memory/a/b/gander-x/memory.memsw.limit_in_bytes": "9\n",
	}
}

// TestCgroups: which groups bound a sandbox, by what, and what is said when bounds are met.
func TestCgroups(t *testing.T) {
	all := sandbox.Limits{Memory: 1 << 20, Processes: 7, CPU: 0.5}
	for _, tt := range []struct {
		name   string
		files  fakeGroups
		limits sandbox.Limits
		by     map[string]string // the groups, by controller
		wrote  fakeGroups
		enter  string // the group of version 2 that processes are forked into
		tasks  int    // files by which those of version 1 are entered
		told   int    // sentences about bounds that were met
	}{
		{
			name: "v2, delegated", files: v2(slice2, "domain", "cpuset cpu memory pids", "cpu", "memory", "pids"), limits: all,
			by: map[string]string{"memory": slice2, "pids": slice2, "cpu": slice2},
			wrote: fakeGroups{
				slice2 + "/gander-x/memory.max": "1048576", slice2 + "/gander-x/memory.swap.max": "0",
				slice2 + "/gander-x/pids.max": "7", slice2 + "/gander-x/cpu.max": "50000 100000",
			},
			enter: slice2 + "/gander-x", told: 2,
		},
		{
			name: "v2, one bound", files: v2(slice2, "domain", "cpu memory pids", "memory"), limits: sandbox.Limits{Memory: 1 << 20},
			by:    map[string]string{"memory": slice2},
			wrote: fakeGroups{slice2 + "/cgroup.subtree_control": "+memory"}, enter: slice2 + "/gander-x", told: 1,
		},
		{
			name: "v2, no bounds", files: v2(slice2, "domain", "cpu memory pids", "memory"), limits: sandbox.Limits{Memory: -1, Processes: -1},
			wrote: fakeGroups{slice2 + "/cgroup.subtree_control": "memory\n"},
		},
		{name: "v2, controllers are not given to those below", files: v2(slice2, "domain", "cpu memory pids"), limits: all},
		{
			name: "v2, one controller is given", files: v2(slice2, "domain", "cpu memory pids", "pids"), limits: all,
			by: map[string]string{"pids": slice2}, enter: slice2 + "/gander-x", told: 1,
		},
		{name: "v2, without controllers", files: v2(slice2, "domain", ""), limits: all},
		{name: "v2, below threads' groups", files: v2(slice2, "domain invalid", "cpu pids", "cpu", "pids"), limits: all},
		{
			name: "v2, at the top", files: v2("/sys/fs/cgroup", "domain", "memory", "memory").with(fakeGroups{"/proc/self/cgroup": "0::/\n"}), limits: all,
			by: map[string]string{"memory": "/sys/fs/cgroup"}, enter: "/sys/fs/cgroup/gander-x", told: 1,
		},
		{
			name: "v2, outside of what is mounted", limits: all,
			files: v2("/sys/fs/cgroup", "domain", "memory", "memory").with(fakeGroups{"/proc/self/cgroup": "0::/../other\n"}),
		},
		{
			name: "v2, a part is mounted", limits: all,
			files: v2(slice2, "domain", "memory", "memory").with(fakeGroups{"/proc/self/mountinfo": strings.Replace(mountV2, " / ", " /docker/1 ", 1)}),
		},
		{
			name: "v1", files: v1(), limits: all,
			by: map[string]string{
				"memory": "/sys/fs/cgroup/memory/a/b", "pids": "/sys/fs/cgroup/pids/a",
				"cpu": "/sys/fs/cgroup/cpu,cpuacct", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct",
			},
			wrote: fakeGroups{
				"/sys/fs/cgroup/memory/a/b/gander-x/memory.limit_in_bytes": "1048576",
				"/sys/fs/cgroup/pids/a/gander-x/pids.max":                  "7",
				"/sys/fs/cgroup/cpu,cpuacct/gander-x/cpu.cfs_quota_us":     "50000",
			},
			tasks: 4, told: 1,
		},
		{
			name: "v1, outside of what is mounted", limits: all,
			files: fakeGroups{
				"/proc/self/mountinfo": mountMemory, "/proc/self/cgroup": "4:memory:/../other\n",
				"/sys/fs/cgroup/other/gander-x/memory.limit_in_bytes": "", "/sys/fs/cgroup/other/gander-x/tasks": "",
			},
		},
		{
			name: "v1, where there are no groups", limits: all,
			files: fakeGroups{
				"/proc/self/mountinfo": mountMemory, "/proc/self/cgroup": "4:memory:/\n", "/sys/fs/cgroup/memory/plain": "",
			},
		},
		{
			name: "both", limits: all,
			files: v2("/sys/fs/cgroup/unified", "domain", "pids", "pids").with(fakeGroups{
				"/proc/self/mountinfo": mountHybrid + mountMemory, "/proc/self/cgroup": "4:memory:/\n0::/session\n",
				"/sys/fs/cgroup/memory/gander-x/tasks": "", "/sys/fs/cgroup/memory/gander-x/memory.limit_in_bytes": "",
			}),
			by: map[string]string{"memory": "/sys/fs/cgroup/memory", "pids": "/sys/fs/cgroup/unified"}, enter: "/sys/fs/cgroup/unified/gander-x", tasks: 1, told: 1,
		},
		{name: "none", files: fakeGroups{"/proc/self/mountinfo": "", "/proc/self/cgroup": ""}, limits: all},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := tt.files.make(t)
			c := newCgroups(h, "x", tt.limits)
			by := map[string]string{}
			for controller, g := range c.by {
				by[controller] = strings.TrimPrefix(strings.TrimSuffix(g.dir, "/gander-x"), string(h))
			}
			if diff := cmp.Diff(tt.by, by); diff != "" && len(tt.by)+len(by) > 0 {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
			for path, want := range tt.wrote {
				if got, err := os.ReadFile(h.at(path)); err != nil || string(got) != want {
					t.Errorf("%s is %q %v, want %q", path, got, err, want)
				}
			}
			if _, err := os.Lstat(h.at("/sys/fs/cgroup/memory/gander-x/memory.limit_in_bytes")); err == nil && tt.by["memory"] == "" {
				t.Error("a file was made that looks like a bound")
			}
			entered := ""
			if d := c.directory(); d != nil {
				entered = strings.TrimPrefix(d.Name(), string(h))
				_ = d.Close()
			}
			tasks := c.entrances()
			for _, f := range tasks {
				_ = f.Close()
			}
			if entered != tt.enter || len(tasks) != tt.tasks {
				t.Errorf("entered are %q and %d of version 1, want %q and %d", entered, len(tasks), tt.enter, tt.tasks)
			}
			if told := c.exceeded(tt.limits); len(told) != tt.told {
				t.Errorf("of bounds that were met is said %q", told)
			}
		})
	}
}

// TestCgroupsOfOthers: where a person may not make groups there are none.
func TestCgroupsOfOthers(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may make groups everywhere")
	}
	files := v2(slice2, "domain", "memory pids", "memory", "pids")
	maps.DeleteFunc(files, func(path, _ string) bool { return strings.Contains(path, "gander-x") })
	h := files.make(t)
	if err := os.Chmod(h.at(slice2), 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(h.at(slice2), 0o755) })
	if c := newCgroups(h, "x", sandbox.Limits{Memory: 1 << 20, Processes: 7}); len(c.by) > 0 || c.directory() != nil {
		t.Errorf("there are groups: %+v", c.by)
	}
}

// TestConsumptionOf: what a sandbox uses is read where its version has it.
func TestConsumptionOf(t *testing.T) {
	group := slice2 + "/gander-x/"
	files := v2(slice2, "domain", "memory", "memory").with(fakeGroups{
		group + "memory.current": "1000\n", group + "memory.stat": "anon 1\ninactive_file 400\n", group + "cpu.stat": "usage_usec 5\nuser_usec 1\n",
	})
	for name, tt := range map[string]struct {
		files fakeGroups
		want  sandbox.Consumption
	}{
		"v2": {files, sandbox.Consumption{Memory: 600, CPU: 5 * time.Microsecond}},
		"v1": {v1(), sandbox.Consumption{Memory: 600, CPU: 5}},
	} {
		got, err := newCgroups(tt.files.make(t), "x", sandbox.Limits{Memory: 1 << 20}).consumption()
		if err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, tt.want)
		}
	}
}

// TestClearCgroups: old empty groups go, also below names with backslashes, which systemd
// makes; those of now, and of others, stay.
func TestClearCgroups(t *testing.T) {
	parent := filepath.Join(t.TempDir(), `app\x2dx [1].slice`)
	old := time.Now().Add(-2 * cgroupAge)
	for _, name := range []string{"gander-old", "gander-used/process", "gander-new", "editor.scope"} {
		dir := filepath.Join(parent, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"gander-old", "gander-used", "editor.scope"} {
		if err := os.Chtimes(filepath.Join(parent, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	clearCgroups(parent)
	var left []string
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{"editor.scope", "gander-new", "gander-used"}; !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
}

func isGroup(dir string) bool {
	_, err := os.Stat(dir + "/cgroup.procs")
	return err == nil
}

// TestRealV2: the kernel forks a supervisor into its group of version 2, lets it go and
// keeps what it has started; groups below those of threads it does not take.
func TestRealV2(t *testing.T) {
	top := hierarchy("").mounts()[""] + "/local-test-" + strings.ToLower(rand.Text())
	group, home, threads := top+"/gander-x", top+"/home", top+"/threads"
	if err := os.Mkdir(top, 0o755); err != nil || !isGroup(top) {
		_ = os.Remove(top)
		t.Skip("there is no cgroup v2 in which this user could make groups: ", err)
	}
	t.Cleanup(func() {
		for _, dir := range []string{threads + "/gander-x", threads, group, home, top} {
			if err := os.Remove(dir); err != nil && !os.IsNotExist(err) {
				t.Error(err)
			}
		}
	})
	for _, dir := range []string{group, home, threads} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if !isDomain(group) {
		t.Error("a group of processes is not taken for one")
	}
	c := &cgroups{by: map[string]cgroup{memoryController: {2, group, home}}}
	b := &bounds{groups: c}
	forked := false
	proc, _, err := b.start(func(_ []*os.File, group *os.File) (*supervisorProcess, error) {
		cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", "sleep 1000; exit"}, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
		if forked = group != nil; forked {
			cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(group.Fd())
		}
		return run(cmd)
	})
	if err != nil {
		t.Fatal(err)
	}
	pid := proc.cmd.Process.Pid
	inGroup := func(dir string) []string {
		raw, _ := os.ReadFile(dir + "/cgroup.procs")
		return strings.Fields(string(raw))
	}
	for began := time.Now(); len(inGroup(group)) < 2 && time.Since(began) < 10*time.Second; {
		time.Sleep(time.Millisecond)
	}
	if got := inGroup(group); !forked || len(got) != 2 || c.by[memoryController].dir != group {
		t.Errorf("forked into it: %v; in it are %q", forked, got)
	}
	b.begun(pid)
	b.begins.Wait()
	if got, kept := inGroup(home), inGroup(group); !slices.Equal(got, []string{strconv.Itoa(pid)}) || len(kept) != 1 {
		t.Errorf("let go are %q of %d, kept %q", got, pid, kept)
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	<-proc.done
	b.release()
	if _, err := os.Stat(group); !os.IsNotExist(err) {
		t.Errorf("the group is there: %v", err)
	}
	if err := errors.Join(set(threads, "cgroup.type", "threaded"), os.Mkdir(threads+"/gander-x", 0o755)); err != nil {
		t.Fatal(err)
	}
	if isDomain(threads + "/gander-x") {
		t.Error("a group below one of threads is taken for one of processes")
	}
}
