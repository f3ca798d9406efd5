package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gander.dev/gander/developer"
	"gander.dev/gander/mcp"
)

// gooseName is the name under which gander answers "goose mcp developer", which
// goose starts inside containers.
const gooseName = "goose"

// The choices of --enforce.
const (
	enforceAuto = "auto"
	enforceOn   = "on"
	enforceOff  = "off"
)

// mcpFlags are the flags of gander mcp.
type mcpFlags struct {
	profile, enforce string
	roots            []string
	jobs, loginPath  bool
	bashEnv          string
}

func (a *app) mcpCommand() *cobra.Command {
	var f mcpFlags
	cmd := &cobra.Command{
		Use:   "mcp [developer]",
		Short: "serve goose, opencode or another client: the developer tools as an MCP server",
		Long: `mcp is an MCP server on stdin and stdout: goose's classic developer extension, with
its tools, schemas and texts, for goose and for any other MCP client. It needs no
home and no configuration. It ends, with everything it started, when its stdin ends
or it gets a signal.

Files that .gooseignore names are kept from the tools by a check of the paths, and of
what a command says. That is a guard against mistakes, not a wall: --enforce auto says
so to the model, off does not, and on refuses to start where nothing can enforce it.`,
		Example: `  gander mcp developer
  gander mcp developer --profile current --root ~/project
  goose run --no-profile --with-extension "developer:gander mcp developer" -t "what is here?"`,
		Annotations: unconfigured(),
		Args:        func(_ *cobra.Command, args []string) error { return checkServer(args) },
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.serveMCP(cmd.Context(), f) },
		ValidArgsFunction: completeFirst(func() []string {
			return []string{"developer"}
		}),
	}
	cmd.Flags().StringVar(&f.profile, "profile", string(developer.Classic), "the tools: classic (goose up to 1.25) or current (goose 1.52)")
	cmd.Flags().StringArrayVar(&f.roots, "root", nil, "confine the file tools to this directory; may be repeated")
	cmd.Flags().StringVar(&f.enforce, "enforce", enforceAuto, "whether ignore rules must be enforced by the kernel: auto, on or off")
	cmd.Flags().BoolVar(&f.jobs, "jobs", false, "add a tool for background jobs")
	cmd.Flags().BoolVar(&f.loginPath, "login-path", false, "run commands with the PATH of your login shell, which is asked once")
	cmd.Flags().StringVar(&f.bashEnv, "bash-env", "", "a file that bash reads before each command (BASH_ENV)")
	completeFlag(cmd, "profile", string(developer.Classic), string(developer.Current))
	completeFlag(cmd, "enforce", enforceAuto, enforceOn, enforceOff)
	return cmd
}

// checkServer accepts the name of the one server, which goose compares without
// case and blanks.
func checkServer(args []string) error {
	if len(args) == 0 {
		return nil
	}
	name := strings.ToLower(strings.Join(strings.Fields(args[0]), ""))
	switch {
	case name != "developer":
		return usageError("there is no MCP server %q; the only one is developer, as in: gander mcp developer", args[0])
	case len(args) > 1:
		return usageError("gander mcp developer takes no further argument, got %q; see gander mcp --help", args[1])
	}
	return nil
}

func (f mcpFlags) check() error {
	if !slices.Contains(developer.Profiles(), developer.Profile(f.profile)) {
		return usageError("--profile %q: choose one of classic, current", f.profile)
	}
	switch f.enforce {
	case enforceAuto, enforceOff:
		return nil
	case enforceOn:
		return usageError("--enforce on: nothing here can have the kernel enforce .gooseignore, so the server does not start; " +
			"--enforce auto starts it with a guard that checks paths and commands")
	}
	return usageError("--enforce %q: choose one of auto, on, off", f.enforce)
}

