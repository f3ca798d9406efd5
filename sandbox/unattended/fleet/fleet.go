// Package fleet runs the keepers of unattended runs. Each run has one, a process of its own
// that outlives gander serve, and that is started again when it dies.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/outbound/ports"
	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/keeper"
)

const (
	keeperTime    = 20 * time.Second // for a keeper to answer
	firstTime     = 3 * time.Minute  // for its first sandbox
	steerTime     = 10 * time.Second // for what is quickly done
	firstKeepWait = time.Second      // before a keeper that died is started again
	maxKeepWait   = time.Minute
)

// Options say who can work and how a keeper is started.
type Options struct {
	// Home is gander's home, which has the runs' directories.
	Home string
	// Program is gander's own, Arguments stand before each keeper's own, and Environ is its
	// environment.
	Program   string
	Arguments []string
	Environ   []string
	Log       *slog.Logger
	// Agents lists who can work through an instruction, and who of them is ready.
	Agents func(ctx context.Context) []controlplane.AgentInfo
	// Prepare says what a run lacks before anything is started, as an error of the control
	// plane, and fills in what the start left open.
	Prepare func(ctx context.Context, s *controlplane.Spec) error
}

// Fleet starts, follows and asks the keepers of a home. It implements controlplane.Fleet.
type Fleet struct {
	Options

	ctx  context.Context // of following keepers
	stop context.CancelFunc
	work sync.WaitGroup

	// mu guards followed, the runs whose keepers are started again when they die, and
	// ending, those that are to end, whatever could be noted of that.
	mu       sync.Mutex
	followed map[string]bool
	ending   map[string]bool
}

var _ controlplane.Fleet = (*Fleet)(nil)

// New makes a fleet that follows no keeper yet.
func New(o Options) *Fleet {
	f := &Fleet{Options: o, followed: map[string]bool{}, ending: map[string]bool{}}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// Close leaves the keepers alone: they go on.
func (f *Fleet) Close() {
	f.stop()
	f.work.Wait()
}

// Agents implements controlplane.Fleet.
func (f *Fleet) Agents(ctx context.Context) []controlplane.AgentInfo { return f.Options.Agents(ctx) }

// Start implements controlplane.Fleet. It returns when the first sandbox is there.
func (f *Fleet) Start(ctx context.Context, s controlplane.Spec) error {
	dir, err := keeper.RunDir(f.Home, s.RunID)
	if err != nil {
		return fmt.Errorf("%w: %w", controlplane.ErrBadRequest, err)
	}
	if err := f.Prepare(ctx, &s); err != nil {
		return err
	}
	if err := dir.Write(specOf(s), s.Token); err != nil {
		return fmt.Errorf("%w: %w", controlplane.ErrUnavailable, err)
	}
	if err := f.first(ctx, dir); err != nil {
		return fmt.Errorf("%w: %w", controlplane.ErrUnavailable, err)
	}
	f.follow(dir)
	return nil
}

func specOf(s controlplane.Spec) keeper.Spec {
	spec := keeper.Spec{
		RunID: s.RunID, SessionID: s.SessionID, Agent: s.Agent, Driver: s.Driver, Workspace: s.Workspace, Model: s.Model,
		Pace: s.Pace, Limits: s.Limits, Desired: keeper.Desired(s.Desired), Created: time.Now().UTC(),
	}
	if s.Prompt != "" {
		spec.Prompt = &s.Prompt
	}
	if spec.Desired == "" {
		spec.Desired = keeper.Running
	}
	return spec
}

// first starts a new run. One that cannot be started is gone, with its log, of which the
// error has the last words.
func (f *Fleet) first(ctx context.Context, dir keeper.Dir) error {
	err := f.begin(ctx, dir)
	if err != nil {
		f.discard(dir)
	}
	return err
}

// begin starts a run's keeper and returns when its first sandbox is there.
func (f *Fleet) begin(ctx context.Context, dir keeper.Dir) error {
	ctx, cancel := context.WithTimeout(ctx, firstTime)
	defer cancel()
	if err := f.launch(ctx, dir); err != nil {
		return err
	}
	status, err := keeper.NewClient(dir).Ready(ctx)
	if err != nil {
		return fmt.Errorf("%w%s", err, lastWords(logOf(dir)))
	}
	if status.Phase == keeper.Failed {
		return errors.New(status.Error)
	}
	return nil
}

// launch starts a run's keeper, a process that lives on without this one, and returns
// when it answers. One of a run that is to end may have done all before it is asked.
func (f *Fleet) launch(ctx context.Context, dir keeper.Dir) error {
	spec, err := dir.Spec()
	if err != nil {
		return err
	}
	log := logOf(dir)
	stderr, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of a run's keeper: %w", err)
	}
	defer func() { _ = stderr.Close() }()
	args := append(slices.Clone(f.Arguments), "--log-file", log, "loop", "keep", "--run", dir.RunID)
	if spec.Model != "" {
		args = append(args, "--model", spec.Model)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), f.Program, args...) // nothing here ends it
	cmd.Env, cmd.Dir, cmd.Stderr, cmd.SysProcAttr = f.Environ, f.Home, stderr, detached()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the keeper of run %s: %w", dir.RunID, err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }() // so that it is no zombie; ends with it, or with this process
	ctx, cancel := context.WithTimeout(ctx, keeperTime)
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- keeper.NewClient(dir).Await(ctx) }() // ends with ctx
	select {
	case err = <-answered:
	case err = <-gone:
		if now, specErr := dir.Spec(); err == nil && specErr == nil && now.Desired == keeper.Stopped {
			return nil
		}
		err = fmt.Errorf("its keeper has ended at once (%v)", err)
	}
	if err != nil {
		return fmt.Errorf("run %s: %w%s", dir.RunID, err, lastWords(log))
	}
	return nil
}

