package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/team/chat"
)

// session is a conversation with the orchestrator. One turn runs at a time.
type session struct {
	a      *Agent
	p      sandbox.HostedParams
	id     string // the conversation's: threads have it in their keys
	model  string
	chat   *chat.Client
	ctx    context.Context // ends with Close
	stop   context.CancelFunc
	done   chan struct{}
	talk   []chat.Message // of the planner, over turns; of the turn that runs
	plain  bool           // the endpoint takes no tools; of the turn that runs
	holds  int64          // tokens of the planner's conversation, as its model counted them last; of the turn that runs
	office *office
	heard  heard // the agent that plans, where one does

	// mu guards what follows.
	mu      sync.Mutex
	mode    string
	cancel  context.CancelFunc     // of the turn that runs; nil between turns
	working map[acp.SessionID]*job // the tasks that are worked on
}

// OpenHosted implements sandbox.Hosted.
func (a *Agent) OpenHosted(_ context.Context, p sandbox.HostedParams) (sandbox.AgentSession, error) {
	settings, err := a.o.Settings()
	if err != nil {
		return nil, err
	}
	s := &session{
		a: a, p: p, id: p.ResumeID, model: settings.Model, chat: chat.Over(p.Dial, p.ModelToken), done: make(chan struct{}),
		mode: ModeAuto, working: map[acp.SessionID]*job{},
	}
	if s.id == "" {
		s.id = uuid.NewString()
	}
	if p.Model != "" {
		s.model = p.Model
	}
	if p.Mode != "" {
		s.mode = p.Mode
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.office = &office{s: s}
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
	return stateOf(s.mode, s.model)
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

// SetConfigOption implements sandbox.AgentSession. The model is the only option, with one value.
func (s *session) SetConfigOption(_ context.Context, id string, value json.RawMessage) ([]acp.ConfigOption, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id != "model" || json.Unmarshal(value, &s.model) != nil {
		return nil, fmt.Errorf("there is no option %q with the value %s", id, value)
	}
	return stateOf(s.mode, s.model).ConfigOptions, nil
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
		return errors.New("the orchestrator was closed")
	default:
		return nil
	}
}

// Close implements sandbox.AgentSession.
func (s *session) Close() error {
	s.stop()
	s.office.close()
	s.chat.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.done:
	default:
		close(s.done)
	}
	return nil
}

// Prompt implements sandbox.AgentSession: it runs a turn.
func (s *session) Prompt(ctx context.Context, prompt []acp.ContentBlock) (*acp.PromptResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	s.mu.Lock()
	s.cancel = cancel
	mode := s.mode
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.cancel = nil
		s.mu.Unlock()
	}()
	r := s.newRun(ctx, mode, prompt)
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
	_ = s.p.Client.SessionUpdate(s.ctx, &acp.SessionNotification{Update: update})
}
