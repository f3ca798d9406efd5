// Package plugincmd installs, shows and removes plugins: skills, commands, agents and MCP servers that
// come together.
package plugincmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/install"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/sandbox/team/plugins"
)

// Command returns the command gander plugin.
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "install, enable and remove plugins",
		Long: `A plugin is a folder of skills, commands, agents and MCP servers, with a manifest of
OpenClaw's, Claude Code's, Codex', Cursor's or Agent Plugins' form, or in Claude Code's
layout without one. While it is enabled, agents find its skills, its commands are slash
commands, its agents can be chosen, and its MCP servers run inside sandboxes. Nothing
of a plugin runs on your machine: what would, is named by info and doctor, and left out.`,
	}
	cmd.AddCommand(add(a), list(a), info(a), enable(a, true), enable(a, false), remove(a), doctor(a))
	cli.Group(cmd)
	return cmd
}

// one returns the only argument, an id.
func one(args []string) (string, error) {
	if len(args) != 1 {
		return "", cli.UsageError("name one plugin, as gander plugin list shows it")
	}
	return args[0], nil
}

// unknown says that there is no plugin of an id, where that is so.
func unknown(id string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return cli.UsageError("there is no plugin %q; see gander plugin list", id)
	}
	return err
}

// packageSpec matches a package of npm's registry at one version.
var packageSpec = regexp.MustCompile(`^((?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*)@([0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z.-]+)?)$`)

func add(a *cli.App) *cobra.Command {
	var disabled, asJSON bool
	cmd := &cobra.Command{
		Use:   "install FOLDER|ARCHIVE|PACKAGE@VERSION",
		Short: "install a plugin and enable it",
		Long: `install copies a plugin into gander's home: a folder, an archive (.tgz, .tar.gz, .tar, .zip), or
a package of npm's registry at a version, which npm fetches: no script of it is run, and
what it depends on is not installed. Links, devices and odd names are refused, and so is
more than 2000 files or 32 MiB. A plugin is a stranger's instructions: read it first.`,
		Example: `  gander plugin install ./team-rules
  gander plugin install ~/Downloads/review.zip --disabled
  gander plugin install @example/openclaw-notes@1.2.0`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError("name one folder, archive, or package with its version")
			}
			from, source, done, err := fetch(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			defer done()
			p, err := a.Config.PluginStore().Install(from, source, !disabled)
			if err != nil {
				return cli.UsageError("the plugin was not installed: %w", err)
			}
			if asJSON {
				return a.PrintJSON(p)
			}
			state := "enabled"
			if disabled {
				state = "disabled: gander plugin enable " + p.ID
			}
			fmt.Fprintf(a.Out, "installed %s (%s), %s\n", cli.Printable(strings.TrimSpace(p.ID+" "+p.Version)), p.Format, state)
			return printParts(a, p)
		},
	}
	cmd.Flags().BoolVar(&disabled, "disabled", false, "do not enable it")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// fetch returns where a plugin is on this machine, which done removes where it came from a registry.
