package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/telemetry"
)

// kinds are the ACP kinds of the tools of goose, opencode and the developer server; what
// is not here is "other".
var kinds = map[string]string{
	"shell": "execute", "bash": "execute",
	"write": "edit", "edit": "edit", "text_editor": "edit", "patch": "edit", "apply_patch": "edit", "multiedit": "edit",
	"read": "read", "tree": "read", "view": "read", "list": "read", "read_image": "read", "image_processor": "read", "list_windows": "read", "screen_capture": "read",
	"analyze": "search", "grep": "search", "glob": "search", "webfetch": "fetch", "fetch": "fetch", "websearch": "fetch", "task": "think", "todowrite": "think", "todoread": "think",
}

func kindOf(tool string) string {
	for name := strings.ToLower(tool); ; { // server prefixes: developer__shell, developer_shell
		if kind := kinds[name]; kind != "" {
			return kind
		}
		_, rest, ok := strings.Cut(name, "_")
		if !ok {
			return "other"
		}
		name = rest
	}
}

// callID is the id of a tool call in the session: agents begin anew with every
// iteration, and so may their ids. A call without one is named after its event.
func callID(e *telemetry.Event) string {
	if e.ToolCallID == "" {
		return fmt.Sprintf("loop-%d", e.Seq)
	}
	return fmt.Sprintf("%d-%s", e.Iteration, e.ToolCallID)
}

type toolCall struct {
	SessionUpdate string            `json:"sessionUpdate"`
	ToolCallID    string            `json:"toolCallId"`
	Title         string            `json:"title,omitempty"`
	Kind          string            `json:"kind,omitempty"`
	Status        string            `json:"status,omitempty"`
	Content       []json.RawMessage `json:"content,omitempty"`
	Locations     []location        `json:"locations,omitempty"`
	RawInput      json.RawMessage   `json:"rawInput,omitempty"`
}

type location struct {
	Path string `json:"path"`
}

// call is a tool that begins. Arguments that were cut off are shown as text.
func (t *thread) call(e *telemetry.Event) json.RawMessage {
	c := toolCall{
		SessionUpdate: "tool_call", ToolCallID: callID(e), Title: cmp.Or(e.Summary, e.Tool, "tool"), Kind: kindOf(e.Tool), Status: "in_progress",
	}
	content := argumentsOf(e)
	var in arguments
	switch {
	case json.Unmarshal(content, &in) == nil:
		c.RawInput = content
		if path := in.path(t.workspace); path != "" {
			c.Locations = []location{{path}}
			if c.Kind == "edit" {
				c.Content = in.diff(path)
			}
		}
	case e.Content != "":
		c.Content = []json.RawMessage{acp.ToolContent(e.Content + cutMark(e))}
	}
	return marshal(c)
}

// argumentsOf are the arguments of a call: the content, or what older loops put them in.
func argumentsOf(e *telemetry.Event) json.RawMessage {
	var call struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal([]byte(e.Content), &call) == nil && call.Name != "" && call.Arguments != nil {
		return call.Arguments
	}
	return json.RawMessage(e.Content)
}

// result ends a tool call; one that has no id is told as a whole.
func result(e *telemetry.Event) json.RawMessage {
	c := toolCall{SessionUpdate: "tool_call_update", ToolCallID: callID(e), Status: cmp.Or(e.Status, telemetry.Completed)}
	if e.ToolCallID == "" {
		c.SessionUpdate, c.Title, c.Kind = "tool_call", cmp.Or(e.Tool, e.Summary, "result"), kindOf(e.Tool)
	}
	if e.Content != "" {
		c.Content = []json.RawMessage{acp.ToolContent(e.Content + cutMark(e))}
	}
	return marshal(c)
}

// arguments are what the agents' tools that work on a file are called with.
type arguments struct {
	Path      string  `json:"path"`
	FilePath  string  `json:"filePath"`
	Before    *string `json:"before"`
	After     *string `json:"after"`
	OldString *string `json:"oldString"`
	NewString *string `json:"newString"`
	OldStr    *string `json:"old_str"`
	NewStr    *string `json:"new_str"`
}

// path is the file, absolute; empty when there is none.
func (a *arguments) path(workspace string) string {
	path := cmp.Or(a.Path, a.FilePath)
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(workspace, path)
}

// diff is the change that an edit asks for; nil when it does not say.
func (a *arguments) diff(path string) []json.RawMessage {
	before, after := cmp.Or(a.Before, a.OldString, a.OldStr), cmp.Or(a.After, a.NewString, a.NewStr)
	if before == nil || after == nil {
		return nil
	}
	return []json.RawMessage{marshal(map[string]string{"type": "diff", "path": path, "oldText": *before, "newText": *after})}
}
