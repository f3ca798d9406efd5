//go:build !linux

package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/sandbox"
)

// group is how an operating system holds a command and what it starts together:
// a process group, a job object.
type group interface {
	signal(name string) error
	// members lists what lives.
	members() []proc
	// terminate kills what lives, once.
	terminate()
	// cull kills, once, the members that it is not to spare, and returns them.
	cull(spare func(proc) bool) []proc
	// close lets the group go; its members are gone.
	close()
}

// emptyInterval is how often a group whose command has ended is looked at: there
// is no event for its becoming empty.
const emptyInterval = 100 * time.Millisecond

// direct is the platform where S starts commands itself.
type direct struct {
	log *slog.Logger

	// mu guards the fields below.
	mu    sync.Mutex
	trees map[*directTree]struct{}
}

func newPlatform(log *slog.Logger) (platform, error) {
	takeSignals()
	return &direct{log: log, trees: map[*directTree]struct{}{}}, nil
}

func runRole(role string, _ []string) int {
	fmt.Fprintf(os.Stderr, "supervise: there is no role %q on this system\n", role)
	return 2
}

func transport() (io.ReadWriteCloser, error) { return stdioConn{os.Stdin, os.Stdout}, nil }

func (d *direct) setup(s Setup, _ events) ([]string, error) {
	if s.Rules != nil {
		return nil, fmt.Errorf("%w: this system has nothing to keep them with", ErrRules)
	}
	if s.Root != nil || s.Identity != nil || s.Loopback || s.Hostname != "" {
		return nil, fmt.Errorf("%w: this system has no namespaces", ErrIsolation)
	}
	return nil, nil
}

func (d *direct) keeper() keeper { return nil }

// directTree implements tree.
type directTree struct {
	platform       *direct
	process        *os.Process
	group          group
	infrastructure bool
	status         chan sandbox.ExitStatus
	ended          chan struct{} // the command itself has been waited for
	empty          chan struct{}
}

func (d *direct) start(p startParams, stdio [3]*os.File) (tree, error) {
	if st, err := os.Stat(p.Dir); err != nil {
		return nil, fmt.Errorf("entering the working directory: %w", err)
	} else if !st.IsDir() {
		return nil, fmt.Errorf("the working directory %s is not a directory", p.Dir)
	}
	path, err := lookPath(p.Args[0], p.Env, p.Dir)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: path, Args: p.Args, Env: append([]string{}, p.Env...), Dir: p.Dir,
		Stdin: stdio[0], Stdout: stdio[1], Stderr: stdio[2],
	}
	g, err := startGroup(cmd)
	if err != nil {
		return nil, fmt.Errorf("running %s: %w", path, err)
	}
	t := &directTree{
		platform: d, process: cmd.Process, group: g, infrastructure: p.Infrastructure,
		status: make(chan sandbox.ExitStatus, 1), ended: make(chan struct{}), empty: make(chan struct{}),
	}
	d.mu.Lock()
	d.trees[t] = struct{}{}
	d.mu.Unlock()
	go t.wait(cmd) // ends when the group is empty
	return t, nil
}

// wait follows the command to its end, and then the group to its own.
func (t *directTree) wait(cmd *exec.Cmd) {
	_ = cmd.Wait()
	t.status <- exitStatus(cmd.ProcessState)
	close(t.ended)
	tick := time.NewTicker(emptyInterval)
	defer tick.Stop()
	for len(t.group.members()) > 0 {
		<-tick.C
	}
	t.platform.mu.Lock()
	delete(t.platform.trees, t)
	t.platform.mu.Unlock()
	t.group.close()
	close(t.empty)
}

func (t *directTree) pid() int                          { return t.process.Pid }
func (t *directTree) exited() <-chan sandbox.ExitStatus { return t.status }
func (t *directTree) gone() <-chan struct{}             { return t.empty }

func (t *directTree) signal(name string) error {
	select {
	case <-t.ended:
		return errNoProcess
	default:
		return t.group.signal(strings.ToUpper(name))
	}
}

func (t *directTree) kill(ctx context.Context) error {
	for pass := 0; ; pass++ {
		select {
		case <-t.empty:
			return nil
		default:
			t.group.terminate()
		}
		if err := pause(ctx, pass); err != nil {
			return fmt.Errorf("%d processes do not die: %w", len(t.group.members()), err)
		}
	}
}

func (d *direct) all() []*directTree {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []*directTree
	for t := range d.trees {
		all = append(all, t)
	}
	return all
}

func (d *direct) live() (snapshot, error) {
	s := snapshot{}
	for _, t := range d.all() {
		for _, p := range t.group.members() {
			s[p.procID] = struct{}{}
		}
	}
	return s, nil
}

func (d *direct) killSince(ctx context.Context, since snapshot) (int, error) {
	killed := snapshot{}
	for pass := 0; ; pass++ {
		found := d.killPass(since, killed)
		if found == 0 {
			return len(killed), nil
		}
		if err := pause(ctx, pass); err != nil {
			return len(killed), fmt.Errorf("%d processes do not die: %w", found, err)
		}
	}
}

func (d *direct) killPass(since, killed snapshot) (found int) {
	for _, t := range d.all() {
		for _, p := range t.group.cull(func(p proc) bool {
			_, old := since[p.procID]
			return old || t.infrastructure && p.pid == t.process.Pid
		}) {
			found++
			killed[p.procID] = struct{}{}
		}
	}
	return found
}

func (d *direct) shutdown(ctx context.Context) {
	var errs []error
	for _, t := range d.all() {
		errs = append(errs, t.kill(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		d.log.Warn("not everything has ended", "error", err)
	}
}