// relaunch starts a keeper for a run that has had one. Whatever comes of it the run's
// directory stays, and the error names its log.
func (f *Fleet) relaunch(ctx context.Context, dir keeper.Dir) error {
	if err := f.launch(ctx, dir); err != nil {
		return fmt.Errorf("%w; see %s", err, logOf(dir))
	}
	return nil
}

func logOf(dir keeper.Dir) string { return filepath.Join(dir.Path, keeper.KeeperLog) }

// lastWords is the last line of a keeper's log as the end of a sentence: the log of a
// run that could not be started goes with it.
func lastWords(log string) string {
	text, _ := os.ReadFile(log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	last := strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "gander: ")
	if last == "" {
		return ""
	}
	return ": " + last
}

// discard removes what is left of a run that could not be started.
func (f *Fleet) discard(dir keeper.Dir) {
	ctx, cancel := context.WithTimeout(context.Background(), keeper.StopTime)
	defer cancel()
	_ = keeper.NewClient(dir).Stop(ctx) // an error means that there is none
	for dir.Kept() && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond) // it ends, and holds the lock until then
	}
	if err := registry.RemoveDir(dir.Path); err != nil {
		f.Log.Warn("the directory of a run that did not start is left over", "run", dir.RunID, "err", err)
	}
}

// follow starts a run's keeper again whenever it dies while the run is to run.
func (f *Fleet) follow(dir keeper.Dir) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.followed[dir.RunID] || f.ctx.Err() != nil {
		return
	}
	f.followed[dir.RunID] = true
	f.work.Go(func() {
		f.keepUp(dir)
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.followed, dir.RunID)
	})
}

func (f *Fleet) keepUp(dir keeper.Dir) {
	client := keeper.NewClient(dir)
	wait := firstKeepWait
	for {
		began := time.Now()
		err := client.Follow(f.ctx)
		if f.ctx.Err() != nil {
			return
		}
		if f.ends(dir) {
			return
		}
		if err == nil {
			f.Log.Warn("the keeper of a run has ended; it is started again", "run", dir.RunID)
		}
		if time.Since(began) > maxKeepWait {
			wait = firstKeepWait
		}
		select {
		case <-f.ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, maxKeepWait)
		if f.ends(dir) {
			return
		}
		if err := f.revive(f.ctx, dir); err != nil {
			f.Log.Error("a run cannot go on", "run", dir.RunID, "err", err)
		}
	}
}

// ends reports whether a run is not to go on.
func (f *Fleet) ends(dir keeper.Dir) bool {
	f.mu.Lock()
	ending := f.ending[dir.RunID]
	f.mu.Unlock()
	spec, err := dir.Spec()
	return ending || err != nil || spec.Desired == keeper.Stopped
}

// revive starts a keeper for a run that has none; one with the lock is about to answer.
func (f *Fleet) revive(ctx context.Context, dir keeper.Dir) error {
	if dir.Kept() {
		ctx, cancel := context.WithTimeout(ctx, keeperTime)
		defer cancel()
		return keeper.NewClient(dir).Await(ctx)
	}
	return f.relaunch(ctx, dir)
}

// Adopt implements controlplane.Fleet.
func (f *Fleet) Adopt(ctx context.Context, runs []controlplane.Spec) (alive []string, err error) {
	for _, s := range runs {
		dir, adoptErr := keeper.RunDir(f.Home, s.RunID)
		switch {
		case adoptErr != nil:
		case s.Desired == controlplane.DesiredStopped: // the order was given, and not carried out
			adoptErr = f.Stop(ctx, s.RunID)
			if adoptErr == nil || errors.Is(adoptErr, controlplane.ErrNotRunning) {
				continue
			}
			err = errors.Join(err, adoptErr)
			alive = append(alive, s.RunID) // it has a keeper, and is to be stopped again
			continue
		default:
			adoptErr = f.revive(ctx, dir)
		}
		if adoptErr != nil {
			err = errors.Join(err, adoptErr)
			continue
		}
		f.follow(dir)
		alive = append(alive, s.RunID)
	}
	return alive, err
}

