package unattended

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

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/outbound/gateway"
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

// fleet runs the loops: each run has a keeper, a process of its own that outlives this
// one. It implements controlplane.Fleet.
type fleet struct {
	w    *wire.Wiring
	home string
	exe  string
	args []string // for every keeper
	log  *slog.Logger
	ctx  context.Context // of following keepers
	stop context.CancelFunc
	work sync.WaitGroup

	// mu guards followed, the runs whose keepers are started again when they die, and
	// ending, those that are to end, whatever could be noted of that.
	mu       sync.Mutex
	followed map[string]bool
	ending   map[string]bool
}

var _ controlplane.Fleet = (*fleet)(nil)

func newFleet(a *cli.App, w *wire.Wiring) (*fleet, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding gander's own program, which runs are kept by: %w", err)
	}
	f := &fleet{
		w: w, home: a.Config.Home, exe: exe, log: a.Log, followed: map[string]bool{}, ending: map[string]bool{},
		args: []string{"--home", a.Config.Home, "--log-format", "json", "--log-level", a.Config.Log.Level},
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f, nil
}

// close leaves the keepers alone: they go on.
func (f *fleet) close() {
	f.stop()
	f.work.Wait()
}

// Agents implements controlplane.Fleet.
func (f *fleet) Agents(ctx context.Context) []controlplane.AgentInfo {
	var infos []controlplane.AgentInfo
	for _, name := range f.w.Config().AgentNames() {
		agent, err := looper(f.w, name)
		if err != nil {
			continue // one that cannot work through an instruction and end
		}
		info := controlplane.AgentInfo{Name: name, Available: true}
		if err := agent.Check(ctx); err != nil {
			info.Available, info.Why = false, cli.MessageOf(err)
		}
		infos = append(infos, info)
	}
	return infos
}

