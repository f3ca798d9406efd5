package router

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"gander.dev/gander/acp"
)

// replay shows the client the thread again. A call that was never ended, as gander
// or the agent was killed, ends where the person goes on, and so does a child session.
func (s *session) replay(ctx context.Context) error {
	shown := map[acp.SessionID]*Revival{s.id: {}} // this session and its children
	show := func(id acp.SessionID, updates ...json.RawMessage) error {
		for _, update := range updates {
			if err := s.r.client.SessionUpdate(ctx, &acp.SessionNotification{SessionID: id, Update: update}); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	order := []acp.SessionID{s.id}
	finish := func() error {
		for _, id := range slices.Backward(order) { // children first
			if err := show(id, shown[id].Unfinished()...); err != nil {
				return err
			}
		}
		return nil
	}
	for n, err := range s.thread(ctx) {
		if err != nil {
			return err
		}
		v := shown[n.SessionID]
		if v == nil {
			v = new(Revival)
			shown[n.SessionID], order = v, append(order, n.SessionID)
		}
		kind := acp.UpdateKind(n.Update)
		if kind == acp.UserMessageChunk && n.SessionID == s.id {
			if err := finish(); err != nil {
				return err
			}
		}
		if kind == "tool_call" && n.SessionID == s.id {
			s.calls.take(stringOf(acp.Member(n.Update, "toolCallId")))
		}
		if update := v.Revive(n.Update); update != nil {
			if err := show(n.SessionID, update); err != nil {
				return err
			}
		}
	}
	return finish()
}

// thread yields the updates of the thread, with those of its children where the client knows such.
func (s *session) thread(ctx context.Context) iter.Seq2[acp.SessionNotification, error] {
	if s.showsChildren() {
		return s.r.opts.Store.ReplayWithChildren(ctx, s.id, s.r.opts.HistoryLimit)
	}
	return func(yield func(acp.SessionNotification, error) bool) {
		for update, err := range s.r.opts.Store.Replay(ctx, s.id, s.r.opts.HistoryLimit) {
			if !yield(acp.SessionNotification{SessionID: s.id, Update: update}, err) {
				return
			}
		}
	}
}

// maxRevived bounds the text of an old terminal, in bytes; of more the end is shown.
const maxRevived = 256 << 10

// A Revival turns updates of the past into such that a client can show now: the
// terminals of then are gone and shown as text, and a tool call that was never
// ended is ended. A child session can be cancelled no more, and does nothing.
type Revival struct {
	open    []*pastCall
	working []acp.SessionID // children
}

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
	if kind == acp.KindChild {
		return v.child(update)
	}
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

// child returns an update about a child session as it holds now.
func (v *Revival) child(update json.RawMessage) json.RawMessage {
	id := acp.SessionID(stringOf(acp.Member(update, "sessionId")))
	state := stringOf(acp.Member(acp.Member(update, "state"), "state"))
	v.working = slices.DeleteFunc(v.working, func(w acp.SessionID) bool { return w == id })
	if state == acp.ChildRunning {
		v.working = append(v.working, id)
	}
	return acp.WithFields(update, map[string]any{"capabilities": acp.ChildCapabilities{}})
}

// asText is an update of a terminal without the terminal. The text is shown when the
// call ends; what was output meanwhile is collected for that.
func (c *pastCall) asText(kind string, u *toolUpdate, meta map[string]json.RawMessage, update json.RawMessage) json.RawMessage {
	var out struct {
		Data string `json:"data"`
	}
	_ = json.Unmarshal(meta[terminalOutput], &out) // absent mostly
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
	if text := plainOutput(c.tail()); text != "" {
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
		text := plainOutput(c.tail())
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
	for _, id := range v.working {
		out = append(out, marshal(acp.ChildUpdate{SessionID: id, State: &acp.ChildState{
			State: acp.ChildIdle, StopReason: acp.StopError, Error: acp.Internal("It was interrupted.", nil),
		}}))
	}
	v.working = nil
	return out
}
