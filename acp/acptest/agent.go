package acptest

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"

	"gander.dev/gander/acp"
)

// An Agent is a fake acp.Agent. The zero value opens sessions s1, s2, ... and
// answers every prompt with its own text. It implements every optional ability;
// fields left nil succeed with what they were asked for.
type Agent struct {
	// Capabilities are what it advertises.
	Capabilities acp.AgentCapabilities
	// OnPrompt runs a turn. ctx ends with session/cancel too; a turn that returns
	// its error then is answered StopCancelled.
	OnPrompt func(ctx context.Context, client *acp.ClientConn, req *acp.PromptRequest) (*acp.PromptResponse, error)
	// OnNewSession answers session/new; SessionID is filled in when empty.
	OnNewSession func(ctx context.Context, req *acp.NewSessionRequest) (*acp.NewSessionResponse, error)
	// OnLoadSession answers session/load.
	OnLoadSession func(ctx context.Context, client *acp.ClientConn, req *acp.LoadSessionRequest) (*acp.LoadSessionResponse, error)
	// OnSetMode and OnSetConfigOption answer their methods.
	OnSetMode         func(context.Context, *acp.SetSessionModeRequest) error
	OnSetConfigOption func(context.Context, *acp.SetConfigOptionRequest) ([]acp.ConfigOption, error)

	client *acp.ClientConn

	// mu guards what follows.
	mu       sync.Mutex
	sessions int
	turns    map[acp.SessionID][]context.CancelFunc
	received []string
}

var (
	_ acp.Authenticator      = (*Agent)(nil)
	_ acp.SessionLoader      = (*Agent)(nil)
	_ acp.SessionCloser      = (*Agent)(nil)
	_ acp.ModeSetter         = (*Agent)(nil)
	_ acp.ConfigOptionSetter = (*Agent)(nil)
)

// New is what acp.ServeAgent wants.
func (a *Agent) New(client *acp.ClientConn) acp.Agent {
	a.client = client
	return a
}

// Serve runs the agent on rwc until the test ends.
func (a *Agent) Serve(t testing.TB, rwc io.ReadWriteCloser) { serve(t, rwc, a.New, nil) }

// Received returns the methods that were called, in order.
func (a *Agent) Received() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.received...)
}

func (a *Agent) note(method string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.received = append(a.received, method)
}

// Initialize implements acp.Agent.
func (a *Agent) Initialize(context.Context, *acp.InitializeRequest) (*acp.InitializeResponse, error) {
	a.note(acp.MethodInitialize)
	return &acp.InitializeResponse{
		AgentCapabilities: a.Capabilities,
		AgentInfo:         &acp.Implementation{Name: "fake", Version: "1"},
	}, nil
}

// Authenticate implements acp.Authenticator.
func (a *Agent) Authenticate(context.Context, *acp.AuthenticateRequest) (*acp.AuthenticateResponse, error) {
	a.note(acp.MethodAuthenticate)
	return nil, nil
}

// NewSession implements acp.Agent.
func (a *Agent) NewSession(ctx context.Context, req *acp.NewSessionRequest) (*acp.NewSessionResponse, error) {
	a.note(acp.MethodNewSession)
	resp := &acp.NewSessionResponse{}
	if a.OnNewSession != nil {
		var err error
		if resp, err = a.OnNewSession(ctx, req); err != nil {
			return nil, err
		}
	}
	if resp.SessionID == "" {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.sessions++
		resp.SessionID = acp.SessionID(fmt.Sprintf("s%d", a.sessions))
	}
	return resp, nil
}

// LoadSession implements acp.SessionLoader.
func (a *Agent) LoadSession(ctx context.Context, req *acp.LoadSessionRequest) (*acp.LoadSessionResponse, error) {
	a.note(acp.MethodLoadSession)
	if a.OnLoadSession == nil {
		return nil, acp.SessionNotFound(req.SessionID)
	}
	return a.OnLoadSession(ctx, a.client, req)
}

// CloseSession implements acp.SessionCloser.
func (a *Agent) CloseSession(_ context.Context, req *acp.CloseSessionRequest) (*acp.CloseSessionResponse, error) {
	a.note(acp.MethodCloseSession)
	a.cancel(req.SessionID)
	return nil, nil
}

// SetSessionMode implements acp.ModeSetter.
func (a *Agent) SetSessionMode(ctx context.Context, req *acp.SetSessionModeRequest) (*acp.SetSessionModeResponse, error) {
	a.note(acp.MethodSetSessionMode)
	if a.OnSetMode == nil {
		return nil, nil
	}
	return nil, a.OnSetMode(ctx, req)
}

// SetConfigOption implements acp.ConfigOptionSetter.
func (a *Agent) SetConfigOption(ctx context.Context, req *acp.SetConfigOptionRequest) (*acp.SetConfigOptionResponse, error) {
	a.note(acp.MethodSetConfigOption)
	resp := &acp.SetConfigOptionResponse{ConfigOptions: []acp.ConfigOption{}}
	if a.OnSetConfigOption == nil {
		return resp, nil
	}
	var err error
	resp.ConfigOptions, err = a.OnSetConfigOption(ctx, req)
	return resp, err
}

// Prompt implements acp.Agent.
func (a *Agent) Prompt(ctx context.Context, req *acp.PromptRequest) (*acp.PromptResponse, error) {
	a.note(acp.MethodPrompt)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.mu.Lock()
	if a.turns == nil {
		a.turns = map[acp.SessionID][]context.CancelFunc{}
	}
	a.turns[req.SessionID] = append(a.turns[req.SessionID], cancel)
	a.mu.Unlock()
	acp.Release(ctx)
	resp, err := a.turn(ctx, req)
	if err != nil && ctx.Err() != nil {
		return &acp.PromptResponse{StopReason: acp.StopCancelled}, nil
	}
	return resp, err
}

func (a *Agent) turn(ctx context.Context, req *acp.PromptRequest) (*acp.PromptResponse, error) {
	if a.OnPrompt != nil {
		return a.OnPrompt(ctx, a.client, req)
	}
	for _, block := range req.Prompt {
		update := acp.MessageChunk(acp.AgentMessageChunk, "", acp.ParseContentBlock(block).Text)
		if err := a.client.SessionUpdate(ctx, &acp.SessionNotification{SessionID: req.SessionID, Update: update}); err != nil {
			return nil, err
		}
	}
	return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
}

// Cancel implements acp.Agent.
func (a *Agent) Cancel(_ context.Context, n *acp.CancelNotification) {
	a.note(acp.MethodCancel)
	a.cancel(n.SessionID)
}

func (a *Agent) cancel(session acp.SessionID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, end := range a.turns[session] {
		end()
	}
	delete(a.turns, session)
}
