// Package plain is an agent that is nothing but a model: it runs in gander, has no sandbox and
// no tools, and talks.
package plain

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
	"gander.dev/gander/sandbox/team/chat"
	"gander.dev/gander/sandbox/team/hosted"
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
	return sandbox.AgentState{ConfigOptions: hosted.Options(settings.Model)}
}

// Open implements sandbox.Agent. It is not called.
func (a *Agent) Open(context.Context, sandbox.Sandbox, sandbox.SessionParams) (sandbox.AgentSession, error) {
	panic("an agent that only talks has no sandbox")
}

// session is a conversation. One turn runs at a time.
type session struct {
	*hosted.Conversation
	p            sandbox.HostedParams
	instructions string
	chat         *chat.Client
	talk         []chat.Message // of the turn that runs
}

// OpenHosted implements sandbox.Hosted.
func (a *Agent) OpenHosted(_ context.Context, p sandbox.HostedParams) (sandbox.AgentSession, error) {
	settings, err := a.settings()
	if err != nil {
		return nil, err
	}
	over := chat.Over
	if settings.Messages {
		over = chat.OverMessages
	}
	return &session{Conversation: hosted.Open(p, settings.Model), p: p, instructions: settings.Instructions, chat: over(p.Dial, p.ModelToken)}, nil
}

// State implements sandbox.AgentSession.
func (s *session) State() sandbox.AgentState {
	return sandbox.AgentState{ConfigOptions: hosted.Options(s.Model())}
}

// SetMode implements sandbox.AgentSession.
func (s *session) SetMode(_ context.Context, mode string) error {
	return fmt.Errorf("there is no mode %q: this agent only talks", mode)
}

// Close implements sandbox.AgentSession.
func (s *session) Close() error {
	defer s.chat.Close()
	return s.Conversation.Close()
}

// maxTalk bounds what the model is given of a conversation, in bytes.
const maxTalk = 160 << 10

// Prompt implements sandbox.AgentSession.
func (s *session) Prompt(ctx context.Context, prompt []acp.ContentBlock) (*acp.PromptResponse, error) {
	ctx, end := s.Turn(ctx)
	defer end()
	before := len(s.talk)
	s.talk = append(s.talk, acpagent.MessageOf(prompt))
	messages := chat.Shortened(s.talk, maxTalk)
	if s.instructions != "" {
		messages = append([]chat.Message{{Role: "system", Content: s.instructions}}, messages...)
	}
	turn := s.p.Turn()
	reply, err := s.chat.Ask(ctx, chat.Request{Model: s.Model(), Messages: messages}, func(d chat.Delta) {
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
