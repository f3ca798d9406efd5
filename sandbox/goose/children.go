package goose

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// goose tells of its sub-agents in the call of the tool "delegate" that started one: which tools
// it calls, and in the end what it answered. That is shown as a child session in the place of the
// call. A sub-agent in the background (async) is told of no more, so that its call stays one.
// It asks nothing, and cannot be cancelled alone.

// client stands between goose and the acp.Client of a session.
type client struct {
	acp.Client
	conv atomic.Pointer[acpagent.Session]

	// mu guards calls: questions come beside the updates.
	mu    sync.Mutex
	calls map[string]*delegate // by goose's ids
}

// delegate is an open call of the tool "delegate".
type delegate struct {
	first json.RawMessage // its tool_call
	task  task
	shown bool // it is shown as a tool call, as it was asked about
	begun bool // its sub-agent is
	tools int  // that the sub-agent has called
}

// task has the arguments of such a call.
type task struct {
	Instructions string `json:"instructions"`
	Source       string `json:"source"`
	Async        bool   `json:"async"`
}

// maxDelegates bounds the open calls; a further one is shown as it is.
const maxDelegates = 64

// progress has the members that are read of the updates of such a call.
type progress struct {
	ToolCallID string            `json:"toolCallId"`
	Status     string            `json:"status"`
	Content    []json.RawMessage `json:"content"`
	RawInput   json.RawMessage   `json:"rawInput"`
	Meta       struct {
		Goose struct {
			ToolCall struct {
				ToolName      string `json:"toolName"`
				ExtensionName string `json:"extensionName"`
			} `json:"toolCall"`
		} `json:"goose"`
		ToolNotification struct {
			Params struct {
				Data struct {
					Type     string `json:"type"`
					ToolCall struct {
						Name      string          `json:"name"`
						Arguments json.RawMessage `json:"arguments"`
					} `json:"tool_call"`
				} `json:"data"`
			} `json:"params"`
		} `json:"toolNotification"`
	} `json:"_meta"`
}

// SessionUpdate implements acp.Client.
func (c *client) SessionUpdate(ctx context.Context, n *acp.SessionNotification) error {
	kind := acp.UpdateKind(n.Update)
	if n.SessionID != "" || kind != "tool_call" && kind != "tool_call_update" || !c.concerns(kind, n.Update) {
		return c.Client.SessionUpdate(ctx, n)
	}
	for _, out := range c.instead(kind, n.Update) {
		if err := c.Client.SessionUpdate(ctx, &out); err != nil {
			return err
		}
	}
	return nil
}

// concerns reports whether an update may be about a call of delegate.
func (c *client) concerns(kind string, update json.RawMessage) bool {
	if kind == "tool_call" {
		return speaks(update, `"delegate"`)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls) > 0
}

