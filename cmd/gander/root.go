package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/cmd/gander/internal/logging"
)

// Exit codes, the same for every command.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2 // usage or configuration
	exitTimeout     = 3
	exitNoSession   = 4
	exitPermission  = 5
	exitInterrupted = 130
)

// exitError ends gander with a code. A nil err says nothing more.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usageError(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// flagProblem is what is wrong with a flag, in words for people: what pflag and strconv say
// is for programmers.
func flagProblem(err error) string {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err.Error()
	}
	flag := invalid.GetFlag()
	takes := map[string]string{
		"bool": "true or false", "int": "a whole number", "int64": "a whole number", "float64": "a number", "duration": "a time, as 90s, 5m or 1h30m",
	}[flag.Value.Type()]
	switch {
	case takes == "":
		return err.Error()
	case errors.Is(err, strconv.ErrRange):
		return fmt.Sprintf("--%s is %s, which is too large a number", flag.Name, invalid.GetValue())
	}
	return fmt.Sprintf("--%s is %q; it takes %s", flag.Name, invalid.GetValue(), takes)
}

// stdio are the streams of a run of gander.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// app is what the commands share: streams, configuration, log.
type app struct {
	stdio
	environ []string
	signals *signals
	home    string
	flags   config.Flags
	begun   bool // arguments and flags were right, a command has begun
	cfg     *config.Config
	// configured is what is wrong with the configuration; cfg is nil then.
	configured error
	log        *slog.Logger
	logLevel   *slog.LevelVar
	logFile    io.Closer
	secrets    *secrets
}

// run is gander as a function: arguments in, exit code out.
func run(ctx context.Context, args []string, streams stdio, environ []string, s *signals) int {
	a := &app{
		stdio: streams, environ: environ, signals: s,
		log: slog.New(slog.DiscardHandler), logLevel: new(slog.LevelVar), secrets: newSecrets(environ),
	}
	if f, ok := fileOf(a.out); ok {
		a.out = &stdout{File: f}
	}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if out, ok := a.out.(*stdout); ok {
		err = out.lost(err)
	}
	code := a.exit(ctx, err)
	if a.logFile != nil {
		_ = a.logFile.Close() // every record is written when it is made
	}
	return code
}

// exit prints an error for a person and chooses the exit code.
func (a *app) exit(ctx context.Context, err error) int {
	switch {
	case err == nil:
		return exitDone
	case readerGone(err):
		return exitFailed
	}
	e, chosen := errors.AsType[*exitError](err)
	switch {
	case chosen:
		a.complain(e)
		return e.code
	case ctx.Err() != nil:
		a.log.Info("interrupted", "err", err)
		a.complain(errors.New("interrupted"))
		return exitInterrupted
	}
	a.complain(err)
	if !a.begun { // cobra's own errors are about arguments
		return exitUsage
	}
	return exitFailed
}

// complain prints an error, each of several on a line of its own. What an agent or a
// file of a project says in it does nothing to the terminal.
func (a *app) complain(err error) {
	text := messageOf(err)
	for line := range strings.Lines(a.secrets.hideIn(text)) {
		if line = strings.TrimSpace(line); line != "" {
			fmt.Fprintln(a.err, "gander: "+printable(line))
		}
	}
}

// messageOf is an error for a person; the codes of the protocol are for programs.
func messageOf(err error) string {
	if wire, ok := errors.AsType[*acp.Error](err); ok {
		return strings.Replace(err.Error(), wire.Error(), wire.Message, 1)
	}
	return err.Error()
}

// forPackagers are commands of builds for packagers.
var forPackagers []func(*app) *cobra.Command

func (a *app) root() *cobra.Command {
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
  gander run "fix the test"   one turn from a terminal`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.begin(cmd) },
	}
	a.globalFlags(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%s; see %s --help", flagProblem(err), cmd.CommandPath())
	})
	root.AddCommand(a.acpCommand(), a.mcpCommand(), a.runCommand(), a.demoCommand(), a.routeCommand(), a.agentCommand(), a.providerCommand(), a.sessionCommand(), a.serveCommand(), a.loopCommand(), a.sandboxCommand(), a.policyCommand(),
		a.setupCommand(), a.doctorCommand(), a.configCommand(), a.conformanceCommand(), a.replayCommand(), a.versionCommand())
	for _, command := range forPackagers {
		root.AddCommand(command(a))
	}
	group(root)
	addHelp(root)
	root.Version = version
	root.SetVersionTemplate(versionLine())
	return root
}

func (a *app) globalFlags(root *cobra.Command) {
	p := root.PersistentFlags()
	p.StringVar(&a.home, "home", "", "gander's own directory (GANDER_HOME, default ~/.gander)")
	p.StringVar(&a.flags.LogLevel, "log-level", "", "silent, error, warn, info or debug (GANDER_LOG_LEVEL, default warn)")
	p.StringVar(&a.flags.LogFormat, "log-format", "", "pretty or json (GANDER_LOG_FORMAT, default pretty on a terminal)")
	p.StringVar(&a.flags.LogFile, "log-file", "", "log to this file instead of stderr")
	completeFlag(root, "log-level", "silent", "error", "warn", "info", "debug")
	completeFlag(root, "log-format", "pretty", "json")
}

// begin runs before every command: it loads the configuration and starts the log.
func (a *app) begin(cmd *cobra.Command) error {
	a.begun = true
	a.configured = a.configure()
	if a.configured == nil || need(cmd) == noConfig && !errors.Is(a.configured, config.ErrFlag) {
		return nil // some work whatever the configuration says
	}
	return &exitError{exitUsage, a.configured}
}

func (a *app) configure() error {
	cfg, err := config.Load(config.Options{Home: a.home, Environ: a.environ, Flags: a.flags})
	if err != nil {
		return err
	}
	a.secrets.learn(cfg.Secrets())
	log, level, closer, err := logging.New(logging.Options{
		Level: cfg.Log.Level, Format: cfg.Log.Format, File: cfg.Log.File,
		Writer: a.err, NoColor: cfg.NoColor, Redact: a.secrets.hide,
	})
	if err != nil && a.flags.LogFile != "" {
		return &config.Error{Path: "--log-file", Reason: err.Error()}
	}
	if err != nil {
		return err
	}
	a.cfg, a.log, a.logLevel, a.logFile = cfg, log, level, closer
	return nil
}

// setLogLevel changes the level of the log that is being written.
func (a *app) setLogLevel(name string) {
	if level, err := logging.ParseLevel(name); err == nil { // the configuration has checked it
		a.logLevel.Set(level)
	}
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := fileOf(stream)
	return ok && (isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()))
}
