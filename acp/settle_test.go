package acp_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/acp"
)

// slowAgent takes its time to open a session and never ends a turn by itself.
type slowAgent struct{}

func (slowAgent) Initialize(context.Context, *acp.InitializeRequest) (*acp.InitializeResponse, error) {
	time.Sleep(20 * time.Millisecond)
	return &acp.InitializeResponse{ProtocolVersion: acp.ProtocolVersion}, nil
}

func (slowAgent) NewSession(ctx context.Context, _ *acp.NewSessionRequest) (*acp.NewSessionResponse, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(50 * time.Millisecond):
		return &acp.NewSessionResponse{SessionID: "opened"}, nil
	}
}

func (slowAgent) Prompt(ctx context.Context, _ *acp.PromptRequest) (*acp.PromptResponse, error) {
	<-ctx.Done()
	return &acp.PromptResponse{StopReason: acp.StopCancelled}, nil
}

func (slowAgent) Cancel(context.Context, *acp.CancelNotification) {}

// script is a client that says everything at once and closes its end.
type script struct {
	io.Reader
	bytes.Buffer
}

func (s *script) Read(p []byte) (int, error) { return s.Reader.Read(p) }
func (s *script) Close() error               { return nil }

// A client may close its end right behind its last request; prompts do not wait.
func TestRequestsBeforeTheEndAreAnswered(t *testing.T) {
	c := &script{Reader: strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}
{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/x","mcpServers":[]}}
{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"x","prompt":[]}}
`)}
	if err := acp.ServeAgent(t.Context(), c, func(*acp.ClientConn) acp.Agent { return slowAgent{} }, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"sessionId":"opened"`, `"stopReason":"cancelled"`} {
		if !strings.Contains(c.String(), want) {
			t.Errorf("no %s in:\n%s", want, c.String())
		}
	}
}
