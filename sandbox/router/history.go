package router

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sessions"
)

// historyLimit bounds the conversation that is handed to an agent that does not
// know it, in bytes.
const historyLimit = 64 << 10

// withHistory gives an agent what it does not know of the conversation: all of it
// when it has no memory of its own, else what others have answered since. The
// person is told.
func (t *turn) withHistory(b *backend) []acp.ContentBlock {
	s, name, prompt := t.s, b.agent.Name(), t.expanded()
	s.mu.Lock()
	last, knows := s.last, s.seen[name]
	s.mu.Unlock()
	if last == "" || knows.turn == last {
		return prompt
	}
	h, err := t.history(knows.turn)
	if t.ctx.Err() != nil {
		return prompt // nobody is given it
	}
	if err != nil {
		s.tell("warning", fmt.Sprintf("%s goes on without what was said before: %v.", name, err))
		return prompt
	}
	text := h.String()
	if text == "" {
		return prompt
	}
	if !b.hosted() { // which has the thread for its memory
		t.remark(b, handover(name, knows, h))
	}
	intro := "This conversation began with another agent or another process of yours. What was said and done so far:\n\n"
	if knows.turn != "" {
		intro = "What you remember of this conversation may end before what follows. What was said and done since:\n\n"
	}
	return append([]acp.ContentBlock{acp.TextBlock(intro + text + "\n\nThe person's next message follows.")}, prompt...)
}

// maxLastSaid bounds lastSaid, each in bytes.
const maxLastSaid = 200

// lastSaid is what was said, by the person and by the agent, in the last turn that the
// agent should know: the end of each. It is nil when that cannot be told.
func (s *session) lastSaid(ctx context.Context, a sandbox.Agent) []string {
	s.mu.Lock()
	knows := s.seen[a.Name()]
	s.mu.Unlock()
	if knows.turn == "" || s.transcript.Sync(ctx) != nil {
		return nil
	}
	h, err := s.r.opts.Store.History(ctx, s.id, historyLimit)
	if err != nil {
		return nil // the agent is not to blame
	}
	var words []string
	for _, t := range h.Turns {
		for _, e := range t.Entries {
			text := strings.TrimSpace(e.Text)
			if t.ID == knows.turn && text != "" && (e.Kind == string(sessions.RoleUser) || e.Kind == string(sessions.RoleAssistant)) {
				words = append(words, strings.ToValidUTF8(text[max(0, len(text)-maxLastSaid):], ""))
			}
		}
	}
	return words
}

// handover says what an agent was given.
func handover(name string, knows memory, h *sessions.History) string {
	turns := fmt.Sprintf("%d turns", len(h.Turns))
	if len(h.Turns) == 1 {
		turns = "1 turn"
	}
	if h.OmittedTurns > 0 {
		turns = fmt.Sprintf("the last %s of %d", turns, len(h.Turns)+h.OmittedTurns)
	}
	switch {
	case knows.turn != "":
		return fmt.Sprintf("%s goes on with its own session and was told what may be missing there (%s, tool results shortened).", name, turns)
	case knows.lost:
		return fmt.Sprintf("%s could not go on with its own session; it was given the conversation so far as text (%s, tool results shortened).", name, turns)
	}
	return fmt.Sprintf("%s was given the conversation so far as text (%s, tool results shortened).", name, turns)
}

// remark puts a sentence of gander's own into the thread and the transcript.
func (t *turn) remark(b *backend, text string) {
	update := thought(text)
	t.s.record(t.id, sessions.Update{Sent: []json.RawMessage{update}})
	b.relay.say(update)
}

// history is the conversation between two turns, in words: after the one with the
// id, or from the beginning, until this one.
func (t *turn) history(after string) (*sessions.History, error) {
	if err := t.s.transcript.Sync(t.ctx); err != nil {
		return nil, err
	}
	h, err := t.s.r.opts.Store.History(t.ctx, t.s.id, historyLimit)
	if err != nil {
		return nil, err
	}
	h.Turns = slices.DeleteFunc(h.Turns, func(h sessions.Turn) bool { return h.ID == t.id })
	if i := slices.IndexFunc(h.Turns, func(h sessions.Turn) bool { return h.ID == after }); after != "" && i >= 0 {
		h.Turns, h.OmittedTurns, h.OmittedEntries = h.Turns[i+1:], 0, 0
	}
	return h, nil
}
