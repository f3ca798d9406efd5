package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	acp "github.com/coder/acp-go-sdk"
)

// goClient is an editor made of coder/acp-go-sdk, the protocol's library in Go: it
// decodes strictly, logs what it drops, and keeps responses behind the
// notifications that came before them.
type goClient struct {
	conn    *acp.ClientSideConnection
	process *exec.Cmd
	stdin   io.Closer
	log     *lockedBuffer
	// asked takes the agent's questions, and answers gives what the person says.
	asked   chan acp.RequestPermissionRequest
	answers chan acp.RequestPermissionOutcome

	// mu guards what follows.
	mu      sync.Mutex
	said    strings.Builder
	tools   map[acp.ToolCallId]acp.ToolCallStatus
	output  strings.Builder // of tools, as it came
	changed chan struct{}   // closed and replaced at every update
}

// lockedBuffer is a bytes.Buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startGoClient starts gander below it. When the test ends gander has to end well,
// and the SDK must not have had anything to log.
func startGoClient(t *testing.T, w *world) *goClient {
	t.Helper()
	c := &goClient{
		log: new(lockedBuffer), asked: make(chan acp.RequestPermissionRequest), answers: make(chan acp.RequestPermissionOutcome),
		tools: map[acp.ToolCallId]acp.ToolCallStatus{}, changed: make(chan struct{}),
	}
	command := w.acp()
	c.process = exec.Command(command[0], command[1:]...)
	for name, value := range w.ganderEnv(nil) {
		c.process.Env = append(c.process.Env, name+"="+value)
	}
	complaints := new(lockedBuffer)
	c.process.Stderr = complaints
	stdin, err := c.process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.process.Start(); err != nil {
		t.Fatal(err)
	}
	c.stdin = stdin
	c.conn = acp.NewClientSideConnection(c, stdin, stdout)
	c.conn.SetLogger(slog.New(slog.NewTextHandler(c.log, nil)))
	t.Cleanup(func() { c.end(t, complaints) })
	return c
}

func (c *goClient) end(t *testing.T, complaints *lockedBuffer) {
	logged := c.log.String() // before the end, which it logs
	_ = c.stdin.Close()
	late := time.AfterFunc(patience, func() { _ = c.process.Process.Kill() })
	defer late.Stop()
	<-c.conn.Done()
	if err := c.process.Wait(); err != nil {
		t.Errorf("gander: %v", err)
	}
	if logged != "" {
		t.Errorf("the SDK complains: %s", logged)
	}
	if t.Failed() {
		t.Logf("stderr of gander: %s", complaints)
	}
}

