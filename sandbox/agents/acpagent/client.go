package acpagent

import (
	"context"
	"encoding/json"

	"gander.dev/gander/acp"
)

// client is the Session as the acp.Client that the agent talks to.
type client Session

// SessionUpdate passes an update on, mended, and keeps the state in step. What an agent
// says of other sessions, one that it could not go on with or a sub-agent's, which has a mode
// of its own, goes on where the client takes child sessions, and else nowhere.
func (c *client) SessionUpdate(ctx context.Context, n *acp.SessionNotification) error {
	if own := c.own.Load(); own != nil && n.SessionID != *own {
		if c.params.Capabilities.Subagents == nil || c.replaying.Load() || n.SessionID == "" {
			c.opts.Log.Debug("dropped an update of another session", "agent", c.opts.Name)
			return nil
		}
		n.Update = c.screens.mend(n.SessionID, n.Update)
		return c.params.Client.SessionUpdate(ctx, n)
	}
	n.SessionID = ""
	n.Update = c.screens.mend("", n.Update)
	(*Session)(c).follow(n.Update)
	if c.replaying.Load() && acp.UpdateKind(n.Update) != "available_commands_update" {
		c.replayed.add(n.Update)
		return nil // history, but for what holds from now on
	}
	if c.opts.Mend != nil {
		n.Update = c.opts.Mend(n.Update)
	}
	return c.params.Client.SessionUpdate(ctx, n)
}

// follow keeps the state in step with what the agent says of it.
func (s *Session) follow(update json.RawMessage) {
	switch acp.UpdateKind(update) {
	case "current_mode_update":
		var u struct {
			CurrentModeID string `json:"currentModeId"`
		}
		if json.Unmarshal(update, &u) == nil && u.CurrentModeID != "" && len(u.CurrentModeID) <= MaxName {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.setMode(u.CurrentModeID)
		}
	case "config_option_update":
		var u struct {
			ConfigOptions []acp.ConfigOption `json:"configOptions"`
		}
		if json.Unmarshal(update, &u) == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.setOptions(u.ConfigOptions)
		}
	}
}

// RequestPermission passes the question on.
func (c *client) RequestPermission(ctx context.Context, r *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	if own := c.own.Load(); own != nil && r.SessionID == *own {
		r.SessionID = ""
	}
	return c.params.Client.RequestPermission(ctx, r)
}

// HandleRequest passes other requests on when the client takes any.
func (c *client) HandleRequest(ctx context.Context, method string, params json.RawMessage) (any, error) {
	if h, ok := c.params.Client.(acp.RequestHandler); ok {
		return h.HandleRequest(ctx, method, params)
	}
	return nil, acp.ErrMethodNotFound
}
