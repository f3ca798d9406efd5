package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/team/chat"
	"gander.dev/gander/sandbox/team/hosted"
)

// session is a conversation with the orchestrator, whose id threads have in their keys. One turn
// runs at a time.
type session struct {
	*hosted.Conversation
	a      *Agent
	p      sandbox.HostedParams
	chat   *chat.Client
	talk   []chat.Message // of the planner, over turns; of the turn that runs
	plain  bool           // the endpoint takes no tools; of the turn that runs
	holds  int64          // tokens of the planner's conversation, as its model counted them last; of the turn that runs
	office *office
	heard  heard // the agent that plans, where one does

	// mu guards what follows.
	mu      sync.Mutex
	mode    string
	working map[acp.SessionID]*job // the tasks that are worked on
}

// OpenHosted implements sandbox.Hosted.
func (a *Agent) OpenHosted(_ context.Context, p sandbox.HostedParams) (sandbox.AgentSession, error) {
	settings, err := a.o.Settings()
	if err != nil {
		return nil, err
	}
	s := &session{
		Conversation: hosted.Open(p, settings.Model), a: a, p: p, chat: chat.Over(p.Dial, p.ModelToken),
		mode: cmp.Or(p.Mode, ModeAuto), working: map[acp.SessionID]*job{},
	}
	s.office = &office{s: s}
	return s, nil
}

// State implements sandbox.AgentSession.
func (s *session) State() sandbox.AgentState { return stateOf(s.currentMode(), s.Model()) }

func (s *session) currentMode() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode
}

// SetMode implements sandbox.AgentSession.
func (s *session) SetMode(_ context.Context, mode string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains([]string{ModeAuto, ModeAsk, ModePlan}, mode) {
		return fmt.Errorf("there is no mode %q", mode)
	}
	s.mode = mode
	return nil
}

// Close implements sandbox.AgentSession.
func (s *session) Close() error {
	err := s.Conversation.Close()
	s.office.close()
	s.chat.Close()
	return err
}

// Prompt implements sandbox.AgentSession: it runs a turn.
func (s *session) Prompt(ctx context.Context, prompt []acp.ContentBlock) (*acp.PromptResponse, error) {
	ctx, end := s.Turn(ctx)
	defer end()
	r := s.newRun(ctx, prompt)
	defer r.clock.stop()
	resp, err := r.work()
	if ctx.Err() != nil {
		s.forgetOpenCalls()
		return &acp.PromptResponse{StopReason: acp.StopCancelled, Usage: r.usage()}, nil
	}
	if err != nil {
		s.forgetOpenCalls()
		return nil, err
	}
	resp.Usage = r.usage()
	return resp, nil
}

// forgetOpenCalls takes calls without a result out of the planner's conversation, which an
// endpoint would not take: each gets one that says that it was cut short.
func (s *session) forgetOpenCalls() {
	for i := len(s.talk) - 1; i >= 0 && s.talk[i].Role != "user"; i-- {
		if s.talk[i].Role != "assistant" {
			continue
		}
		for _, c := range s.talk[i].Calls {
			if !slices.ContainsFunc(s.talk[i:], func(m chat.Message) bool { return m.ToolCallID == c.ID }) {
				s.talk = append(s.talk, chat.Message{Role: "tool", ToolCallID: c.ID, Content: "This was cut short when the turn ended."})
			}
		}
		return
	}
}

// send shows the person an update.
func (s *session) send(update json.RawMessage) {
	_ = s.p.Client.SessionUpdate(s.Context(), &acp.SessionNotification{Update: update})
}
