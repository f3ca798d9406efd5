package opencode

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// client stands between opencode and the acp.Client of a session.
type client struct {
	acp.Client
	mend      *mender
	writes    writer
	children  *children
	announced chan struct{} // closed when opencode has said which commands it has
	log       *slog.Logger

	// mu guards commands.
	mu       sync.Mutex
	commands map[string]bool
}

// newClient returns a client; control is nil where the host does not reach opencode's server.
func newClient(p sandbox.SessionParams, sb sandbox.Sandbox, env []string, control *control, log *slog.Logger) *client {
	m := newMender(p.WorkingDir)
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &client{
		children:  newChildren(p.Client, control, p.WorkingDir, log),
		Client:    p.Client,
		mend:      m,
		writes:    writer{sb: sb, project: p.WorkingDir, env: env, mend: m, proposals: map[string]proposal{}},
		announced: make(chan struct{}),
		log:       log,
		commands:  map[string]bool{},
	}
}

// SessionUpdate implements acp.Client.
func (c *client) SessionUpdate(ctx context.Context, n *acp.SessionNotification) error {
	switch acp.UpdateKind(n.Update) {
	case "available_commands_update":
		c.learn(n.Update)
	case "usage_update":
		if saysNothing(n.Update) {
			return nil
		}
	case "tool_call", "tool_call_update":
		return c.toolCall(ctx, n)
	}
	return c.Client.SessionUpdate(ctx, n)
}

// toolCall passes on an update of a tool call, but not what a sub-agent stands for.
func (c *client) toolCall(ctx context.Context, n *acp.SessionNotification) error {
	var u toolUpdate
	_ = json.Unmarshal(n.Update, &u) // what cannot be read passes
	update := c.mend.mend(n.Update)
	if update == nil {
		return nil
	}
	var err error
	for _, update := range c.children.hold(acp.UpdateKind(n.Update), u.ToolCallID, u.Status, update, u.Title) {
		mended := *n
		mended.Update = update
		err = errors.Join(err, c.Client.SessionUpdate(ctx, &mended))
	}
	return err
}

// saysNothing reports whether a usage_update is the one of a cancelled turn: that
// the context is empty, which is not so.
func saysNothing(update json.RawMessage) bool {
	var u struct {
		Used int64 `json:"used"`
	}
	return json.Unmarshal(update, &u) == nil && u.Used == 0
}

// maxCommands bounds the commands that are known; a prompt with another one is put as text.
const maxCommands = 1000

// learn notes the commands that opencode has.
func (c *client) learn(update json.RawMessage) {
	var u struct {
		AvailableCommands []struct {
			Name string `json:"name"`
		} `json:"availableCommands"`
	}
	if json.Unmarshal(update, &u) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.commands)
	for _, command := range u.AvailableCommands {
		if len(c.commands) < maxCommands && len(command.Name) <= acpagent.MaxName {
			c.commands[command.Name] = true
		}
	}
	select {
	case <-c.announced:
	default:
		close(c.announced)
	}
}

// commandsTime is how long opencode may take to say which commands it has; it
// does so right after it has opened a session.
const commandsTime = 2 * time.Second

// knows reports whether opencode has a command.
func (c *client) knows(ctx context.Context, name string) bool {
	if name == "compact" { // which it does not announce
		return true
	}
	late := time.NewTimer(commandsTime)
	defer late.Stop()
	select {
	case <-c.announced:
	case <-late.C:
		c.log.Warn("opencode did not say which commands it has")
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.commands[name]
}

// RequestPermission implements acp.Client.
func (c *client) RequestPermission(ctx context.Context, req *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	if c.children.isTask(stringOf(acp.Member(req.ToolCall, "toolCallId"))) {
		return c.children.admit(ctx), nil
	}
	ask := *req
	ask.ToolCall = c.mend.question(req.ToolCall)
	c.writes.propose(req.ToolCall)
	return c.Client.RequestPermission(ctx, &ask)
}

// stringOf is a raw JSON string; empty for anything else.
func stringOf(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s) // anything else is as good as absent
	return s
}

// HandleRequest implements acp.RequestHandler.
func (c *client) HandleRequest(ctx context.Context, method string, params json.RawMessage) (any, error) {
	if method == methodWriteTextFile {
		return struct{}{}, c.writes.write(ctx, params)
	}
	if h, ok := c.Client.(acp.RequestHandler); ok {
		return h.HandleRequest(ctx, method, params)
	}
	return nil, acp.ErrMethodNotFound
}
