package unattended

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/sandbox/telemetry"
)

const (
	resultLines = 6                // of what a tool answered that are shown
	longWait    = 10 * time.Second // from which on a wait is told where nothing counts down
)

// loopView shows the events of a run to a person: iterations as headings, what the
// agent says as it is, tools as a line each with the beginning of what they answered.
// On a terminal a wait is a line that counts down.
type loopView struct {
	app      *cli.App
	out      io.Writer
	width    int // 0: not a terminal
	color    bool
	now      func() time.Time
	stop     chan struct{}
	counting sync.WaitGroup

	// mu guards what follows, and keeps lines whole.
	mu      sync.Mutex
	speech  telemetry.Type // what the last piece was of; empty at the beginning of a line
	partial bool           // the cursor stands behind words
	began   int64          // the iteration, in milliseconds
	wait    *telemetry.Event
	waiting bool // the line that counts down is shown
	state   telemetry.State
}

func newLoopView(a *cli.App) *loopView {
	v := &loopView{app: a, out: a.Out, width: cli.TerminalWidth(a.Out), now: time.Now, stop: make(chan struct{})}
	v.color = v.width > 0 && !a.Config.NoColor
	if v.width > 0 {
		v.counting.Go(v.count)
	}
	return v
}

// count lets the line that counts down go on, until close.
func (v *loopView) count() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-v.stop:
			return
		case <-tick.C:
			v.mu.Lock()
			v.showWait()
			v.mu.Unlock()
		}
	}
}

func (v *loopView) close() {
	close(v.stop)
	v.counting.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clearWait()
	_ = v.endLine() // of a writer that may be gone
}

func (v *loopView) note(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clearWait()
	_ = v.endLine() // as above
	fmt.Fprintln(v.app.Err, "gander: "+text)
}

func (v *loopView) event(e telemetry.Event) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clearWait()
	v.wait = nil
	err := v.show(&e)
	v.showWait()
	return err
}

// show prints an event. mu is held, here and below.
func (v *loopView) show(e *telemetry.Event) error {
	content := cmp.Or(e.Content, e.Summary)
	switch e.Type {
	case telemetry.IterationStart:
		v.began = e.Time
		return v.heading(fmt.Sprintf("iteration %d, %s", e.Iteration, clock(e.Time)), cli.Bold)
	case telemetry.IterationEnd:
		return v.end(e)
	case telemetry.Text:
		return v.say(e.Type, content, "")
	case telemetry.Thought:
		return v.say(e.Type, content, cli.Dim)
	case telemetry.ToolUse:
		return v.line("▸ "+cli.OneLineOf(cmp.Or(e.Summary, e.Tool)), cli.Bold)
	case telemetry.ToolResult:
		return v.result(e)
	case telemetry.Error:
		return v.whole("! "+content, cli.Red)
	case telemetry.StateChange:
		return v.stateChange(e)
	}
	return v.line(cli.OneLineOf(fmt.Sprintf("%s: %s", e.Type, cmp.Or(e.Summary, e.Content))), cli.Dim)
}