func (c *goClient) SessionUpdate(_ context.Context, n acp.SessionNotification) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch u := n.Update; {
	case u.AgentMessageChunk != nil && u.AgentMessageChunk.Content.Text != nil:
		c.said.WriteString(u.AgentMessageChunk.Content.Text.Text)
	case u.ToolCall != nil:
		c.tools[u.ToolCall.ToolCallId] = u.ToolCall.Status
	case u.ToolCallUpdate != nil:
		if u.ToolCallUpdate.Status != nil {
			c.tools[u.ToolCallUpdate.ToolCallId] = *u.ToolCallUpdate.Status
		}
		for _, part := range u.ToolCallUpdate.Content {
			if part.Content != nil && part.Content.Content.Text != nil {
				c.output.WriteString(part.Content.Content.Text.Text)
			}
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
	return nil
}

func (c *goClient) RequestPermission(ctx context.Context, r acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	select {
	case c.asked <- r:
	case <-ctx.Done():
		return acp.RequestPermissionResponse{}, ctx.Err()
	}
	select {
	case outcome := <-c.answers:
		return acp.RequestPermissionResponse{Outcome: outcome}, nil
	case <-ctx.Done():
		return acp.RequestPermissionResponse{}, ctx.Err()
	}
}

// The rest of acp.Client is of a client that offers neither files nor terminals.

var errNotOffered = errors.New("this client offers no files and no terminals")

func (c *goClient) ReadTextFile(context.Context, acp.ReadTextFileRequest) (acp.ReadTextFileResponse, error) {
	return acp.ReadTextFileResponse{}, errNotOffered
}

func (c *goClient) WriteTextFile(context.Context, acp.WriteTextFileRequest) (acp.WriteTextFileResponse, error) {
	return acp.WriteTextFileResponse{}, errNotOffered
}

func (c *goClient) CreateTerminal(context.Context, acp.CreateTerminalRequest) (acp.CreateTerminalResponse, error) {
	return acp.CreateTerminalResponse{}, errNotOffered
}

func (c *goClient) KillTerminal(context.Context, acp.KillTerminalRequest) (acp.KillTerminalResponse, error) {
	return acp.KillTerminalResponse{}, errNotOffered
}

func (c *goClient) TerminalOutput(context.Context, acp.TerminalOutputRequest) (acp.TerminalOutputResponse, error) {
	return acp.TerminalOutputResponse{}, errNotOffered
}

func (c *goClient) ReleaseTerminal(context.Context, acp.ReleaseTerminalRequest) (acp.ReleaseTerminalResponse, error) {
	return acp.ReleaseTerminalResponse{}, errNotOffered
}

func (c *goClient) WaitForTerminalExit(context.Context, acp.WaitForTerminalExitRequest) (acp.WaitForTerminalExitResponse, error) {
	return acp.WaitForTerminalExitResponse{}, errNotOffered
}

// open greets the agent and opens a session.
func (c *goClient) open(t *testing.T, cwd string) acp.NewSessionResponse {
	t.Helper()
	init, err := c.conn.Initialize(soon(t), acp.InitializeRequest{
		ProtocolVersion: acp.ProtocolVersionNumber, ClientInfo: &acp.Implementation{Name: "gander-e2e", Version: "1"},
	})
	if err != nil || init.ProtocolVersion != acp.ProtocolVersionNumber || init.AgentInfo == nil || init.AgentInfo.Name == "" {
		t.Fatalf("initialize: %+v, %v", init, err)
	}
	s, err := c.conn.NewSession(soon(t), acp.NewSessionRequest{Cwd: cwd, McpServers: []acp.McpServer{}})
	if err != nil || s.SessionId == "" {
		t.Fatalf("session/new: %+v, %v", s, err)
	}
	return s
}

// goTurn is a prompt that was sent.
type goTurn struct {
	response acp.PromptResponse
	err      error
	ended    chan struct{}
}

func (c *goClient) prompt(t *testing.T, id acp.SessionId, steps ...step) *goTurn {
	t.Helper()
	text := script(t, steps...)
	turn := &goTurn{ended: make(chan struct{})}
	ctx := soon(t)
	go func() {
		defer close(turn.ended)
		turn.response, turn.err = c.conn.Prompt(ctx, acp.PromptRequest{SessionId: id, Prompt: []acp.ContentBlock{acp.TextBlock(text)}})
	}()
	return turn
}

func (turn *goTurn) done(t *testing.T, want acp.StopReason) {
	t.Helper()
	<-turn.ended
	if turn.err != nil || turn.response.StopReason != want {
		t.Fatalf("the prompt ends with %q, %v; want %q", turn.response.StopReason, turn.err, want)
	}
}

// await waits until is, which is asked with mu held, is true.
func (c *goClient) await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for ctx := soon(t); ; {
		c.mu.Lock()
		ok, changed := is(), c.changed
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// question waits for the agent to ask.
func (c *goClient) question(t *testing.T) acp.RequestPermissionRequest {
	t.Helper()
	select {
	case q := <-c.asked:
		return q
	case <-soon(t).Done():
		t.Fatal("the agent does not ask")
		panic("unreachable")
	}
}

// choice is the answer that takes the first option of a kind.
func choice(t *testing.T, q acp.RequestPermissionRequest, kind acp.PermissionOptionKind) acp.RequestPermissionOutcome {
	t.Helper()
	i := slices.IndexFunc(q.Options, func(o acp.PermissionOption) bool { return o.Kind == kind })
	if i < 0 {
		t.Fatalf("there is no option %s in %+v", kind, q.Options)
	}
	return acp.RequestPermissionOutcome{Selected: &acp.RequestPermissionOutcomeSelected{Outcome: "selected", OptionId: q.Options[i].OptionId}}
}

var cancelledOutcome = acp.RequestPermissionOutcome{Cancelled: &acp.RequestPermissionOutcomeCancelled{Outcome: "cancelled"}}

// The SDK's client prompts, is asked, cancels and chooses.
func TestGoSDK(t *testing.T) {
	inCells(t, testGoSDK)
}

func testGoSDK(t *testing.T, w *world) {
	c := startGoClient(t, w)
	project := w.mkdir("project")
	s := c.open(t, project)

	c.prompt(t, s.SessionId, w.shell("echo seen"), says("it is done")).done(t, acp.StopReasonEndTurn)
	c.mu.Lock()
	if !strings.Contains(c.said.String(), "it is done") || !strings.Contains(c.output.String(), "seen") {
		t.Errorf("when the prompt has ended, said is %q, printed %q", c.said.String(), c.output.String())
	}
	for id, status := range c.tools {
		if status != acp.ToolCallStatusCompleted {
			t.Errorf("the tool call %s ends as %s", id, status)
		}
	}
	c.mu.Unlock()

	t.Run("options", func(t *testing.T) { c.options(t, w, s) })
	t.Run("permissions", func(t *testing.T) { c.permissions(t, w, s, project) })
	t.Run("cancel", func(t *testing.T) { c.cancels(t, w, s) })
	t.Run("errors", func(t *testing.T) { c.errors(t, w, s) })
}

// options sets the mode that asks, by its config option.
func (c *goClient) options(t *testing.T, w *world, s acp.NewSessionResponse) {
	var ids []string
	for _, o := range s.ConfigOptions {
		if o.Select == nil {
			t.Fatalf("an option that is no select: %+v", o)
		}
		ids = append(ids, string(o.Select.Id))
	}
	for _, want := range []string{"model", "mode", "agent", "sandbox"} {
		if !slices.Contains(ids, want) {
			t.Errorf("there is no option %s in %q", want, ids)
		}
	}
	set, err := c.conn.SetSessionConfigOption(soon(t), acp.SetSessionConfigOptionRequest{ValueId: &acp.SetSessionConfigOptionValueId{
		SessionId: s.SessionId, ConfigId: "mode", Value: acp.SessionConfigValueId(w.cell.asks),
	}})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(set.ConfigOptions, func(o acp.SessionConfigOption) bool { return o.Select != nil && o.Select.Id == "mode" })
	if i < 0 || string(set.ConfigOptions[i].Select.CurrentValue) != w.cell.asks {
		t.Errorf("the mode was set, and the options are %+v", set.ConfigOptions)
	}
}

// permissions allows, rejects, declines and cancels.
func (c *goClient) permissions(t *testing.T, w *world, s acp.NewSessionResponse, project string) {
	for _, tt := range []struct {
		name   string
		answer func(q acp.RequestPermissionRequest) acp.RequestPermissionOutcome
		runs   bool
		want   acp.StopReason
	}{
		{"allowed", func(q acp.RequestPermissionRequest) acp.RequestPermissionOutcome {
			return choice(t, q, acp.PermissionOptionKindAllowOnce)
		}, true, acp.StopReasonEndTurn},
		{"rejected", func(q acp.RequestPermissionRequest) acp.RequestPermissionOutcome {
			return choice(t, q, acp.PermissionOptionKindRejectOnce)
		}, false, acp.StopReasonEndTurn},
		{"cancelled", func(acp.RequestPermissionRequest) acp.RequestPermissionOutcome {
			if err := c.conn.Cancel(soon(t), acp.CancelNotification{SessionId: s.SessionId}); err != nil {
				t.Error(err)
			}
			return cancelledOutcome // as the protocol asks of clients
		}, false, acp.StopReasonCancelled},
	} {
		file := project + "/" + tt.name
		turn := c.prompt(t, s.SessionId, w.shell("touch "+tt.name), says("went on"))
		select {
		case c.answers <- tt.answer(c.question(t)):
		case <-turn.ended: // by the cancel, which withdraws the question
		}
		turn.done(t, tt.want)
		if _, err := os.Stat(file); (err == nil) != tt.runs {
			t.Errorf("%s, and the command was run: %v", tt.name, err == nil)
		}
	}
}

// cancels ends a command that runs; the session goes on after it.
func (c *goClient) cancels(t *testing.T, w *world, s acp.NewSessionResponse) {
	if _, err := c.conn.SetSessionMode(soon(t), acp.SetSessionModeRequest{SessionId: s.SessionId, ModeId: acp.SessionModeId(w.cell.free)}); err != nil {
		t.Fatal(err)
	}
	m := mark(t, 0)
	turn := c.prompt(t, s.SessionId, w.markedCommand(m, escapes[0].command))
	c.await(t, "the command to run", func() bool { return strings.Contains(c.output.String(), "ready") })
	if err := c.conn.Cancel(soon(t), acp.CancelNotification{SessionId: s.SessionId}); err != nil {
		t.Fatal(err)
	}
	turn.done(t, acp.StopReasonCancelled)
	if left := marked(t, m); len(left) > 0 {
		t.Errorf("after the cancelled turn there is still %v", left)
	}
	c.prompt(t, s.SessionId, says("goes on")).done(t, acp.StopReasonEndTurn)
}

// errors are told with the protocol's codes and a sentence.
func (c *goClient) errors(t *testing.T, w *world, s acp.NewSessionResponse) {
	_, unknownSession := c.conn.Prompt(soon(t), acp.PromptRequest{SessionId: "nobody", Prompt: []acp.ContentBlock{acp.TextBlock("hello")}})
	_, unknownMode := c.conn.SetSessionMode(soon(t), acp.SetSessionModeRequest{SessionId: s.SessionId, ModeId: "no-such-mode"})
	_, unknownOption := c.conn.SetSessionConfigOption(soon(t), acp.SetSessionConfigOptionRequest{ValueId: &acp.SetSessionConfigOptionValueId{
		SessionId: s.SessionId, ConfigId: "no-such-option", Value: "x",
	}})
	_, relative := c.conn.NewSession(soon(t), acp.NewSessionRequest{Cwd: "not/absolute", McpServers: []acp.McpServer{}})
	for what, tt := range map[string]struct {
		err  error
		code int
		word string
	}{
		"an unknown session": {unknownSession, -32002, "nobody"},
		"an unknown mode":    {unknownMode, -32602, "no-such-mode"},
		"an unknown option":  {unknownOption, -32602, "no-such-option"},
		"a relative project": {relative, -32602, "not/absolute"},
	} {
		e, ok := errors.AsType[*acp.RequestError](tt.err)
		if !ok {
			t.Errorf("%s: %v", what, tt.err)
			continue
		}
		if e.Code != tt.code || !strings.Contains(e.Error(), tt.word) {
			t.Errorf("%s: %v, want code %d and the word %q", what, e, tt.code, tt.word)
		}
	}
}
