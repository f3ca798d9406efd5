package goose

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/agents/acpagent"
)

const (
	// liveLimit bounds the output of a running tool that is kept to be shown, in bytes.
	liveLimit = 32 << 10
	// callLimit bounds the calls that are kept: those of a cancelled turn never end.
	// When there are more, the oldest is forgotten and its later updates pass as they are.
	callLimit = 64
	// maxInput bounds the input that is kept of a call, in bytes.
	maxInput = 1 << 20
	// anchorSize is how much of the end of what was shown is looked for in the
	// result of a tool, in bytes.
	anchorSize = 512
	// gap stands for output that goose neither sent while the tool ran nor put into
	// its result.
	gap = "\n[some output is not shown here]\n"
)

// A mender fills in what goose leaves out of its updates: a tool call's kind and
// status, output that goose sends only in _meta while a tool runs, and the diff
// of an edit. It is called for one update at a time.
type mender struct {
	count int              // of calls so far
	calls map[string]*call // open tool calls
}

type call struct {
	number  int
	names   int // the length of its names
	tool    string
	edit    any // the diff of a call of the developer server's text_editor; nil when there is none
	input   input
	texts   int    // the length of input and edit at most
	live    []byte // the end of the output so far
	printed int    // how much a command has printed so far, in bytes
	dropped bool   // output before live was dropped
	cut     bool   // goose sends no more of it until the tool has ended
}

// input is what is read of a call's input.
type input struct {
	Path    string  `json:"path"`
	Content *string `json:"content"`
	Before  *string `json:"before"`
	After   *string `json:"after"`
}

// Number implements acpagent.Held.
func (c *call) Number() int { return c.number }

// Size implements acpagent.Held.
func (c *call) Size() int { return c.names + c.texts + cap(c.live) }

// Forget implements acpagent.Held. What the call has printed is little, and needed to tell
// what it prints last.
func (c *call) Forget() { c.input, c.edit, c.texts = input{}, nil, 0 }

func newMender() *mender { return &mender{calls: map[string]*call{}} }

// kinds are the ACP kinds of goose's own tools.
var kinds = map[string]string{
	"shell": "execute", "write": "edit", "edit": "edit", "text_editor": "edit",
	"tree": "read", "read_image": "read", "analyze": "search",
	"list_windows": "read", "screen_capture": "read", "image_processor": "read",
}

func (m *mender) mend(update json.RawMessage) json.RawMessage {
	switch acp.UpdateKind(update) {
	case "tool_call":
		return m.toolCall(update)
	case "tool_call_update":
		return m.toolCallUpdate(update)
	}
	return update
}

func (m *mender) toolCall(update json.RawMessage) json.RawMessage {
	var u struct {
		ToolCallID string            `json:"toolCallId"`
		Kind       string            `json:"kind"`
		Status     string            `json:"status"`
		Locations  []json.RawMessage `json:"locations"`
		RawInput   json.RawMessage   `json:"rawInput"`
		Meta       struct {
			Goose struct {
				ToolCall struct {
					ToolName string `json:"toolName"`
				} `json:"toolCall"`
			} `json:"goose"`
		} `json:"_meta"`
	}
	if json.Unmarshal(update, &u) != nil {
		return update
	}
	name := u.Meta.Goose.ToolCall.ToolName
	if len(u.ToolCallID) > acpagent.MaxName || len(name) > acpagent.MaxName {
		return update
	}
	if len(u.RawInput) > maxInput {
		u.RawInput = nil
	}
	m.count++
	c := &call{
		number: m.count, names: len(u.ToolCallID) + len(name),
		tool: strings.TrimPrefix(name, "developer__"), // so named when it is an MCP server
	}
	kind, own := kinds[c.tool]
	if own { // other tools may mean something else by these words
		_ = acp.Decode(u.RawInput, &c.input)
		c.texts = len(u.RawInput)
	}
	if c.tool == "text_editor" {
		_, c.edit = acpagent.EditOf(u.RawInput)
		c.texts += len(u.RawInput)
	}
	m.calls[u.ToolCallID] = c
	if len(m.calls) > callLimit {
		delete(m.calls, m.oldest())
	}
	acpagent.Bound(maps.Values(m.calls))
	set := map[string]any{}
	if own && u.Kind == "" {
		set["kind"] = kind
	}
	if u.Status == "" {
		set["status"] = "pending"
	}
	if c.input.Path != "" && len(u.Locations) == 0 {
		set["locations"] = []map[string]string{{"path": c.input.Path}} // made absolute by the relay
	}
	return acp.WithFields(update, set)
}

// oldest is the id of the call that came first.
func (m *mender) oldest() (id string) {
	first := m.count + 1
	for other, c := range m.calls {
		if c.number < first {
			id, first = other, c.number
		}
	}
	return id
}

