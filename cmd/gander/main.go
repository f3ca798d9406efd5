// Command gander runs goose and opencode for ACP editors, each in a sandbox.
//
// This file starts gander and holds the tree of its commands. Each family of commands is a
// package below internal, and internal/wire alone knows which concrete drivers, agents and
// stores make up the product. The hidden verbs of processes inside sandboxes
// are dispatched before anything else, because they have to start quickly; the
// supervisor's even before main, by internal/early.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/agents"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/conformancecmd"
	"gander.dev/gander/cmd/gander/internal/demo"
	"gander.dev/gander/cmd/gander/internal/doctor"
	_ "gander.dev/gander/cmd/gander/internal/early" // a supervisor does not get to main
	"gander.dev/gander/cmd/gander/internal/editor"
	"gander.dev/gander/cmd/gander/internal/mcpcmd"
	"gander.dev/gander/cmd/gander/internal/plugincmd"
	"gander.dev/gander/cmd/gander/internal/policycmd"
	"gander.dev/gander/cmd/gander/internal/sandboxcmd"
	"gander.dev/gander/cmd/gander/internal/scenariocmd"
	"gander.dev/gander/cmd/gander/internal/session"
	"gander.dev/gander/cmd/gander/internal/setup"
	"gander.dev/gander/cmd/gander/internal/skillcmd"
	"gander.dev/gander/cmd/gander/internal/unattended"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/docker"
	"gander.dev/gander/sandbox/trials/probe"
)

// version is set by the linker.
var version = "devel"

func main() {
	cli.Version = version
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case docker.Verb:
			os.Exit(docker.Main(os.Args[1:]))
		case sandbox.BridgeVerb:
			os.Exit(mcpcmd.Bridge(os.Args[2:], cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
		case probe.Verb:
			os.Exit(probe.Main(os.Args[1:], os.Stdin, os.Stdout))
		}
	}
	ctx, signals := cli.WatchSignals(context.Background())
	start := runGander
	if calledGoose(os.Args[0]) {
		start = runGoose
	}
	os.Exit(start(ctx, os.Args[1:], cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Environ(), signals))
}

// runGander runs gander: arguments in, exit code out.
func runGander(ctx context.Context, args []string, streams cli.Stdio, environ []string, s *cli.Signals) int {
	return cli.Run(ctx, args, streams, environ, s, root)
}

// calledGoose reports whether gander was started under goose's name.
func calledGoose(program string) bool {
	return strings.TrimSuffix(strings.ToLower(filepath.Base(program)), ".exe") == cli.GooseName
}

// runGoose is what gander is under that name: the server, and nothing else of goose.
func runGoose(ctx context.Context, args []string, streams cli.Stdio, environ []string, s *cli.Signals) int {
	if len(args) < 2 || args[0] != "mcp" || mcpcmd.CheckServer(args[1:2]) != nil {
		fmt.Fprintln(streams.Err, `gander: this goose is gander under another name, and answers "goose mcp developer" only; for goose itself, call it by its path or put it before this one on PATH`)
		return cli.ExitUsage
	}
	return runGander(ctx, args, streams, environ, s)
}

// forPackagers are commands of builds for packagers.
var forPackagers []func(*cli.App) *cobra.Command

// root is the tree of the commands.
func root(a *cli.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "gander",
		Short: "goose or opencode in your editor, in a sandbox",
		Long: `gander is an ACP agent for editors (Zed, JetBrains, VS Code, Neovim, Emacs). It has
prompts answered by goose or opencode, in a sandbox: your project, no other files of
yours, no network but the model, no key inside, nothing left behind.`,
		Example: `  gander demo                 see it work, with nothing configured
  gander setup                the model, the key, the agent
  gander doctor               what works here, and what to do about the rest
  gander config zed           the entry for an editor
  gander                      a conversation in this directory
  gander run "fix the test"   one turn from a terminal`,
	}
	root.AddCommand(
		editor.ACPCommand(a, setup.ForEditor), editor.ChatCommand(a), editor.RunCommand(a), editor.RouteCommand(a), editor.ReplayCommand(a),
		mcpcmd.Command(a),
		session.Command(a),
		agents.Command(a, editor.RunCommand(a)), agents.ProviderCommand(a),
		skillcmd.Command(a), plugincmd.Command(a), scenariocmd.Command(a),
		unattended.ServeCommand(a), unattended.LoopCommand(a),
		sandboxcmd.Command(a),
		policycmd.Command(a),
		setup.Command(a), setup.ConfigCommand(a), setup.UpgradeCommand(a), setup.UninstallCommand(a),
		doctor.Command(a),
		demo.Command(a),
		conformancecmd.Command(a),
		a.VersionCommand(),
	)
	for _, command := range forPackagers {
		root.AddCommand(command(a))
	}
	a.Adopt(root)
	root.RunE = func(cmd *cobra.Command, _ []string) error { return editor.ChatOrHelp(cmd, a) }
	return root
}
