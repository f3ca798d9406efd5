package session

import (
	"cmp"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/rules/permit"
)

// permissionFlags say which projects are meant.
type permissionFlags struct {
	cwd       string
	all, json bool
}

func sessionPermissions(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "permissions",
		Short: "what you have allowed or refused agents for good, per project",
		Long: `permissions are the answers that you gave with "Always allow" or "Never allow". Each
holds in one project, for one agent and its tool, and for exactly what was asked: the
same words of a command in the same directory, the same files, the same input. What
was allowed in a sandbox that isolates does not hold without one. A host that you
allowed for the project is among them, too, for every agent.

A change counts for the next question, also in sessions that are open.`,
		Example: `  gander session permissions list
  gander session permissions list --all --json
  gander session permissions revoke k3v9qx2a
  gander session permissions clear`,
	}
	cmd.AddCommand(permissionsList(a), permissionsRevoke(a), permissionsClear(a))
	cli.Group(cmd)
	return cmd
}

func (f *permissionFlags) register(cmd *cobra.Command, all string) {
	cmd.Flags().StringVar(&f.cwd, "cwd", "", "the project (default: the current directory)")
	if all != "" {
		cmd.Flags().BoolVar(&f.all, "all", false, all)
		cli.Exclusive(cmd, "cwd", "all")
	}
	cli.JSONFlag(cmd, &f.json)
}

// project is the directory that is meant.
func (f *permissionFlags) project() (string, error) {
	return cli.Absolute("--cwd", cmp.Or(f.cwd, "."))
}

// projects are all that are meant.
func (f *permissionFlags) projects(store *permit.Store) ([]string, error) {
	if f.all {
		return store.Projects()
	}
	dir, err := f.project()
	if err != nil {
		return nil, err
	}
	return []string{permit.Canonical(dir)}, nil
}

// permissionRow is a remembered answer, as gander session permissions list prints it.
type permissionRow struct {
	Project string `json:"project"`
	permit.Rule
}

func permissionsList(a *cli.App) *cobra.Command {
	var f permissionFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "the answers of this project, or of all",
		Example: "  gander session permissions list\n  gander session permissions list --all --json",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			store := permit.Open(wire.PermissionsDir(a.Config))
			projects, broken := f.projects(store)
			if broken != nil && !f.all {
				return broken
			}
			rows := []permissionRow{}
			for _, dir := range projects {
				rules, err := store.Rules(dir)
				if err != nil {
					return err
				}
				for _, r := range rules {
					rows = append(rows, permissionRow{dir, r})
				}
			}
			if f.json {
				return errors.Join(a.PrintJSON(rows), broken)
			}
			return errors.Join(printPermissions(a, rows, f.all), broken)
		},
	}
	f.register(cmd, "the answers of every project")
	return cmd
}

// widestTitle bounds a cell of the table, in runes.
const widestTitle = 70

func printPermissions(a *cli.App, rows []permissionRow, all bool) error {
	if len(rows) == 0 {
		fmt.Fprintln(a.Err, "nothing is remembered")
		return nil
	}
	w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
	heading := "ID\tANSWER\tAGENT\tSUBJECT"
	if all {
		heading += "\tPROJECT"
	}
	fmt.Fprintln(w, heading)
	for _, r := range rows {
		answer := "never"
		if r.Allow {
			answer = "always"
		}
		title := []rune(cli.OneLine(r.Title))
		if len(title) > widestTitle {
			title = append(title[:widestTitle], '…')
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s", r.ID, answer, cmp.Or(cli.Printable(r.Agent), "-"), cli.Printable(string(title)))
		if all {
			fmt.Fprint(w, "\t"+cli.Printable(r.Project))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

func permissionsRevoke(a *cli.App) *cobra.Command {
	var f permissionFlags
	cmd := &cobra.Command{
		Use:     "revoke ID",
		Short:   "forget one answer: you are asked again",
		Example: "  gander session permissions revoke 3f2a",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError("revoke takes the id of one answer; see gander session permissions list")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := f.project()
			if err != nil {
				return err
			}
			err = permit.Open(wire.PermissionsDir(a.Config)).Revoke(dir, args[0])
			if errors.Is(err, permit.ErrNoRule) {
				return fmt.Errorf("%s has no remembered answer %q; gander session permissions list --all shows those of every project, --cwd names another one", dir, args[0])
			}
			if err != nil {
				return fmt.Errorf("%w; %s", err, cli.HomeAdvice)
			}
			if f.json {
				return a.PrintJSON(map[string]string{"revoked": args[0]})
			}
			fmt.Fprintln(a.Err, "forgotten; you are asked again")
			return nil
		},
	}
	f.register(cmd, "")
	return cmd
}

func permissionsClear(a *cli.App) *cobra.Command {
	var f permissionFlags
	cmd := &cobra.Command{
		Use:     "clear",
		Short:   "forget the answers of this project, or of all",
		Example: "  gander session permissions clear\n  gander session permissions clear --all",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			store := permit.Open(wire.PermissionsDir(a.Config))
			projects, err := f.projects(store)
			if err != nil {
				return err
			}
			forgotten := 0
			for _, dir := range projects {
				n, err := store.Clear(dir)
				if err != nil {
					return fmt.Errorf("%w; %s", err, cli.HomeAdvice)
				}
				forgotten += n
			}
			if f.json {
				return a.PrintJSON(map[string]int{"forgotten": forgotten})
			}
			fmt.Fprintf(a.Err, "%s forgotten\n", cli.Count(forgotten, "answers"))
			return nil
		},
	}
	f.register(cmd, "the answers of every project")
	return cmd
}
