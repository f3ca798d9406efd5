package acp_test

import (
	"context"
	"fmt"
	"net"

	"gander.dev/gander/acp"
)

// echo is the smallest useful agent.
type echo struct{ client *acp.ClientConn }

func (e *echo) Initialize(context.Context, *acp.InitializeRequest) (*acp.InitializeResponse, error) {
	return &acp.InitializeResponse{AgentInfo: &acp.Implementation{Name: "echo", Version: "1"}}, nil
}

func (e *echo) NewSession(context.Context, *acp.NewSessionRequest) (*acp.NewSessionResponse, error) {
	return &acp.NewSessionResponse{SessionID: "only"}, nil
}

func (e *echo) Prompt(ctx context.Context, req *acp.PromptRequest) (*acp.PromptResponse, error) {
	acp.Release(ctx)
	for _, block := range req.Prompt {
		update := acp.MessageChunk(acp.AgentMessageChunk, "m1", "you said "+acp.ParseContentBlock(block).Text)
		if err := e.client.SessionUpdate(ctx, &acp.SessionNotification{SessionID: req.SessionID, Update: update}); err != nil {
			return nil, err
		}
	}
	return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
}

func (e *echo) Cancel(context.Context, *acp.CancelNotification) {}

// printer is a client that prints what it is shown.
type printer struct{}

func (printer) SessionUpdate(_ context.Context, n *acp.SessionNotification) error {
	fmt.Println(string(n.Update))
	return nil
}

func (printer) RequestPermission(context.Context, *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	return acp.CancelledOutcome(), nil
}

// An agent on one end of a stream, a client on the other. A program that an
// editor starts serves its standard input and output instead.
func ExampleServeAgent() {
	ctx := context.Background()
	editor, agent := net.Pipe()
	served := make(chan error)
	go func() {
		served <- acp.ServeAgent(ctx, agent, func(c *acp.ClientConn) acp.Agent { return &echo{c} }, nil)
	}()

	conn := acp.DialAgent(editor, printer{}, nil)
	init, err := conn.Initialize(ctx, &acp.InitializeRequest{ProtocolVersion: acp.ProtocolVersion})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(init.AgentInfo.Name, init.ProtocolVersion)
	session, err := conn.NewSession(ctx, &acp.NewSessionRequest{CWD: "/tmp"})
	if err != nil {
		fmt.Println(err)
		return
	}
	turn, err := conn.Prompt(ctx, &acp.PromptRequest{SessionID: session.SessionID, Prompt: []acp.ContentBlock{acp.TextBlock("hello")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(turn.StopReason)
	_ = conn.Close()
	fmt.Println(<-served)
	// Output:
	// echo 1
	// {"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"you said hello"}}
	// end_turn
	// <nil>
}
