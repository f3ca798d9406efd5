package opencode

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"strings"

	"gander.dev/gander/acp"
)

// part is a part of a message of opencode's, as its own server has it.
type part struct {
	ID        string `json:"id"`
	SessionID string `json:"sessionID"`
	MessageID string `json:"messageID"`
	Type      string `json:"type"`
	Text      string `json:"text"`
	Synthetic bool   `json:"synthetic"`
	Ignored   bool   `json:"ignored"`
	Tool      string `json:"tool"`
	CallID    string `json:"callID"`
	State     state  `json:"state"`
}

// state is that of a tool call.
type state struct {
	Status   string          `json:"status"`
	Title    string          `json:"title"`
	Input    json.RawMessage `json:"input"`
	Output   string          `json:"output"`
	Error    string          `json:"error"`
	Metadata json.RawMessage `json:"metadata"`
}

// ownKinds are the ACP kinds of opencode's own tools.
var ownKinds = map[string]string{
	"bash": "execute", "webfetch": "fetch", "websearch": "fetch", "edit": "edit", "apply_patch": "edit", "write": "edit",
	"grep": "search", "glob": "search", "read": "read", "list": "read", "external_directory": "other",
}

func kindOf(tool string) string { return cmp.Or(ownKinds[tool], "other") }

// toolInput has the members that are read of a tool's input, and of a question's metadata.
type toolInput struct {
	Command   string `json:"command"`
	WorkDir   string `json:"workdir"`
	FilePath  string `json:"filePath"`
	Filepath  string `json:"filepath"`
	Path      string `json:"path"`
	URL       string `json:"url"`
	Pattern   string `json:"pattern"`
	ParentDir string `json:"parentDir"`
	Old       string `json:"oldString"`
	New       string `json:"newString"`
	Diff      string `json:"diff"`
}

func inputOf(raw json.RawMessage) (in toolInput) {
	_ = acp.Decode(raw, &in) // other tools have other fields
	return in
}

// places are the paths that an input names.
func (in toolInput) places() []map[string]string {
	list := []map[string]string{}
	if path := cmp.Or(in.FilePath, in.Filepath, in.Path, in.ParentDir); path != "" {
		list = append(list, map[string]string{"path": path})
	}
	return list
}

// updates are the updates of a tool call of a sub-agent, as opencode's ACP server makes them of
// the calls of the conversation itself. first says that there was none before.
func (p *part) updates(dir string, first bool) []json.RawMessage {
	in := inputOf(p.State.Input)
	title := cmp.Or(p.State.Title, p.Tool)
	input := orNone(p.State.Input)
	if p.Tool == "bash" {
		title = cmp.Or(in.Command, title)
		at := in.WorkDir
		if !filepath.IsAbs(at) {
			at = filepath.Join(dir, at)
		}
		input = acp.WithFields(input, map[string]any{"cwd": at})
	}
	fields := map[string]any{"toolCallId": p.CallID, "title": p.Tool, "kind": kindOf(p.Tool), "rawInput": input, "locations": in.places()}
	var out []json.RawMessage
	if first { // the mender knows the tool by this title
		out = append(out, acp.WithFields(json.RawMessage(`{"sessionUpdate":"tool_call","status":"pending"}`), fields))
	}
	fields["title"] = title
	update := json.RawMessage(`{"sessionUpdate":"tool_call_update"}`)
	switch p.State.Status {
	case "running":
		fields["status"] = "in_progress"
		var m struct{ Output string }
		_ = json.Unmarshal(p.State.Metadata, &m) // only commands have it
		if p.Tool == "bash" && m.Output != "" {
			fields["content"] = []any{acp.ToolContent(m.Output)}
		}
	case "completed":
		fields["status"], fields["content"] = "completed", p.result(in)
		fields["rawOutput"] = map[string]any{"output": p.State.Output, "metadata": orNone(p.State.Metadata)}
	case "error":
		fields["status"], fields["content"] = "failed", []any{acp.ToolContent(p.State.Error)}
		fields["rawOutput"] = map[string]any{"error": p.State.Error, "metadata": orNone(p.State.Metadata)}
	default:
		return out
	}
	return append(out, acp.WithFields(update, fields))
}

// result is the content of a call that has ended well.
func (p *part) result(in toolInput) []any {
	content := []any{acp.ToolContent(p.State.Output)}
	if p.Tool == "edit" && (in.Old != "" || in.New != "") {
		content = append(content, map[string]any{"type": "diff", "path": in.FilePath, "oldText": in.Old, "newText": in.New})
	}
	return content
}

func orNone(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage(`{}`)
	}
	return raw
}

// asked is a question of opencode's.
type asked struct {
	ID         string          `json:"id"`
	SessionID  string          `json:"sessionID"`
	Permission string          `json:"permission"`
	Patterns   []string        `json:"patterns"`
	Metadata   json.RawMessage `json:"metadata"`
	Tool       struct {
		CallID string `json:"callID"`
	} `json:"tool"`
}

// toolCall returns the call that the question is about.
func (a *asked) toolCall() json.RawMessage {
	in := inputOf(a.Metadata)
	title := cmp.Or(in.Command, in.FilePath, in.Filepath, in.URL, in.Pattern, in.ParentDir, strings.Join(a.Patterns, " "), a.Permission)
	call := map[string]any{
		"toolCallId": cmp.Or(a.Tool.CallID, a.ID), "title": title, "kind": kindOf(a.Permission), "status": "pending",
		"rawInput": orNone(a.Metadata), "locations": in.places(),
	}
	if in.Diff != "" {
		call["content"] = []any{acp.ToolContent(in.Diff)}
	}
	raw, _ := json.Marshal(call) // what was read always marshals
	return raw
}