// serveMCP serves a client until its stream ends or gander is told to stop.
func (a *app) serveMCP(ctx context.Context, f mcpFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	if a.configured != nil {
		a.complain(fmt.Errorf("the configuration is not used, and not needed here: %w", a.configured))
	}
	o, err := a.developerOptions(f)
	if err != nil {
		return err
	}
	editor, err := a.filesSide(ctx)
	if err != nil {
		return err
	}
	defer editor.close()
	o.Buffers = editor.buffers()
	tools, err := developer.New(o)
	if err != nil {
		return err
	}
	side, err := a.outputSide(ctx)
	if err != nil {
		return err
	}
	defer side.close()
	if isTerminal(a.in) {
		a.log.Warn("gander mcp is started by MCP clients and waits for their messages on stdin; Ctrl-D ends it")
	}
	err = mcp.Serve(ctx, newStream(a.in, a.out), tools, mcp.Options{
		Version: version, WorkingDir: o.WorkingDir, Container: developer.InContainer(), HintFiles: hintFiles(a.environ), Log: a.log,
		Output: side.output(),
	})
	a.keepStats(tools.Stats()) // first: goose kills its servers soon after it has closed their stdin
	if closeErr := tools.Close(); closeErr != nil {
		a.log.Warn("not everything that the tools kept could be cleared away", "err", closeErr)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // told to stop: that is done
	}
	return err
}

func (a *app) developerOptions(f mcpFlags) (developer.Options, error) {
	dir, err := os.Getwd()
	if err != nil {
		return developer.Options{}, fmt.Errorf("the working directory is gone: %w; start the server in a directory that is there", err)
	}
	var roots []string
	for _, root := range f.roots {
		abs, err := directoryOf("--root", root, "a directory of the file tools")
		if err != nil {
			return developer.Options{}, err
		}
		roots = append(roots, abs)
	}
	return developer.Options{
		Profile:    developer.Profile(f.profile),
		WorkingDir: dir,
		HomeDir:    cmp.Or(variable(a.environ, "HOME"), variable(a.environ, "USERPROFILE")),
		AppDataDir: variable(a.environ, "APPDATA"),
		ConfigDir:  gooseConfigDir(a.environ),
		Roots:      roots,
		Environ:    a.environ,
		Jobs:       f.jobs,
		BashEnv:    f.bashEnv,
		LoginPath:  f.loginPath,
		Guarded:    f.enforce != enforceOff,
		Log:        a.log,
	}, nil
}

// gooseConfigDir is where goose keeps its configuration; empty when that cannot be
// known.
func gooseConfigDir(environ []string) string {
	if root := variable(environ, "GOOSE_PATH_ROOT"); root != "" {
		return filepath.Join(root, "config")
	}
	if runtime.GOOS == "windows" {
		if dir := variable(environ, "APPDATA"); dir != "" {
			return filepath.Join(dir, "Block", "goose", "config")
		}
		return ""
	}
	if dir := variable(environ, "XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "goose")
	}
	if home := variable(environ, "HOME"); home != "" {
		return filepath.Join(home, ".config", "goose")
	}
	return ""
}

// keepStats writes the numbers of the calls where gander has a home, and to the
// log for those who look for everything.
func (a *app) keepStats(stats *developer.Stats) {
	a.log.Debug("tool calls", "stats", stats)
	if a.cfg == nil {
		return
	}
	if info, err := os.Stat(a.cfg.Home); err != nil || !info.IsDir() {
		return // it is not made for this
	}
	if err := stats.Append(filepath.Join(a.cfg.Home, "log", "developer-stats.jsonl")); err != nil {
		a.log.Warn("the statistics are lost", "err", err)
	}
}

// calledGoose reports whether gander was started under goose's name.
func calledGoose(program string) bool {
	return strings.TrimSuffix(strings.ToLower(filepath.Base(program)), ".exe") == gooseName
}

// runGoose is what gander is under that name: the server, and nothing else of goose.
func runGoose(ctx context.Context, args []string, streams stdio, environ []string, s *signals) int {
	if len(args) < 2 || args[0] != "mcp" || checkServer(args[1:2]) != nil {
		fmt.Fprintln(streams.err, `gander: this goose is gander under another name, and answers "goose mcp developer" only; for goose itself, call it by its path or put it before this one on PATH`)
		return exitUsage
	}
	return run(ctx, args, streams, environ, s)
}

// hintFiles are the names of the files with hints, as goose has them.
func hintFiles(environ []string) []string {
	var names []string
	if json.Unmarshal([]byte(variable(environ, "CONTEXT_FILE_NAMES")), &names) != nil {
		return []string{"AGENTS.md", ".goosehints"}
	}
	return names
}
