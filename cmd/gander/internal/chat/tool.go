package chat

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/rogpeppe/go-internal/diff"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/show"
)

// A tool is a tool call of the agent.
type tool struct {
	title   string
	content json.RawMessage // the latest
	began   time.Time
	ended   bool
}

// The lines that are shown of a tool call: of a difference, and of the output of one that
// failed. The output of one that went well is folded.
const (
	linesOfDiff    = 40
	linesOfFailure = 12
)

// call takes an update of a tool call and returns the lines to print: none until the call
// has ended. mu is held.
func (c *Chat) call(u *show.Update) (lines []string) {
	t := c.tools[u.ToolCallID]
	if t == nil {
		t = &tool{began: time.Now(), title: "a tool"}
		c.tools[u.ToolCallID] = t
		c.order = append(c.order, u.ToolCallID)
	}
	if u.Title != "" {
		t.title = cli.Printable(cli.OneLine(u.Title))
	}
	if len(u.Content) > 0 && string(u.Content) != "null" {
		t.content = u.Content
	}
	if t.ended || u.Status != "completed" && u.Status != "failed" {
		return nil
	}
	t.ended = true
	for i, id := range c.order {
		if id == u.ToolCallID {
			c.order = append(c.order[:i:i], c.order[i+1:]...)
			break
		}
	}
	mark, most := c.writer.style.as(cli.Green, "✓"), 0
	if u.Status == "failed" {
		mark, most = c.writer.style.as(cli.Red, "✗"), linesOfFailure
	}
	took := c.writer.style.as(cli.Dim, fmt.Sprintf(" (%s)", cli.RoundDuration(time.Since(t.began))))
	lines = append(lines, mark+" "+ansi.Truncate(t.title, max(c.width-12, leastWidth), "…")+took)
	lines = append(lines, details(t.content, c.writer.style, linesOfDiff, most, c.width)...)
	t.content = nil
	return lines
}

// running returns a line for each tool that runs. mu is held.
func (c *Chat) running() []string {
	lines := make([]string, 0, len(c.order))
	for _, id := range c.order {
		t := c.tools[id]
		lines = append(lines, ansi.Truncate(t.title, max(c.width-4, leastWidth), "…"))
	}
	return lines
}

// details returns the differences of a tool call's content, coloured, and of its other text
// at most so many lines.
func details(content json.RawMessage, s style, mostDiff, mostText, width int) (lines []string) {
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
	for _, it := range items {
		if it.Type == "diff" {
			lines = append(lines, diffLines(it.Path, it.OldText, it.NewText, s, mostDiff)...)
		} else if mostText > 0 {
			text := strings.TrimRight(strings.ReplaceAll(it.Content.Text, "\r\n", "\n"), "\n")
			lines = append(lines, cli.Excerpt(cli.Printable(text), mostText)...)
		}
	}
	for i, line := range lines {
		lines[i] = s.as(cli.Dim, "  │ ") + ansi.Truncate(line, max(width-4, leastWidth), "…")
	}
	return lines
}

// diffLines returns a difference in unified form without its header.
func diffLines(path, before, after string, s style, most int) []string {
	text := string(diff.Diff("a", ended(before), "b", ended(after)))
	lines := []string{s.as(cli.Bold, cli.Printable(path))}
	_, text, _ = strings.Cut(text, "@@") // before it are the names
	text, _ = strings.CutSuffix("@@"+text, "\n")
	if before == after {
		return append(lines, "(no change of text)")
	}
	for _, line := range cli.Excerpt(cli.Printable(text), most) {
		switch {
		case strings.HasPrefix(line, "+"):
			line = s.as(cli.Green, line)
		case strings.HasPrefix(line, "-"):
			line = s.as(cli.Red, line)
		case strings.HasPrefix(line, "@@"):
			line = s.as(cli.Dim, line)
		}
		lines = append(lines, line)
	}
	return lines
}

// ended returns a text with an end of line at its end, as agents send parts of files.
func ended(text string) []byte {
	if text == "" || strings.HasSuffix(text, "\n") {
		return []byte(text)
	}
	return []byte(text + "\n")
}
