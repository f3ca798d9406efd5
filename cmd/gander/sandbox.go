package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/docker"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/unattended/keeper"
)

func (a *app) sandboxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "run commands in sandboxes, see and clear away what runs",
	}
	cmd.AddCommand(a.sandboxExec(), a.sandboxList(), a.sandboxStop(), a.sandboxGC(), a.sandboxStatus(), a.sandboxProbe(), a.sandboxBuild())
	group(cmd)
	return cmd
}

// The states of a sandbox.
const (
	stateRunning  = "running"
	stateLeftOver = "left over" // it runs, the gander that made it does not
	stateDead     = "dead"      // only its directory is there
)

// state says whether a sandbox runs, and whether somebody still wants it. The
// first process of a container is to be seen where the daemon runs on this system.
func state(r registry.Record) string {
	seen, alive := r.Supervisor != registry.ProcessRef{}, r.Supervisor.Alive()
	switch {
	case r.Dead() && (alive || !seen && r.Container != ""):
		return stateLeftOver
	case r.Dead(), r.Here() && seen && !alive:
		return stateDead
	}
	return stateRunning
}

// listed is a sandbox as gander sandbox list --json prints it.
type listed struct {
	registry.Record
	State string `json:"state"`
}

func (a *app) sandboxList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "the sandboxes of this machine",
		Example: "  gander sandbox list\n  gander sandbox list --json",
		Long: `list shows the sandboxes of this machine that were made with the same home. A dead one
is only a directory; a left over one still runs although its gander has ended.
"gander sandbox gc" clears both away.`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			records, err := registry.List(a.cfg.Home)
			if err != nil {
				return err
			}
			list := make([]listed, len(records))
			for i, r := range records {
				list[i] = listed{r, state(r)}
			}
			if asJSON {
				return a.printJSON(list)
			}
			return a.printSandboxes(list)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *app) printSandboxes(list []listed) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.out, "no sandboxes")
		return err
	}
	w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tDRIVER\tSTATE\tAGE\tDIRECTORY")
	for _, s := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", s.ID, s.Driver, s.State, time.Since(s.Created).Round(time.Second), printable(s.WorkingDir))
	}
	return w.Flush()
}

// sandboxIDs are the known sandboxes, for the shell.
func (a *app) sandboxIDs() []string {
	if a.configure() != nil {
		return nil
	}
	records, _ := registry.List(a.cfg.Home) // without it nothing is offered
	ids := make([]string, len(records))
	for i, r := range records {
		ids[i] = r.ID
	}
	return ids
}

func (a *app) sandboxStop() *cobra.Command {
	return &cobra.Command{
		Use:     "stop ID…",
		Short:   "end sandboxes with everything in them",
		Example: "  gander sandbox stop 1f2e3d4c",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return a.sandboxIDs(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, ids []string) error {
			if len(ids) == 0 {
				return usageError("which sandbox? gander sandbox list shows them")
			}
			var errs []error
			for _, id := range ids {
				if err := a.stopSandbox(cmd.Context(), id); err != nil {
					errs = append(errs, err)
					continue
				}
				fmt.Fprintln(a.out, "stopped", id)
			}
			return errors.Join(errs...)
		},
	}
}

// stopSandbox ends one sandbox, whichever driver made it. An unattended run ends with
// its sandbox: it would be made again otherwise.
func (a *app) stopSandbox(ctx context.Context, id string) error {
	if dir, ok := keeper.DirOf(a.cfg.Home, id); ok && dir.Kept() {
		return a.stopRun(ctx, dir)
	}
	r, err := registry.Get(a.cfg.Home, id)
	if err == nil && r.Container != "" {
		return docker.Stop(ctx, a.wire().dockerOptions(a.cfg), id)
	}
	return local.Stop(a.cfg.Home, id)
}

// stopRun ends an unattended run by its keeper.
func (a *app) stopRun(ctx context.Context, dir keeper.Dir) error {
	noted := dir.SetDesired(keeper.Stopped) // gander serve does not start another keeper then
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	return errors.Join(noted, keeper.NewClient(dir).Stop(ctx))
}

// clearAway clears away what killed ganders left, also sessions of which nothing was to
// be kept, and what agents keep of sessions that are no more. The daemon is asked only
// when one of the sandboxes is a container.
func (a *app) clearAway(ctx context.Context, w *wiring) ([]string, error) {
	records, err := registry.List(a.cfg.Home) // before the rest is cleared away
	removed, localErr := local.GC(ctx, a.cfg.Home)
	err = errors.Join(err, localErr)
	if slices.ContainsFunc(records, func(r registry.Record) bool { return r.Driver == docker.Name }) {
		more, dockerErr := docker.GC(ctx, w.dockerOptions(a.cfg))
		removed, err = append(removed, more...), errors.Join(err, dockerErr)
	}
	err = errors.Join(err, keeper.Tidy(a.cfg.Home))
	kept, keptErr := w.kept()
	if keptErr == nil {
		keptErr = kept.Tidy(ctx)
	}
	return removed, errors.Join(err, keptErr)
}

func (a *app) sandboxGC() *cobra.Command {
	return &cobra.Command{
		Use:     "gc",
		Short:   "clear away what a killed gander left",
		Example: "  gander sandbox gc",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			removed, err := a.clearAway(cmd.Context(), a.wire())
			for _, id := range removed {
				fmt.Fprintln(a.out, "removed", id)
			}
			if err == nil && len(removed) == 0 {
				_, err = fmt.Fprintln(a.out, "nothing to clear away")
			}
			return err
		},
	}
}

func (a *app) sandboxStatus() *cobra.Command {
	var asJSON bool
	var p place
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "what isolates a sandbox on this machine",
		Example: "  gander sandbox status\n  gander sandbox status --cwd ~/project --json",
		Long:    "status makes a sandbox of a directory and prints what isolates it here, and what keeps\nclosed and protected files. gander doctor tries whether that holds.",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.showStatus(cmd.Context(), p, asJSON)
		},
	}
	cmd.Flags().StringVar(&p.driver, "sandbox", "", "auto, local, docker or off (default: the configuration's, else auto)")
	cmd.Flags().StringVar(&p.cwd, "cwd", ".", "the directory to make a sandbox of")
	a.weakerFlag(cmd)
	jsonFlag(cmd, &asJSON)
	completeFlag(cmd, "sandbox", sandboxChoices()...)
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

func (a *app) showStatus(ctx context.Context, p place, asJSON bool) error {
	var err error
	if p.cwd, err = projectDir(p.cwd); err != nil {
		return err
	}
	p.name, p.purpose = "status-"+randomName(), "status"
	in, done, err := a.openSandbox(ctx, p)
	if err != nil {
		return err
	}
	defer done()
	info := in.Sandbox.Info()
	if asJSON {
		return a.printJSON(statusReport{
			info.Driver, info.Isolation, info.Enforcement, append([]string{}, info.Weaker...), append([]string{}, info.Limits...), append([]string{}, info.Warnings...),
		})
	}
	fmt.Fprintf(a.out, "driver     %s\nisolation  %s\n", info.Driver, info.Isolation)
	fmt.Fprintln(a.out, "closed    ", keptBy(info.Enforcement.Closed, "what .gooseignore names is open"))
	fmt.Fprintln(a.out, "protected ", keptBy(info.Enforcement.Protected, "what makes this machine run something can be written"))
	for _, l := range info.Limits {
		fmt.Fprintln(a.out, "limit     ", l)
	}
	for _, w := range info.Warnings {
		fmt.Fprintln(a.out, "warning   ", printable(w))
	}
	return nil
}
