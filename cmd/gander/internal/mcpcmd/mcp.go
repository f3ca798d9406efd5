// Package mcpcmd serves gander's tools by MCP.
package mcpcmd

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

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/developer"
	"gander.dev/gander/developer/shell"
	"gander.dev/gander/mcp"
	"gander.dev/gander/sandbox"
)

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

// Command returns the command gander mcp.
func Command(a *cli.App) *cobra.Command {
	var f mcpFlags
	cmd := &cobra.Command{
		Use:   "mcp [developer]",
		Short: "serve goose, opencode or another client: the developer tools as an MCP server",
		Long: `mcp is an MCP server on stdin and stdout: goose's classic developer extension, with
its tools, schemas and texts, for goose and for any other MCP client. It needs no
home and no configuration. It ends, with everything it started, when its stdin ends
or it gets a signal.

Files that .gooseignore names are kept from the tools by a check of the files that they
open, and from commands, with all that they start, by the kernel on Linux, and by their
names, with a seatbelt profile, on macOS. Where that cannot be, --enforce auto leaves a
check of what a command says, which is a guard against mistakes and not a wall, and says
so to the model; on does not start there; off leaves that check alone.`,
		Example: `  gander mcp developer
  gander mcp developer --profile current --root ~/project
  goose run --no-profile --with-extension "developer:gander mcp developer" -t "what is here?"`,
		Annotations: cli.Unconfigured(),
		Args:        func(_ *cobra.Command, args []string) error { return CheckServer(args) },
		RunE:        func(cmd *cobra.Command, _ []string) error { return serveMCP(cmd.Context(), a, f) },
		ValidArgsFunction: cli.CompleteFirst(func() []string {
			return []string{"developer"}
		}),
	}
	cmd.Flags().StringVar(&f.profile, "profile", string(developer.Classic), "the tools: classic (goose up to 1.25) or current (goose 1.52)")
	cmd.Flags().StringArrayVar(&f.roots, "root", nil, "a further directory in which files may be edited, besides the working directory's work tree and the temporary directory; may be repeated, / permits all")
	cmd.Flags().StringVar(&f.enforce, "enforce", enforceAuto, "whether the kernel keeps .gooseignore for commands: auto (where it can), on or off")
	cmd.Flags().BoolVar(&f.jobs, "jobs", false, "add a tool for background jobs")
	cmd.Flags().BoolVar(&f.loginPath, "login-path", false, "run commands with the PATH of your login shell, which is asked once")
	cmd.Flags().StringVar(&f.bashEnv, "bash-env", "", "a file that bash reads before each command (BASH_ENV)")
	cli.CompleteFlag(cmd, "profile", string(developer.Classic), string(developer.Current))
	cli.CompleteFlag(cmd, "enforce", enforceAuto, enforceOn, enforceOff)
	return cmd
}

// CheckServer accepts the name of the one server, which goose compares without
// case and blanks.
func CheckServer(args []string) error {
	if len(args) == 0 {
		return nil
	}
	name := strings.ToLower(strings.Join(strings.Fields(args[0]), ""))
	switch {
	case name != "developer":
		return cli.UsageError("there is no MCP server %q; the only one is developer, as in: gander mcp developer", args[0])
	case len(args) > 1:
		return cli.UsageError("gander mcp developer takes no further argument, got %q; see gander mcp --help", args[1])
	}
	return nil
}

func (f mcpFlags) check() error {
	if !slices.Contains(developer.Profiles(), developer.Profile(f.profile)) {
		return cli.UsageError("--profile %q: choose one of classic, current", f.profile)
	}
	switch f.enforce {
	case enforceAuto, enforceOn, enforceOff:
		return nil
	}
	return cli.UsageError("--enforce %q: choose one of auto, on, off", f.enforce)
}

// keeperOf finds who keeps .gooseignore for commands.
func keeperOf(a *cli.App, enforce, dir string) (developer.Keeper, error) {
	if enforce == enforceOff {
		return developer.KeptSilently, nil
	}
	err := shell.CanKeepRules()
	if enforce == enforceOn && err == nil && filepath.Dir(dir) == dir {
		err = errors.New("the server was started in " + dir + ", whose rules would close the machine's own files; start it in a project")
	}
	switch {
	case err == nil && shell.Means == sandbox.ByName:
		a.Log.Info("a seatbelt profile keeps .gooseignore for commands, by name")
		return developer.KeptByName, nil
	case err == nil:
		a.Log.Info("the kernel keeps .gooseignore for commands")
		return developer.KeptByKernel, nil
	case errors.Is(err, shell.ErrInside):
		a.Log.Info("the sandbox around this server keeps .gooseignore for commands")
		return developer.KeptBySandbox, nil
	case enforce == enforceOn:
		return "", cli.UsageError("--enforce on: nothing can keep .gooseignore for commands here (%v), so the server does not start; --enforce auto starts it with a guard that checks paths and commands", err)
	}
	a.Log.Warn("commands are kept from what .gooseignore names by a check of their words only", "err", err)
	return developer.KeptByWords, nil
}

