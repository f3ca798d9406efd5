package unattended

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane"
)

func loopStatus(a *cli.App) *cobra.Command {
	var f wire.PlaneFlags
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "status [RUN]",
		Short: "what the runs do",
		Long: `status shows the runs that are going on or have ended today, or the last one when there
is none; with RUN everything about that one. --json has the objects of the control plane's interface.`,
		Example: "  gander loop status\n  gander loop status --all\n  gander loop status goose --json",
		Args:    oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			return showRuns(cmd.Context(), a, f, ref(args), all, asJSON)
		},
	}
	runFlag(a, cmd, &f)
	cmd.Flags().BoolVar(&all, "all", false, "also the runs that have ended")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func showRuns(ctx context.Context, a *cli.App, f wire.PlaneFlags, ref string, all, asJSON bool) error {
	c, err := plane(a, f)
	if err != nil {
		return err
	}
	defer c.Close()
	runs, err := c.Runs(ctx)
	if err != nil {
		return planeError(a, err, f)
	}
	if ref != "" {
		run, err := pickRun(runs, ref, true)
		switch {
		case err != nil:
			return err
		case asJSON:
			return a.PrintJSON(run)
		}
		return printRun(a, &run)
	}
	if !all {
		runs = current(runs, time.Now())
	}
	if asJSON {
		return a.PrintJSON(append([]controlplane.Run{}, runs...)) // an empty list is one
	}
	return printRuns(a, runs)
}

// current returns the runs that have not ended, or have ended on this day; or the last one
// when there is none.
func current(runs []controlplane.Run, now time.Time) []controlplane.Run {
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	shown := slices.DeleteFunc(slices.Clone(runs), func(r controlplane.Run) bool {
		if r.StoppedAt == nil {
			return false
		}
		ended, err := time.Parse(time.RFC3339Nano, *r.StoppedAt)
		return err == nil && ended.Before(midnight)
	})
	if len(shown) == 0 && len(runs) > 0 {
		return runs[:1]
	}
	return shown
}

// stateWidth bounds a state in the table; all of it is in what status says of one run.
const stateWidth = 60

// printRuns prints a table that is not wider than the terminal.
func printRuns(a *cli.App, runs []controlplane.Run) error {
	if len(runs) == 0 {
		fmt.Fprintln(a.Err, `no runs yet; start one: gander loop start --agent goose "what is to be done"`)
		return nil
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tAGENT\tSTATE\tITERATION\tLAST\tTOKENS\tCOST\tCPU\tMEMORY\tWORKSPACE")
	for i := range runs {
		r := &runs[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", r.RunID, cli.Printable(r.Agent), cli.Fit(cli.Printable(stateOf(r, time.Now())), stateWidth), r.Iteration, cmp.Or(string(r.LastOutcome), "-"),
			tokensOf(r), costOf(r.Usage.Cost), cpuOf(r), memoryOf(r), cli.Printable(cli.ShortDir(r.Workspace)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	width := cli.TerminalWidth(a.Out)
	for line := range strings.Lines(table.String()) {
		if _, err := fmt.Fprintln(a.Out, a.Secrets.HideIn(cli.Fit(strings.TrimRight(line, " \n"), width))); err != nil {
			return err
		}
	}
	return nil
}

// printRun prints everything about a run.
func printRun(a *cli.App, r *controlplane.Run) error {
	w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, a.Secrets.HideIn(cli.Printable(value)))
		}
	}
	row("Run", r.RunID)
	row("State", stateText(r.State, r.Reason, r.Until, time.Now()))
	row("Attention", r.Torn)
	row("Agent", r.Agent)
	row("Model", r.Model)
	row("Sandbox", r.Driver)
	row("Container", r.ContainerID)
	row("Workspace", r.Workspace)
	row("Session", r.SessionID)
	row("Made", momentOf(r.CreatedAt))
	row("Began", momentOf(r.StartedAt))
	row("Ended", momentOf(r.StoppedAt))
	row("Iteration", fmt.Sprint(r.Iteration))
	row("Last", string(r.LastOutcome))
	used := r.Usage
	used.Add(r.Using)
	row("Tokens", fmt.Sprintf("%s (%d in, %d out)", tokensOf(r), used.Input, used.Output))
	if r.Usage.Cost > 0 {
		row("Cost", costOf(r.Usage.Cost))
	}
	row("Limits", limitsOf(r))
	if r.Vitals != nil {
		row("Uses", fmt.Sprintf("%s of a processor, %s of memory, %.0f MB of disk", cpuOf(r), memoryOf(r), r.Vitals.Disk))
	}
	prompt := "the one of all runs"
	if r.Prompt.Own {
		prompt = strings.Join(strings.Fields(r.Prompt.Content), " ")
	}
	row("Prompt", prompt)
	return w.Flush()
}

// stateOf is what a run does, in a few words, and first of all what keeps it from working.
func stateOf(r *controlplane.Run, now time.Time) string {
	return stateText(r.State, cmp.Or(r.Torn, r.Reason), r.Until, now)
}

// stateText is a state with its reason and how long it takes still.
func stateText(state telemetry.State, reason string, until int64, now time.Time) string {
	text := string(state)
	if left := time.UnixMilli(until).Sub(now); until > 0 && left > 0 {
		text += " " + cli.RoundDuration(max(left.Round(time.Second), time.Second)).String()
	}
	if reason != "" {
		text += ": " + strings.Join(strings.Fields(reason), " ")
	}
	return text
}

// momentOf is a time of the interface for people; empty when there is none.
func momentOf(iso *string) string {
	if iso == nil {
		return ""
	}
	t, err := time.Parse(time.RFC3339Nano, *iso)
	if err != nil {
		return *iso
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// tokensOf returns how many tokens a run has used, in a few characters; a dash as long as
// nobody has counted any.
func tokensOf(r *controlplane.Run) string {
	if n := r.Usage.Total + r.Using.Total; n > 0 {
		return countOf(n)
	}
	return "-"
}

// countOf is a number of tokens in a few characters.
func countOf(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprint(n)
	case n < 1_000_000:
		return fmt.Sprintf("%.0fk", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}

func costOf(cost float64) string {
	if cost == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", cost)
}

func cpuOf(r *controlplane.Run) string {
	if r.Vitals == nil || r.StoppedAt != nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", r.Vitals.CPU)
}

func memoryOf(r *controlplane.Run) string {
	if r.Vitals == nil || r.StoppedAt != nil {
		return "-"
	}
	return fmt.Sprintf("%.0f MB", r.Vitals.Memory)
}

// limitsOf names the limits of a run; empty when it has none of its own.
func limitsOf(r *controlplane.Run) string {
	var parts []string
	add := func(there bool, format string, args ...any) {
		if there {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	l := &r.Limits
	add(l.Iterations > 0, "%d iterations", l.Iterations)
	add(l.WallClock > 0, "%s in all", l.WallClock.Duration())
	add(l.Iteration > 0, "%s for an iteration", l.Iteration.Duration())
	add(l.Idle > 0, "%s without output", l.Idle.Duration())
	add(l.Tokens > 0, "%s tokens", countOf(l.Tokens))
	add(l.Cost > 0, "a cost of %s", costOf(l.Cost))
	add(l.Failures > 0, "%d failures in a row", l.Failures)
	return strings.Join(parts, ", ")
}
