package orchestrator

import (
	"errors"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/team/chat"
)

// A task is a child session where the editor shows such: it sees there what the agent does,
// answers what it asks, and may cancel it alone. No tool call stands for it then.

// announce tells of the child session, which begins to work, and what it was given.
func (j *job) announce() {
	j.child = true
	j.tell(&acp.ChildState{State: acp.ChildRunning})
	j.r.s.send(update("session_message", map[string]any{
		"messageId": j.call, "senderSessionId": j.r.s.ID(), "recipientSessionId": j.thread.id,
		"content": []any{acp.TextBlock(chat.Cut(j.request, maxShownAnswer))},
	}))
}

// tell says what is known of the child session.
func (j *job) tell(state *acp.ChildState) {
	raw, _ := acp.ChildUpdate{ // which always marshals
		SessionID: j.thread.id, Title: j.a.Target + " · " + j.thread.task, Description: firstLine(j.a.Message), CWD: j.r.s.p.WorkingDir,
		Capabilities: &acp.ChildCapabilities{Cancel: &acp.Supported{}}, State: state,
	}.MarshalJSON()
	j.r.s.send(raw)
}

// conclude tells of the end of the work in the child session.
func (j *job) conclude(o outcome) {
	state := &acp.ChildState{State: acp.ChildIdle, StopReason: acp.StopError}
	if o.resp != nil {
		state.StopReason, state.Usage = o.resp.StopReason, o.resp.Usage
	}
	if o.resp == nil {
		how, _ := j.ended(o)
		state.Error = acp.Internal(how, nil)
	}
	j.tell(state)
}

// CancelChild cancels the task that is worked on in a child session, and nothing else.
func (s *session) CancelChild(id acp.SessionID) error {
	s.mu.Lock()
	j := s.working[id]
	s.mu.Unlock()
	if j == nil {
		return errors.New("there is no task in that session now")
	}
	j.cancel()
	return nil
}