// serveMCP serves a client until its stream ends or gander is told to stop.
func serveMCP(ctx context.Context, a *cli.App, f mcpFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	if a.ConfigErr != nil {
		a.Complain(fmt.Errorf("the configuration is not used, and not needed here: %w", a.ConfigErr))
	}
	o, err := developerOptions(a, f)
	if err != nil {
		return err
	}
	editor, err := openFilesSide(ctx, a)
	if err != nil {
		return err
	}
	defer editor.close()
	o.Buffers = editor.buffers()
	tools, err := developer.New(o)
	if err != nil {
		return err
	}
	side, err := openOutputSide(ctx, a)
	if err != nil {
		return err
	}
	defer side.close()
	if cli.IsTerminal(a.In) {
		a.Log.Warn("gander mcp is started by MCP clients and waits for their messages on stdin; Ctrl-D ends it")
	}
	err = mcp.Serve(ctx, cli.NewStream(a.In, a.Out), tools, mcp.Options{
		Version: cli.Version, WorkingDir: o.WorkingDir, Container: developer.InContainer(), HintFiles: hintFiles(a.Environ), Log: a.Log,
		Output: side.output(),
	})
	keepStats(a, tools.Stats()) // first: goose kills its servers soon after it has closed their stdin
	if closeErr := tools.Close(); closeErr != nil {
		a.Log.Warn("not everything that the tools kept could be cleared away", "err", closeErr)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // told to stop: that is done
	}
	return err
}

func developerOptions(a *cli.App, f mcpFlags) (developer.Options, error) {
	dir, err := os.Getwd()
	if err != nil {
		return developer.Options{}, fmt.Errorf("the working directory is gone: %w; start the server in a directory that is there", err)
	}
	keeper, err := keeperOf(a, f.enforce, dir)
	if err != nil {
		return developer.Options{}, err
	}
	var roots []string
	for _, root := range f.roots {
		if root == "/" { // all, also where that is one drive of several
			roots = append(roots, root)
			continue
		}
		abs, err := cli.DirectoryOf("--root", root, "a directory of the file tools")
		if err != nil {
			return developer.Options{}, err
		}
		roots = append(roots, abs)
	}
	return developer.Options{
		Profile:    developer.Profile(f.profile),
		WorkingDir: dir,
		HomeDir:    homeIn(a.Environ),
		AppDataDir: cli.Variable(a.Environ, "APPDATA"),
		ConfigDir:  cli.GooseConfigDir(a.Environ),
		Roots:      roots,
		Environ:    a.Environ,
		Jobs:       f.jobs,
		BashEnv:    f.bashEnv,
		LoginPath:  f.loginPath,
		Keeper:     keeper,
		NeedKernel: f.enforce == enforceOn && keeper != developer.KeptBySandbox,
		Log:        a.Log,
	}, nil
}

// homeIn returns the person's home. On Windows other programs' shells set HOME, to what may be
// no path there.
func homeIn(environ []string) string {
	home, profile := cli.Variable(environ, "HOME"), cli.Variable(environ, "USERPROFILE")
	if runtime.GOOS == "windows" {
		return cmp.Or(profile, home)
	}
	return cmp.Or(home, profile)
}

// keepStats writes the numbers of the calls where gander has a home, and to the
// log for those who look for everything.
func keepStats(a *cli.App, stats *developer.Stats) {
	a.Log.Debug("tool calls", "stats", stats)
	if a.Config == nil {
		return
	}
	if info, err := os.Stat(a.Config.Home); err != nil || !info.IsDir() {
		return // it is not made for this
	}
	if err := stats.Append(filepath.Join(a.Config.Home, "log", "developer-stats.jsonl")); err != nil {
		a.Log.Warn("the statistics are lost", "err", err)
	}
}

// hintFiles are the names of the files with hints, as goose has them.
func hintFiles(environ []string) []string {
	var names []string
	if json.Unmarshal([]byte(cli.Variable(environ, "CONTEXT_FILE_NAMES")), &names) != nil {
		return []string{"AGENTS.md", ".goosehints"}
	}
	return names
}
