package unattended

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/agents"
	"gander.dev/gander/sandbox/drivers"
	"gander.dev/gander/sandbox/unattended/controlplane/client"
	"gander.dev/gander/sandbox/unattended/loop"
)

// startFlags are the flags of gander loop start.
type startFlags struct {
	plane                             wire.PlaneFlags
	agent, prompt, workspace, sandbox string
	model                             string
	pace                              time.Duration
	iterations, tokens                int64
	maxTime, iterationTime, idleTime  time.Duration
	cost                              float64
	failures                          int
	follow, asJSON, noBudget          bool
	every, cron, at                   string
}

func loopStart(a *cli.App) *cobra.Command {
	var f startFlags
	cmd := &cobra.Command{
		Use:   "start [PROMPT…]",
		Short: "start a run",
		Long: `start has the control plane start a run and prints its id. What is to be done is the
arguments, --prompt, or stdin; without any of them the run follows the prompt of all
runs, as the page of the control plane shows it.

The agent works in --workspace, which is the only thing of yours that it can write;
without it, in a directory of its own below gander's home. One run works in a workspace,
and above and below it, at a time. Limits that are not given are not there, except 10
million tokens in all where no cost is given, an hour for an iteration and ten minutes
without any output; after 5 failed iterations in a row a run pauses.

With --every, --cron or --at runs begin at times, as long as gander serve runs, and the
id is that of the schedule: gander loop schedules lists, gander loop unschedule removes.
Times that were missed are made up for by one run, which says so. A run that would begin
while another works in its workspace does not begin, which is said as well.`,
		Example: `  gander loop start --agent goose --workspace . "make the tests pass, then stop"
  gander loop start --agent opencode --max-iterations 20 --max-cost 5 --follow - < task.md
  gander loop start --agent goose --max-time 8h --pace 1m --workspace ~/notes "tidy up"
  gander loop start --cron "30 2 * * mon-fri" --max-iterations 3 --workspace . "update the dependencies"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.noBudget = cmd.Flags().Changed("max-tokens") && f.tokens == 0
			return startRun(cmd.Context(), a, args, f, cmd.Flags().Changed("prompt"))
		},
	}
	wire.PlaneFlag(cmd, &f.plane)
	fl := cmd.Flags()
	fl.StringVar(&f.agent, "agent", "", "who works: "+strings.Join(agents.Names(), " or ")+" (default: the configuration's, else "+agents.Default()+")")
	fl.StringVar(&f.prompt, "prompt", "", "what is to be done; - reads stdin")
	fl.StringVar(&f.workspace, "workspace", "", "the directory to work in (default: one of the agent's own)")
	fl.StringVar(&f.sandbox, "sandbox", "", "where: "+strings.Join(drivers.Isolating(), " or ")+" (default: the control plane's choice)")
	fl.StringVar(&f.model, "model", "", "the model (default: the configuration's)")
	fl.DurationVar(&f.pace, "pace", 0, "between two iterations, as in 30s (default: 2s)")
	fl.Int64Var(&f.iterations, "max-iterations", 0, "end after so many iterations")
	fl.DurationVar(&f.maxTime, "max-time", 0, "end after this long, as in 8h")
	fl.DurationVar(&f.iterationTime, "iteration-timeout", 0, "end an iteration that takes longer (default: 1h)")
	fl.DurationVar(&f.idleTime, "idle-timeout", 0, "end an iteration that prints nothing for this long (default: 10m)")
	fl.Int64Var(&f.tokens, "max-tokens", 0, "end when the run has used so many tokens; 0 is no limit (default: 10 million, none with --max-cost)")
	fl.Float64Var(&f.cost, "max-cost", 0, "end when the run has cost so much, in the currency of the model's prices")
	fl.IntVar(&f.failures, "max-failures", 0, "pause after so many failed iterations in a row (default: 5)")
	fl.BoolVarP(&f.follow, "follow", "f", false, "show what the run does, as gander loop logs -f; it goes on when you stop watching")
	fl.StringVar(&f.every, "every", "", "start such a run now and again after each such time, as in 24h")
	fl.StringVar(&f.cron, "cron", "", "start such runs by a cron expression in local time, as in \"30 2 * * *\" or @daily")
	fl.StringVar(&f.at, "at", "", "start the run at a time, as in 22:00 or \"2026-12-24 22:00\"")
	cli.JSONFlag(cmd, &f.asJSON)
	a.CompleteAgents(cmd)
	cli.CompleteFlag(cmd, "sandbox", drivers.Isolating()...)
	return cmd
}

// request is what the flags ask for.
func (f *startFlags) request(cfg *config.Config) (client.StartRequest, error) {
	r := client.StartRequest{
		Agent: f.agent, Driver: f.sandbox, Model: f.model, Pace: f.pace.Seconds(),
		Limits: loop.Limits{Iterations: f.iterations, Tokens: f.tokens, Cost: f.cost, Failures: f.failures}, NoBudget: f.noBudget,
	}
	if _, is := agents.Find(cfg.Program(f.agent)); !is {
		return r, cli.UsageError("--agent %q: an unattended run is one of %s, or an agent whose manifest names one of them", f.agent, strings.Join(cli.AgentNames(), " or "))
	}
	if f.sandbox != "" && !slices.Contains(drivers.Isolating(), f.sandbox) {
		return r, cli.UsageError("--sandbox %q: choose %s", f.sandbox, strings.Join(drivers.Isolating(), " or "))
	}
	if f.pace < 0 || f.iterations < 0 || f.tokens < 0 || f.cost < 0 || f.failures < 0 {
		return r, cli.UsageError("a limit and the pace cannot be negative; leave them out for none")
	}
	for _, limit := range []struct {
		flag string
		took time.Duration
		into *loop.Seconds
	}{{"max-time", f.maxTime, &r.Limits.WallClock}, {"iteration-timeout", f.iterationTime, &r.Limits.Iteration}, {"idle-timeout", f.idleTime, &r.Limits.Idle}} {
		if limit.took < 0 || limit.took > 0 && limit.took < time.Second {
			return r, cli.UsageError("--%s %s: give at least a second, or leave it out", limit.flag, limit.took)
		}
		*limit.into = loop.Seconds(limit.took.Round(time.Second) / time.Second)
	}
	if f.workspace != "" {
		dir, err := cli.DirectoryOf("--workspace", f.workspace, "the workspace")
		if err != nil {
			return r, err
		}
		r.Workspace = dir
	}
	return r, nil
}

// loopPrompt is what a run is asked: the arguments, --prompt or stdin. Nothing of that
// is no error: then it follows the prompt of all runs.
func loopPrompt(a *cli.App, args []string, prompt string, given bool) (string, error) {
	text := strings.Join(args, " ")
	if given && text != "" {
		return "", cli.UsageError("give the prompt once: as arguments or by --prompt")
	}
	if given {
		text = prompt
	}
	if text == "-" || !given && text == "" && !cli.IsTerminal(a.In) {
		raw, err := io.ReadAll(a.In)
		if err != nil {
			return "", fmt.Errorf("reading the prompt from stdin: %w; give it as an argument", err)
		}
		return strings.TrimSpace(string(raw)), nil
	}
	return strings.TrimSpace(text), nil
}

func startRun(ctx context.Context, a *cli.App, args []string, f startFlags, given bool) error {
	if f.follow && f.asJSON {
		return cli.UsageError("--json prints the run and ends; use gander loop logs -f --json to follow it")
	}
	times := 0
	for _, text := range []string{f.every, f.cron, f.at} {
		if text != "" {
			times++
		}
	}
	switch {
	case times > 1:
		return cli.UsageError("give one of --every, --cron and --at")
	case times > 0 && f.follow:
		return cli.UsageError("--follow shows a run that begins now; follow a scheduled one by gander loop logs -f when it runs")
	}
	if f.agent == "" {
		f.agent = a.Config.Agent
	}
	req, err := f.request(a.Config)
	if err != nil {
		return err
	}
	c, err := plane(a, f.plane)
	if err != nil {
		return err
	}
	defer c.Close()
	if req.Prompt, err = loopPrompt(a, args, f.prompt, given); err != nil {
		return err
	}
	if times > 0 {
		return schedule(ctx, a, c, f, req)
	}
	run, err := c.Start(ctx, req)
	if err != nil {
		return planeError(a, err, f.plane)
	}
	switch {
	case f.asJSON:
		return a.PrintJSON(run)
	case !f.follow:
		fmt.Fprintln(a.Out, run.RunID)
		if f.tokens == 0 && run.Limits.Tokens > 0 {
			fmt.Fprintf(a.Err, "The run may use %s tokens, as no limit was given; --max-tokens sets another one.\n", countOf(run.Limits.Tokens))
		}
		fmt.Fprintf(a.Err, "%s works in %s; watch it: gander loop logs -f, or %s\n", run.Agent, cli.ShortDir(run.Workspace), c.URL())
		return nil
	}
	err = followRun(ctx, a, c, f.plane, &run, 0, newLoopView(a))
	if errors.Is(err, context.Canceled) {
		return &cli.ExitError{Code: cli.ExitInterrupted, Err: fmt.Errorf("not watched any more; the run goes on. To end it: gander loop stop %s", run.RunID)}
	}
	return err
}
