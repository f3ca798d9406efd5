package unattended

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/controlplane/client"
)

// schedule has runs begin at the times of the flags.
func schedule(ctx context.Context, a *cli.App, c *client.Client, f startFlags, req client.StartRequest) error {
	s, err := c.Schedule(ctx, client.ScheduleRequest{StartRequest: req, Every: f.every, Cron: f.cron, At: f.at})
	switch {
	case err != nil:
		return planeError(a, err, f.plane)
	case f.asJSON:
		return a.PrintJSON(s)
	}
	fmt.Fprintln(a.Out, s.ID)
	_, err = fmt.Fprintf(a.Err, "%s is to work in %s, %s; the first run begins at %s\n", s.Start.Agent, cli.ShortDir(s.Start.Workspace), s.When, momentOf(s.NextAt))
	return err
}

func loopSchedules(a *cli.App) *cobra.Command {
	var f wire.PlaneFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "schedules",
		Short: "list when runs are to begin",
		Long: `schedules lists what gander loop start --every, --cron and --at have set up, and what
came of the last time. Runs begin as long as gander serve runs.`,
		Example: "  gander loop schedules\n  gander loop schedules --json",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withSchedules(cmd.Context(), a, f, func(_ *client.Client, all []controlplane.Schedule) error {
				if asJSON {
					return a.PrintJSON(append([]controlplane.Schedule{}, all...))
				}
				return printSchedules(a, all)
			})
		},
	}
	wire.PlaneFlag(cmd, &f)
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func loopUnschedule(a *cli.App) *cobra.Command {
	var f wire.PlaneFlags
	cmd := &cobra.Command{
		Use:     "unschedule SCHEDULE",
		Short:   "have no more runs begin by a schedule",
		Long:    `unschedule removes a schedule, by its id or the beginning of it. Runs that it has started go on.`,
		Example: "  gander loop unschedule 0197a2b4",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || ref(args) == "" {
				return cli.UsageError("name one schedule, as in: %s SCHEDULE; gander loop schedules lists them", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return withSchedules(cmd.Context(), a, f, func(c *client.Client, all []controlplane.Schedule) error {
				var found []string
				for i := range all {
					if strings.HasPrefix(all[i].ID, ref(args)) {
						found = append(found, all[i].ID)
					}
				}
				switch len(found) {
				case 0:
					return &cli.ExitError{Code: cli.ExitNoSession, Err: fmt.Errorf("there is no schedule %q; gander loop schedules lists those that there are", ref(args))}
				case 1:
				default:
					return cli.UsageError("%q is the beginning of %d schedules; give more of it: %s", ref(args), len(found), strings.Join(found, ", "))
				}
				if err := c.Unschedule(cmd.Context(), found[0]); err != nil {
					return planeError(a, err, f)
				}
				_, err := fmt.Fprintf(a.Out, "%s starts no more runs\n", found[0])
				return err
			})
		},
	}
	wire.PlaneFlag(cmd, &f)
	return cmd
}

// withSchedules reads the schedules of the control plane.
func withSchedules(ctx context.Context, a *cli.App, f wire.PlaneFlags, do func(*client.Client, []controlplane.Schedule) error) error {
	c, err := plane(a, f)
	if err != nil {
		return err
	}
	defer c.Close()
	all, err := c.Schedules(ctx)
	if err != nil {
		return planeError(a, err, f)
	}
	return do(c, all)
}

func printSchedules(a *cli.App, all []controlplane.Schedule) error {
	if len(all) == 0 {
		fmt.Fprintln(a.Err, `no schedules; make one: gander loop start --every 24h --max-iterations 3 "what is to be done"`)
		return nil
	}
	w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "SCHEDULE\tAGENT\tWHEN\tNEXT\tLAST\tRUN\tWORKSPACE")
	for i := range all {
		s := &all[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, cli.Printable(s.Start.Agent), cli.Printable(s.When), cmp.Or(momentOf(s.NextAt), "-"),
			cmp.Or(momentOf(s.LastAt), "-"), cmp.Or(s.LastRun, "-"), cli.Printable(cli.ShortDir(s.Start.Workspace)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i := range all {
		if s := &all[i]; s.Said != "" {
			fmt.Fprintf(a.Out, "%s: %s\n", s.ID, a.Secrets.HideIn(cli.Printable(s.Said)))
		}
	}
	return nil
}
