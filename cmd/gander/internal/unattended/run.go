package unattended

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/sandbox/agents"
	"gander.dev/gander/sandbox/agents/acpagent"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/inside/supervise"
	"gander.dev/gander/sandbox/team/providers"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane/client"
	"gander.dev/gander/sandbox/unattended/loop"
)

// The variables of a loop without a keeper; sandbox/.env.example explains them.
const (
	planeURLVariable   = "CONTROL_PLANE_URL"
	planeTokenVariable = "CONTROL_PLANE_TOKEN"
	planeRunVariable   = "CONTROL_PLANE_RUN"
	paceVariable       = "ITERATION_SLEEP"
)

// bootstrapFile is where the images say to the agent who it is.
const bootstrapFile = "/state/BOOTSTRAP.md"

// sandboxMarks are the files below the root of which one is in every container or sandbox:
// Docker's, Podman's, that of the images wherever they run, and gander in sandboxes of its own.
var sandboxMarks = []string{".dockerenv", "run/.containerenv", bootstrapFile, supervise.InsideExecutable}

// loopRunFlags are the flags of gander loop run.
type loopRunFlags struct {
	supervised           bool
	agent, workspace     string
	state, prompt        string
	iterations, tokens   int64
	wallClock, iteration time.Duration
	idle                 time.Duration
	cost                 float64
	failures             int
}

func loopRun(a *cli.App) *cobra.Command {
	var f loopRunFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "the loop itself, as it runs inside a sandbox or a container",
		Long: `run is the loop as it runs inside a sandbox: iterations of goose or opencode, each
with an instruction made of who the agent is (/state/BOOTSTRAP.md), its memory
(.memory.md in the workspace), its tasks (.tasks.md) and the prompt. gander serve starts
it with --supervised; a person runs it in a container, as the images' agent-loop.sh does.

Without --supervised it asks the control plane that CONTROL_PLANE_URL names for the
prompt and for messages, and sends it its events; they wait in a file while it is away.
Outside of a container the agent then has no sandbox, and that is said: gander loop start
makes one.
It ends when the agent has written .done, when a limit is reached, and on SIGTERM. Its
state survives: it goes on counting when the same agent is started in the same workspace
again. Remove the directory of its state to begin anew.`,
		Example: `  docker run --env-file .env goku-sandbox-goose gander loop run --prompt "fix the tests"
  CONTROL_PLANE_URL=http://127.0.0.1:3000 gander loop run --agent opencode`,
		Annotations: cli.Unconfigured(),
		Args:        cobra.NoArgs,
		RunE:        func(cmd *cobra.Command, _ []string) error { return runLoop(cmd.Context(), a, f) },
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.supervised, "supervised", false, "commands come on stdin and events go to stdout: for gander serve")
	fl.StringVar(&f.agent, "agent", agents.Default(), "the agent: "+strings.Join(agents.Names(), " or "))
	fl.StringVar(&f.workspace, "workspace", "", "where the agent works (default: the current directory)")
	fl.StringVar(&f.state, "state", "", "where the loop keeps its state and its events (default: below loop in gander's own directory, one for each agent and workspace)")
	fl.StringVar(&f.prompt, "prompt", "", "what the agent is asked, as long as no control plane says so")
	fl.Int64Var(&f.iterations, "max-iterations", 0, "end after this many iterations (0: no limit)")
	fl.DurationVar(&f.wallClock, "max-time", 0, "end after this long, pauses included (0: no limit)")
	fl.DurationVar(&f.iteration, "iteration-timeout", loop.DefaultIteration.Duration(), "how long one iteration may take")
	fl.DurationVar(&f.idle, "idle-timeout", loop.DefaultIdle.Duration(), "how long the agent may say nothing")
	fl.Int64Var(&f.tokens, "max-tokens", loop.DefaultTokens, "end when this many tokens are used (0: no limit)")
	fl.Float64Var(&f.cost, "max-cost", 0, "end when the agent has counted this cost (0: no limit)")
	fl.IntVar(&f.failures, "max-failures", loop.DefaultFailures, "pause after this many failed iterations in a row")
	cli.CompleteFlag(cmd, "agent", cli.AgentNames()...)
	return cmd
}

