// Package install puts agents and images onto this machine.
package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents"
	"gander.dev/gander/sandbox/team/roster"
)

// Command returns the command gander agent install.
func Command(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "install NAME",
		Short: "install the pinned version of an agent with npm",
		Long: `install runs npm with gander's lock file, so that exactly the version is installed
that gander is tested with, and puts it below gander's home. An older one is replaced once
everything is there; where that version is there already nothing is done.`,
		Example:           "  gander agent install goose",
		ValidArgsFunction: cli.CompleteFirst(cli.AgentNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError("name one agent, as in: gander agent install %s", cli.AgentNames()[0])
			}
			if !slices.Contains(cli.AgentNames(), args[0]) {
				return cli.UsageError("gander does not install %q; it installs %s; gander agent add lists other programs that it knows", args[0], strings.Join(cli.AgentNames(), " and "))
			}
			if !asJSON {
				return Agent(cmd.Context(), a, args[0])
			}
			quiet := *a
			quiet.Out = io.Discard
			if err := Agent(cmd.Context(), &quiet, args[0]); err != nil {
				return err
			}
			command, err := a.Config.FindAgent(args[0])
			if err != nil {
				return err
			}
			return a.PrintJSON(map[string]any{"name": args[0], "directory": a.Config.AgentDir(args[0]), "command": command})
		},
	}
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func Agent(ctx context.Context, a *cli.App, name string) error {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	known, _ := agents.Find(name)
	if known.Packages[platform] == "" {
		return fmt.Errorf("there is no npm package of %s for %s; install it yourself and put it in PATH, or name it in GANDER_%s_CMD", name, platform, strings.ToUpper(name))
	}
	dir := a.Config.AgentDir(name)
	if pin := sandbox.Tested(known.Packages[platform]); pin != "" && installedVersion(dir, known.Packages[platform]) == pin {
		fmt.Fprintf(a.Out, "%s %s is in %s already\n", name, pin, dir)
		return nil
	}
	npm := a.LookPath("npm")
	if npm == "" {
		return fmt.Errorf("installing %s needs npm, which is not in PATH; install Node.js, or put %[1]s itself in PATH", name)
	}
	fresh := fmt.Sprintf("%s.new-%s", dir, wire.RandomName())
	defer func() { _ = os.RemoveAll(fresh) }() // only there when something failed
	if err := writeNPM(fresh, slices.Collect(maps.Values(known.Packages))); err != nil {
		return fmt.Errorf("installing %s: %w; %s", name, err, cli.HomeAdvice)
	}
	p := show.Watch(a, fmt.Sprintf("installing %s with npm in %s", name, dir), 40*time.Second)
	if err := p.End(runNPM(ctx, a, npm, fresh, p)); err != nil {
		return fmt.Errorf("installing %s: %w", name, err)
	}
	if _, err := os.Stat(filepath.Join(fresh, "node_modules", known.Packages[platform])); err != nil {
		return fmt.Errorf("installing %s: npm ended well, but its package is not there; run npm ping to see whether its registry is right", name)
	}
	if err := replaceDir(dir, fresh); err != nil {
		return fmt.Errorf("installing %s: %w; %s", name, err, cli.HomeAdvice)
	}
	command, err := a.Config.FindAgent(name)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.Out, "installed", dir)
	if !strings.HasPrefix(command[0], dir) {
		fmt.Fprintf(a.Out, "but gander uses %s, which comes first\n", command[0])
	}
	return nil
}

// installedVersion returns the version of a package of npm's below dir; empty where it is not whole.
func installedVersion(dir, pkg string) string {
	at := filepath.Join(dir, "node_modules", pkg)
	raw, err := os.ReadFile(filepath.Join(at, "package.json"))
	var found struct {
		Version string `json:"version"`
	}
	if err != nil || json.Unmarshal(raw, &found) != nil {
		return ""
	}
	if _, err := os.Stat(filepath.Join(at, "bin")); err != nil {
		return ""
	}
	return found.Version
}

// runNPM installs what the lock file in dir says, and no more: no scripts are run.
func runNPM(ctx context.Context, a *cli.App, npm, dir string, out io.Writer) error {
	cmd := exec.CommandContext(ctx, npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.Env = NPMEnvironment(a)
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("npm failed (%w); its own words are above", err)
	}
	return nil
}

// writeNPM makes dir a project of npm's with some of the pinned packages.
func writeNPM(dir string, packages []string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, file := range []string{"package.json", "package-lock.json", ".npmrc"} {
		raw, err := fs.ReadFile(sandbox.NPM, file)
		if err == nil && filepath.Ext(file) == ".json" {
			raw, err = only(raw, packages)
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), raw, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// only returns a package.json, or its lock file, without the packages that are not named.
func only(raw []byte, packages []string) ([]byte, error) {
	var project map[string]any
	if err := json.Unmarshal(raw, &project); err != nil {
		return nil, err
	}
	foreign := func(name string, _ any) bool { return !slices.Contains(packages, name) }
	all, _ := project["packages"].(map[string]any) // of a lock file
	root, _ := all[""].(map[string]any)
	for _, at := range []map[string]any{project, root} {
		if needs, ok := at["dependencies"].(map[string]any); ok {
			maps.DeleteFunc(needs, foreign)
		}
	}
	maps.DeleteFunc(all, func(at string, v any) bool {
		name, found := strings.CutPrefix(at, "node_modules/")
		return found && foreign(name, v)
	})
	return json.MarshalIndent(project, "", "  ")
}

// replaceDir puts fresh in the place of dir, which may be in use: what runs from
// the old one goes on.
func replaceDir(dir, fresh string) error {
	if err := keepManifest(dir, fresh); err != nil {
		return err
	}
	old := fresh + "-old"
	if err := os.Rename(dir, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(fresh, dir); err != nil {
		return errors.Join(err, os.Rename(old, dir))
	}
	return os.RemoveAll(old)
}

// keepManifest puts the manifest in a folder into the one that takes its place.
func keepManifest(dir, fresh string) error {
	err := os.Rename(filepath.Join(dir, roster.File), filepath.Join(fresh, roster.File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// NPMEnvironment is this environment without what is none of npm's business.
func NPMEnvironment(a *cli.App) []string {
	return slices.DeleteFunc(slices.Clone(a.Environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == a.Config.Model.APIKeyEnv || slices.Contains([]string{"LLM_API_KEY", "CP_LLM_API_KEY"}, name)
	})
}
