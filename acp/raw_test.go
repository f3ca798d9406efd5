package acp_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/acp"
)

// patience is how long to wait for something that should come at once.
const patience = 30 * time.Second

// raw is the other end of a connection, by hand.
type raw struct {
	t     *testing.T
	conn  net.Conn
	lines *bufio.Reader
}

func newRaw(t *testing.T, conn net.Conn) *raw {
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &raw{t: t, conn: conn, lines: bufio.NewReader(conn)}
}

// serveRaw runs an agent whose client is the test. wait returns what ServeAgent did.
func serveRaw(t *testing.T, newAgent func(*acp.ClientConn) acp.Agent, o *acp.Options) (r *raw, wait func() error) {
	client, agent := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- acp.ServeAgent(t.Context(), agent, newAgent, o) }()
	t.Cleanup(func() { _ = client.Close() })
	r = newRaw(t, client)
	return r, func() error {
		select {
		case err := <-served:
			return err
		case <-time.After(patience):
			t.Fatal("ServeAgent did not return")
			return nil
		}
	}
}

func (r *raw) send(format string, args ...any) {
	r.t.Helper()
	if _, err := fmt.Fprintf(r.conn, format+"\n", args...); err != nil {
		r.t.Fatalf("sending: %v", err)
	}
}

// line reads one frame.
func (r *raw) line() string {
	r.t.Helper()
	line, err := r.lines.ReadString('\n')
	if err != nil {
		r.t.Fatalf("receiving: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (r *raw) expect(want string) {
	r.t.Helper()
	if got := r.line(); got != want {
		r.t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// open initializes and opens session s1.
func (r *raw) open() {
	r.t.Helper()
	r.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":1}}`)
	r.line()
	r.send(`{"jsonrpc":"2.0","id":"n","method":"session/new","params":{"cwd":"/","mcpServers":[]}}`)
	r.expect(`{"jsonrpc":"2.0","id":"n","result":{"sessionId":"s1"}}`)
}

func (r *raw) prompt(id int, session, text string) {
	r.t.Helper()
	r.send(`{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":%q}]}}`, id, session, text)
}

// stubAgent is an agent made of functions; its sessions are all s1.
type stubAgent struct {
	client *acp.ClientConn
	prompt func(context.Context, *acp.PromptRequest) (*acp.PromptResponse, error)
	cancel func(*acp.CancelNotification)
	init   func(context.Context) error
	open   func(context.Context) error
}

func (s *stubAgent) new(c *acp.ClientConn) acp.Agent {
	s.client = c
	return s
}

func (s *stubAgent) Initialize(ctx context.Context, _ *acp.InitializeRequest) (*acp.InitializeResponse, error) {
	if s.init != nil {
		return &acp.InitializeResponse{}, s.init(ctx)
	}
	return &acp.InitializeResponse{}, nil
}

func (s *stubAgent) NewSession(ctx context.Context, _ *acp.NewSessionRequest) (*acp.NewSessionResponse, error) {
	if s.open != nil {
		return &acp.NewSessionResponse{SessionID: "s1"}, s.open(ctx)
	}
	return &acp.NewSessionResponse{SessionID: "s1"}, nil
}

func (s *stubAgent) Prompt(ctx context.Context, r *acp.PromptRequest) (*acp.PromptResponse, error) {
	return s.prompt(ctx, r)
}

func (s *stubAgent) Cancel(_ context.Context, n *acp.CancelNotification) {
	if s.cancel != nil {
		s.cancel(n)
	}
}

func (s *stubAgent) say(ctx context.Context, session acp.SessionID, text string) error {
	return s.client.SessionUpdate(ctx, &acp.SessionNotification{
		SessionID: session, Update: acp.MessageChunk(acp.AgentMessageChunk, "", text),
	})
}

func promptText(r *acp.PromptRequest) string { return acp.ParseContentBlock(r.Prompt[0]).Text }

func endTurn() *acp.PromptResponse { return &acp.PromptResponse{StopReason: acp.StopEndTurn} }

// recv waits for a value.
func recv[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}
