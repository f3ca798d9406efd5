package unattended

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/controlplane/client"
)

// logFlags are the flags of gander loop logs.
type logFlags struct {
	plane          wire.PlaneFlags
	follow, asJSON bool
	since          int64
	iteration      int64
}

func loopLogs(a *cli.App) *cobra.Command {
	f := logFlags{since: -1}
	cmd := &cobra.Command{
		Use:   "logs [RUN]",
		Short: "what a run has done, and does",
		Long: `logs shows what a run has done: its iterations, what the agent said, the tools that it
used with the beginning of what they answered. With -f it begins with the newest iteration and
goes on until the run has ended; a control plane that goes away is waited for, and
nothing is left out. With --json each event is a line, as the control plane has it; the
seq of the last one is what --since takes to go on behind it.`,
		Example: "  gander loop logs -f\n  gander loop logs goose --iteration 3\n  gander loop logs --json --since 120",
		Args:    oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("since") && f.since < 0 || f.iteration < 0 {
				return cli.UsageError("--since and --iteration cannot be negative")
			}
			if f.iteration > 0 && (f.follow || f.since >= 0) {
				return cli.UsageError("--iteration shows one iteration; leave --follow and --since out")
			}
			return runLogs(cmd.Context(), a, f, ref(args))
		},
	}
	runFlag(a, cmd, &f.plane)
	fl := cmd.Flags()
	fl.BoolVarP(&f.follow, "follow", "f", false, "go on with what the run does, until it has ended")
	fl.Int64Var(&f.since, "since", f.since, "only events behind this number (default: all, with -f the newest iteration)")
	fl.Lookup("since").DefValue = "0" // which is not shown
	fl.Int64Var(&f.iteration, "iteration", 0, "only this iteration")
	cli.JSONFlag(cmd, &f.asJSON)
	return cmd
}

// A runView shows the events of a run.
type runView interface {
	event(telemetry.Event) error
	// note says something that is no event.
	note(text string)
	// close ends what is shown.
	close()
}

func runLogs(ctx context.Context, a *cli.App, f logFlags, ref string) error {
	c, err := plane(a, f.plane)
	if err != nil {
		return err
	}
	defer c.Close()
	run, err := theRun(ctx, a, c, f.plane, ref, true)
	if err != nil {
		return err
	}
	from := max(f.since, 0)
	newest := f.follow && f.since < 0 && run.Iteration > 0
	if newest || f.iteration > 0 {
		number := f.iteration
		if newest {
			number = run.Iteration
		}
		from, err = c.Before(ctx, run.RunID, number)
		switch {
		case errors.Is(err, client.ErrNoIteration) && newest:
			from = 0 // it has just begun
		case errors.Is(err, client.ErrNoIteration):
			return &cli.ExitError{Code: cli.ExitNoSession, Err: fmt.Errorf("run %s has no iteration %d; its newest is %d", run.RunID, f.iteration, run.Iteration)}
		case err != nil:
			return planeError(a, err, f.plane)
		}
	}
	var view runView = newLoopView(a)
	if f.asJSON {
		view = jsonView{a}
	}
	if f.follow {
		return followRun(ctx, a, c, f.plane, &run, from, view)
	}
	defer view.close()
	return pastEvents(ctx, a, c, f, &run, from, view)
}

// pastEvents shows what there is.
func pastEvents(ctx context.Context, a *cli.App, c *client.Client, f logFlags, run *controlplane.Run, from int64, view runView) error {
	for {
		events, last, err := c.Events(ctx, run.RunID, from)
		if err != nil {
			return planeError(a, err, f.plane)
		}
		if len(events) > 0 && events[0].Seq > from+1 {
			view.note(gapText(from+1, events[0].Seq-1))
		}
		for _, e := range events {
			if f.iteration > 0 && e.Iteration > f.iteration {
				return nil
			}
			if f.iteration > 0 && e.Iteration != f.iteration {
				continue
			}
			if err := view.event(e); err != nil {
				return err
			}
		}
		if len(events) == 0 || events[len(events)-1].Seq >= last {
			return nil
		}
		from = events[len(events)-1].Seq
	}
}

// followRun shows a run until it has ended.
func followRun(ctx context.Context, a *cli.App, c *client.Client, f wire.PlaneFlags, run *controlplane.Run, from int64, view runView) error {
	defer view.close()
	err := c.Follow(ctx, run.RunID, from, client.Followed{
		Event: view.event,
		Gap:   func(from, to int64) { view.note(gapText(from, to)) },
		Lost: func(err error) {
			a.Log.Debug("following a run", "err", err)
			view.note("the control plane does not answer; waiting for it. The run goes on without it")
		},
		Back: func() { view.note("the control plane answers again") },
	})
	if err != nil {
		return planeError(a, err, f)
	}
	now, err := c.Run(ctx, run.RunID)
	if err != nil {
		return planeError(a, err, f)
	}
	if now.State == telemetry.Broken {
		return fmt.Errorf("run %s has failed: %s", run.RunID, cli.Printable(now.Reason))
	}
	return nil
}

func gapText(from, to int64) string {
	if from == to {
		return fmt.Sprintf("event %d is not kept any more", from)
	}
	return fmt.Sprintf("events %d to %d are not kept any more", from, to)
}

// jsonView prints each event as a line.
type jsonView struct{ app *cli.App }

func (v jsonView) event(e telemetry.Event) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = v.app.Out.Write(append(cli.PrintableJSON(v.app.Secrets.Hide(raw)), '\n'))
	return err
}

func (v jsonView) note(text string) { fmt.Fprintln(v.app.Err, "gander: "+text) }

func (jsonView) close() {}

// clockFormat is a time of day as the views show it.
const clockFormat = "15:04:05"

func clock(ms int64) string { return time.UnixMilli(ms).Local().Format(clockFormat) }
