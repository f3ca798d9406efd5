// Package hosted has what conversations with agents that run in gander have in common.
package hosted

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// A Conversation is the part of a sandbox.AgentSession that is the same for all of them: the id,
// the model, which is the only option, cancel and end. One turn runs at a time.
type Conversation struct {
	id    string
	ctx   context.Context // ends with Close
	close context.CancelFunc

	// mu guards what follows.
	mu     sync.Mutex
	model  string
	cancel context.CancelFunc // of the last turn
}

// Open begins the conversation of p, or goes on with it. model counts where p names none.
func Open(p sandbox.HostedParams, model string) *Conversation {
	c := &Conversation{id: cmp.Or(p.ResumeID, uuid.NewString()), model: cmp.Or(p.Model, model), cancel: func() {}}
	c.ctx, c.close = context.WithCancel(context.Background())
	return c
}

// Turn begins a turn: its context ends with ctx, and by Cancel, Close and end, which is to be called.
func (c *Conversation) Turn(ctx context.Context) (turn context.Context, end func()) {
	turn, cancel := context.WithCancel(ctx)
	forget := context.AfterFunc(c.ctx, cancel)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel = cancel
	return turn, func() { forget(); cancel() }
}

// Context ends with Close.
func (c *Conversation) Context() context.Context { return c.ctx }

// Model returns the model.
func (c *Conversation) Model() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.model
}

// ID implements sandbox.AgentSession.
func (c *Conversation) ID() string { return c.id }

// Resumed implements sandbox.AgentSession: what was said before it has to be told.
func (c *Conversation) Resumed() bool { return false }

// SetConfigOption implements sandbox.AgentSession.
func (c *Conversation) SetConfigOption(_ context.Context, id string, value json.RawMessage) ([]acp.ConfigOption, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id != "model" || json.Unmarshal(value, &c.model) != nil {
		return nil, fmt.Errorf("there is no option %q with the value %s", id, value)
	}
	return Options(c.model), nil
}

// Options returns the options of a conversation with a model, which may be empty.
func Options(model string) []acp.ConfigOption {
	if model == "" {
		return nil
	}
	return []acp.ConfigOption{acpagent.SelectOption("model", "Model", acp.CategoryModel, model, []acp.ConfigOptionValue{{Value: model, Name: model}})}
}

// Cancel implements sandbox.AgentSession.
func (c *Conversation) Cancel() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel()
	return nil
}

// Done implements sandbox.AgentSession.
func (c *Conversation) Done() <-chan struct{} { return c.ctx.Done() }

// Err implements sandbox.AgentSession.
func (c *Conversation) Err() error {
	if c.ctx.Err() != nil {
		return errors.New("the conversation was closed")
	}
	return nil
}

// Close implements sandbox.AgentSession.
func (c *Conversation) Close() error {
	c.close()
	return nil
}
