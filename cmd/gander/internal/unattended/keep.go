package unattended

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"

	"github.com/spf13/cobra"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/egress"
	"gander.dev/gander/sandbox/outbound/gateway"
	"gander.dev/gander/sandbox/rules/gitconfig"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/keeper"
	"gander.dev/gander/sandbox/unattended/loop"
)

// loopKeep is the hidden command of a run's host process, which gander serve starts.
func loopKeep(a *cli.App) *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:     "keep",
		Short:   "hold the sandbox of one unattended run",
		Example: "  gander loop keep --run ID   # what gander serve starts for each run",
		Hidden:  true,
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return keep(cmd.Context(), a, id) },
	}
	cmd.Flags().StringVar(&id, "run", "", "the run's id")
	cmd.Flags().StringVar(&a.Flags.Model, "model", "", "the model (default: the configuration's)")
	return cmd
}

func keep(ctx context.Context, a *cli.App, id string) error {
	dir, err := keeper.RunDir(a.Config.Home, id)
	if err != nil {
		return err
	}
	spec, err := dir.Spec()
	if err != nil {
		return err
	}
	token, err := dir.Token()
	if err != nil {
		return err
	}
	a.Secrets.Learn([]string{token})
	w := wire.New(a)
	defer wire.Follow(ctx, a, w)()
	o, err := keeperOptions(ctx, w, dir, spec)
	if err != nil {
		return err
	}
	return keeper.Run(ctx, o)
}

// keeperOptions are what the keeper of a run is made of, the same as an editor's
// session has: the agent, the driver, the policy of the workspace and the ways out.
func keeperOptions(ctx context.Context, w *wire.Wiring, dir keeper.Dir, spec keeper.Spec) (keeper.Options, error) {
	agent, err := looper(w, spec.Agent)
	if err != nil {
		return keeper.Options{}, err
	}
	driver, err := loopDriver(w, spec.Driver, spec.Workspace)
	if err != nil {
		return keeper.Options{}, err
	}
	l := &looping{w: w, ctx: ctx, dir: dir, spec: spec, driver: driver, notice: func(text string) { w.Log.Warn(text) }}
	l.leaks = confine.NewLeaks(confine.LeakOptions{
		Mode: confine.Canaries(w.Ways, spec.Workspace), Project: spec.Workspace, Own: w.Rules().Own, Context: ctx, Log: w.Log,
		Notice: func(_, text string) { l.tell(text) },
		Stop:   l.halt,
		Spawn:  func(f func()) { go f() }, // ends with ctx, or the one request it makes
	})
	l.said = map[telemetry.Type]io.Writer{telemetry.Text: l.leaks.Stream(recorded), telemetry.Thought: l.leaks.Stream(recorded)}
	return keeper.Options{
		Home: w.Config().Home, Dir: dir, Agent: agent, Driver: driver,
		Place: l.place, Examine: l.examine, Again: l.again, OpenModel: l.openModel, OpenEgress: l.openEgress, Leaks: l.look, Letter: l.lookAt, Log: w.Log,
	}, nil
}

// looper is the agent of a name, as one that a loop can run.
func looper(w *wire.Wiring, name string) (keeper.Agent, error) {
	a, err := w.Agent(name)
	if err != nil {
		return nil, err
	}
	once, ok := a.(keeper.Agent)
	if !ok {
		return nil, cli.UsageError("%s cannot be run by a loop, which needs an agent that works through one instruction and ends: take one of %v", name, cli.AgentNames())
	}
	return once, nil
}

// loopDriver is the driver of a --sandbox choice in a workspace. Nobody is there to
// answer an agent's questions, so that it needs a sandbox.
func loopDriver(w *wire.Wiring, choice, workspace string) (sandbox.Driver, error) {
	if choice == "" {
		c, err := w.Choose(workspace)
		if err != nil {
			return nil, err
		}
		choice = c.Sandbox
	}
	if wire.ChosenDriver(choice, runtime.GOOS) == sandbox.Off {
		return nil, cli.UsageError("an unattended run needs a sandbox: take --sandbox local or docker")
	}
	return w.Driver(choice)
}

// recorded is where the leak canaries have seen something in what is kept of a run.
const recorded = "what the agent says and does, which is recorded"

// looping is the wiring of one run.
type looping struct {
	w      *wire.Wiring
	ctx    context.Context
	dir    keeper.Dir
	spec   keeper.Spec
	driver sandbox.Driver
	leaks  *confine.Leaks
	said   map[telemetry.Type]io.Writer // look at texts that come in pieces

	// mu guards notice and examined, which are of the present sandbox.
	mu       sync.Mutex
	notice   func(text string)
	examined *confine.Examined
}

// tell tells the person something about the present sandbox.
func (l *looping) tell(text string) {
	l.mu.Lock()
	notice := l.notice
	l.mu.Unlock()
	notice(text)
}