func fetch(ctx context.Context, a *cli.App, spec string) (from, source string, done func(), err error) {
	done = func() {}
	if _, err := os.Stat(spec); err == nil {
		from, err = filepath.Abs(spec)
		return from, from, done, err
	}
	if !packageSpec.MatchString(spec) {
		if strings.ContainsAny(spec, ":") || strings.HasSuffix(spec, ".git") {
			return "", "", done, cli.UsageError("%s: git, file and web addresses are not taken; clone or download it, and name the folder or the archive", spec)
		}
		return "", "", done, cli.UsageError("%s: there is no such file; a package of npm's registry needs its version, as in NAME@1.2.0", spec)
	}
	npm := a.LookPath("npm")
	if npm == "" {
		return "", "", done, cli.UsageError("fetching %s needs npm, which is not in PATH; install Node.js, or download the archive and name it", spec)
	}
	dir, err := os.MkdirTemp("", "gander-plugin-")
	if err != nil {
		return "", "", done, fmt.Errorf("making a place for the plugin: %w; %s", err, cli.TemporaryAdvice)
	}
	done = func() { _ = os.RemoveAll(dir) }
	cmd := exec.CommandContext(ctx, npm, "pack", "--ignore-scripts", "--pack-destination", dir, "--", spec)
	var said strings.Builder
	cmd.Dir, cmd.Env, cmd.Stderr = dir, install.NPMEnvironment(a), &said
	if err := show.During(a, "fetching "+spec, 3*time.Second, cmd.Run); err != nil {
		done()
		return "", "", func() {}, fmt.Errorf("npm could not fetch %s (%w): %s; see whether the name and the version are right, or download the archive and name it", spec, err, cli.OneLine(said.String()))
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(found) != 1 {
		done()
		return "", "", func() {}, fmt.Errorf("npm fetched no archive of %s; download it and name the archive", spec)
	}
	return found[0], "npm:" + spec, done, nil
}

// printParts says what a plugin brings, and what is left out.
func printParts(a *cli.App, p *plugins.Plugin) error {
	w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
	part := func(kind, text string) { fmt.Fprintf(w, "  %s\t%s\n", kind, cli.Printable(text)) }
	for _, dir := range p.Skills {
		part("skill", filepath.Base(dir))
	}
	for _, c := range p.Commands {
		part("command", strings.TrimSpace("/"+c.Name+" "+c.Hint))
	}
	for _, g := range p.Agents {
		part("agent", g.ID)
	}
	for _, s := range p.Servers {
		part("MCP server", s.Name+", inside sandboxes: "+strings.Join(append([]string{s.Command}, s.Args...), " "))
	}
	for _, r := range p.Refused {
		part("left out", r.Part+": "+r.Reason)
	}
	return w.Flush()
}

func list(a *cli.App) *cobra.Command {
	var enabled, asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "the plugins that are installed",
		Example: "  gander plugin list\n  gander plugin list --enabled --json",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, problems := a.Config.PluginStore().List()
			if enabled {
				all = slices.DeleteFunc(all, func(p *plugins.Plugin) bool { return !p.Enabled })
			}
			if asJSON {
				return a.PrintJSON(map[string]any{"plugins": append([]*plugins.Plugin{}, all...), "problems": append([]plugins.Problem{}, problems...)})
			}
			w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
			for _, p := range all {
				state := "disabled"
				if p.Enabled {
					state = "enabled"
				}
				counts := fmt.Sprintf("%d skills, %d commands, %d agents, %d MCP servers, %d left out", len(p.Skills), len(p.Commands), len(p.Agents), len(p.Servers), len(p.Refused))
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.ID, cmp.Or(cli.Printable(p.Version), "-"), state, p.Format, counts)
			}
			if err := w.Flush(); err != nil {
				return err
			}
			for _, p := range problems {
				fmt.Fprintf(a.Err, "gander: %s: %s\n", cli.Printable(cmp.Or(p.ID, "the plugins")), cli.Printable(p.Reason))
			}
			if len(all)+len(problems) == 0 {
				fmt.Fprintln(a.Err, "There are no plugins; gander plugin install FOLDER installs one.")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&enabled, "enabled", false, "only those that are enabled")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// shown is a plugin as info prints it.
type shown struct {
	*plugins.Plugin
	State   *plugins.State `json:"state,omitempty"`
	Changed bool           `json:"changed"`
}

func info(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "info ID",
		Short:   "one plugin: what it brings, what is left out and why",
		Example: "  gander plugin info team-rules",
		RunE: func(_ *cobra.Command, args []string) error {
			id, err := one(args)
			if err != nil {
				return err
			}
			store := a.Config.PluginStore()
			p, err := store.Load(id)
			if err != nil {
				return unknown(id, err)
			}
			s := shown{Plugin: p}
			if state, ok := store.State(id); ok {
				s.State = &state
				changed, err := store.Changed(id)
				s.Changed = changed || err != nil
			}
			if asJSON {
				return a.PrintJSON(s)
			}
			w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
			lines := [][2]string{
				{"id", p.ID},
				{"name", p.Name},
				{"version", p.Version},
				{"description", p.Description},
				{"format", strings.TrimSuffix(p.Format+", "+p.File, ", ")},
				{"enabled", fmt.Sprint(p.Enabled)},
				{"requires", strings.Join(p.Requires, ", ")},
				{"folder", p.Dir},
			}
			if s.State != nil {
				text := s.State.Installed.Local().Format("2006-01-02 15:04") + ", from " + s.State.Source
				if s.Changed {
					text += ", changed since"
				}
				lines = append(lines, [2]string{"installed", text})
			}
			for _, line := range lines {
				if line[1] != "" {
					fmt.Fprintf(w, "%s\t%s\n", line[0], cli.Printable(line[1]))
				}
			}
			if err := w.Flush(); err != nil {
				return err
			}
			return printParts(a, p)
		},
	}
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func enable(a *cli.App, on bool) *cobra.Command {
	verb, short := "enable", "have a plugin count, from the next session on"
	if !on {
		verb, short = "disable", "have a plugin not count, from the next session on"
	}
	return &cobra.Command{
		Use:     verb + " ID",
		Short:   short,
		Example: "  gander plugin " + verb + " team-rules",
		RunE: func(_ *cobra.Command, args []string) error {
			id, err := one(args)
			if err != nil {
				return err
			}
			if err := a.Config.PluginStore().Enable(id, on); err != nil {
				return unknown(id, err)
			}
			_, err = fmt.Fprintf(a.Out, "%sd %s\n", verb, id)
			return err
		},
	}
}

func remove(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "remove ID",
		Short:   "remove a plugin",
		Example: "  gander plugin remove team-rules",
		RunE: func(_ *cobra.Command, args []string) error {
			id, err := one(args)
			if err != nil {
				return err
			}
			if err := a.Config.PluginStore().Remove(id); err != nil {
				return unknown(id, err)
			}
			_, err = fmt.Fprintln(a.Out, "removed", id)
			return err
		},
	}
}

