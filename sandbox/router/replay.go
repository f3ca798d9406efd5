package router

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"gander.dev/gander/acp"
)

// replay shows the client the thread again. A call that was never ended, as gander
// or the agent was killed, ends where the person goes on.
func (s *session) replay(ctx context.Context) error {
	var v Revival
	show := func(updates ...json.RawMessage) error {
		for _, update := range updates {
			if err := s.r.client.SessionUpdate(ctx, &acp.SessionNotification{SessionID: s.id, Update: update}); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	for update, err := range s.r.opts.Store.Replay(ctx, s.id, s.r.opts.HistoryLimit) {
		if err != nil {
			return err
		}
		var due []json.RawMessage
		if acp.UpdateKind(update) == acp.UserMessageChunk {
			due = v.Unfinished()
		}
		if acp.UpdateKind(update) == "tool_call" {
			s.calls.take(stringOf(acp.Member(update, "toolCallId")))
		}
		if update = v.Revive(update); update != nil {
			due = append(due, update)
		}
		if err := show(due...); err != nil {
			return err
		}
	}
	return show(v.Unfinished()...)
}

// maxRevived bounds the text of an old terminal, in bytes; of more the end is shown.
const maxRevived = 256 << 10

// A Revival turns updates of the past into such that a client can show now: the
// terminals of then are gone and shown as text, and a tool call that was never
// ended is ended.
type Revival struct{ open []*pastCall }

type pastCall struct {
	id       string
	terminal bool
	ended    bool            // by Unfinished, and may have an end of its own behind it
	text     strings.Builder // what the terminal has shown
}

func (v *Revival) find(id string) *pastCall {
	for _, c := range v.open {
		if c.id == id {
			return c
		}
	}
	return nil
}

// Revive returns an update as it is shown now; nil for one that says nothing any more.
func (v *Revival) Revive(update json.RawMessage) json.RawMessage {
	kind := acp.UpdateKind(update)
	if kind != "tool_call" && kind != "tool_call_update" {
		return update
	}
	u := readToolUpdate(update)
	c := v.find(u.ToolCallID)
	if c == nil {
		c = &pastCall{id: u.ToolCallID}
		v.open = append(v.open, c)
	}
	meta := map[string]json.RawMessage{}
	_ = json.Unmarshal(u.meta, &meta) // absent mostly
	if u.final() {
		v.open = slices.DeleteFunc(v.open, func(o *pastCall) bool { return o == c })
	}
	if _, opened := meta["terminal_info"]; opened {
		c.terminal = true
	}
	if !c.terminal {
		return update
	}
	return c.asText(kind, &u, meta, update)
}

// asText is an update of a terminal without the terminal. The text is shown when the
// call ends; what was output meanwhile is collected for that.
func (c *pastCall) asText(kind string, u *toolUpdate, meta map[string]json.RawMessage, update json.RawMessage) json.RawMessage {
	var out struct {
		Data string `json:"data"`
	}
	_ = json.Unmarshal(meta["terminal_output"], &out) // absent mostly
	c.add(out.Data)
	set := map[string]any{"content": acp.Delete}
	for _, key := range []string{"terminal_info", "terminal_output", "terminal_exit"} {
		delete(meta, key)
	}
	set["_meta"] = acp.Delete
	if len(meta) > 0 {
		set["_meta"] = meta
	}
	switch {
	case u.final():
		set["content"] = c.content()
	case kind == "tool_call_update" && out.Data != "":
		return nil
	}
	return acp.WithFields(update, set)
}

func (c *pastCall) add(text string) {
	c.text.WriteString(text)
	if over := c.text.Len() - 2*maxRevived; over > 0 {
		rest := c.tail()
		c.text.Reset()
		c.text.WriteString(rest)
	}
}

// tail is the end of the text, from the beginning of a line when there is one.
func (c *pastCall) tail() string {
	text := c.text.String()
	if len(text) <= maxRevived {
		return text
	}
	text = text[len(text)-maxRevived:]
	if i := strings.IndexByte(text, '\n'); i >= 0 && i < len(text)-1 {
		text = text[i+1:]
	}
	return strings.ToValidUTF8("[earlier output is left out]\n"+text, "")
}

func (c *pastCall) content() []json.RawMessage {
	content := []json.RawMessage{}
	if text := c.tail(); text != "" {
		content = append(content, acp.ToolContent(text))
	}
	return content
}

// Unfinished ends the calls that never had an end: gander or the agent was ended
// meanwhile. Those of a turn that a prompt was cancelled behind go on after it.
func (v *Revival) Unfinished() []json.RawMessage {
	v.open = slices.DeleteFunc(v.open, func(c *pastCall) bool { return c.ended })
	out := make([]json.RawMessage, 0, len(v.open))
	for _, c := range v.open {
		c.ended = true
		text := c.tail()
		if text != "" {
			text = strings.TrimRight(text, "\n") + "\n"
		}
		if c.terminal {
			text += "Interrupted."
			out = append(out, acp.ToolCallFinal(c.id, "failed", text))
			continue
		}
		out = append(out, acp.ToolCallFinal(c.id, "failed", ""))
	}
	return out
}
