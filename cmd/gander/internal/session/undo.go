package session

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/router/changes"
	"gander.dev/gander/sandbox/rules/ignore"
	"gander.dev/gander/sandbox/rules/project"
	"gander.dev/gander/sessions"
)

// maxDiff bounds what a diff prints, in bytes.
const maxDiff = 16 << 20

func sessionDiff(a *cli.App) *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "diff SESSION",
		Short: "what the last turn changed in the project's files, or the whole session",
		Long: `diff shows what the last turn of a session changed in the project's files, whoever in the
turn changed them: the agent's tools, its commands, or you meanwhile. What is undone
is not shown. With --json the turns are printed as they are kept, without content.`,
		Example: "  gander session diff main\n  gander session diff 0198c1d2 --all",
		Args:    oneSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withTree(cmd.Context(), a, args[0], func(tree *changes.Tree, info sessions.Info, _ string) error {
				return printChanges(a, tree, info, all, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all turns, the first one first")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func sessionUndo(a *cli.App) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "undo SESSION",
		Short: "put back the files that the last turn changed",
		Long: `undo puts back what the last turn of a session changed in the project's files; once more,
the turn before. When one of them was changed since, nothing is undone and the files
are named, nor while a sandbox runs there: say /undo in its session then. Commits,
branches and the index of git stay as they are. On a terminal it asks first;
elsewhere it needs --yes.`,
		Example: "  gander session undo main",
		Args:    oneSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withTree(cmd.Context(), a, args[0], func(tree *changes.Tree, info sessions.Info, root string) error {
				return undoTurn(cmd.Context(), a, tree, info, root, yes)
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// withTree opens what is kept of the files of a session's project, whose path without
// links is root.
func withTree(ctx context.Context, a *cli.App, ref string, do func(tree *changes.Tree, info sessions.Info, root string) error) error {
	_, info, err := resolve(ctx, a, ref)
	if err != nil {
		return err
	}
	o := wire.KeepingOf(a.Config)
	if o == nil {
		return errors.New("no files are kept for undoing: changes.off is set in the configuration; unset it to keep those of the next turns")
	}
	if o.Root, err = filepath.EvalSymlinks(info.WorkingPath); err != nil {
		return fmt.Errorf("the project of session %s is not there any more: %w; put it back to its place first", info.ID, err)
	}
	if o.Rules, err = ignore.NewSet(ignore.SetOptions{Root: o.Root, Shared: true, Global: wire.New(a).Rules().Own}); err != nil {
		return err
	}
	tree, err := changes.Open(*o)
	if err != nil {
		return err
	}
	return errors.Join(do(tree, info, o.Root), tree.Close())
}

func printChanges(a *cli.App, tree *changes.Tree, info sessions.Info, all, asJSON bool) error {
	turns, err := tree.Session(string(info.ID))
	if err != nil {
		return err
	}
	if !asJSON {
		turns = slices.DeleteFunc(turns, func(t *changes.Turn) bool { return t.Undone != nil })
	}
	if !all && len(turns) > 1 {
		turns = turns[:1]
	}
	slices.Reverse(turns)
	if asJSON {
		return a.PrintJSON(append([]*changes.Turn{}, turns...)) // an array also when there are none
	}
	if len(turns) == 0 {
		fmt.Fprintln(a.Err, "no turn of this session has changed a file, or all are undone")
	}
	for _, t := range turns {
		fmt.Fprintf(a.Err, "the turn of %s\n", t.Started.Format("2006-01-02 15:04:05"))
		text := a.Secrets.HideIn(tree.Diff(t, maxDiff))
		if cli.IsTerminal(a.Out) { // which would obey what a file says
			text = cli.Printable(text)
		}
		fmt.Fprint(a.Out, text)
		for _, n := range t.Notes() {
			fmt.Fprintln(a.Err, n)
		}
	}
	return nil
}

// checkIdle fails while a sandbox runs in a project, or in a directory above or below
// it: only the gander that it belongs to can keep what is inside from moving files.
func checkIdle(a *cli.App, root string) error {
	records, err := registry.List(a.Config.Home)
	if err != nil {
		return err
	}
	for _, r := range records {
		dir, err := filepath.EvalSymlinks(r.WorkingDir)
		if err != nil {
			dir = r.WorkingDir
		}
		if r.Driver != sandbox.Off && wire.State(r) != wire.StateDead && (project.Below(dir, root) || project.Below(root, dir)) {
			return fmt.Errorf("the sandbox %s runs in %s, where it could move files meanwhile; say /undo in its session, or end that or: gander sandbox stop %s", r.ID, r.WorkingDir, r.ID)
		}
	}
	return nil
}

func undoTurn(ctx context.Context, a *cli.App, tree *changes.Tree, info sessions.Info, root string, yes bool) error {
	if !yes {
		turn, err := tree.Undoable(string(info.ID))
		if err != nil {
			return err
		}
		for _, c := range turn.Files() {
			fmt.Fprintln(a.Err, c.String())
		}
		if turn.Unknown == "" { // else nothing is put back, and Undo says why
			if err := confirm(ctx, a, "Put back what these were before the turn?"); err != nil {
				return err
			}
		}
	}
	if err := checkIdle(a, root); err != nil {
		return err
	}
	done, err := tree.Undo(ctx, string(info.ID))
	if err != nil {
		return err
	}
	for _, c := range done.Restored {
		fmt.Fprintf(a.Out, "undone: %s\n", c.Undone())
	}
	for _, s := range done.Skipped {
		fmt.Fprintln(a.Err, s)
	}
	return nil
}
