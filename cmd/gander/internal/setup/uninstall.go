package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/clients"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/drivers/docker"
	"gander.dev/gander/sandbox/drivers/registry"
)

// UninstallCommand returns the command gander uninstall.
func UninstallCommand(a *cli.App) *cobra.Command {
	var dryRun, yes, asJSON bool
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "take gander off this machine",
		Long: `uninstall lists every file of gander's on this machine with its size: the entries in editors'
configurations, gander's home with all sessions, agents and the key, the container images,
and the program. On a terminal it asks, and then removes them; elsewhere it needs --yes.
With --dry-run it only lists.

Your projects are not touched, nor is a .gander.json in them. What gander kept of an editor's
configuration before its entry came (FILE.before-gander) is listed and stays. Nothing is
removed while a sandbox runs.`,
		Example:     "  gander uninstall --dry-run\n  gander uninstall --yes",
		Annotations: cli.Unconfigured(),
		Args:        cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := belongings(cmd.Context(), a)
			if err != nil {
				return err
			}
			if asJSON {
				err = a.PrintJSON(list)
			} else {
				err = printBelongings(a, list)
			}
			if err != nil || dryRun {
				return err
			}
			return uninstall(cmd.Context(), a, list, yes)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only list what would be removed")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// belonging holds something of gander's on this machine.
type belonging struct {
	Kind  string `json:"kind"` // entry, home, image, program or backup
	Name  string `json:"name"` // a path, or the image's name
	Bytes int64  `json:"bytes"`
	// Note says what it is.
	Note string `json:"note,omitempty"`

	remove func(context.Context) error // nil: it stays
}

// belongings finds all that is gander's, the entries of editors first and the program last.
func belongings(ctx context.Context, a *cli.App) ([]belonging, error) {
	list, err := entries(a)
	if err != nil {
		return nil, err
	}
	home, err := config.HomeDir(a.Home, a.Environ)
	if err != nil {
		return nil, err
	}
	list = append(list, homeParts(home)...)
	list = append(list, images(ctx, a)...)
	if program, err := a.Executable(); err == nil && strings.TrimSuffix(filepath.Base(program), ".exe") == "gander" {
		list = append(list, belonging{
			Kind: "program", Name: program, Bytes: sizeOf(program), Note: "gander itself",
			remove: func(context.Context) error { return os.Remove(program) },
		})
	}
	return list, nil
}

// entries returns gander's entries in clients' configurations, and the copies beside them.
func entries(a *cli.App) (list []belonging, err error) {
	for _, f := range clients.Files(a.Clients()) {
		e, err := entry(a, f.Target, configFlags{plugin: f.Plugin})
		if err != nil {
			return nil, err
		}
		at, has, err := clients.Has(f.Target, f.Path, e)
		if err != nil {
			list = append(list, belonging{Kind: "entry", Name: at, Note: "cannot be read, so that an entry of gander's in it would stay: " + err.Error()})
			continue
		}
		if has {
			list = append(list, belonging{
				Kind: "entry", Name: at, Note: "gander's entry in the configuration of " + f.Title,
				remove: func(context.Context) error { _, err := clients.Take(f.Target, f.Path, e); return err },
			})
		}
		for _, backup := range clients.Backups(at) {
			list = append(list, belonging{Kind: "backup", Name: backup, Bytes: sizeOf(backup), Note: "yours from before gander; it stays"})
		}
	}
	return list, nil
}

// homeParts returns the files and directories in gander's home, and the home.
func homeParts(home string) (list []belonging) {
	found, err := os.ReadDir(home)
	if err != nil {
		return nil // there is none
	}
	for _, e := range found {
		path := filepath.Join(home, e.Name())
		list = append(list, belonging{
			Kind: "home", Name: path, Bytes: sizeOf(path), Note: homeNotes[e.Name()],
			remove: func(context.Context) error { return removeAll(path) },
		})
	}
	return append(list, belonging{
		Kind: "home", Name: home, Note: "gander's home",
		remove: func(context.Context) error { return os.Remove(home) },
	})
}

// homeNotes holds what stands in the home.
var homeNotes = map[string]string{
	"config.json": "the configuration", wire.KeyFileName: "the model's key", "sessions": "transcripts of all sessions", "runs": "traces",
	"agents": "agents' programs and manifests", "snapshots": "files kept for /undo", "sandboxes": "sandboxes", "caches": "caches of package managers", "loop": "unattended runs",
	"permissions": "what you allowed for good", "trusted": "projects that you trust", "workspaces": "agents' own directories", "log": "logs", "times.json": "how long work took the last time",
}

// removeAll removes a directory and all below it, links themselves and not what they lead
// to. Directories that an agent has closed are opened first.
func removeAll(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(path)
}

// images returns the container images that gander built, where a daemon answers.
func images(ctx context.Context, a *cli.App) (list []belonging) {
	if a.Config == nil {
		return nil
	}
	o := wire.New(a).DockerOptions(a.Config)
	found, err := docker.BuiltImages(ctx, o)
	if err != nil {
		return nil // no daemon, no images
	}
	for _, image := range found {
		list = append(list, belonging{
			Kind: "image", Name: image.Name, Bytes: image.Size, Note: "container image",
			remove: func(ctx context.Context) error { return docker.RemoveImage(ctx, o, image.Name) },
		})
	}
	return list
}

// sizeOf returns the bytes of a file, or of all below a directory. It follows no link.
func sizeOf(path string) (bytes int64) {
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}

func printBelongings(a *cli.App, list []belonging) error {
	var all int64
	for _, b := range list {
		if b.remove != nil {
			all += b.Bytes
		}
		name := b.Name
		if b.Kind != "image" {
			name = cli.ShortDir(name)
		}
		if _, err := fmt.Fprintf(a.Out, "%-8s %9s  %s  %s\n", b.Kind, size(b.Bytes), cli.Printable(name), b.Note); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(a.Out, "%-8s %9s  to be removed\n", "all", size(all))
	return err
}

// size returns a number of bytes in words, with small ones in full.
func size(n int64) string {
	if n < 1e6 {
		return fmt.Sprintf("%d B", n)
	}
	return cli.Megabytes(uint64(n))
}

// uninstall removes what is listed, once nothing runs and the person has agreed.
func uninstall(ctx context.Context, a *cli.App, list []belonging, yes bool) error {
	if err := nothingRuns(a); err != nil {
		return err
	}
	if !yes {
		if !cli.IsTerminal(a.In) {
			return cli.UsageError("nothing was removed, as there is nobody to ask; say --yes")
		}
		agreed, err := show.NewPrompter(a.In, a.Err).Yes(ctx, "Remove all of this? Sessions and undo are gone then", false)
		if err != nil || !agreed {
			return errors.Join(err, errors.New("nothing was removed"))
		}
	}
	var errs []error
	for _, b := range list {
		if b.remove == nil {
			continue
		}
		err := show.During(a, "removing "+b.Name, 0, func() error { return b.remove(ctx) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s stays: %w", b.Name, err))
		}
	}
	if len(errs) == 0 {
		fmt.Fprintln(a.Out, "gander is off this machine")
	}
	return errors.Join(errs...)
}

// nothingRuns fails while a sandbox or the control plane runs.
func nothingRuns(a *cli.App) error {
	home, err := config.HomeDir(a.Home, a.Environ)
	if err != nil {
		return err
	}
	records, err := registry.List(home)
	if err != nil {
		return err
	}
	for _, r := range records {
		if wire.State(r) == wire.StateRunning {
			return fmt.Errorf("nothing was removed: the sandbox %s runs in %s; close its editor or conversation, or end it with: gander sandbox stop %s", r.ID, r.WorkingDir, r.ID)
		}
	}
	if a.Config != nil && wire.Serving(a) {
		return errors.New("nothing was removed: gander serve runs; end it with Ctrl-C where it runs")
	}
	return nil
}
