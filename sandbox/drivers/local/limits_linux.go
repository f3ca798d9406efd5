package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/inside/supervise"
)

// settle puts the driver's defaults in the place of zeros.
func settle(l sandbox.Limits) sandbox.Limits {
	const three, quarters = 3, 4
	if l.Memory == 0 {
		var info unix.Sysinfo_t
		if unix.Sysinfo(&info) == nil {
			l.Memory = max(int64(info.Totalram)*int64(info.Unit)/quarters*three, sandbox.LeastMemory)
		}
	}
	if l.Processes == 0 {
		l.Processes = sandbox.DefaultProcesses
	}
	l.Memory, l.CPU, l.Processes, l.Disk, l.Time = max(l.Memory, 0), max(l.CPU, 0), min(max(l.Processes, 0), sandbox.MaxProcesses), max(l.Disk, 0), max(l.Time, 0)
	return l
}

// resources are the bounds for where there is no group that could be bounded.
func resources(l sandbox.Limits) *supervise.Resources {
	return &supervise.Resources{Memory: l.Memory, Processes: l.Processes, File: l.Disk, Time: l.Time}
}

// bounds are the limits of a running sandbox.
type bounds struct {
	limits sandbox.Limits
	groups *cgroups
	uid    int
	own    bool // its file systems in memory are its own
	begins sync.WaitGroup
}

// newBounds makes the bounds of a supervisor that is to be started.
func newBounds(id string, p plan, refuse bool) *bounds {
	b := &bounds{limits: p.limits, groups: &cgroups{}, uid: p.uid, own: p.isolated()}
	if !p.ungrouped {
		b.groups = newCgroups("", id, p.limits)
		b.groups.refuse = refuse
	}
	return b
}

// start has a supervisor started: with the files by which what it starts enters groups of
// version 1, and in the group of version 2, where there are some. It returns how many files
// those were.
func (b *bounds) start(start func(entrances []*os.File, group *os.File) (*supervisorProcess, error)) (proc *supervisorProcess, groups int, err error) {
	if b == nil {
		proc, err = start(nil, nil)
		return proc, 0, err
	}
	entrances := b.groups.entrances()
	defer func() {
		for _, f := range entrances {
			_ = f.Close()
		}
	}()
	if group := b.groups.directory(); group != nil {
		defer func() { _ = group.Close() }()
		if proc, err := start(entrances, group); err == nil {
			return proc, len(entrances), nil
		} // an old kernel, or not ours to do: it is moved
	}
	if proc, err = start(entrances, nil); err == nil {
		b.groups.add(proc.cmd.Process.Pid)
	}
	return proc, len(entrances), err
}

// rest are the bounds that are needed besides the groups.
func (b *bounds) rest(r *supervise.Resources) *supervise.Resources {
	rest := *r
	if b.groups.means(memoryController) != "" {
		rest.Memory = 0
	}
	if b.groups.means(processController) != "" {
		rest.Processes = 0
	}
	return &rest
}

// begun is called when the supervisor has been set up: what is below it now, and will
// be, is bounded. It returns at once: the kernel takes its time to move a process.
func (b *bounds) begun(pid int) {
	if b != nil {
		b.begins.Go(func() { b.groups.release(pid) })
	}
}

// say tells what is bounded, and by what.
func (b *bounds) say() []string {
	l := b.limits
	one := func(what, value, controller, otherwise string, given bool) string {
		switch means := b.groups.means(controller); {
		case !given:
			return what + ": not limited"
		case means != "":
			return what + ": " + value + ", " + means
		default:
			return what + ": " + otherwise
		}
	}
	processes := fmt.Sprintf("%d of this user in the sandbox, besides gander's own, by rlimit", l.Processes)
	if b.uid == 0 {
		processes = "not limited (the kernel exempts root from the rlimit, and there is no cgroup to use)"
	}
	says := []string{
		one("memory", size(l.Memory), memoryController, size(l.Memory)+", by the supervisor, which sums up what processes use four times a second or more often", l.Memory > 0),
		one("processes", fmt.Sprint(l.Processes), processController, processes, l.Processes > 0),
		one("cpu", fmt.Sprint(l.CPU), cpuController, "not limited (there is no cgroup to use)", l.CPU > 0),
	}
	for _, controller := range slices.Sorted(maps.Keys(b.groups.failed)) {
		says = append(says, fmt.Sprintf("%s: the kernel does not take the cgroup's bound: %v", controller, b.groups.failed[controller]))
	}
	switch {
	case l.Disk > 0 && b.own:
		says = append(says, "disk: "+size(l.Disk)+" of temporary files, by tmpfs, and for each file; the project and the home are not limited together")
	case l.Disk > 0:
		says = append(says, "disk: "+size(l.Disk)+" for each file, by rlimit; not limited together")
	default:
		says = append(says, "disk: not limited, but temporary files by the memory")
	}
	if l.Time > 0 {
		return append(says, fmt.Sprintf("time: %v for each command, by the supervisor", l.Time))
	}
	return append(says, "time: not limited")
}

// Exceeded implements sandbox.Limited.
func (b *box) Exceeded(context.Context) []string {
	if b.bounds == nil {
		return nil
	}
	says := b.bounds.groups.exceeded(b.bounds.limits)
	if n := b.MemoryKills(); n > 0 {
		says = append(says, sandbox.TooMuchMemory(n, size(b.bounds.limits.Memory)))
	}
	return says
}

// Consumption implements sandbox.Counted.
func (b *box) Consumption(context.Context) (sandbox.Consumption, error) {
	if b.bounds == nil {
		return sandbox.Consumption{}, errors.New("a sandbox without bounds is in no cgroup")
	}
	return b.bounds.groups.consumption()
}

// directories are those of its groups.
func (b *bounds) directories() []string {
	if b == nil {
		return nil
	}
	var dirs []string
	for _, g := range b.groups.by {
		dirs = append(dirs, g.dir)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func (b *bounds) release() {
	if b != nil {
		b.begins.Wait()
		b.groups.remove()
	}
}

// size is a number of bytes for people.
func size(n int64) string {
	const unit = 1024
	value, names := float64(n), []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	for value >= unit && len(names) > 1 {
		value, names = value/unit, names[1:]
	}
	return fmt.Sprintf("%.4g %s", value, names[0])
}
