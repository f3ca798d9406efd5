// Package plain is an agent that is nothing but a model: it runs in gander, has no sandbox and
// no tools, and talks.
package plain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/uuid"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
	"gander.dev/gander/sandbox/team/chat"
)

// Settings are those of an agent.
type Settings struct {
	Model        string
	Instructions string // told to the model first
	// Messages says that its endpoint speaks Anthropic's protocol.
	Messages bool
}

// Agent talks by a model. It implements sandbox.Hosted.
type Agent struct {
	name     string
	settings func() (Settings, error)
}

var _ sandbox.Hosted = (*Agent)(nil)

// New returns an agent, which asks for its settings each time it needs them.
func New(name string, settings func() (Settings, error)) *Agent { return &Agent{name, settings} }

// Name implements sandbox.Agent.
func (a *Agent) Name() string { return a.name }

// Check implements sandbox.Agent.
func (a *Agent) Check(context.Context) error {
	_, err := a.settings()
	return err
}

// Mounts implements sandbox.Agent.
func (a *Agent) Mounts() []sandbox.Mount { return nil }

// Defaults implements sandbox.Agent.
func (a *Agent) Defaults() sandbox.AgentState {
	settings, _ := a.settings() // Check says what is wrong
	return stateOf(settings.Model)
}

func stateOf(model string) sandbox.AgentState {
	if model == "" {
		return sandbox.AgentState{}
	}
	option := acpagent.SelectOption("model", "Model", acp.CategoryModel, model, []acp.ConfigOptionValue{{Value: model, Name: model}})
	return sandbox.AgentState{ConfigOptions: []acp.ConfigOption{option}}
}

// Open implements sandbox.Agent. It is not called.
func (a *Agent) Open(context.Context, sandbox.Sandbox, sandbox.SessionParams) (sandbox.AgentSession, error) {
	panic("an agent that only talks has no sandbox")
}

// session is a conversation. One turn runs at a time.
type session struct {
	p            sandbox.HostedParams
	id           string
	instructions string
	chat         *chat.Client
	done         chan struct{}
	talk         []chat.Message // of the turn that runs

	// mu guards what follows.
	mu     sync.Mutex
	model  string
	cancel context.CancelFunc // of the turn that runs; nil between turns
	closed bool
}

// OpenHosted implements sandbox.Hosted.
func (a *Agent) OpenHosted(_ context.Context, p sandbox.HostedParams) (sandbox.AgentSession, error) {
	settings, err := a.settings()
	if err != nil {
		return nil, err
	}
	s := &session{p: p, id: p.ResumeID, instructions: settings.Instructions, model: settings.Model, done: make(chan struct{})}
	s.chat = chat.Over(p.Dial, p.ModelToken)
	if settings.Messages {
		s.chat = chat.OverMessages(p.Dial, p.ModelToken)
	}
	if s.id == "" {
		s.id = uuid.NewString()
	}
	if p.Model != "" {
		s.model = p.Model
	}
	return s, nil
}

// ID implements sandbox.AgentSession.
func (s *session) ID() string { return s.id }

// Resumed implements sandbox.AgentSession: what was said before it has to be told.
func (s *session) Resumed() bool { return false }

// State implements sandbox.AgentSession.
func (s *session) State() sandbox.AgentState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return stateOf(s.model)
}

// SetMode implements sandbox.AgentSession.
func (s *session) SetMode(_ context.Context, mode string) error {
	return fmt.Errorf("there is no mode %q: this agent only talks", mode)
}

// SetConfigOption implements sandbox.AgentSession. The model is the only option, with one value.
func (s *session) SetConfigOption(_ context.Context, id string, value json.RawMessage) ([]acp.ConfigOption, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id != "model" || json.Unmarshal(value, &s.model) != nil {
		return nil, fmt.Errorf("there is no option %q with the value %s", id, value)
	}
	return stateOf(s.model).ConfigOptions, nil
}

// Cancel implements sandbox.AgentSession.
func (s *session) Cancel() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel()
	}
	return nil
}

// Done implements sandbox.AgentSession.
func (s *session) Done() <-chan struct{} { return s.done }

// Err implements sandbox.AgentSession.
func (s *session) Err() error {
	select {
	case <-s.done:
		return errors.New("the conversation was closed")
	default:
		return nil
	}
}

// Close implements sandbox.AgentSession.
func (s *session) Close() error {
	_ = s.Cancel()
	s.chat.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	return nil
}

// maxTalk bounds what the model is given of a conversation, in bytes.
const maxTalk = 160 << 10

// Prompt implements sandbox.AgentSession.
func (s *session) Prompt(ctx context.Context, prompt []acp.ContentBlock) (*acp.PromptResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.cancel = cancel
	model, closed := s.model, s.closed
	s.mu.Unlock()
	if closed {
		return nil, s.Err()
	}
	defer func() {
		s.mu.Lock()
		s.cancel = nil
		s.mu.Unlock()
	}()
	before := len(s.talk)
	s.talk = append(s.talk, acpagent.MessageOf(prompt))
	messages := chat.Shortened(s.talk, maxTalk)
	if s.instructions != "" {
		messages = append([]chat.Message{{Role: "system", Content: s.instructions}}, messages...)
	}
	turn := s.p.Turn()
	reply, err := s.chat.Ask(ctx, chat.Request{Model: model, Messages: messages}, func(d chat.Delta) {
		if d.Reasoning != "" {
			s.send(acp.MessageChunk(acp.AgentThoughtChunk, turn+"-thought", d.Reasoning))
		}
		if d.Text != "" {
			s.send(acp.MessageChunk(acp.AgentMessageChunk, turn+"-said", d.Text))
		}
	})
	if err != nil {
		s.talk = s.talk[:before]
		if ctx.Err() != nil {
			return &acp.PromptResponse{StopReason: acp.StopCancelled}, nil
		}
		return nil, err
	}
	s.talk = append(s.talk, chat.Message{Role: "assistant", Content: reply.Content})
	resp := &acp.PromptResponse{StopReason: stopReason(reply.Finish)}
	if used := max(reply.Usage.Total, reply.Usage.Input+reply.Usage.Output); used > 0 {
		resp.Usage, _ = json.Marshal(acp.Usage{TotalTokens: uint64(used), InputTokens: uint64(reply.Usage.Input), OutputTokens: uint64(reply.Usage.Output)}) // numbers always marshal
		s.send(acp.WithFields(json.RawMessage(`{"sessionUpdate":"usage_update"}`), map[string]any{"used": used, "size": max(used, maxTalk/chat.BytesOfToken)}))
	}
	return resp, nil
}

// send shows the person an update.
func (s *session) send(update json.RawMessage) {
	_ = s.p.Client.SessionUpdate(context.Background(), &acp.SessionNotification{Update: update})
}

// stopReason is the model's reason for ending as ACP has it.
func stopReason(finish string) acp.StopReason {
	switch strings.ToLower(finish) {
	case "length", "max_tokens":
		return acp.StopMaxTokens
	case "content_filter", "refusal":
		return acp.StopRefusal
	}
	return acp.StopEndTurn
}