// end is the line below an iteration.
func (v *loopView) end(e *telemetry.Event) error {
	parts := []string{fmt.Sprintf("iteration %d: %s", e.Iteration, cmp.Or(e.Status, "ended"))}
	if v.began > 0 && e.Time > v.began {
		parts = append(parts, cli.RoundDuration(time.Duration(e.Time-v.began)*time.Millisecond).String())
	}
	parts = append(parts, plural(e.Actions, "action"), plural(e.Errors, "error"))
	if e.Usage != nil && e.Usage.Total > 0 {
		parts = append(parts, countOf(e.Usage.Total)+" tokens")
	}
	if e.Usage != nil && e.Usage.Cost > 0 {
		parts = append(parts, "cost "+costOf(e.Usage.Cost))
	}
	colour := cli.Dim
	if outcome := telemetry.Outcome(e.Status); outcome != telemetry.OK && outcome != "" {
		colour = cli.Yellow
	}
	err := v.line("── "+strings.Join(parts, ", "), colour)
	if err == nil && e.Reason != "" {
		err = v.whole("   "+cli.OneLineOf(e.Reason), colour)
	}
	return err
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// heading is a line across the terminal, with an empty one above.
func (v *loopView) heading(text, colour string) error {
	line := "── " + text + " ──"
	if rest := v.width - len([]rune(line)) - 1; rest > 0 {
		line += strings.Repeat("─", rest)
	}
	if err := v.endLine(); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(v.out); err != nil {
		return err
	}
	return v.line(line, colour)
}

// say prints a piece of what the agent says; pieces of one kind are one text.
func (v *loopView) say(kind telemetry.Type, text, colour string) error {
	text = v.clean(text)
	if v.speech != kind {
		if err := v.endLine(); err != nil {
			return err
		}
		text = strings.TrimLeft(text, "\n")
		if kind == telemetry.Thought && text != "" {
			text = "… " + text
		}
	}
	if text == "" {
		return nil
	}
	v.speech, v.partial = kind, !strings.HasSuffix(text, "\n")
	_, err := io.WriteString(v.out, v.painted(text, colour))
	return err
}

// result is the beginning of what a tool answered, a little to the right.
func (v *loopView) result(e *telemetry.Event) error {
	colour := cli.Dim
	if e.Status == telemetry.Failed {
		colour = cli.Red
		if err := v.line("  ✗ failed", colour); err != nil {
			return err
		}
	}
	lines := strings.Split(strings.TrimRight(e.Content, "\n"), "\n")
	if strings.TrimSpace(e.Content) == "" {
		return nil
	}
	for i, text := range lines {
		if i == resultLines-1 && len(lines) > resultLines || i == resultLines {
			more := fmt.Sprintf("    … %d more lines", len(lines)-i)
			if e.Truncated {
				more += fmt.Sprintf(" of %d bytes", e.Bytes)
			}
			return v.line(more, colour)
		}
		if err := v.line("    "+text, colour); err != nil {
			return err
		}
	}
	return nil
}

// stateChange tells of a state that does not come with every iteration, and begins to
// count down.
func (v *loopView) stateChange(e *telemetry.Event) error {
	again := v.state == e.State
	v.state = e.State
	left := time.UnixMilli(e.Until).Sub(v.now())
	if v.width > 0 && left > 0 {
		v.wait = e
		if e.State == telemetry.Waiting || again {
			return nil
		}
	}
	text := "● " + string(e.State)
	if e.Reason != "" {
		text += ": " + cli.OneLineOf(e.Reason)
	}
	if left > 0 {
		text += ", until " + clock(e.Until)
	}
	switch e.State {
	case telemetry.Running, telemetry.Stopping:
		return nil
	case telemetry.Waiting:
		if left < longWait && e.Reason == "" {
			return nil
		}
		return v.line(text, cli.Dim)
	case telemetry.Stopped, telemetry.Done:
		return v.whole(text, cli.Bold)
	}
	return v.whole(text, cli.Yellow)
}

// showWait shows or renews the line that counts down.
func (v *loopView) showWait() {
	if v.wait == nil {
		return
	}
	left := time.UnixMilli(v.wait.Until).Sub(v.now())
	v.clearWait()
	if left <= 0 || v.partial {
		return
	}
	text := cli.Fit("● "+stateText(v.wait.State, cli.OneLineOf(v.wait.Reason), v.wait.Until, v.now()), v.width-1)
	_, _ = io.WriteString(v.out, v.painted(text, cli.Dim)) // of a terminal that may be gone
	v.waiting = true
}

func (v *loopView) clearWait() {
	if v.waiting {
		_, _ = io.WriteString(v.out, "\r\x1b[K") // as above
		v.waiting = false
	}
}

// line prints a line that is cut to the width of a terminal, whole one that is not:
// what went wrong is to be read to its end.
func (v *loopView) line(text, colour string) error { return v.print(text, colour, v.width) }

func (v *loopView) whole(text, colour string) error { return v.print(text, colour, 0) }

func (v *loopView) print(text, colour string, width int) error {
	if err := v.endLine(); err != nil {
		return err
	}
	for part := range strings.Lines(v.clean(text)) {
		part = cli.Fit(strings.ReplaceAll(strings.TrimRight(part, "\n"), "\t", "    "), width)
		if _, err := fmt.Fprintln(v.out, v.painted(part, colour)); err != nil {
			return err
		}
	}
	return nil
}

// endLine ends what the agent was saying.
func (v *loopView) endLine() error {
	v.speech = ""
	if !v.partial {
		return nil
	}
	v.partial = false
	_, err := fmt.Fprintln(v.out)
	return err
}

func (v *loopView) painted(text, colour string) string {
	if !v.color || colour == "" {
		return text
	}
	return colour + text + cli.Plain
}

// clean is text without secrets and without what could control a terminal.
func (v *loopView) clean(text string) string {
	return v.app.Secrets.HideIn(cli.Printable(text))
}
