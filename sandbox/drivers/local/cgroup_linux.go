package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/inside/mountinfo"
)

// cgroups are the control groups that bound a sandbox: with version 2 one for all
// controllers, with version 1 one for each. What cannot be made bounds nothing.
type cgroups struct {
	by     map[string]cgroup // by controller
	failed map[string]error  // why the kernel took no bound, by controller
	refuse bool              // see Options.RefuseGroups
}

// cgroup is a group of a sandbox.
type cgroup struct {
	version int
	dir     string
	home    string // the group that gander itself is in
}

// The controllers.
const (
	memoryController  = "memory"
	processController = "pids"
	cpuController     = "cpu"
	// cpuAccount counts and bounds nothing; with version 2 every group counts.
	cpuAccount = "cpuacct"
)

const (
	// cgroupAge is how old an empty group must be to be taken for left over.
	cgroupAge = time.Minute
	// cpuPeriod is in microseconds; shares of it are given out.
	cpuPeriod = 100_000
)

// newCgroups makes groups with these bounds, which are 0 for none.
func newCgroups(h hierarchy, id string, l sandbox.Limits) *cgroups {
	c := &cgroups{by: map[string]cgroup{}, failed: map[string]error{}}
	for controller, parent := range h.parents() {
		clearCgroups(parent.dir)
		if !wanted(controller, l) {
			continue
		}
		dir := filepath.Join(parent.dir, registry.GroupPrefix+id)
		if parent.version == 2 { // as the parent's owner; where it has it already, or must not, nothing changes
			_ = set(parent.dir, "cgroup.subtree_control", "+"+controller)
		}
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			continue
		}
		if parent.version == 2 && !isDomain(dir) {
			c.discard(dir)
			continue
		}
		if err := bound(parent.version, controller, dir, l); err != nil {
			if errors.Is(err, unix.EINVAL) {
				c.failed[controller] = err
			}
			c.discard(dir)
			continue
		}
		c.by[controller] = cgroup{parent.version, dir, parent.own}
	}
	return c
}

// discard removes a group that no controller bounds.
func (c *cgroups) discard(dir string) {
	for _, g := range c.by {
		if g.dir == dir {
			return
		}
	}
	_ = os.Remove(dir)
}

// drop gives up a group: it bounds nothing.
func (c *cgroups) drop(controller string) {
	dir := c.by[controller].dir
	delete(c.by, controller)
	c.discard(dir)
}

// entrances opens, for each group of version 1, the file by which a thread can move itself
// there. To move another process the kernel stops all that fork, and waits for that, but
// not for who moves itself.
func (c *cgroups) entrances() (files []*os.File) {
	for controller, g := range c.by {
		if g.version == 2 {
			continue
		}
		path := filepath.Join(g.dir, "tasks")
		if c.refuse {
			path = "/dev/full"
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			c.drop(controller)
			continue
		}
		files = append(files, f)
	}
	return files
}

// directory opens the group of version 2 into which a process can be forked
// (CLONE_INTO_CGROUP, Linux 5.7); nil when there is none.
func (c *cgroups) directory() *os.File {
	for _, g := range c.by {
		if g.version == 2 && !c.refuse {
			if f, err := os.Open(g.dir); err == nil {
				return f
			}
		}
	}
	return nil
}

// add puts a process that has not started anything yet into the groups of version 2.
func (c *cgroups) add(pid int) {
	for controller, g := range c.by {
		if g.version == 2 && (c.refuse || enter(g.dir, pid) != nil) {
			c.drop(controller)
		}
	}
}

// release takes a process out of the groups of version 2 again; what it has started stays.
// The supervisor must be able to work when those that it looks after use all there is.
func (c *cgroups) release(pid int) {
	for _, g := range c.by {
		if g.version == 2 {
			_ = enter(g.home, pid)
		}
	}
}

// enter moves a process into a group of version 2.
func enter(dir string, pid int) error { return set(dir, "cgroup.procs", strconv.Itoa(pid)) }

// set writes a file of a group. It makes none: where the directory is no group there shall
// not be one that looks like it.
func set(dir, name, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// isDomain reports whether a group of version 2 can have processes, which those below
// threads' groups cannot.
func isDomain(dir string) bool {
	raw, err := os.ReadFile(filepath.Join(dir, "cgroup.type")) // there is none before Linux 4.14
	return err != nil || strings.TrimSpace(string(raw)) == "domain"
}

// wanted reports whether there is something for a controller to do.
func wanted(controller string, l sandbox.Limits) bool {
	switch controller {
	case memoryController:
		return l.Memory > 0
	case processController:
		return l.Processes > 0
	case cpuController:
		return l.CPU > 0
	}
	return controller == cpuAccount
}

// bound writes the bound of a controller that is wanted.
func bound(version int, controller, dir string, l sandbox.Limits) error {
	write := func(name, value string) error { return set(dir, name, value) }
	switch {
	case controller == memoryController && version == 2:
		_ = write("memory.swap.max", "0") // where swap is counted
		return write("memory.max", fmt.Sprint(l.Memory))
	case controller == memoryController:
		err := write("memory.limit_in_bytes", fmt.Sprint(l.Memory))
		_ = write("memory.memsw.limit_in_bytes", fmt.Sprint(l.Memory))
		return err
	case controller == processController:
		return write("pids.max", fmt.Sprint(l.Processes))
	case controller == cpuController && version == 2:
		return write("cpu.max", fmt.Sprintf("%d %d", int(l.CPU*cpuPeriod), cpuPeriod))
	case controller == cpuController:
		return errors.Join(write("cpu.cfs_period_us", fmt.Sprint(cpuPeriod)), write("cpu.cfs_quota_us", fmt.Sprint(int(l.CPU*cpuPeriod))))
	}
	return nil
}

// hierarchy is where control groups are: what paths begin with, which is nothing on this
// machine.
type hierarchy string

func (h hierarchy) at(path string) string { return filepath.Join(string(h)+"/", path) }

// cgroupParent is where groups may be made.
type cgroupParent struct {
	version  int
	dir, own string
}

// parents finds, for each controller, the group that this process is in, with
// version 2 the one above: groups with processes have no others below them there.
func (h hierarchy) parents() map[string]cgroupParent {
	parents := map[string]cgroupParent{}
	mounts, own := h.mounts(), h.own()
	for _, controller := range []string{memoryController, processController, cpuController, cpuAccount} {
		if at, ok := mounts[controller]; ok {
			if path, ok := own[controller]; ok {
				dir := h.at(filepath.Join(at, path))
				parents[controller] = cgroupParent{1, dir, dir}
			}
			continue
		}
		at, mounted := mounts[""]
		path, ok := own[""]
		if !mounted || !ok {
			continue
		}
		dir := h.at(filepath.Join(at, filepath.Dir(path)))
		if raw, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers")); err == nil && slices.Contains(strings.Fields(string(raw)), controller) {
			parents[controller] = cgroupParent{2, dir, h.at(filepath.Join(at, path))}
		}
	}
	return parents
}

