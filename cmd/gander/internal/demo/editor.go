package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/show"
)

// demoEditor is the editor of the demo: an acp.Client that shows every step.
type demoEditor struct {
	*demo
	began   time.Time
	started chan struct{} // closed when the command of the second prompt runs
	once    sync.Once

	// mu guards the fields below.
	mu      sync.Mutex
	output  strings.Builder // of all tool calls
	pending map[string]json.RawMessage
}

func newDemoEditor(d *demo, began time.Time) *demoEditor {
	return &demoEditor{demo: d, began: began, started: make(chan struct{}), pending: map[string]json.RawMessage{}}
}

// talk is what the editor does.
func (e *demoEditor) talk(ctx context.Context, conn *acp.AgentConn) error {
	e.show.say("editor", "starts: gander acp")
	init, err := conn.Initialize(ctx, &acp.InitializeRequest{
		ProtocolVersion:    acp.ProtocolVersion,
		ClientCapabilities: acp.ClientCapabilities{Session: acp.ClientSessionCapabilities{Notices: json.RawMessage(`{}`)}},
		ClientInfo:         &acp.Implementation{Name: "gander-demo", Version: cli.Version},
	})
	if err != nil {
		return fmt.Errorf("gander acp did not answer initialize: %w", err)
	}
	took := cli.RoundDuration(time.Since(e.began))
	e.show.say("gander", "initialized after %s: %s %s, ACP version %d", took, init.AgentInfo.Name, init.AgentInfo.Version, init.ProtocolVersion)
	e.show.promise(true, "initialize was answered after %s, before any agent started", took)
	session, err := conn.NewSession(ctx, &acp.NewSessionRequest{CWD: e.project(), MCPServers: []json.RawMessage{}})
	if err != nil {
		return fmt.Errorf("gander acp did not open a session: %w", err)
	}
	e.show.say("gander", "opened session %s", session.SessionID)
	if err := e.edit(ctx, conn, session.SessionID); err != nil {
		return err
	}
	return e.stop(ctx, conn, session.SessionID)
}

// edit is the first prompt: commands, an edit, attempts to get out, an answer.
func (e *demoEditor) edit(ctx context.Context, conn *acp.AgentConn, id acp.SessionID) error {
	resp, err := e.prompt(ctx, conn, id, "Please change the greeting.")
	if err != nil {
		return fmt.Errorf("the first prompt failed: %w", err)
	}
	e.show.say("gander", "stop reason: %s", show.Summary(resp, time.Since(e.began)))
	e.checkEdit(resp)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checkInside(e.output.String())
	return nil
}

func (e *demoEditor) prompt(ctx context.Context, conn *acp.AgentConn, id acp.SessionID, text string) (*acp.PromptResponse, error) {
	e.show.gap()
	e.show.say("editor", "prompts: %s", text)
	return conn.Prompt(ctx, &acp.PromptRequest{SessionID: id, Prompt: []acp.ContentBlock{acp.TextBlock(text)}})
}

// stop is the second prompt: a command that tries to stay, and the stop button.
func (e *demoEditor) stop(ctx context.Context, conn *acp.AgentConn, id acp.SessionID) error {
	type answer struct {
		resp *acp.PromptResponse
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		resp, err := e.prompt(ctx, conn, id, "Please run something that takes forever.")
		answered <- answer{resp, err}
	}()
	select {
	case <-e.started:
	case a := <-answered:
		return errors.Join(errors.New("the second prompt ended before it was stopped"), a.err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	running, counted := awaitProcesses(ctx, e.marker)
	e.show.say("editor", "presses stop%s", whileRunning(running, counted))
	pressed := time.Now()
	if err := conn.Cancel(id); err != nil {
		return fmt.Errorf("cancelling: %w", err)
	}
	a := <-answered
	if a.err != nil {
		return fmt.Errorf("the cancelled prompt failed: %w", a.err)
	}
	took := time.Since(pressed)
	e.show.say("gander", "stop reason: %s", show.Summary(a.resp, took))
	e.checkStop(a.resp, took, running, counted)
	return nil
}

// SessionUpdate implements acp.Client: every step is shown as it streams in.
func (e *demoEditor) SessionUpdate(_ context.Context, n *acp.SessionNotification) error {
	var u struct {
		show.Update
		ToolKind string `json:"kind"`
	}
	if json.Unmarshal(n.Update, &u) != nil {
		return nil
	}
	switch u.Kind {
	case string(acp.AgentMessageChunk):
		e.show.stream(e.cell.agent, acp.ParseContentBlock(u.Content).Text)
	case string(acp.AgentThoughtChunk):
		e.show.stream(e.cell.agent+" …", acp.ParseContentBlock(u.Content).Text)
	case "notice":
		e.show.say("gander", "notes: %s", u.Title)
	case "tool_call":
		e.show.say(e.cell.agent, "[%s] %s", u.ToolKind, cli.OneLine(u.Title))
		e.toolUpdate(&u.Update)
	case "tool_call_update":
		e.toolUpdate(&u.Update)
	}
	return nil
}

func (e *demoEditor) toolUpdate(u *show.Update) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(u.Content) > 0 && string(u.Content) != "null" {
		e.pending[u.ToolCallID] = u.Content
	}
	text := show.ToolText(e.pending[u.ToolCallID])
	if u.Status == "in_progress" && strings.Contains(text, "started") {
		e.once.Do(func() { close(e.started) })
	}
	if u.Status != "completed" && u.Status != "failed" {
		return
	}
	delete(e.pending, u.ToolCallID)
	e.output.WriteString(text + "\n")
	for _, line := range cli.Excerpt(text, show.LinesOfFailure) {
		e.show.say("", "  │ %s", line)
	}
	e.show.say("", "  └ %s", u.Status)
}

// RequestPermission implements acp.Client. The person allows what the agent asks
// for: the sandbox holds all the same.
func (e *demoEditor) RequestPermission(_ context.Context, req *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	var call struct {
		Title string `json:"title"`
	}
	_ = json.Unmarshal(req.ToolCall, &call) // without a title it is asked about all the same
	e.show.say("editor", "is asked and allows: %s", cli.OneLine(call.Title))
	return show.Choose(req.Options, "allow_once"), nil
}