func (m *mender) toolCallUpdate(update json.RawMessage) json.RawMessage {
	if !speaks(update, `"toolNotification"`, `"completed"`, `"failed"`) {
		return update // nothing to mend, as mostly
	}
	var u struct {
		ToolCallID string            `json:"toolCallId"`
		Status     string            `json:"status"`
		Content    []json.RawMessage `json:"content"`
		RawOutput  json.RawMessage   `json:"rawOutput"`
		Meta       struct {
			ToolNotification *notification `json:"toolNotification"`
		} `json:"_meta"`
	}
	if json.Unmarshal(update, &u) != nil {
		return update
	}
	c := m.calls[u.ToolCallID]
	if c == nil {
		return update
	}
	if u.Status == "completed" || u.Status == "failed" {
		delete(m.calls, u.ToolCallID)
		if diff := c.diff(u.Status, u.Content); diff != nil {
			return acp.WithFields(update, map[string]any{"content": acpagent.Before(diff, u.Content)})
		}
		text, set := acp.ToolText(u.Content), map[string]any{}
		rest := c.rest(text)
		if c.tool == "shell" && signalled(u.RawOutput) {
			const words = "\n\nCommand was ended by a signal"
			set["content"] = []any{acp.ToolContent(text + words)}
			rest += words
		}
		if rest != "" {
			set["_meta"] = acp.LiveOutputMeta(rest)
		}
		return acp.WithFields(update, set)
	}
	if n := u.Meta.ToolNotification; n != nil && len(u.Content) == 0 {
		text, cut := n.text(), n.Params.Truncated && !c.cut
		c.cut = c.cut || cut
		if n.Type == "live_output" {
			c.printed += len(text)
		}
		if c.append(text); text != "" || cut {
			return acp.WithFields(update, map[string]any{"content": []any{acp.ToolContent(c.shown())}})
		}
	}
	return update
}

// signalled reports whether a command was ended by a signal: goose has no words for that, and no code.
func signalled(rawOutput json.RawMessage) bool {
	var out struct {
		Stdout   *string `json:"stdout"`
		ExitCode *int    `json:"exit_code"`
		TimedOut bool    `json:"timed_out"`
	}
	return json.Unmarshal(rawOutput, &out) == nil && out.Stdout != nil && out.ExitCode == nil && !out.TimedOut
}

// speaks reports whether one of some words is in raw JSON.
func speaks(raw json.RawMessage, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return bytes.Contains(raw, []byte(w)) })
}

// notification is what goose relays of a running tool: its own shell's chunks,
// or a log or progress notification of an MCP server.
type notification struct {
	Type   string `json:"type"`
	Params struct {
		Chunks []struct {
			Output string `json:"output"`
		} `json:"chunks"`
		Truncated bool            `json:"truncated"`
		Data      json.RawMessage `json:"data"`
		Message   string          `json:"message"`
	} `json:"params"`
}

func (n *notification) text() string {
	switch n.Type {
	case "live_output":
		var b strings.Builder
		for _, c := range n.Params.Chunks {
			b.WriteString(c.Output)
		}
		return b.String()
	case "message":
		var data struct {
			Output string `json:"output"`
		}
		if json.Unmarshal(n.Params.Data, &data) == nil && data.Output != "" {
			return data.Output + "\n"
		}
		var text string
		if json.Unmarshal(n.Params.Data, &text) == nil && text != "" {
			return text + "\n"
		}
	case "progress":
		if n.Params.Message != "" {
			return n.Params.Message + "\n"
		}
	}
	return ""
}

// append keeps the last liveLimit bytes of the output.
func (c *call) append(text string) {
	if over := len(text) - liveLimit; over > 0 { // the room for all of it would stay
		text, c.dropped = text[over:], true
		c.live = c.live[:0]
	}
	c.live = append(c.live, text...)
	if over := len(c.live) - liveLimit; over > 0 {
		c.live = append(c.live[:0], c.live[over:]...)
		c.dropped = true
	}
}

func (c *call) shown() string {
	text := strings.ToValidUTF8(string(c.live), "")
	if c.dropped {
		text = "[the beginning is not shown while the tool runs]\n" + text
	}
	if c.cut {
		text += "\n[the rest is shown when the tool has ended]"
	}
	return text
}

// exitWords are what goose adds to the output of a command that failed.
var exitWords = regexp.MustCompile(`\n\nCommand exited with code \d+$`)

// rest is what a command printed that was not told of while it ran: goose drops
// what it has not sent when the command ends. Result is all of the output, or its
// end when that is long, without the end of the last line.
func (c *call) rest(result string) string {
	if c.printed == 0 {
		return ""
	}
	result = exitWords.ReplaceAllString(result, "")
	live := strings.TrimSuffix(string(c.live), "\n")
	told := c.printed - (len(c.live) - len(live))
	if told > len(result) || !strings.HasSuffix(result[:told], live) {
		anchor := live[max(0, len(live)-anchorSize):]
		i := strings.LastIndex(result, anchor)
		if i < 0 {
			return gap + result
		}
		told = i + len(anchor)
	}
	return strings.TrimPrefix(result[told:], "\n")
}

// diff is the change of a finished write or edit, which goose only describes in
// words; nil when it is not known for sure.
func (c *call) diff(status string, content []json.RawMessage) any {
	if status != "completed" || c.input.Path == "" {
		return nil
	}
	switch {
	case c.edit != nil:
		return c.edit
	case c.tool == "edit" && c.input.Before != nil && c.input.After != nil && says(content, "Edited "):
		return map[string]any{"type": "diff", "path": c.input.Path, "oldText": *c.input.Before, "newText": *c.input.After}
	case c.tool == "write" && c.input.Content != nil && says(content, "Created "):
		return map[string]any{"type": "diff", "path": c.input.Path, "oldText": nil, "newText": *c.input.Content}
	case c.tool == "write" && c.input.Content != nil && says(content, "Wrote "):
		return map[string]any{"type": "diff", "path": c.input.Path, "newText": *c.input.Content} // the router knows what was there
	}
	return nil
}

// says reports whether goose's answer begins so: calls that did not run, in mode
// chat, are completed too.
func says(content []json.RawMessage, beginning string) bool {
	for _, raw := range content {
		var item struct {
			Content struct {
				Text string `json:"text"`
			} `json:"content"`
		}
		if json.Unmarshal(raw, &item) == nil && strings.HasPrefix(item.Content.Text, beginning) {
			return true
		}
	}
	return false
}
