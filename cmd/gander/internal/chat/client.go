package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/show"
)

// SessionUpdate implements acp.Client: what is finished is printed, what still changes is
// handed to the screen.
func (c *Chat) SessionUpdate(_ context.Context, n *acp.SessionNotification) error {
	var u show.Update
	if json.Unmarshal(n.Update, &u) != nil {
		return nil
	}
	switch u.Kind {
	case string(acp.AgentMessageChunk):
		c.say(acp.ParseContentBlock(u.Content).Text)
	case string(acp.AgentThoughtChunk):
		c.program.Send(thoughtMsg(acp.ParseContentBlock(u.Content).Text))
	case "tool_call", "tool_call_update":
		c.mu.Lock()
		lines := append(c.writer.end(c.width), c.call(&u)...)
		live := liveMsg{tools: c.running()}
		c.mu.Unlock()
		c.show(lines, live)
	case "notice":
		c.print(ansi.Wrap(c.writer.style.as(cli.Yellow, "! ")+cli.Printable(u.Title), c.columns()-1, ""))
	case "available_commands_update":
		var commands struct {
			AvailableCommands []command `json:"availableCommands"`
		}
		if json.Unmarshal(n.Update, &commands) == nil {
			c.program.Send(commandsMsg(commands.AvailableCommands))
		}
	case "config_option_update":
		var options struct {
			ConfigOptions []acp.ConfigOption `json:"configOptions"`
		}
		if json.Unmarshal(n.Update, &options) == nil {
			c.program.Send(optionsMsg(options.ConfigOptions))
		}
	case "plan":
		c.program.Send(planMsg(planLine(n.Update)))
	}
	return nil
}

// say shows words of the answer.
func (c *Chat) say(text string) {
	c.mu.Lock()
	lines := c.writer.add(text, c.width)
	live := liveMsg{tools: c.running(), rest: c.writer.rest(c.width, c.rows)}
	c.mu.Unlock()
	c.show(lines, live)
}

// flush ends the text that is being written and prints other lines below it.
func (c *Chat) flush(more ...string) {
	c.mu.Lock()
	lines := append(c.writer.end(c.width), more...)
	live := liveMsg{tools: c.running()}
	c.mu.Unlock()
	c.show(lines, live)
}

// show prints lines, and has the screen draw what still changes.
func (c *Chat) show(lines []string, live liveMsg) {
	if len(lines) > 0 {
		c.print(strings.Join(lines, "\n") + "\n")
	}
	c.program.Send(live)
}

// planLine returns a plan in one line: what is being done, and how far it is.
func planLine(update json.RawMessage) string {
	var plan struct {
		Entries []struct {
			Content string `json:"content"`
			Status  string `json:"status"`
		} `json:"entries"`
	}
	if json.Unmarshal(update, &plan) != nil || len(plan.Entries) == 0 {
		return ""
	}
	done, now := 0, ""
	for _, e := range plan.Entries {
		switch e.Status {
		case "completed":
			done++
		case "in_progress":
			now = cmp.Or(now, cli.OneLine(e.Content))
		}
	}
	line := fmt.Sprintf("plan: %d of %d done", done, len(plan.Entries))
	if now != "" {
		line += ", " + now
	}
	return cli.Printable(line)
}

// RequestPermission implements acp.Client: the person is asked. The context ends when the
// question is withdrawn.
func (c *Chat) RequestPermission(ctx context.Context, req *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	var call struct {
		Title   string          `json:"title"`
		Content json.RawMessage `json:"content"`
	}
	_ = json.Unmarshal(req.ToolCall, &call) // an unreadable call is asked about without a title
	q := newQuestion(cli.Printable(cli.OneLine(call.Title)), show.Ordered(req.Options), c.writer.style)
	c.flush(details(call.Content, c.writer.style, linesOfDiff, linesOfFailure, c.columns())...)
	c.program.Send(askMsg{q})
	select {
	case i := <-q.answer:
		if i < 0 {
			return acp.CancelledOutcome(), nil
		}
		o := q.options[i]
		mark := c.writer.style.as(cli.Green, "✓ ")
		if strings.HasPrefix(o.Kind, "reject") {
			mark = c.writer.style.as(cli.Red, "✗ ")
		}
		c.print(mark + q.title + c.writer.style.as(cli.Dim, ": "+show.OptionName(&o)))
		return &acp.RequestPermissionResponse{Outcome: acp.PermissionOutcome{Outcome: "selected", OptionID: o.OptionID}}, nil
	case <-ctx.Done():
		c.program.Send(withdrawMsg{q})
		return acp.CancelledOutcome(), nil
	}
}

// linesOfAnswer bounds what is shown of the last answer when a conversation goes on.
const linesOfAnswer = 12

// opened prints what a conversation begins with: the last prompt and its answer, when it
// goes on.
func (c *Chat) opened(t *Thread) {
	s, width := c.writer.style, c.columns()
	var lines []string
	for _, line := range t.Header {
		lines = append(lines, s.as(cli.Dim, ansi.Wrap(cli.Printable(line), width, "")))
	}
	if n := len(t.Earlier); n > 0 {
		lines = append(lines, "", s.as(cli.Bold, ansi.Truncate("› "+cli.Printable(cli.OneLine(t.Earlier[n-1])), width, "…")))
		text := strings.Join(cli.Excerpt(t.Answer, linesOfAnswer), "\n")
		old := writer{style: s, hide: c.o.Hide}
		lines = append(lines, append(old.add(text, width), old.end(width)...)...)
	}
	c.print(strings.Join(lines, "\n"))
}

// columns returns the width of the terminal.
func (c *Chat) columns() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.width
}