// instead returns what is shown for an update of a tool call.
func (c *client) instead(kind string, update json.RawMessage) []acp.SessionNotification {
	asItIs := []acp.SessionNotification{{Update: update}}
	var p progress
	if acp.Decode(update, &p) != nil {
		return asItIs
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if kind == "tool_call" {
		d := &delegate{first: update}
		_ = acp.Decode(p.RawInput, &d.task) // what is missing is not shown
		if tool := p.Meta.Goose.ToolCall; tool.ToolName != "delegate" || tool.ExtensionName != "summon" || d.task.Async || len(c.calls) >= maxDelegates || len(update) > maxInput || len(p.ToolCallID) > acpagent.MaxName {
			return asItIs
		}
		c.calls[p.ToolCallID] = d
		if c.asks() {
			return nil // it begins when it is allowed
		}
		return c.begin(p.ToolCallID, d)
	}
	d := c.calls[p.ToolCallID]
	if d == nil {
		return asItIs
	}
	ended := p.Status == "completed" || p.Status == "failed"
	if ended {
		delete(c.calls, p.ToolCallID)
	}
	if p.Status == "failed" && !d.begun { // it was refused, or could not start
		if d.shown {
			return asItIs
		}
		return append([]acp.SessionNotification{{Update: d.first}}, asItIs...)
	}
	out := c.begin(p.ToolCallID, d)
	if data := p.Meta.ToolNotification.Params.Data; data.Type == "subagent_tool_request" {
		out = append(out, d.calls(p.ToolCallID, data.ToolCall.Name, data.ToolCall.Arguments))
	}
	if ended {
		out = append(out, c.end(p.ToolCallID, p.Status, acp.ToolText(p.Content))...)
	}
	return out
}

// asks reports whether goose asks before it calls a tool.
func (c *client) asks() bool {
	conv := c.conv.Load()
	if conv == nil {
		return false
	}
	modes := conv.State().Modes
	return modes != nil && modes.CurrentModeID != "auto"
}

// childID is the id of the sub-agent of a call.
func childID(call string) acp.SessionID { return acp.SessionID("delegate-" + call) }

// begin announces the sub-agent of a call, once.
func (c *client) begin(call string, d *delegate) []acp.SessionNotification {
	if d.begun {
		return nil
	}
	d.begun = true
	out := []acp.SessionNotification{
		{Update: childUpdate(&acp.ChildUpdate{
			SessionID: childID(call), Title: cmp.Or(d.task.Source, "delegate"), Description: d.task.Instructions,
			Capabilities: &acp.ChildCapabilities{}, State: &acp.ChildState{State: acp.ChildRunning},
		})},
		{Update: c.message(call+"-task", true, call, cmp.Or(d.task.Instructions, d.task.Source))},
	}
	if d.shown {
		out = append(out, acp.SessionNotification{Update: acp.ToolCallFinal(call, "completed", "A sub-agent works on it.")})
	}
	return out
}

// end tells of the end of the sub-agent of a call, and what it answered.
func (c *client) end(call, status, answer string) []acp.SessionNotification {
	state := &acp.ChildState{State: acp.ChildIdle, StopReason: acp.StopEndTurn}
	if status == "failed" {
		state.StopReason, state.Error = acp.StopError, acp.Internal(cmp.Or(answer, "it failed"), nil)
		return []acp.SessionNotification{{Update: childUpdate(&acp.ChildUpdate{SessionID: childID(call), State: state})}}
	}
	var out []acp.SessionNotification
	if answer != "" {
		out = append(out,
			acp.SessionNotification{SessionID: childID(call), Update: acp.MessageChunk(acp.AgentMessageChunk, call+"-answer", answer)},
			acp.SessionNotification{Update: c.message(call+"-answer", false, call, answer)})
	}
	return append(out, acp.SessionNotification{Update: childUpdate(&acp.ChildUpdate{SessionID: childID(call), State: state})})
}

// calls is a tool call of the sub-agent of a call. goose does not say how it ends.
func (d *delegate) calls(call, tool string, arguments json.RawMessage) acp.SessionNotification {
	d.tools++
	var in struct {
		Command string `json:"command"`
		Path    string `json:"path"`
	}
	_ = acp.Decode(arguments, &in) // other tools have other arguments
	title := tool
	if about := cmp.Or(in.Command, in.Path); about != "" {
		title += " · " + about
	}
	fields := map[string]any{
		"toolCallId": fmt.Sprintf("%s-%d", call, d.tools), "title": title, "kind": cmp.Or(kinds[tool], "other"),
	}
	if len(arguments) > 0 {
		fields["rawInput"] = arguments
	}
	if in.Path != "" {
		fields["locations"] = []map[string]string{{"path": in.Path}} // made absolute by the router
	}
	return acp.SessionNotification{SessionID: childID(call), Update: acp.WithFields(json.RawMessage(`{"sessionUpdate":"tool_call","status":"in_progress"}`), fields)}
}

func childUpdate(u *acp.ChildUpdate) json.RawMessage {
	raw, _ := u.MarshalJSON() // which always works
	return raw
}

// message is a message to or from the sub-agent of a call.
func (c *client) message(id string, to bool, call, text string) json.RawMessage {
	own, child := "", string(childID(call))
	if conv := c.conv.Load(); conv != nil {
		own = conv.ID()
	}
	if !to {
		own, child = child, own
	}
	raw, _ := json.Marshal(map[string]any{ // strings always marshal
		"sessionUpdate": "session_message", "messageId": id, "senderSessionId": own, "recipientSessionId": child,
		"content": []any{acp.TextBlock(text)},
	})
	return raw
}

// RequestPermission implements acp.Client. A call that is asked about is shown.
func (c *client) RequestPermission(ctx context.Context, req *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	var call struct {
		ToolCallID string `json:"toolCallId"`
	}
	_ = acp.Decode(req.ToolCall, &call) // then it is about none
	c.mu.Lock()
	d := c.calls[call.ToolCallID]
	show := d != nil && !d.begun && !d.shown
	if show {
		d.shown = true
	}
	c.mu.Unlock()
	if show {
		if err := c.Client.SessionUpdate(ctx, &acp.SessionNotification{Update: d.first}); err != nil {
			return nil, err
		}
	}
	return c.Client.RequestPermission(ctx, req)
}

// HandleRequest implements acp.RequestHandler.
func (c *client) HandleRequest(ctx context.Context, method string, params json.RawMessage) (any, error) {
	if h, ok := c.Client.(acp.RequestHandler); ok {
		return h.HandleRequest(ctx, method, params)
	}
	return nil, acp.ErrMethodNotFound
}

// session is a conversation with goose.
type session struct {
	*acpagent.Session
	client *client
}

// Prompt implements sandbox.AgentSession. Calls that a turn before has left open are forgotten.
func (s *session) Prompt(ctx context.Context, prompt []acp.ContentBlock) (*acp.PromptResponse, error) {
	s.client.mu.Lock()
	clear(s.client.calls)
	s.client.mu.Unlock()
	return s.Session.Prompt(ctx, prompt)
}
