package router

import (
	"encoding/json"

	"gander.dev/gander/acp"
)

// A terminal shows a command's output as Zed's display-only terminal: announced
// on the tool call, fed by _meta, ended by an exit. Clients ask for it with
// _meta.terminal_output in their capabilities.
type terminal struct {
	id, cwd string
	written bool // output has been sent
}

// terminalOutput is the member of _meta by which clients say so, and agents tell of output.
const terminalOutput = "terminal_output"

// showsTerminals reports whether the client renders such terminals.
func (s *session) showsTerminals() bool {
	var on bool
	raw := s.r.client.Capabilities().Meta[terminalOutput]
	return json.Unmarshal(raw, &on) == nil && on
}

// mend adds to set what turns an update into one of a terminal.
func (t *terminal) mend(kind string, u *toolUpdate, set map[string]any) {
	var said map[string]json.RawMessage
	_ = json.Unmarshal(u.meta, &said) // absent mostly
	meta := map[string]any{}
	for k, v := range said {
		meta[k] = v
	}
	screen := []any{map[string]string{"type": "terminal", "terminalId": t.id}}
	switch {
	case kind == "tool_call":
		meta["terminal_info"] = map[string]string{"terminal_id": t.id, "cwd": t.cwd}
		set["content"] = screen
	case u.Status == "completed" || u.Status == "failed":
		rest := acp.ToolText(listOf(u.content))
		if t.written {
			rest = acp.LiveOutput(said)
		}
		if rest != "" || !t.written {
			meta[terminalOutput] = map[string]string{"terminal_id": t.id, "data": rest}
		}
		meta["terminal_exit"] = map[string]any{"terminal_id": t.id, "exit_code": exitCode(u), "signal": nil}
		set["content"] = screen
	default:
		if text := acp.LiveOutput(said); text != "" {
			meta[terminalOutput] = map[string]string{"terminal_id": t.id, "data": text}
			set["content"] = acp.Delete
			t.written = true
		}
	}
	set["_meta"] = meta
}

// final makes a final update that gander adds itself one of the terminal.
func (t *terminal) final(update json.RawMessage, status, text string) json.RawMessage {
	u := toolUpdate{Status: status}
	if text != "" {
		u.content = marshal([]json.RawMessage{acp.ToolContent(text)})
	}
	set := map[string]any{}
	t.mend("tool_call_update", &u, set)
	return acp.WithFields(update, set)
}

// exitCode is the command's exit code where the agent gives it, else 0 or 1 by status.
func exitCode(u *toolUpdate) int {
	var out struct {
		ExitCode *int `json:"exit_code"`
	}
	if json.Unmarshal(u.rawOutput, &out) == nil && out.ExitCode != nil {
		return *out.ExitCode
	}
	if u.Status == "failed" {
		return 1
	}
	return 0
}
