package unattended

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/controlplane/client"
)

// LoopCommand returns the command gander loop.
func LoopCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "loop",
		Short: "unattended runs: start, watch and steer them",
		Long: `loop works on unattended runs: an agent in its sandbox, one iteration after the other,
until it is stopped, is done, or meets a limit. They belong to the control plane, which
gander serve starts; a run goes on when the terminal that started it is closed.

A run is named by its id, by the beginning of the id, or by its agent, which means that
agent's newest. Without a name it is the only one that there is.

Exit code 4 means that there is no such run.`,
	}
	cmd.AddCommand(loopStart(a), loopStop(a), loopStatus(a), loopLogs(a),
		loopSteer(a, "pause", "begin no iteration after the one that runs", "pauses after the iteration that runs"),
		loopSteer(a, "resume", "go on with a run that is paused", "goes on"),
		loopSteer(a, "step", "one iteration of a paused run, then pause again", "does one iteration"),
		loopSteer(a, "cancel", "end the running iteration; the run goes on with the next", "ends its iteration"),
		loopSay(a), loopSchedules(a), loopUnschedule(a), loopDismiss(a), loopDelete(a), loopRecipe(a), loopKeep(a), loopRun(a))
	cli.Group(cmd)
	return cmd
}

// runFlag is PlaneFlag for a command whose first argument is a run.
func runFlag(a *cli.App, cmd *cobra.Command, f *wire.PlaneFlags) {
	wire.PlaneFlag(cmd, f)
	cmd.ValidArgsFunction = cli.CompleteFirst(func() []string { return runsForShell(cmd.Context(), a, *f) })
}

// shellTime bounds the questions of a shell that completes a word.
const shellTime = 2 * time.Second

