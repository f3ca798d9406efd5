// Package sandboxcmd holds the commands about sandboxes: those that run, one for a
// program, the images, and the probe.
package sandboxcmd

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/unattended/keeper"
)

// Command returns the command gander sandbox.
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "run commands in sandboxes, see and clear away what runs",
	}
	cmd.AddCommand(sandboxExec(a), sandboxList(a), sandboxStop(a), sandboxGC(a), sandboxStatus(a), sandboxProbe(a), sandboxBuild(a))
	cli.Group(cmd)
	return cmd
}

// listed is a sandbox as gander sandbox list --json prints it.
type listed struct {
	registry.Record
	State string `json:"state"`
}

func sandboxList(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "the sandboxes of this machine",
		Example: "  gander sandbox list\n  gander sandbox list --json",
		Long: `list shows the sandboxes of this machine that were made with the same home. A dead one
is only a directory; a left over one still runs although its gander has ended.
"gander sandbox gc" clears both away.`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			records, err := registry.List(a.Config.Home)
			if err != nil {
				return err
			}
			list := make([]listed, len(records))
			for i, r := range records {
				list[i] = listed{r, wire.State(r)}
			}
			if asJSON {
				return a.PrintJSON(list)
			}
			return printSandboxes(a, list)
		},
	}
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func printSandboxes(a *cli.App, list []listed) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.Out, "no sandboxes")
		return err
	}
	w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tDRIVER\tSTATE\tAGE\tDIRECTORY")
	for _, s := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", s.ID, s.Driver, s.State, time.Since(s.Created).Round(time.Second), cli.Printable(s.WorkingDir))
	}
	return w.Flush()
}

// sandboxIDs are the known sandboxes, for the shell.
func sandboxIDs(a *cli.App) []string {
	if a.Configure() != nil {
		return nil
	}
	records, _ := registry.List(a.Config.Home) // without it nothing is offered
	ids := make([]string, len(records))
	for i, r := range records {
		ids[i] = r.ID
	}
	return ids
}

func sandboxStop(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "stop ID…",
		Short:   "end sandboxes with everything in them",
		Example: "  gander sandbox stop 1f2e3d4c",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return sandboxIDs(a), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, ids []string) error {
			if len(ids) == 0 {
				return cli.UsageError("which sandbox? gander sandbox list shows them")
			}
			var errs []error
			for _, id := range ids {
				if err := stopSandbox(cmd.Context(), a, id); err != nil {
					errs = append(errs, err)
					continue
				}
				fmt.Fprintln(a.Out, "stopped", id)
			}
			return errors.Join(errs...)
		},
	}
}

// stopSandbox ends one sandbox, whichever driver made it. An unattended run ends with
// its sandbox: it would be made again otherwise.
func stopSandbox(ctx context.Context, a *cli.App, id string) error {
	if dir, ok := keeper.DirOf(a.Config.Home, id); ok && dir.Kept() {
		return stopRun(ctx, a, dir)
	}
	return wire.New(a).Stop(ctx, id)
}

// stopRun ends an unattended run by its keeper.
func stopRun(ctx context.Context, a *cli.App, dir keeper.Dir) error {
	noted := dir.SetDesired(keeper.Stopped) // gander serve does not start another keeper then
	ctx, cancel := context.WithTimeout(ctx, keeper.StopTime)
	defer cancel()
	return errors.Join(noted, keeper.NewClient(dir).Stop(ctx))
}

func sandboxGC(a *cli.App) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "gc",
		Short:   "clear away what a killed gander left, and old caches",
		Long:    "gc clears away what a killed gander left, and caches of package managers: those of projects\nthat are no more, that were not used for a month, or that have more than sandbox.caches.\n--caches clears away all caches that no sandbox uses.",
		Example: "  gander sandbox gc\n  gander sandbox gc --caches",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var removed []string
			err := show.During(a, "clearing away", 0, func() (err error) {
				removed, err = wire.ClearAway(cmd.Context(), a, wire.New(a), all)
				return err
			})
			for _, id := range removed {
				fmt.Fprintln(a.Out, "removed", id)
			}
			if err == nil && len(removed) == 0 {
				_, err = fmt.Fprintln(a.Out, "nothing to clear away")
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&all, "caches", false, "clear away all caches that no sandbox uses")
	return cmd
}

func sandboxStatus(a *cli.App) *cobra.Command {
	var asJSON bool
	var p wire.Place
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "what isolates a sandbox on this machine",
		Example: "  gander sandbox status\n  gander sandbox status --cwd ~/project --json",
		Long:    "status makes a sandbox of a directory and prints what isolates it here, and what keeps\nclosed and protected files. gander doctor tries whether that holds.",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showStatus(cmd.Context(), a, p, asJSON)
		},
	}
	cmd.Flags().StringVar(&p.Driver, "sandbox", "", "auto, local, docker or off (default: the configuration's, else auto)")
	cmd.Flags().StringVar(&p.CWD, "cwd", ".", "the directory to make a sandbox of")
	a.WeakerFlag(cmd)
	cli.JSONFlag(cmd, &asJSON)
	cli.CompleteFlag(cmd, "sandbox", cli.SandboxChoices()...)
	return cmd
}

// statusReport is what --json prints.
type statusReport struct {
	Driver      string              `json:"driver"`
	Isolation   string              `json:"isolation"`
	Enforcement sandbox.Enforcement `json:"enforcement"`
	Weaker      []string            `json:"weaker"`
	Limits      []string            `json:"limits"`
	Warnings    []string            `json:"warnings"`
}

// keptBy says for people what keeps files closed, or protected.
func keptBy(m sandbox.Means, otherwise string) string {
	switch m {
	case sandbox.ByKernel:
		return "by the kernel, which asks gander about every call that opens a file"
	case sandbox.ByName:
		return "by name, as of the start"
	}
	return "NOT: " + otherwise
}

func showStatus(ctx context.Context, a *cli.App, p wire.Place, asJSON bool) error {
	var err error
	if p.CWD, err = cli.ProjectDir(p.CWD); err != nil {
		return err
	}
	p.Name, p.Purpose = "status-"+wire.RandomName(), "status"
	in, done, err := openSandbox(ctx, a, p)
	if err != nil {
		return err
	}
	defer done()
	info := in.Sandbox.Info()
	if asJSON {
		return a.PrintJSON(statusReport{
			info.Driver, info.Isolation, info.Enforcement, append([]string{}, info.Weaker...), append([]string{}, info.Limits...), append([]string{}, info.Warnings...),
		})
	}
	fmt.Fprintf(a.Out, "driver     %s\nisolation  %s\n", info.Driver, info.Isolation)
	fmt.Fprintln(a.Out, "closed    ", keptBy(info.Enforcement.Closed, "what .gooseignore names is open"))
	fmt.Fprintln(a.Out, "protected ", keptBy(info.Enforcement.Protected, "what makes this machine run something can be written"))
	for _, l := range info.Limits {
		fmt.Fprintln(a.Out, "limit     ", l)
	}
	for _, w := range info.Warnings {
		fmt.Fprintln(a.Out, "warning   ", cli.Printable(w))
	}
	return nil
}
