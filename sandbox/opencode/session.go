package opencode

import (
	"context"
	"errors"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// session is a conversation with opencode.
type session struct {
	*acpagent.Session
	client  *client
	notices []string
}

// State implements sandbox.AgentSession.
func (s *session) State() sandbox.AgentState {
	state := s.Session.State()
	state.Notices = append(state.Notices[:len(state.Notices):len(state.Notices)], s.notices...)
	return state
}

// errNothing is what opencode does with a command it does not know: it ends the
// turn without having asked the model.
var errNothing = errors.New("opencode ended the turn without asking the model; put the prompt in other words")

// Prompt implements sandbox.AgentSession.
func (s *session) Prompt(ctx context.Context, prompt []acp.ContentBlock) (*acp.PromptResponse, error) {
	s.client.mend.begin()
	command := commandName(prompt)
	known := command != "" && s.client.knows(ctx, command)
	if command != "" && !known {
		prompt = guard(prompt)
	}
	resp, err := s.Session.Prompt(ctx, prompt)
	s.client.children.settle()
	if err == nil && !known && resp.StopReason == acp.StopEndTurn && resp.Usage == nil {
		return nil, errNothing
	}
	return resp, err
}

// Cancel implements sandbox.AgentSession.
func (s *session) Cancel() error {
	s.client.children.cancelled()
	return s.Session.Cancel()
}

// CancelChild cancels the work of a sub-agent.
func (s *session) CancelChild(id acp.SessionID) error { return s.client.children.cancelChild(id) }
