package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/sandbox/drivers/registry"
)

// stage is what the audience of the demo sees.
type stage struct {
	out   io.Writer
	color bool

	// mu guards the fields below, and keeps lines whole.
	mu       sync.Mutex
	speaker  string // whose line is open; empty when none is
	promises []promise
}

// A promise is something gander is to keep, and whether it did.
type promise struct {
	kept, promised bool
	text           string
}

func newStage(a *cli.App) *stage {
	return &stage{out: a.Out, color: cli.IsTerminal(a.Out) && !a.Config.NoColor}
}

func (s *stage) paint(color, text string) string {
	if !s.color {
		return text
	}
	return color + text + cli.Plain
}

// label is the column that says who acts.
func (s *stage) label(who string) string {
	return s.paint(cli.Bold, fmt.Sprintf("%-8s", who)) + " "
}

// say prints one line about what happens.
func (s *stage) say(who, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLine()
	fmt.Fprintf(s.out, "%s%s\n", s.label(who), cli.Printable(fmt.Sprintf(format, args...)))
}

// stream prints words as they come.
func (s *stage) stream(who, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.speaker != who {
		s.endLine()
		text = strings.TrimLeft(text, "\n")
		if text == "" {
			return
		}
		fmt.Fprint(s.out, s.label(who))
		s.speaker = who
	}
	fmt.Fprint(s.out, strings.ReplaceAll(cli.Printable(text), "\n", "\n         "))
}

// gap separates scenes.
func (s *stage) gap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLine()
	fmt.Fprintln(s.out)
}

// endLine ends an open line. mu is held.
func (s *stage) endLine() {
	if s.speaker != "" {
		fmt.Fprintln(s.out)
		s.speaker = ""
	}
}

// promise notes whether something was kept.
func (s *stage) promise(kept bool, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.promises = append(s.promises, promise{kept, true, fmt.Sprintf(format, args...)})
}

// noPromise notes what this system cannot do.
func (s *stage) noPromise(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.promises = append(s.promises, promise{false, false, fmt.Sprintf(format, args...)})
}

// verdict prints what was kept and how to go on. It fails when something was not.
func (s *stage) verdict() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLine()
	fmt.Fprintf(s.out, "\n%s\n", s.paint(cli.Bold, "What was checked"))
	broken := 0
	for _, p := range s.promises {
		mark := s.paint(cli.Green, "✓")
		switch {
		case !p.promised:
			mark = s.paint(cli.Dim, "–")
		case !p.kept:
			mark = s.paint(cli.Red, "✗ BROKEN:")
			broken++
		}
		fmt.Fprintf(s.out, "  %s %s\n", mark, cli.Printable(p.text))
	}
	if broken > 0 {
		return fmt.Errorf("%d of %d promises were broken on this machine; gander doctor may say why, please report it with its output", broken, len(s.promises))
	}
	return nil
}

const demoNext = `  export LLM_HOST=https://… LLM_API_KEY=… GOOSE_MODEL=…    an OpenAI-compatible endpoint, without /v1
  gander doctor                                            try what gander needs on this machine
  gander run "what is this project?"                       one prompt from the terminal
  gander config zed                                        the entry for an editor
`

// checkEdit looks whether the file was changed.
func (d *demo) checkEdit(resp *acp.PromptResponse) {
	raw, err := os.ReadFile(filepath.Join(d.project(), "greeting.txt"))
	d.show.say("project", "greeting.txt says: %s", strings.TrimSpace(string(raw)))
	d.show.promise(err == nil && string(raw) == demoAfter && resp.StopReason == acp.StopEndTurn, "%s changed the file of the project", d.cell.agent)
}

// checkInside looks what the commands in the sandbox found.
func (d *demo) checkInside(output string) {
	if runtime.GOOS != "linux" {
		d.show.noPromise("files, network and key are not kept apart on %s: gander doctor says what is", runtime.GOOS)
		return
	}
	tried := strings.Contains(output, "\ntried\n")
	d.show.promise(tried && strings.Contains(output, "processes that have the key: 0\n"), "the model got the key, no process in the sandbox has it")
	d.show.promise(tried && !strings.Contains(output, demoCanary), "a file beside the project could not be read")
	d.show.promise(tried && !strings.Contains(output, "reached\n") && d.port.close() == 0, "a port of this machine could not be reached")
}

// checkStop looks whether the stop button worked.
func (d *demo) checkStop(resp *acp.PromptResponse, took time.Duration, before int, counted bool) {
	d.show.promise(resp.StopReason == acp.StopCancelled, "stop was answered with %q after %s", resp.StopReason, cli.RoundDuration(took))
	if !counted {
		d.show.noPromise("the processes of other programs cannot be counted on %s", runtime.GOOS)
		return
	}
	left, _ := Processes(d.marker)
	d.show.say("machine", "%d of the %d processes are left", len(left), before)
	d.show.promise(before > 1 && len(left) == 0, "%d processes that tried to stay ran at that moment, %d were left after the answer", before, len(left))
}

// checkEnd looks what is left of gander.
func (d *demo) checkEnd(ended error) {
	d.show.promise(ended == nil, "gander acp ended with its stdin: %s", exitText(ended))
	left, counted := Processes(d.marker)
	dirs, err := filepath.Glob(filepath.Join(d.home(), "sandboxes", "[^.]*")) // there is a lock file too
	kept, kerr := registry.Kept(d.home())                                     // agents' conversations are kept
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return slices.Contains(kept, filepath.Base(dir)) })
	err = errors.Join(err, kerr)
	clean := len(left) == 0 && len(dirs) == 0 && err == nil
	what := "no sandbox is left"
	if counted {
		what = fmt.Sprintf("%d processes and %d sandboxes are left", len(left), len(dirs))
	}
	d.show.promise(clean, "after that, %s", what)
}

func exitText(err error) string {
	if err == nil {
		return "exit code 0"
	}
	return err.Error()
}

func whileRunning(n int, counted bool) string {
	if !counted {
		return ""
	}
	return fmt.Sprintf(" while %d processes run", n)
}
