package orchestrator

import (
	"context"
	"encoding/json"

	"gander.dev/gander/acp"
)

// client takes what the agents that have tasks show and ask. It implements acp.Client.
type client session

// job is the task that is worked on in a session; nil when there is none.
func (c *client) job(id acp.SessionID) *job {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.working[id]
}

// SessionUpdate implements acp.Client. What comes outside of a task is of no interest.
func (c *client) SessionUpdate(ctx context.Context, n *acp.SessionNotification) error {
	j := c.job(n.SessionID)
	if j == nil {
		c.heard.see(n)
		return nil
	}
	j.see(n.Update)
	if j.child {
		return c.p.Client.SessionUpdate(ctx, n)
	}
	return nil
}

// RequestPermission implements acp.Client: the person is asked, under the agent's name. What
// was remembered, and what the person's settings allow, has been looked at by who asks.
func (c *client) RequestPermission(ctx context.Context, req *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	j := c.job(req.SessionID)
	if j == nil {
		return acp.CancelledOutcome(), nil
	}
	defer j.r.clock.ask()()
	ask := *req
	if !j.child {
		ask.SessionID, ask.ToolCall = "", j.asks(req.ToolCall)
	}
	return c.p.Client.RequestPermission(ctx, &ask)
}

// HandleRequest implements acp.RequestHandler: what agents ask of an editor besides.
func (c *client) HandleRequest(ctx context.Context, method string, params json.RawMessage) (any, error) {
	j := c.job(acp.SessionID(stringOf(acp.Member(params, "sessionId"))))
	h, ok := c.p.Client.(acp.RequestHandler)
	if j == nil || !ok {
		return nil, acp.ErrMethodNotFound
	}
	if method == acp.MethodCreateElicitation {
		defer j.r.clock.ask()()
	}
	if method == acp.MethodCreateElicitation && !j.child {
		params = acp.WithFields(params, map[string]any{"sessionId": "", "toolCallId": j.call})
	}
	return h.HandleRequest(ctx, method, params)
}

// stringOf is a raw JSON string; empty for anything else.
func stringOf(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // anything else is as good as absent
	return s
}