// finding holds one thing that doctor says of a plugin.
type finding struct {
	Plugin string `json:"plugin"`
	// Level is "wrong", or "note" for what is left out on purpose.
	Level string `json:"level"`
	Text  string `json:"text"`
}

func doctor(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "what is wrong with plugins, and what of them is left out",
		Long: `doctor looks at the installed plugins: files that have changed since, manifests that cannot
be read, what one needs and is not there, names that two have, and all that is left out,
with the reason. The exit code is 1 when something is wrong.`,
		Example: "  gander plugin doctor",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			found := examine(a)
			if asJSON {
				raw, err := json.Marshal(found)
				if err != nil {
					return err
				}
				if err := a.PrintJSON(json.RawMessage(raw)); err != nil {
					return err
				}
			} else {
				for _, f := range found {
					fmt.Fprintf(a.Out, "%-5s  %s: %s\n", f.Level, cli.Printable(f.Plugin), cli.Printable(f.Text))
				}
			}
			if slices.ContainsFunc(found, func(f finding) bool { return f.Level == "wrong" }) {
				return &cli.ExitError{Code: cli.ExitFailed}
			}
			if len(found) == 0 && !asJSON {
				fmt.Fprintln(a.Out, "nothing is wrong")
			}
			return nil
		},
	}
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// examine looks at all plugins.
func examine(a *cli.App) []finding {
	found := []finding{}
	store := a.Config.PluginStore()
	all, problems := store.List()
	for _, p := range problems {
		found = append(found, finding{cmp.Or(p.ID, "plugins"), "wrong", p.Reason})
	}
	commands := map[string]string{}
	for _, p := range all {
		wrong := func(format string, args ...any) {
			found = append(found, finding{p.ID, "wrong", fmt.Sprintf(format, args...)})
		}
		if changed, err := store.Changed(p.ID); err != nil || changed {
			wrong("its files are others than those that were installed; look at them, or remove it and install it again")
		}
		for _, need := range p.Requires {
			if !slices.ContainsFunc(all, func(o *plugins.Plugin) bool { return o.ID == need && o.Enabled }) {
				wrong("it needs the plugin %s, which is not installed and enabled", need)
			}
		}
		for _, c := range p.Commands {
			if other := commands[c.Name]; other != "" && p.Enabled {
				wrong("its command /%s does not count: the plugin %s has one of that name", c.Name, other)
			} else if p.Enabled {
				commands[c.Name] = p.ID
			}
		}
		for _, r := range p.Refused {
			found = append(found, finding{p.ID, "note", r.Part + " is left out: " + r.Reason})
		}
	}
	for _, p := range a.Config.TeamProblems() {
		if i := slices.IndexFunc(all, func(o *plugins.Plugin) bool { return strings.HasPrefix(p.Path, o.Dir+string(filepath.Separator)) }); i >= 0 {
			found = append(found, finding{all[i].ID, "wrong", "its agent " + p.Agent + ": " + p.Reason})
		}
	}
	return found
}
