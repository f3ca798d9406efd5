// Package cli holds what every command shares: the App with its streams, configuration
// and log, exit codes, signals, and words for flags and text.
package cli

import (
	"cmp"
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
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2 // usage or configuration
	ExitTimeout     = 3
	ExitNoSession   = 4
	ExitPermission  = 5
	ExitInterrupted = 130
)

// ExitError ends gander with a code. A nil err says nothing more.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

func UsageError(format string, args ...any) error {
	return &ExitError{ExitUsage, fmt.Errorf(format, args...)}
}

// FlagProblem says in words for people why a flag is refused: what pflag and strconv say
// is for programmers.
func FlagProblem(err error) string {
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

// Stdio are the streams of a run of gander.
type Stdio struct {
	In       io.Reader
	Out, Err io.Writer
}

// App holds what the commands share: streams, configuration, log.
type App struct {
	Stdio
	Environ []string
	Signals *Signals
	Home    string
	Flags   config.Flags
	begun   bool // arguments and flags were right, a command has begun
	people  bool // it is one for people: they read its log
	Config  *config.Config
	// ConfigErr says why the configuration cannot be used; Config is nil then.
	ConfigErr error
	Log       *slog.Logger
	logLevel  *slog.LevelVar
	logFile   io.Closer
	Secrets   *Secrets
}

// Run is gander as a function: arguments in, exit code out.
func Run(ctx context.Context, args []string, streams Stdio, environ []string, s *Signals, commands func(*App) *cobra.Command) int {
	a := &App{
		Stdio: streams, Environ: environ, Signals: s,
		Log: slog.New(slog.DiscardHandler), logLevel: new(slog.LevelVar), Secrets: NewSecrets(environ),
	}
	if f, ok := fileOf(a.Out); ok {
		a.Out = &stdout{File: f}
	}
	root := commands(a)
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	err := root.ExecuteContext(ctx)
	if out, ok := a.Out.(*stdout); ok {
		err = out.lost(err)
	}
	code := a.exit(ctx, err)
	if a.logFile != nil {
		_ = a.logFile.Close() // every record is written when it is made
	}
	return code
}

// exit prints an error for a person and chooses the exit code.
func (a *App) exit(ctx context.Context, err error) int {
	switch {
	case err == nil:
		return ExitDone
	case readerGone(err):
		return ExitFailed
	}
	e, chosen := errors.AsType[*ExitError](err)
	switch {
	case chosen:
		a.Complain(e)
		return e.Code
	case ctx.Err() != nil:
		a.Log.Info("interrupted", "err", err)
		a.Complain(errors.New("interrupted"))
		return ExitInterrupted
	}
	a.Complain(err)
	if !a.begun { // cobra's own errors are about arguments
		return ExitUsage
	}
	return ExitFailed
}

// Complain prints an error, each of several on a line of its own. What an agent or a
// file of a project says in it does nothing to the terminal.
func (a *App) Complain(err error) {
	text := MessageOf(err)
	for line := range strings.Lines(a.Secrets.HideIn(text)) {
		if line = strings.TrimSpace(line); line != "" {
			fmt.Fprintln(a.Err, "gander: "+Printable(line))
		}
	}
}

// MessageOf is an error for a person; the codes of the protocol are for programs.
func MessageOf(err error) string {
	if wire, ok := errors.AsType[*acp.Error](err); ok {
		return strings.Replace(err.Error(), wire.Error(), wire.Message, 1)
	}
	return err.Error()
}

// Adopt gives the root of the commands what they share: flags, the start of each, help and
// version.
func (a *App) Adopt(root *cobra.Command) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.Begin(cmd) }
	a.globalFlags(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return UsageError("%s; see %s --help", FlagProblem(err), cmd.CommandPath())
	})
	Group(root)
	addHelp(root)
	root.Version = Version
	root.SetVersionTemplate(versionLine())
}

func (a *App) globalFlags(root *cobra.Command) {
	p := root.PersistentFlags()
	p.StringVar(&a.Home, "home", "", "gander's own directory (GANDER_HOME, default ~/.gander)")
	p.StringVar(&a.Flags.LogLevel, "log-level", "", "silent, error, warn, info or debug (GANDER_LOG_LEVEL, default warn)")
	p.StringVar(&a.Flags.LogFormat, "log-format", "", "pretty or json (GANDER_LOG_FORMAT, default pretty on a terminal and from commands for people)")
	p.StringVar(&a.Flags.LogFile, "log-file", "", "log to this file instead of stderr")
	CompleteFlag(root, "log-level", "silent", "error", "warn", "info", "debug")
	CompleteFlag(root, "log-format", "pretty", "json")
}

// Begin runs before every command: it loads the configuration and starts the log.
func (a *App) Begin(cmd *cobra.Command) error {
	a.begun, a.people = true, !forPrograms(cmd)
	a.ConfigErr = a.Configure()
	if a.ConfigErr == nil || need(cmd) == noConfig && !errors.Is(a.ConfigErr, config.ErrFlag) {
		return nil // some work whatever the configuration says
	}
	return &ExitError{ExitUsage, a.ConfigErr}
}

func (a *App) Configure() error {
	cfg, err := config.Load(config.Options{Home: a.Home, Environ: a.Environ, Flags: a.Flags})
	if err != nil {
		return err
	}
	a.Secrets.Learn(cfg.Secrets())
	format := cfg.Log.Format
	if a.people && cfg.Log.File == "" {
		format = cmp.Or(format, logging.FormatPretty)
	}
	log, level, closer, err := logging.New(logging.Options{
		Level: cfg.Log.Level, Format: format, File: cfg.Log.File,
		Writer: a.Err, NoColor: cfg.NoColor, Redact: a.Secrets.Hide,
	})
	if err != nil && a.Flags.LogFile != "" {
		return &config.Error{Path: "--log-file", Reason: err.Error()}
	}
	if err != nil {
		return err
	}
	a.Config, a.Log, a.logLevel, a.logFile = cfg, log, level, closer
	return nil
}

// SetLogLevel changes the level of the log that is being written.
func (a *App) SetLogLevel(name string) {
	if level, err := logging.ParseLevel(name); err == nil { // the configuration has checked it
		a.logLevel.Set(level)
	}
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := fileOf(stream)
	return ok && (isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()))
}
