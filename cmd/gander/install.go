package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"gander.dev/gander/sandbox"
)

// packages are the npm packages of the lock file that hold agents' programs, by
// agent and platform.
func packages() map[string]map[string]string {
	return map[string]map[string]string{
		"goose":    {"linux/amd64": "@aaif/goose-binary-linux-x64"},
		"opencode": {"linux/amd64": "opencode-linux-x64"},
	}
}

func (a *app) agentInstall() *cobra.Command {
	return &cobra.Command{
		Use:   "install NAME",
		Short: "install the pinned version of an agent with npm",
		Long: `install runs npm with gander's lock file, so that exactly the version is installed
that gander is tested with, and puts it below gander's home. It replaces what it
installed before when everything is there.`,
		Example:           "  gander agent install goose",
		ValidArgsFunction: completeFirst(agentNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError("name one agent, as in: gander agent install %s", agentNames()[0])
			}
			if _, err := a.wire().agent(args[0]); err != nil {
				return err
			}
			return a.installAgent(cmd.Context(), args[0])
		},
	}
}

func (a *app) installAgent(ctx context.Context, name string) error {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	if packages()[name][platform] == "" {
		return fmt.Errorf("there is no npm package of %s for %s; install it yourself and put it in PATH, or name it in GANDER_%s_CMD", name, platform, strings.ToUpper(name))
	}
	npm := a.lookPath("npm")
	if npm == "" {
		return fmt.Errorf("installing %s needs npm, which is not in PATH; install Node.js, or put %[1]s itself in PATH", name)
	}
	dir := a.cfg.AgentDir(name)
	fresh := fmt.Sprintf("%s.new-%s", dir, randomName())
	defer func() { _ = os.RemoveAll(fresh) }() // only there when something failed
	if err := writeNPM(fresh); err != nil {
		return fmt.Errorf("installing %s: %w; %s", name, err, homeAdvice)
	}
	p := a.watch(fmt.Sprintf("installing %s with npm in %s", name, dir))
	if err := p.end(a.npm(ctx, npm, fresh, p)); err != nil {
		return fmt.Errorf("installing %s: %w", name, err)
	}
	if _, err := os.Stat(filepath.Join(fresh, "node_modules", packages()[name][platform])); err != nil {
		return fmt.Errorf("installing %s: npm ended well, but its package is not there; run npm ping to see whether its registry is right", name)
	}
	if err := replaceDir(dir, fresh); err != nil {
		return fmt.Errorf("installing %s: %w; %s", name, err, homeAdvice)
	}
	command, err := a.cfg.FindAgent(name)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.out, "installed", dir)
	if !strings.HasPrefix(command[0], dir) {
		fmt.Fprintf(a.out, "but gander uses %s, which comes first\n", command[0])
	}
	return nil
}

// npm installs what the lock file in dir says, and no more: no scripts are run.
func (a *app) npm(ctx context.Context, npm, dir string, out io.Writer) error {
	cmd := exec.CommandContext(ctx, npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.Env = a.npmEnvironment()
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("npm failed (%w); its own words are above", err)
	}
	return nil
}

// writeNPM makes dir a project of npm's with the pinned agents.
func writeNPM(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, file := range []string{"package.json", "package-lock.json", ".npmrc"} {
		raw, err := fs.ReadFile(sandbox.NPM, file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), raw, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// replaceDir puts fresh in the place of dir, which may be in use: what runs from
// the old one goes on.
func replaceDir(dir, fresh string) error {
	old := fresh + "-old"
	if err := os.Rename(dir, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(fresh, dir); err != nil {
		return errors.Join(err, os.Rename(old, dir))
	}
	return os.RemoveAll(old)
}

// lookPath finds a program in the PATH of gander's environment; empty without it.
func (a *app) lookPath(program string) string {
	var path string
	for _, v := range a.environ {
		if name, value, ok := strings.Cut(v, "="); ok && strings.EqualFold(name, "PATH") {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return found
		}
	}
	return ""
}
