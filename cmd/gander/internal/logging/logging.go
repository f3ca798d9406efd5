// Package logging makes the program's logger: pretty on a terminal, JSON
// elsewhere, on standard error or in a file, never on standard output.
//
// [New] is called once, by main; everything below takes the *slog.Logger and adds
// what it is about with Logger.With under the keys of this package. The level can
// be changed while the program runs through the LevelVar. Secrets are taken out of
// the bytes of each record, so it does not matter how they got into it.
package logging

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"
)

// Keys of attributes that say what a record is about.
const (
	KeySession = "session"
	KeyTurn    = "turn"
	KeyAgent   = "agent"
	KeySandbox = "sandbox"
)

// LevelSilent is above every record.
const LevelSilent = slog.Level(math.MaxInt)

// Formats of records.
const (
	FormatPretty = "pretty"
	FormatJSON   = "json"
)

// Options adjust a logger; the zero value logs warnings to standard error.
type Options struct {
	// Level is silent, error, warn, info or debug; empty is warn.
	Level string
	// Format is FormatPretty or FormatJSON; empty is pretty when records go to
	// a terminal and JSON otherwise.
	Format string
	// Writer gets the records, one Write each; nil is standard error. Not used
	// with File.
	Writer io.Writer
	// File is appended to instead; it is made with mode 0600. A pipe needs a reader.
	File string
	// NoColor leaves out colours, which are only used on a terminal anyway.
	NoColor bool
	// Redact takes the secrets out of a record, a line with its newline; nil
	// takes out nothing. It is called concurrently.
	Redact func([]byte) []byte
}

// New returns the logger, its level, and what to close at the end, which closes
// Options.File. Records logged after that are lost.
func New(o Options) (*slog.Logger, *slog.LevelVar, io.Closer, error) {
	level, err := ParseLevel(cmp.Or(o.Level, "warn"))
	if err != nil {
		return nil, nil, nil, err
	}
	w, closer, err := open(o)
	if err != nil {
		return nil, nil, nil, err
	}
	levelVar := new(slog.LevelVar)
	levelVar.Set(level)
	terminal := isTerminal(w)
	if o.Redact != nil {
		w = redacting{w, o.Redact}
	}
	format := o.Format
	if format == "" && terminal {
		format = FormatPretty
	}
	if format == FormatPretty {
		// Consoles of Windows may show the escapes instead of colours.
		noColor := o.NoColor || !terminal || runtime.GOOS == "windows"
		return slog.New(pretty(w, levelVar, noColor)), levelVar, closer, nil
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: levelVar})), levelVar, closer, nil
}

// pretty is for people. Of the escapes that a terminal obeys it lets through its own only:
// an agent chooses names of files.
func pretty(w io.Writer, level slog.Leveler, noColor bool) slog.Handler {
	return tint.NewTextHandler(w, &tint.Options{Level: level, NoColor: noColor, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		v := a.Value.Resolve()
		text := fmt.Sprintf("%+v", v.Any())
		if shown := escapes.Replace(text); v.Kind() != slog.KindGroup && shown != text {
			a.Value = slog.StringValue(shown)
		}
		return a
	}})
}

// escapes shows the character that begins an escape, and what tint, which looks for it in
// what it has quoted, takes for it.
var escapes = strings.NewReplacer("\x1b", "\u241b", `\x1b`, `\u001b`)

// ParseLevel returns the level of that name.
func ParseLevel(name string) (slog.Level, error) {
	switch name {
	case "silent":
		return LevelSilent, nil
	case "error":
		return slog.LevelError, nil
	case "warn":
		return slog.LevelWarn, nil
	case "info":
		return slog.LevelInfo, nil
	case "debug":
		return slog.LevelDebug, nil
	}
	return 0, fmt.Errorf("log level %q is not one of silent, error, warn, info, debug", name)
}

// open returns where records go, and what to close.
func open(o Options) (io.Writer, io.Closer, error) {
	if o.File != "" {
		f, err := Append(o.File)
		if err != nil {
			return nil, nil, fmt.Errorf("opening the log file: %w", err)
		}
		return f, f, nil
	}
	if o.Writer != nil {
		return o.Writer, nothing{}, nil
	}
	return os.Stderr, nothing{}, nil
}

// Append opens a file to append to, which it makes with mode 0600. It does not wait for
// somebody to read a pipe: that is an error. Each says what to do.
func Append(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	switch {
	case errors.Is(err, syscall.ENXIO):
		return nil, fmt.Errorf("%s is a pipe that nobody reads, or a socket; name a file", path)
	case err != nil:
		return nil, fmt.Errorf("%w; name a file in a directory that is there and yours", err)
	}
	return f, nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && (isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()))
}

type nothing struct{}

func (nothing) Close() error { return nil }

// redacting takes secrets out of records. A handler writes each with one Write.
type redacting struct {
	w      io.Writer
	redact func([]byte) []byte
}

func (r redacting) Write(record []byte) (int, error) {
	if _, err := r.w.Write(r.redact(record)); err != nil {
		return 0, err
	}
	return len(record), nil
}