// runsForShell are the runs that are going on, for the shell: their agents and ids.
func runsForShell(ctx context.Context, a *cli.App, f wire.PlaneFlags) []string {
	if a.Config == nil && a.Configure() != nil {
		return nil
	}
	c, err := plane(a, f)
	if err != nil {
		return nil
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, shellTime)
	defer cancel()
	runs, err := c.Runs(ctx)
	if err != nil {
		return nil
	}
	var names []string
	for _, r := range runs {
		if r.StoppedAt == nil {
			names = append(names, r.RunID+"\t"+r.Agent, r.Agent+"\tits newest run")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// plane is the control plane that the flags, else the home, name.
func plane(a *cli.App, f wire.PlaneFlags) (*client.Client, error) {
	o, err := wire.PlaneOf(a.Config.Home, f)
	if err != nil {
		a.Log.Debug("looking for the control plane", "err", err)
		return nil, err
	}
	a.Secrets.Learn([]string{o.Token})
	c, err := client.New(o)
	if err != nil {
		return nil, cli.UsageError("--url: %v", err)
	}
	return c, nil
}

// planeError is an error of the control plane with what to do about it.
func planeError(a *cli.App, err error, f wire.PlaneFlags) error {
	refused, ok := errors.AsType[*client.Error](err)
	switch {
	case errors.Is(err, client.ErrNobody) && f.URL == "":
		a.Log.Debug("asking the control plane", "err", err)
		return wire.ErrNoPlane(a.Config.Home)
	case !ok:
		return err
	case refused.Status == 401 || refused.Status == 403:
		return &cli.ExitError{Code: cli.ExitPermission, Err: fmt.Errorf("%w; the token is that of another control plane: name the file with its own by --token-file", err)}
	case refused.Status == 404:
		return &cli.ExitError{Code: cli.ExitNoSession, Err: err}
	case refused.Status == 400 || refused.Status == 422:
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	return err
}

// oneRun takes at most one argument, a reference.
func oneRun(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return cli.UsageError("name one run, as in: %s RUN; gander loop status shows them", cmd.CommandPath())
	}
	return nil
}

// ref is the reference of a command's arguments; empty when there is none.
func ref(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return strings.TrimSpace(args[0])
}

// theRun finds the run that a reference means; ended says whether one that has ended
// can be meant by less than its id.
func theRun(ctx context.Context, a *cli.App, c *client.Client, f wire.PlaneFlags, ref string, ended bool) (controlplane.Run, error) {
	runs, err := c.Runs(ctx)
	if err != nil {
		return controlplane.Run{}, planeError(a, err, f)
	}
	return pickRun(runs, ref, ended)
}

// pickRun is the run of a list, the newest first, that a reference means.
func pickRun(runs []controlplane.Run, ref string, ended bool) (controlplane.Run, error) {
	named := func(match func(*controlplane.Run) bool) []controlplane.Run {
		return slices.DeleteFunc(slices.Clone(runs), func(r controlplane.Run) bool { return !match(&r) })
	}
	if exact := named(func(r *controlplane.Run) bool { return r.RunID == ref || r.SessionID == ref }); len(exact) == 1 {
		return exact[0], nil
	}
	live := named(func(r *controlplane.Run) bool { return r.StoppedAt == nil && (ref == "" || r.Agent == ref) })
	past := named(func(r *controlplane.Run) bool { return ref == "" || r.Agent == ref })
	begin := named(func(r *controlplane.Run) bool { return ref != "" && strings.HasPrefix(r.RunID, ref) })
	switch {
	case len(live) == 1 || ref != "" && len(live) > 1:
		return live[0], nil
	case len(live) > 1:
		return controlplane.Run{}, cli.UsageError("%d runs are going on; name one: %s", len(live), idsOf(live))
	case ended && len(past) > 0:
		return past[0], nil
	case len(begin) == 1:
		return begin[0], nil
	case len(begin) > 1:
		return controlplane.Run{}, cli.UsageError("%q is the beginning of %d runs; give more of it: %s", ref, len(begin), idsOf(begin))
	case ref == "":
		return controlplane.Run{}, &cli.ExitError{Code: cli.ExitNoSession, Err: errors.New(`there is no run; start one with: gander loop start --agent goose "what is to be done"`)}
	case len(past) > 0:
		return controlplane.Run{}, &cli.ExitError{Code: cli.ExitNoSession, Err: fmt.Errorf("no run of %s is going on; the last one was %s", ref, past[0].RunID)}
	}
	return controlplane.Run{}, &cli.ExitError{Code: cli.ExitNoSession, Err: fmt.Errorf("there is no run %q; gander loop status --all shows those that there are", ref)}
}

func idsOf(runs []controlplane.Run) string {
	var out []string
	for i := range runs {
		out = append(out, fmt.Sprintf("%s (%s)", runs[i].RunID, runs[i].Agent))
	}
	return strings.Join(out, ", ")
}

// loopSteer is a command that changes what a run does.
func loopSteer(a *cli.App, verb, short, done string) *cobra.Command {
	var f wire.PlaneFlags
	cmd := &cobra.Command{
		Use:     verb + " [RUN]",
		Short:   short,
		Example: "  gander loop " + verb + "\n  gander loop " + verb + " goose",
		Args:    oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			return steerRun(cmd.Context(), a, f, verb, ref(args), done)
		},
	}
	runFlag(a, cmd, &f)
	return cmd
}

func steerRun(ctx context.Context, a *cli.App, f wire.PlaneFlags, verb, ref, done string) error {
	c, err := plane(a, f)
	if err != nil {
		return err
	}
	defer c.Close()
	runs, err := c.Runs(ctx)
	if err != nil {
		return planeError(a, err, f)
	}
	run, err := pickRun(startedHere(runs, ref), ref, false)
	if err != nil {
		return err
	}
	if err := c.Steer(ctx, verb, run.RunID); err != nil {
		return planeError(a, err, f)
	}
	_, err = fmt.Fprintf(a.Out, "%s %s\n", run.RunID, done)
	return err
}

// startedHere returns the runs without those that were started elsewhere, which cannot be
// steered from here; one that is named by its id stays.
func startedHere(runs []controlplane.Run, ref string) []controlplane.Run {
	return slices.DeleteFunc(slices.Clone(runs), func(r controlplane.Run) bool { return r.Driver == controlplane.External && r.RunID != ref })
}

// loopExternal is a command for a run that was started elsewhere.
func loopExternal(a *cli.App, verb, short, long, done string, do func(*client.Client, context.Context, string) error) *cobra.Command {
	var f wire.PlaneFlags
	cmd := &cobra.Command{
		Use:     verb + " RUN",
		Short:   short,
		Long:    long,
		Example: "  gander loop " + verb + " nightly-build-1",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError("name one run, as in: %s RUN; gander loop status --all shows them", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := plane(a, f)
			if err != nil {
				return err
			}
			defer c.Close()
			run, err := theRun(cmd.Context(), a, c, f, ref(args), true)
			if err != nil {
				return err
			}
			if err := do(c, cmd.Context(), run.RunID); err != nil {
				return planeError(a, err, f)
			}
			_, err = fmt.Fprintf(a.Out, "%s is %s\n", run.RunID, done)
			return err
		},
	}
	runFlag(a, cmd, &f)
	return cmd
}

func loopDismiss(a *cli.App) *cobra.Command {
	return loopExternal(a, "dismiss", "count a run that was started elsewhere as ended",
		`dismiss counts an external run as ended: one whose loop was started elsewhere and only
reports here. Its loop is not ended by that. To end a run of gander's use gander loop stop.`, "dismissed", (*client.Client).Dismiss)
}

func loopDelete(a *cli.App) *cobra.Command {
	return loopExternal(a, "delete", "remove a run that was started elsewhere, with its events",
		`delete removes an external run, one whose loop was started elsewhere and only reports
here, with everything that was recorded of it. Should its loop go on, it is a new run.`, "deleted", (*client.Client).Delete)
}

func loopStop(a *cli.App) *cobra.Command {
	var f wire.PlaneFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "stop [RUN]",
		Short: "end a run, its agent and its sandbox for good",
		Long: `stop ends a run for good: its iteration, its agent and its sandbox. The workspace, the
events and the thread stay. To stop what has stopped is no error.`,
		Example: "  gander loop stop\n  gander loop stop goose\n  gander loop stop --all",
		Args:    oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all && len(args) > 0 {
				return cli.UsageError("--all stops every run; leave %q out", args[0])
			}
			return stopRuns(cmd.Context(), a, f, ref(args), all)
		},
	}
	runFlag(a, cmd, &f)
	cmd.Flags().BoolVar(&all, "all", false, "every run that is going on")
	return cmd
}