// halt ends the iteration and lets none follow until a person says so.
func (l *looping) halt(why string) {
	if err := keeper.NewClient(l.dir).Hold(l.ctx, wire.Leaked); err != nil { // by the socket, as a person would
		l.tell(fmt.Sprintf("%s The run could not be paused (%v): stop it with `gander loop stop`.", why, err))
		return
	}
	l.tell(why + " The iteration was ended and the run is paused (policy.canaries: stop). `gander loop resume` goes on with it.")
}

// place is what the policy of the workspace adds to the sandbox.
func (l *looping) place(notice func(string)) (keeper.Place, error) {
	l.mu.Lock()
	l.notice = notice
	l.mu.Unlock()
	l.leaks.Look()
	p, err := l.w.Policy(l.spec.Workspace)
	if err != nil {
		return keeper.Place{}, err
	}
	if n := len(p.Refused); n > 0 {
		notice(fmt.Sprintf("The workspace's .gander.json asks for %d things more than you allow and does not get them; see gander policy check.", n))
	}
	rules := l.w.Rules()
	rules.Writes = p.Writes
	if p.Settings.Unsigned {
		notice(gitconfig.SayUnsigned)
	}
	spec := sandbox.Spec{Rules: rules, Mounts: p.Mounts}
	if err := confine.GiveGitStore(&spec, p.Git, l.dir.GitStore()); err != nil {
		return keeper.Place{}, err
	}
	return keeper.Place{Rules: spec.Rules, Limits: p.Bounds(), Mounts: spec.Mounts, Env: p.Env, HomeFiles: p.Settings.Files}, nil
}

func (l *looping) examine(ctx context.Context, sb sandbox.Sandbox, spec sandbox.Spec) ([]string, error) {
	p, err := l.w.Policy(l.spec.Workspace)
	if err != nil {
		return nil, err
	}
	found, err := confine.Examination{Driver: l.driver, Spec: spec, StateDir: l.w.Config().Home, Git: p.Git}.Examine(ctx, sb)
	if err != nil {
		return nil, err
	}
	if err := l.leaks.Wait(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.examined = found
	l.mu.Unlock()
	return found.Notices(), nil
}

// again does for what has come to git since what examine did.
func (l *looping) again(ctx context.Context) ([]string, error) {
	l.mu.Lock()
	found := l.examined
	l.mu.Unlock()
	return found.Again(ctx)
}

// way is what leads out of the run's sandbox. Nobody is there to be asked about hosts.
func (l *looping) way(notice func(string)) confine.Way {
	return confine.Way{
		Session: acp.SessionID(l.spec.SessionID), WorkingDir: l.spec.Workspace, Agent: l.spec.Agent, Context: l.ctx, Leaks: l.leaks,
		Notice: func(_, text string) { notice(text) },
		Ask:    func(context.Context, string, int) egress.Answer { return egress.Unasked },
	}
}

// openModel opens the gateway. What the run may use holds beside the policy's budget.
func (l *looping) openModel(notice func(string), observe func(loop.ModelEvent)) (keeper.Model, error) {
	way := l.way(notice)
	way.Budget = gateway.Budget{MaxTokens: l.spec.Limits.Tokens, MaxCost: l.spec.Limits.Cost}
	way.Observe = func(e gateway.Event) {
		if told, ok := modelEvent(e); ok {
			observe(told)
		}
	}
	return l.w.Ways.OpenModel(way)
}

// modelEvent is what a loop is told of a model call; nothing of one that began, or was
// given up here.
func modelEvent(e gateway.Event) (told loop.ModelEvent, ok bool) {
	if e.Method != http.MethodPost {
		return told, false
	}
	switch e.Kind {
	case gateway.Started, gateway.Cancelled, gateway.Aborted:
		return told, false
	case gateway.Finished:
		told.OK = true
	default:
		told.Error = e.Message
	}
	told.Status = e.Status
	if u := e.Usage; u != nil {
		told.Usage = &telemetry.Usage{Input: int64(u.Input), Output: int64(u.Output), Total: int64(u.Total)}
	}
	return told, true
}

func (l *looping) openEgress(notice, decided func(string)) (keeper.Egress, error) {
	way := l.way(notice)
	way.Decided = func(t egress.Tally) { decided(t.String()) }
	return l.w.Ways.OpenEgress(way)
}

// look looks for content of closed files in what is about to be kept.
func (l *looping) look(e telemetry.Event) error {
	if !l.leaks.On() {
		return nil
	}
	if e.Type == telemetry.IterationStart {
		l.leaks.Look()
	}
	if pieces := l.said[e.Type]; pieces != nil {
		if _, err := io.WriteString(pieces, e.Content); err != nil {
			return err
		}
		e.Content = ""
	}
	whole, err := json.Marshal(e) // whatever it has, the name of a tool or a status
	if err != nil {
		return err
	}
	return l.leaks.Check(recorded, whole)
}

// lookAt looks for it in what the agent sends to the control plane.
func (l *looping) lookAt(text []byte) error {
	return l.leaks.Check("a message of the agent to the control plane", text)
}
