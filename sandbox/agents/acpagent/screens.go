package acpagent

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"

	"gander.dev/gander/acp"
)

// screens turns the terminals that an agent shows by _meta, as Zed's convention has it, into
// text that every client shows: the content of the tool call grows, and ends with all of it.
// The agent's own terminals are taken off, as no client knows them.
type screens struct {
	// mu guards shown.
	mu    sync.Mutex
	shown map[screen]string // the end of what a call that is open has printed
}

// screen names a tool call of a session; an empty session is the conversation's own.
type screen struct {
	session acp.SessionID
	call    string
}

const (
	// maxScreen bounds what is kept of a screen, in bytes.
	maxScreen = 32 << 10
	// maxScreens bounds the screens that are kept; of more all are forgotten.
	maxScreens = 500
)

// terminalWord is in every update that these concern.
var terminalWord = []byte(`"terminal`)

// terminalMeta is Zed's convention; the delta is codex-acp's for clients without it.
type terminalMeta struct {
	Output struct {
		Data string `json:"data"`
	} `json:"terminal_output"`
	Delta struct {
		Data string `json:"data"`
	} `json:"terminal_output_delta"`
	Exit struct {
		Code   *int    `json:"exit_code"`
		Signal *string `json:"signal"`
	} `json:"terminal_exit"`
}

// mend returns an update without terminals.
func (s *screens) mend(session acp.SessionID, update json.RawMessage) json.RawMessage {
	if kind := acp.UpdateKind(update); kind != "tool_call" && kind != "tool_call_update" || !bytes.Contains(update, terminalWord) {
		return update
	}
	var u struct {
		ToolCallID string                     `json:"toolCallId"`
		Status     string                     `json:"status"`
		Content    *[]json.RawMessage         `json:"content"`
		RawOutput  json.RawMessage            `json:"rawOutput"`
		Meta       map[string]json.RawMessage `json:"_meta"`
	}
	var said struct {
		Meta terminalMeta `json:"_meta"`
	}
	if json.Unmarshal(update, &u) != nil || json.Unmarshal(update, &said) != nil {
		return update
	}
	set := map[string]any{}
	for key := range u.Meta {
		if strings.HasPrefix(key, "terminal_") {
			delete(u.Meta, key)
			set["_meta"] = u.Meta
		}
	}
	if len(u.Meta) == 0 {
		set["_meta"] = acp.Delete
	}
	printed, final := said.Meta.Output.Data+said.Meta.Delta.Data, u.Status == "completed" || u.Status == "failed"
	text := s.print(screen{session, u.ToolCallID}, printed, final)
	content := withoutTerminals(u.Content)
	switch {
	case final && len(content) == 0 && text != "", printed != "" && !final:
		content = append(content, acp.ToolContent(text))
		set["content"] = content
	case u.Content != nil && len(content) == 0:
		set["content"] = acp.Delete
	case u.Content != nil:
		set["content"] = content
	}
	if printed != "" {
		meta := acp.LiveOutputMeta(printed)
		for key, value := range u.Meta {
			meta[key] = value
		}
		set["_meta"] = meta
	}
	if exit := said.Meta.Exit; len(u.RawOutput) == 0 && (exit.Code != nil || exit.Signal != nil) {
		set["rawOutput"] = map[string]any{"exit_code": exit.Code, "signal": exit.Signal}
	}
	return acp.WithFields(update, set)
}

// print adds to a screen, or ends it, and returns what it shows.
func (s *screens) print(at screen, printed string, final bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.shown[at] + printed
	if over := len(text) - maxScreen; over > 0 {
		text = strings.Clone(strings.ToValidUTF8(text[over:], "")) // or all of it would stay
	}
	switch {
	case final:
		delete(s.shown, at)
		return text
	case s.shown == nil || len(s.shown) >= maxScreens && s.shown[at] == "":
		s.shown = map[screen]string{}
	}
	if text != "" {
		s.shown[at] = text
	}
	return text
}

// withoutTerminals returns the content of a tool call that is no terminal.
func withoutTerminals(content *[]json.RawMessage) []json.RawMessage {
	rest := []json.RawMessage{}
	if content == nil {
		return rest
	}
	for _, c := range *content {
		var is struct{ Type string }
		if json.Unmarshal(c, &is) != nil || is.Type != "terminal" {
			rest = append(rest, c)
		}
	}
	return rest
}