// loopParsers returns the parsers of what agents print, by the agents' names.
func loopParsers() map[string]func() telemetry.Parser {
	parsers := map[string]func() telemetry.Parser{}
	for _, known := range agents.All() {
		parsers[known.Name] = known.Parser
	}
	return parsers
}

func runLoop(ctx context.Context, a *cli.App, f loopRunFlags) error {
	if err := loop.Closed(); err != nil {
		return err
	}
	o := loop.ServeOptions{Driver: local.NewOff(local.Options{Log: a.Log}), Parsers: loopParsers(), Log: a.Log}
	if f.supervised {
		return loop.Serve(ctx, a.In, a.Out, o)
	}
	if a.ConfigErr != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: a.ConfigErr}
	}
	workspace, err := cli.DirectoryOf("--workspace", cmp.Or(f.workspace, "."), "the workspace")
	if err != nil {
		return err
	}
	f.workspace = workspace
	plane := telemetry.Target{URL: cli.Variable(a.Environ, planeURLVariable), Token: cli.Variable(a.Environ, planeTokenVariable)}
	if plane.URL != "" {
		if _, err := client.New(client.Options{URL: plane.URL}); err != nil {
			return cli.UsageError("%s: %v", planeURLVariable, err)
		}
	}
	_, noTasks := os.Lstat(filepath.Join(f.workspace, loop.TasksFile))
	if plane.URL == "" && f.prompt == "" && noTasks != nil {
		return cli.UsageError("the loop has nothing to ask the agent; give it --prompt, write %s in the workspace, or name its control plane in %s", loop.TasksFile, planeURLVariable)
	}
	state, err := filepath.Abs(cmp.Or(f.state, filepath.Join(a.Config.Home, "loop", standaloneState(f.agent, workspace))))
	if err != nil {
		return fmt.Errorf("finding the directory of the loop's state: %w; give --state an absolute path", err)
	}
	start, err := loopStartHere(a, f, filepath.Join(state, "tmp"))
	if err != nil {
		return err
	}
	start.Prompt = loop.Prompt{Content: f.prompt, Known: plane.URL == "" || f.prompt != ""}
	warnNoSandbox(a, "/")
	worked := false
	show := func(e telemetry.Event) {
		worked = worked || e.Type == telemetry.IterationStart
		showEvent(a, e)
	}
	err = loop.Standalone(ctx, loop.StandaloneOptions{ServeOptions: o, Start: start, Dir: state, Plane: plane, Show: show})
	if err == nil && ctx.Err() == nil && !worked {
		fmt.Fprintf(a.Err, "gander: nothing was done: this run had ended before; to begin anew, remove %s\n", cli.ShortDir(state))
	}
	return err
}

// standaloneState names the directory of what a loop without a keeper keeps: another agent
// and another workspace have nothing of it.
func standaloneState(agent, workspace string) string {
	sum := sha256.Sum256([]byte(workspace))
	return "standalone-" + agent + "-" + hex.EncodeToString(sum[:8])
}

// warnNoSandbox says what an agent can do that runs outside of a sandbox. root is where
// the marks of sandboxes are.
func warnNoSandbox(a *cli.App, root string) {
	for _, mark := range sandboxMarks {
		if _, err := os.Stat(filepath.Join(root, mark)); err == nil {
			return
		}
	}
	fmt.Fprintln(a.Err, "gander: no sandbox: the agent sees all your files, the network and the key; gander loop start makes one")
}