// Deliver starts keepers for runs that have ended and of which something was not sent
// yet, so that they send it. It names runs that go on and nobody steers.
func (f *Fleet) Deliver(ctx context.Context) error {
	dirs, err := keeper.Runs(f.Home)
	for _, dir := range dirs {
		f.mu.Lock()
		known := f.followed[dir.RunID]
		f.mu.Unlock()
		spec, specErr := dir.Spec()
		if known || specErr != nil {
			continue
		}
		switch kept := dir.Kept(); {
		case kept && spec.Desired != keeper.Stopped:
			f.Log.Warn("a run goes on that this control plane does not know; end it with: gander sandbox stop "+dir.SandboxID(), "run", dir.RunID)
		case !kept && spec.Desired == keeper.Stopped && dir.Unsent():
			err = errors.Join(err, f.relaunch(ctx, dir))
		}
	}
	return err
}

// Stop implements controlplane.Fleet. Of a run whose keeper has died a new one says
// that it has stopped. A keeper that lives is asked also when nothing can be noted.
func (f *Fleet) Stop(ctx context.Context, runID string) error {
	dir, err := keeper.RunDir(f.Home, runID)
	if err != nil {
		return fmt.Errorf("%w: %w", controlplane.ErrNotRunning, err)
	}
	f.mu.Lock()
	f.ending[runID] = true
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keeper.StopTime)
	defer cancel()
	if err = dir.SetDesired(keeper.Stopped); err == nil || dir.Kept() {
		if err = f.revive(ctx, dir); err == nil {
			err = keeper.NewClient(dir).Stop(ctx)
		}
	}
	switch {
	case err == nil:
		return nil
	case dir.Kept(): // whatever has gone wrong, it is not over
		return fmt.Errorf("%w: %w; try again", controlplane.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", controlplane.ErrNotRunning, err)
}

// steered is an error of a keeper as the control plane knows it.
func steered(err error) error {
	if errors.Is(err, keeper.ErrBusy) {
		return fmt.Errorf("%w: %w", controlplane.ErrUnavailable, err)
	}
	if errors.Is(err, keeper.ErrPort) {
		return fmt.Errorf("%w: %w", controlplane.ErrBadRequest, err)
	}
	if errors.Is(err, keeper.ErrNoKeeper) || errors.Is(err, keeper.ErrNoLoop) {
		return fmt.Errorf("%w: %w", controlplane.ErrNotRunning, err)
	}
	return err
}

// steer asks the keeper of a run for something that is quickly done.
func (f *Fleet) steer(ctx context.Context, runID string, do func(context.Context, *keeper.Client) error) error {
	dir, err := keeper.RunDir(f.Home, runID)
	if err != nil {
		return fmt.Errorf("%w: %w", controlplane.ErrNotRunning, err)
	}
	ctx, cancel := context.WithTimeout(ctx, steerTime)
	defer cancel()
	return steered(do(ctx, keeper.NewClient(dir)))
}

// Pause implements controlplane.Fleet.
func (f *Fleet) Pause(ctx context.Context, runID string) error {
	return f.steer(ctx, runID, func(ctx context.Context, c *keeper.Client) error { return c.Pause(ctx) })
}

// Resume implements controlplane.Fleet.
func (f *Fleet) Resume(ctx context.Context, runID string) error {
	return f.steer(ctx, runID, func(ctx context.Context, c *keeper.Client) error { return c.Resume(ctx) })
}

// Step implements controlplane.Fleet.
func (f *Fleet) Step(ctx context.Context, runID string) error {
	return f.steer(ctx, runID, func(ctx context.Context, c *keeper.Client) error { return c.Step(ctx) })
}

// Cancel implements controlplane.Fleet.
func (f *Fleet) Cancel(ctx context.Context, runID string) error {
	return f.steer(ctx, runID, func(ctx context.Context, c *keeper.Client) error { return c.Cancel(ctx) })
}

// Message implements controlplane.Fleet.
func (f *Fleet) Message(ctx context.Context, runID, text string) error {
	return f.steer(ctx, runID, func(ctx context.Context, c *keeper.Client) error { return c.Message(ctx, text) })
}

// Ports implements controlplane.Fleet.
func (f *Fleet) Ports(ctx context.Context, runID string, o ports.Order) (v ports.View, err error) {
	err = f.steer(ctx, runID, func(ctx context.Context, c *keeper.Client) (err error) {
		v, err = c.Ports(ctx, o)
		return err
	})
	return v, err
}

// PromptChanged implements controlplane.Fleet.
func (f *Fleet) PromptChanged(runID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil {
		return
	}
	for id := range f.followed {
		if runID == "" || id == runID {
			f.work.Go(func() {
				err := f.steer(f.ctx, id, func(ctx context.Context, c *keeper.Client) error { return c.PromptChanged(ctx) })
				if err != nil {
					f.Log.Debug("a keeper finds the changed prompt by itself", "run", id, "err", err)
				}
			})
		}
	}
}

// Status implements controlplane.Fleet.
func (f *Fleet) Status(ctx context.Context, runID string) (controlplane.SandboxStatus, error) {
	var s keeper.Status
	err := f.steer(ctx, runID, func(ctx context.Context, c *keeper.Client) (err error) {
		s, err = c.Status(ctx)
		return err
	})
	id := s.Container
	if id == "" {
		id = s.Sandbox
	}
	return controlplane.SandboxStatus{ContainerID: id, KeeperPID: s.PID, Resting: s.Resting, Using: s.Using, Vitals: s.Vitals}, err
}
