package opencode

import (
	"context"
	"encoding/json"
	"strings"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
)

const (
	// serverTool begins the names of the developer server's tools.
	serverTool = "developer_"
	// shownLimit bounds the output of a running tool that is kept to be shown, in bytes.
	shownLimit = 32 << 10
)

// kinds are the ACP kinds of the developer server's tools, which opencode does not know.
var kinds = map[string]string{
	"shell": "execute", "text_editor": "edit", "analyze": "search",
	"image_processor": "read", "list_windows": "read", "screen_capture": "read",
}

// ToolOutput implements sandbox.OutputReceiver: opencode shows nothing of an MCP
// server's tool before it has ended.
func (s *session) ToolOutput(o sandbox.ToolOutput) {
	update := s.client.mend.output(o)
	if update == nil {
		return
	}
	n := &acp.SessionNotification{Update: update}              // without an id it is the conversation's own
	_ = s.client.Client.SessionUpdate(context.Background(), n) // a client that is gone needs none
}

// printed names calls of a tool that cannot be told apart.
type printed struct{ tool, command string }

// maxEarly is how many calls may have printed before opencode tells of them.
const maxEarly = 16

// output is an update of the open call that prints; nil when there is none yet.
func (m *mender) output(o sandbox.ToolOutput) json.RawMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := printed{serverTool + o.Tool, commandOf(o.Arguments)}
	c := m.running(p)
	if c == nil {
		if _, known := m.early[p]; known || len(m.early) < maxEarly {
			m.early[p] = lastOf(m.early[p] + o.Text)
		}
		return nil
	}
	set := map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": c.id, "status": "in_progress"}
	c.shows(o.Text, set)
	m.bound()
	raw, _ := json.Marshal(set) // always marshals
	return raw
}

// shows puts output that is new into an update.
func (c *call) shows(text string, set map[string]any) {
	c.shown = lastOf(c.shown + text)
	set["content"], set["_meta"] = []any{acp.ToolContent(c.shown)}, acp.LiveOutputMeta(text)
}

// lastOf is the end of output, as much as is kept.
func lastOf(text string) string {
	if over := len(text) - shownLimit; over > 0 {
		return strings.Clone(strings.ToValidUTF8(text[over:], "")) // or all of it would stay
	}
	return text
}

// running finds the open call that prints. mu is held.
func (m *mender) running(p printed) *call {
	for _, c := range m.open {
		if c.tool == p.tool && len(c.arguments) > 0 && commandOf(c.arguments) == p.command {
			return c
		}
	}
	return nil
}

// takeEarly is what a call printed before it was told of. mu is held.
func (m *mender) takeEarly(c *call) string {
	if len(c.arguments) == 0 {
		return ""
	}
	p := printed{c.tool, commandOf(c.arguments)}
	text := m.early[p]
	delete(m.early, p)
	return text
}

// commandOf is the command among a tool's arguments.
func commandOf(arguments json.RawMessage) string {
	var a struct {
		Command string `json:"command"`
	}
	_ = json.Unmarshal(arguments, &a)
	return a.Command
}