// mounts are where the controllers of version 1 are mounted, by name, and
// version 2, by "".
func (h hierarchy) mounts() map[string]string {
	found := map[string]string{}
	raw, err := os.ReadFile(h.at("/proc/self/mountinfo"))
	if err != nil {
		return found
	}
	for line := range strings.Lines(string(raw)) {
		m, ok := mountinfo.Parse(line)
		switch {
		case !ok || m.Root != "/": // of a container: what is above is not ours
		case m.FSType == "cgroup2":
			found[""] = m.At
		case m.FSType == "cgroup":
			fields := strings.Fields(line)
			for option := range strings.SplitSeq(fields[len(fields)-1], ",") {
				found[option] = m.At
			}
		}
	}
	return found
}

// own are this process's groups, by controller, "" for version 2, where they are below
// what is mounted: of a container they may be outside.
func (h hierarchy) own() map[string]string {
	own := map[string]string{}
	raw, err := os.ReadFile(h.at("/proc/self/cgroup"))
	if err != nil {
		return own
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 && !strings.HasPrefix(f[2], "/..") {
			for controller := range strings.SplitSeq(f[1], ",") {
				own[controller] = f[2]
			}
		}
	}
	return own
}

// clearCgroups removes groups that a killed gander left: old ones, if they are empty.
func clearCgroups(parent string) {
	groups, _ := os.ReadDir(parent)
	for _, g := range groups {
		if !g.IsDir() || !strings.HasPrefix(g.Name(), registry.GroupPrefix) {
			continue
		}
		if st, err := g.Info(); err == nil && time.Since(st.ModTime()) > cgroupAge {
			_ = os.Remove(filepath.Join(parent, g.Name())) // fails while a process is in it
		}
	}
}

// remove removes the groups, in which nothing runs any more.
func (c *cgroups) remove() {
	const tries = 50
	for _, g := range c.by {
		for range tries { // the kernel takes a moment to let go of what has ended
			if err := os.Remove(g.dir); err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
}

// means says by what a controller is bounded; empty when it is not.
func (c *cgroups) means(controller string) string {
	if g, ok := c.by[controller]; ok {
		return fmt.Sprintf("by cgroup v%d", g.version)
	}
	return ""
}

// exceeded says which bounds were met.
func (c *cgroups) exceeded(l sandbox.Limits) (says []string) {
	if g, ok := c.by[memoryController]; ok {
		name := map[int]string{1: "memory.oom_control", 2: "memory.events"}[g.version]
		if n := counter(filepath.Join(g.dir, name), "oom_kill"); n > 0 {
			says = append(says, sandbox.TooMuchMemory(n, size(l.Memory)))
		}
	}
	if g, ok := c.by[processController]; ok {
		if n := counter(filepath.Join(g.dir, "pids.events"), "max"); n > 0 {
			says = append(says, fmt.Sprintf("%d processes could not be started because the sandbox has its bound of %d; policy.limits.processes sets it", n, l.Processes))
		}
	}
	return says
}

// consumption is what everything in the groups has used.
func (c *cgroups) consumption() (sandbox.Consumption, error) {
	memory, ok := c.by[memoryController]
	account, counted := c.by[cpuAccount]
	if !ok || !counted && memory.version == 1 {
		return sandbox.Consumption{}, errors.New("the sandbox is in no cgroup that counts")
	}
	used, cached := "memory.usage_in_bytes", "total_inactive_file"
	if memory.version == 2 {
		used, cached = "memory.current", "inactive_file"
	}
	bytes, err := number(filepath.Join(memory.dir, used))
	if err != nil {
		return sandbox.Consumption{}, err
	}
	bytes -= min(bytes, counter(filepath.Join(memory.dir, "memory.stat"), cached))
	if !counted {
		us := counter(filepath.Join(memory.dir, "cpu.stat"), "usage_usec")
		return sandbox.Consumption{Memory: bytes, CPU: time.Duration(us) * time.Microsecond}, nil
	}
	ns, err := number(filepath.Join(account.dir, "cpuacct.usage"))
	return sandbox.Consumption{Memory: bytes, CPU: time.Duration(ns)}, err
}

// number is what a file holds that holds one.
func number(path string) (int64, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
}

// counter is a number behind a name in a file.
func counter(path, name string) int64 {
	raw, _ := os.ReadFile(path)
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}
