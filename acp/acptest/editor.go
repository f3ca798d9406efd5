package acptest

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/acp"
)

// patience is how long to wait for something that should come at once.
const patience = 30 * time.Second

// An Editor is an acp.Client that records updates. The zero value is an editor
// that allows everything; NewEditor connects one.
type Editor struct {
	// Permission answers permission requests; nil selects the first option that
	// allows, and otherwise cancels.
	Permission func(context.Context, *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error)
	// Request answers the agent's other requests; nil declines them.
	Request func(ctx context.Context, method string, params json.RawMessage) (any, error)
	// OnUpdate, when set, is called with each update before it is recorded.
	OnUpdate func(*acp.SessionNotification)
	// Conn is the agent, for an Editor made by NewEditor.
	Conn *acp.AgentConn

	// mu guards what follows.
	mu      sync.Mutex
	updates []acp.SessionNotification
	asked   []acp.RequestPermissionRequest
	changed chan struct{} // closed and replaced when updates or asked grow
}

// NewEditor connects an editor to an agent of its own and initializes it with
// capabilities. Everything ends with the test.
func NewEditor(t testing.TB, newAgent func(*acp.ClientConn) acp.Agent, capabilities acp.ClientCapabilities, o *acp.Options) *Editor {
	t.Helper()
	client, agent := Pipe(t)
	serve(t, agent, newAgent, o)
	e := &Editor{}
	e.Conn = acp.DialAgent(client, e, nil)
	t.Cleanup(func() { _ = e.Conn.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := e.Conn.Initialize(ctx, &acp.InitializeRequest{
		ProtocolVersion: acp.ProtocolVersion, ClientCapabilities: capabilities,
		ClientInfo: &acp.Implementation{Name: "acptest", Version: "1"},
	})
	if err != nil {
		t.Fatalf("initialize: %v", err)
	}
	return e
}

// NewSession opens a session in dir and fails the test when it cannot.
func (e *Editor) NewSession(t testing.TB, dir string) *acp.NewSessionResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := e.Conn.NewSession(ctx, &acp.NewSessionRequest{CWD: dir})
	if err != nil {
		t.Fatalf("session/new: %v", err)
	}
	return resp
}

// Prompt sends text and waits for the end of the turn.
func (e *Editor) Prompt(ctx context.Context, session acp.SessionID, text string) (*acp.PromptResponse, error) {
	return e.Conn.Prompt(ctx, &acp.PromptRequest{SessionID: session, Prompt: []acp.ContentBlock{acp.TextBlock(text)}})
}

// SessionUpdate implements acp.Client.
func (e *Editor) SessionUpdate(_ context.Context, n *acp.SessionNotification) error {
	if e.OnUpdate != nil {
		e.OnUpdate(n)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updates = append(e.updates, *n)
	e.announce()
	return nil
}

// RequestPermission implements acp.Client.
func (e *Editor) RequestPermission(ctx context.Context, r *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	e.mu.Lock()
	e.asked = append(e.asked, *r)
	e.announce()
	e.mu.Unlock()
	if e.Permission != nil {
		return e.Permission(ctx, r)
	}
	for _, o := range r.Options {
		if strings.HasPrefix(o.Kind, "allow") {
			return Selected(o.OptionID), nil
		}
	}
	return acp.CancelledOutcome(), nil
}

// HandleRequest implements acp.RequestHandler.
func (e *Editor) HandleRequest(ctx context.Context, method string, params json.RawMessage) (any, error) {
	if e.Request == nil {
		return nil, acp.ErrMethodNotFound
	}
	return e.Request(ctx, method, params)
}

// Selected is the answer that chooses an option.
func Selected(optionID string) *acp.RequestPermissionResponse {
	return &acp.RequestPermissionResponse{Outcome: acp.PermissionOutcome{Outcome: "selected", OptionID: optionID}}
}

// announce wakes Wait. e.mu is held.
func (e *Editor) announce() {
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

// Updates returns what arrived for a session, in order; for "" all sessions.
func (e *Editor) Updates(session acp.SessionID) []json.RawMessage {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []json.RawMessage
	for _, n := range e.updates {
		if session == "" || n.SessionID == session {
			out = append(out, n.Update)
		}
	}
	return out
}

// Kinds returns the kinds of the updates of a session, in order.
func (e *Editor) Kinds(session acp.SessionID) []string {
	var kinds []string
	for _, u := range e.Updates(session) {
		kinds = append(kinds, acp.UpdateKind(u))
	}
	return kinds
}

// Text returns the text of a session's chunks of one kind, joined.
func (e *Editor) Text(session acp.SessionID, kind string) string {
	var b strings.Builder
	for _, u := range e.Updates(session) {
		var c struct {
			Content json.RawMessage `json:"content"`
		}
		if acp.UpdateKind(u) == kind && json.Unmarshal(u, &c) == nil {
			b.WriteString(acp.ParseContentBlock(c.Content).Text)
		}
	}
	return b.String()
}

// Asked returns the permission requests so far.
func (e *Editor) Asked() []acp.RequestPermissionRequest {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]acp.RequestPermissionRequest(nil), e.asked...)
}

// Wait returns when done reports true, which it is asked again after every
// update and permission request; it fails the test when that takes too long.
func (e *Editor) Wait(t testing.TB, what string, done func() bool) {
	t.Helper()
	late := time.After(patience)
	for {
		e.mu.Lock()
		if e.changed == nil {
			e.changed = make(chan struct{})
		}
		changed := e.changed
		e.mu.Unlock()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("waited in vain for %s; updates so far: %s", what, e.Updates(""))
		}
	}
}
