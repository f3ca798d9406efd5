package show

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
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
	LinesOfFailure = 12
)

// tool shows the beginning and the end of a tool call. mu is held.
func (c *Terminal) tool(u *Update) {
	t := c.tools[u.ToolCallID]
	if t == nil {
		t = &shownTool{started: time.Now()}
		c.tools[u.ToolCallID] = t
	}
	if len(u.Content) > 0 && string(u.Content) != "null" {
		t.content = u.Content
	}
	if u.Title != "" && t.title == "" {
		c.progress("→ " + cli.OneLine(u.Title))
	}
	if u.Title != "" {
		t.title = cli.OneLine(u.Title)
	}
	if t.ended {
		return
	}
	switch u.Status {
	case "completed":
		c.ended(t, "✓", linesOfOutput)
	case "failed":
		c.ended(t, "✗", LinesOfFailure)
	}
}

func (c *Terminal) ended(t *shownTool, mark string, limit int) {
	t.ended = true
	for _, line := range cli.Excerpt(ToolText(t.content), limit) {
		c.progress("  │ " + line)
	}
	c.progress(fmt.Sprintf("%s %s (%s)", mark, t.title, cli.RoundDuration(time.Since(t.started))))
	t.content = nil
}

// ToolText is the text and the diffs of a tool call's content.
func ToolText(content json.RawMessage) string {
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

// shownFilter drops the records of what a person gets to see anyway.
type shownFilter struct {
	slog.Handler
	shown func(slog.Record) bool
}

func Without(log *slog.Logger, shown func(slog.Record) bool) *slog.Logger {
	return slog.New(shownFilter{log.Handler(), shown})
}

// IsNotice reports whether a record is a notice: the router gives those, and only those,
// a severity.
func IsNotice(r slog.Record) (notice bool) {
	r.Attrs(func(a slog.Attr) bool {
		notice = a.Key == "severity"
		return !notice
	})
	return notice
}

// IsFailedStart reports whether a record is about an agent that did not start, which the
// prompt fails with.
func IsFailedStart(r slog.Record) bool { return r.Message == router.FailedStart }

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