func stopRuns(ctx context.Context, a *cli.App, f wire.PlaneFlags, ref string, all bool) error {
	c, err := plane(a, f)
	if err != nil {
		return err
	}
	defer c.Close()
	runs, err := c.Runs(ctx)
	if err != nil {
		return planeError(a, err, f)
	}
	runs = startedHere(runs, ref)
	going := slices.DeleteFunc(slices.Clone(runs), func(r controlplane.Run) bool { return r.StoppedAt != nil })
	if !all && (ref != "" || len(going) > 0) {
		run, err := pickRun(runs, ref, true)
		if err != nil {
			return err
		}
		going = []controlplane.Run{run}
	}
	if len(going) == 0 {
		_, err := fmt.Fprintln(a.Out, "no run is going on")
		return err
	}
	var errs []error
	for i := range going {
		if err := c.Steer(ctx, "stop", going[i].RunID); err != nil {
			errs = append(errs, fmt.Errorf("run %s: %w", going[i].RunID, planeError(a, err, f)))
			continue
		}
		fmt.Fprintf(a.Out, "%s is stopped\n", going[i].RunID)
	}
	return errors.Join(errs...)
}

func loopSay(a *cli.App) *cobra.Command {
	var f wire.PlaneFlags
	cmd := &cobra.Command{
		Use:   "say RUN [MESSAGE…]",
		Short: "give a run a message for its next iteration",
		Long: `say gives a run a message, which is part of the instruction of its next iteration. The
message is the arguments behind the run, or stdin when there are none.`,
		Example: "  gander loop say goose \"leave the generated files alone\"\n  git diff | gander loop say goose",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.UsageError("name one run, as in: %s RUN MESSAGE; gander loop status shows them", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && cli.IsTerminal(a.In) {
				return cli.UsageError("no message; give it behind the run or on stdin, as in: gander loop say goose \"look at the tests\"")
			}
			text, err := show.PromptText(a, args[1:])
			if err != nil {
				return err
			}
			return sayTo(cmd.Context(), a, f, ref(args), text)
		},
	}
	runFlag(a, cmd, &f)
	return cmd
}

func sayTo(ctx context.Context, a *cli.App, f wire.PlaneFlags, ref, text string) error {
	c, err := plane(a, f)
	if err != nil {
		return err
	}
	defer c.Close()
	run, err := theRun(ctx, a, c, f, ref, false)
	if err != nil {
		return err
	}
	if err := c.Say(ctx, run.RunID, text); err != nil {
		return planeError(a, err, f)
	}
	_, err = fmt.Fprintf(a.Out, "%s has the message for its next iteration\n", run.RunID)
	return err
}