// Start implements controlplane.Fleet. It returns when the first sandbox is there.
func (f *fleet) Start(ctx context.Context, s controlplane.Spec) error {
	dir, err := keeper.RunDir(f.home, s.RunID)
	if err != nil {
		return fmt.Errorf("%w: %w", controlplane.ErrBadRequest, err)
	}
	if err := f.check(ctx, s); err != nil {
		return err
	}
	if s.Pace == 0 {
		if s.Pace, err = paceOf(cli.Variable(f.w.Environ, paceVariable)); err != nil {
			return fmt.Errorf("%w: %w", controlplane.ErrUnavailable, err)
		}
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

// check says what is missing before anything starts.
func (f *fleet) check(ctx context.Context, s controlplane.Spec) error {
	agent, err := looper(f.w, s.Agent)
	if err != nil {
		return fmt.Errorf("%w: %w", controlplane.ErrBadRequest, err)
	}
	driver, err := loopDriver(f.w, s.Driver, s.Workspace)
	if err != nil {
		return fmt.Errorf("%w: %w", controlplane.ErrBadRequest, err)
	}
	if err := agent.Check(ctx); err != nil {
		return fmt.Errorf("%w: %w", controlplane.ErrUnavailable, err)
	}
	if err := driver.Check(ctx); err != nil {
		return fmt.Errorf("%w: %w", controlplane.ErrUnavailable, err)
	}
	return f.checkCost(s)
}

// checkCost refuses a limit that every call of the model would exceed, because nobody
// knows what it costs.
func (f *fleet) checkCost(s controlplane.Spec) error {
	if s.Limits.Cost == 0 {
		return nil
	}
	p, err := f.w.Policy(s.Workspace)
	if err != nil {
		return fmt.Errorf("%w: %w", controlplane.ErrBadRequest, err)
	}
	model := s.Model
	if model == "" {
		endpoint, err := f.w.Config().Endpoint(s.Agent)
		if err != nil {
			return fmt.Errorf("%w: %w", controlplane.ErrUnavailable, err)
		}
		model = endpoint.Model
	}
	for name := range p.Model.Prices {
		if gateway.MatchModel([]string{name}, model) {
			return nil
		}
	}
	return fmt.Errorf("%w: what %s costs is not known, so that the limit of %g cannot be kept: set its price in policy.model.prices, or limit the tokens", controlplane.ErrBadRequest, model, s.Limits.Cost)
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
func (f *fleet) first(ctx context.Context, dir keeper.Dir) error {
	err := f.begin(ctx, dir)
	if err != nil {
		f.discard(dir)
	}
	return err
}

// begin starts a run's keeper and returns when its first sandbox is there.
func (f *fleet) begin(ctx context.Context, dir keeper.Dir) error {
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
func (f *fleet) launch(ctx context.Context, dir keeper.Dir) error {
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
	args := append(slices.Clone(f.args), "--log-file", log, "loop", "keep", "--run", dir.RunID)
	if spec.Model != "" {
		args = append(args, "--model", spec.Model)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), f.exe, args...) // nothing here ends it
	cmd.Env, cmd.Dir, cmd.Stderr, cmd.SysProcAttr = f.w.Environ, f.home, stderr, detached()
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
func (f *fleet) relaunch(ctx context.Context, dir keeper.Dir) error {
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
func (f *fleet) discard(dir keeper.Dir) {
	ctx, cancel := context.WithTimeout(context.Background(), wire.StopTime)
	defer cancel()
	_ = keeper.NewClient(dir).Stop(ctx) // an error means that there is none
	for dir.Kept() && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond) // it ends, and holds the lock until then
	}
	if err := registry.RemoveDir(dir.Path); err != nil {
		f.log.Warn("the directory of a run that did not start is left over", "run", dir.RunID, "err", err)
	}
}

// follow starts a run's keeper again whenever it dies while the run is to run.
func (f *fleet) follow(dir keeper.Dir) {
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

func (f *fleet) keepUp(dir keeper.Dir) {
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
			f.log.Warn("the keeper of a run has ended; it is started again", "run", dir.RunID)
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
			f.log.Error("a run cannot go on", "run", dir.RunID, "err", err)
		}
	}
}

// ends reports whether a run is not to go on.
func (f *fleet) ends(dir keeper.Dir) bool {
	f.mu.Lock()
	ending := f.ending[dir.RunID]
	f.mu.Unlock()
	spec, err := dir.Spec()
	return ending || err != nil || spec.Desired == keeper.Stopped
}

// revive starts a keeper for a run that has none; one with the lock is about to answer.
func (f *fleet) revive(ctx context.Context, dir keeper.Dir) error {
	if dir.Kept() {
		ctx, cancel := context.WithTimeout(ctx, keeperTime)
		defer cancel()
		return keeper.NewClient(dir).Await(ctx)
	}
	return f.relaunch(ctx, dir)
}

// Adopt implements controlplane.Fleet.
func (f *fleet) Adopt(ctx context.Context, runs []controlplane.Spec) (alive []string, err error) {
	for _, s := range runs {
		dir, adoptErr := keeper.RunDir(f.home, s.RunID)
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

// deliver starts keepers for runs that have ended and of which something was not sent
// yet, so that they send it. It names runs that go on and nobody steers.
func (f *fleet) deliver(ctx context.Context) error {
	dirs, err := keeper.Runs(f.home)
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
			f.log.Warn("a run goes on that this control plane does not know; end it with: gander sandbox stop "+dir.SandboxID(), "run", dir.RunID)
		case !kept && spec.Desired == keeper.Stopped && dir.Unsent():
			err = errors.Join(err, f.relaunch(ctx, dir))
		}
	}
	return err
}

// Stop implements controlplane.Fleet. Of a run whose keeper has died a new one says
// that it has stopped. A keeper that lives is asked also when nothing can be noted.
func (f *fleet) Stop(ctx context.Context, runID string) error {
	dir, err := keeper.RunDir(f.home, runID)
	if err != nil {
		return fmt.Errorf("%w: %w", controlplane.ErrNotRunning, err)
	}
	f.mu.Lock()
	f.ending[runID] = true
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wire.StopTime)
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
	if errors.Is(err, keeper.ErrNoKeeper) || errors.Is(err, keeper.ErrNoLoop) {
		return fmt.Errorf("%w: %w", controlplane.ErrNotRunning, err)
	}
	return err
}

// steer asks the keeper of a run for something that is quickly done.
func (f *fleet) steer(ctx context.Context, runID string, do func(context.Context, *keeper.Client) error) error {
	dir, err := keeper.RunDir(f.home, runID)
	if err != nil {
		return fmt.Errorf("%w: %w", controlplane.ErrNotRunning, err)
	}
	ctx, cancel := context.WithTimeout(ctx, steerTime)
	defer cancel()
	return steered(do(ctx, keeper.NewClient(dir)))
}

// Pause implements controlplane.Fleet.
func (f *fleet) Pause(ctx context.Context, runID string) error {
	return f.steer(ctx, runID, func(ctx context.Context, c *keeper.Client) error { return c.Pause(ctx) })
}

// Resume implements controlplane.Fleet.
func (f *fleet) Resume(ctx context.Context, runID string) error {
	return f.steer(ctx, runID, func(ctx context.Context, c *keeper.Client) error { return c.Resume(ctx) })
}

// Step implements controlplane.Fleet.
func (f *fleet) Step(ctx context.Context, runID string) error {
	return f.steer(ctx, runID, func(ctx context.Context, c *keeper.Client) error { return c.Step(ctx) })
}

// Cancel implements controlplane.Fleet.
func (f *fleet) Cancel(ctx context.Context, runID string) error {
	return f.steer(ctx, runID, func(ctx context.Context, c *keeper.Client) error { return c.Cancel(ctx) })
}

// Message implements controlplane.Fleet.
func (f *fleet) Message(ctx context.Context, runID, text string) error {
	return f.steer(ctx, runID, func(ctx context.Context, c *keeper.Client) error { return c.Message(ctx, text) })
}

// PromptChanged implements controlplane.Fleet.
func (f *fleet) PromptChanged(runID string) {
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
					f.log.Debug("a keeper finds the changed prompt by itself", "run", id, "err", err)
				}
			})
		}
	}
}

// Status implements controlplane.Fleet.
func (f *fleet) Status(ctx context.Context, runID string) (controlplane.SandboxStatus, error) {
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
