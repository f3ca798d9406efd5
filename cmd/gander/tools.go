package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gander.dev/gander/sandbox/router"
)

// shownTool is a tool call as the terminal shows it.
type shownTool struct {
	title   string
	started time.Time
	content json.RawMessage // the latest
	ended   bool
}

// The lines of a tool's output that are shown.
const (
	linesOfOutput  = 4
	linesOfFailure = 12
)

// tool shows the beginning and the end of a tool call. mu is held.
func (c *terminalClient) tool(u *update) {
	t := c.tools[u.ToolCallID]
	if t == nil {
		t = &shownTool{started: time.Now()}
		c.tools[u.ToolCallID] = t
	}
	if len(u.Content) > 0 && string(u.Content) != "null" {
		t.content = u.Content
	}
	if u.Title != "" && t.title == "" {
		c.progress("→ " + oneLine(u.Title))
	}
	if u.Title != "" {
		t.title = oneLine(u.Title)
	}
	if t.ended {
		return
	}
	switch u.Status {
	case "completed":
		c.ended(t, "✓", linesOfOutput)
	case "failed":
		c.ended(t, "✗", linesOfFailure)
	}
}

func (c *terminalClient) ended(t *shownTool, mark string, limit int) {
	t.ended = true
	for _, line := range excerpt(toolText(t.content), limit) {
		c.progress("  │ " + line)
	}
	c.progress(fmt.Sprintf("%s %s (%s)", mark, t.title, roundDuration(time.Since(t.started))))
	t.content = nil
}

// toolText is the text and the diffs of a tool call's content.
func toolText(content json.RawMessage) string {
	var items []struct {
		Type    string `json:"type"`
		Path    string `json:"path"`
		OldText string `json:"oldText"`
		NewText string `json:"newText"`
		Content struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	_ = json.Unmarshal(content, &items) // what cannot be read is not shown
	var b strings.Builder
	for _, it := range items {
		if it.Type != "diff" {
			b.WriteString(strings.TrimRight(it.Content.Text, "\n") + "\n")
			continue
		}
		fmt.Fprintf(&b, "%s\n", it.Path)
		for _, side := range []struct{ mark, text string }{{"-", it.OldText}, {"+", it.NewText}} {
			if side.text != "" {
				b.WriteString(side.mark + " " + strings.ReplaceAll(strings.TrimRight(side.text, "\n"), "\n", "\n"+side.mark+" ") + "\n")
			}
		}
	}
	return strings.TrimRight(strings.ReplaceAll(b.String(), "\r\n", "\n"), "\n")
}

// excerpt is text in lines, the middle left out when there are more than limit.
func excerpt(text string, limit int) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	if len(lines) <= limit {
		return lines
	}
	head := limit / 2
	tail := limit - head - 1
	short := append([]string{}, lines[:head]...)
	short = append(short, fmt.Sprintf("… %d more lines …", len(lines)-head-tail))
	return append(short, lines[len(lines)-tail:]...)
}

// oneLine is the first line of a title, and a sign that there is more.
func oneLine(s string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if rest != "" {
		line += " …"
	}
	return line
}

// printable replaces what could control a terminal, or hide what it says: output
// of tools and words of a model are not to be trusted with it.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if controls(r) {
			return '\ufffd'
		}
		return r
	}, s)
}

// controls says whether a terminal may obey a character, or show others in another order.
func controls(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
}

// printableJSON is the same JSON without what could control a terminal: that can only be in
// strings, where it is escaped.
func printableJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if controls(r) || r == utf8.RuneError { // as what is no character is read, too
			out = fmt.Appendf(out, "\\u%04x", r)
		} else {
			out = append(out, text[:n]...)
		}
		text = text[n:]
	}
	return out
}

// plainOut is stdout, as printable has it where it is a terminal.
func (a *app) plainOut() io.Writer {
	if isTerminal(a.out) {
		return &printableWriter{w: a.out}
	}
	return a.out
}

// printableWriter passes on what is printable. A character may come in pieces.
type printableWriter struct {
	w    io.Writer
	part []byte // of a character
}

func (p *printableWriter) Write(b []byte) (int, error) {
	text := append(p.part, b...)
	end := len(text)
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				end = i
			}
			break
		}
	}
	p.part = slices.Clone(text[end:])
	if _, err := io.WriteString(p.w, printable(string(text[:end]))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// roundDuration makes a duration readable: 3ms, 450ms, 2.1s, 1m5s.
func roundDuration(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond)
	case d < time.Minute:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// shownFilter drops the records of what a person gets to see anyway.
type shownFilter struct {
	slog.Handler
	shown func(slog.Record) bool
}

func without(log *slog.Logger, shown func(slog.Record) bool) *slog.Logger {
	return slog.New(shownFilter{log.Handler(), shown})
}

// isNotice reports whether a record is a notice: the router gives those, and only those,
// a severity.
func isNotice(r slog.Record) (notice bool) {
	r.Attrs(func(a slog.Attr) bool {
		notice = a.Key == "severity"
		return !notice
	})
	return notice
}

// isFailedStart reports whether a record is about an agent that did not start, which the
// prompt fails with.
func isFailedStart(r slog.Record) bool { return r.Message == router.FailedStart }

// Handle implements slog.Handler.
func (f shownFilter) Handle(ctx context.Context, r slog.Record) error {
	if f.shown(r) {
		return nil
	}
	return f.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (f shownFilter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return shownFilter{f.Handler.WithAttrs(attrs), f.shown}
}

// WithGroup implements slog.Handler.
func (f shownFilter) WithGroup(name string) slog.Handler {
	return shownFilter{f.Handler.WithGroup(name), f.shown}
}