// loopStartHere is what a loop without a keeper runs, with a directory for temporary files.
func loopStartHere(a *cli.App, f loopRunFlags, temporary string) (loop.Start, error) {
	run, err := plainAgent(a, f.agent, temporary)
	if err != nil {
		return loop.Start{}, &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	pace, err := paceOf(cli.Variable(a.Environ, paceVariable))
	if err != nil {
		return loop.Start{}, err
	}
	bootstrap, err := os.ReadFile(bootstrapFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		a.Log.Warn("who the agent is cannot be read; gander's own text is taken", "err", err)
	}
	limits := loop.Limits{
		Iterations: f.iterations, WallClock: seconds(f.wallClock), Iteration: seconds(f.iteration), Idle: seconds(f.idle),
		Tokens: f.tokens, Cost: f.cost, Failures: f.failures,
	}
	if min(limits.Iterations, limits.Tokens, int64(limits.WallClock), int64(limits.Iteration), int64(limits.Idle), int64(limits.Failures)) < 0 || !(limits.Cost >= 0) {
		return loop.Start{}, cli.UsageError("a limit below 0 makes no sense; 0 means that there is none, or the usual one")
	}
	return loop.Start{
		RunID: cli.Variable(a.Environ, planeRunVariable), Agent: f.agent, Workspace: f.workspace, Bootstrap: string(bootstrap),
		Run: run, Limits: limits, Pace: pace,
	}, nil
}

// seconds rounds up: a limit of half a second is one.
func seconds(d time.Duration) loop.Seconds {
	return loop.Seconds(math.Ceil(d.Seconds()))
}

// paceOf reads ITERATION_SLEEP, which is in seconds.
func paceOf(value string) (time.Duration, error) {
	if value == "" {
		return loop.DefaultPace, nil
	}
	s, err := strconv.ParseFloat(strings.TrimSuffix(value, "s"), 64)
	if err != nil || !(s >= 0) || s > 24*60*60 {
		return 0, cli.UsageError("%s is %q; it is the time between iterations in seconds, at most a day", paceVariable, value)
	}
	return max(time.Duration(s*float64(time.Second)), time.Millisecond), nil
}

// plainAgent is how an agent is started where nobody has made a sandbox for it: with
// the environment that there is, the key in it. The control plane's token is not the
// agent's business.
func plainAgent(a *cli.App, name, temporary string) (loop.AgentCommand, error) {
	known, is := agents.Find(name)
	if !is {
		return loop.AgentCommand{}, fmt.Errorf("--agent %q: choose one of %s", name, strings.Join(cli.AgentNames(), ", "))
	}
	command, err := a.Config.FindAgent(name)
	if err != nil {
		return loop.AgentCommand{}, err
	}
	endpoint, err := a.Config.Endpoint(name) // what is missing may be there under the agent's own name
	environ := acpagent.Without(a.Environ, planeTokenVariable)
	if err != nil && cli.Variable(environ, known.HostVariable) == "" {
		return loop.AgentCommand{}, err
	}
	if err == nil && (endpoint.Exact || endpoint.KeyHeader != "" || endpoint.Protocol == providers.Anthropic) {
		return loop.AgentCommand{}, fmt.Errorf("the provider %s takes calls in a way that only gander's sandboxes make: choose another one, or start the run by gander loop start", endpoint.Provider)
	}
	args, env := known.Plain(acpagent.Plain{
		Command: command, Environ: environ, Temporary: temporary,
		BaseURL: endpoint.BaseURL, Key: endpoint.APIKey.Reveal(), Model: endpoint.Model,
	})
	return loop.AgentCommand{Args: args, Env: env}, nil
}

// showEvent prints an event as a line.
func showEvent(a *cli.App, e telemetry.Event) {
	line := fmt.Sprintf("%s %4d %-15s %s", time.UnixMilli(e.Time).UTC().Format(time.TimeOnly), e.Iteration, e.Type, e.Summary)
	fmt.Fprintln(a.Out, a.Secrets.HideIn(line))
}
