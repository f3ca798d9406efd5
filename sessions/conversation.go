package sessions

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	"gander.dev/gander/acp"
)

// Said is one thing said or done, and when: an Entry of a conversation that
// nothing was left out of.
type Said struct {
	Entry
	Time   time.Time
	TurnID string
}

// Conversation reads all that was said and done in a session, also what agents do
// not get any more: messages as a whole, a tool call as a line when it has ended,
// summaries. What the agent thought is left out. One message is held at a time.
func (s *Store) Conversation(ctx context.Context, id acp.SessionID) iter.Seq2[Said, error] {
	return func(yield func(Said, error) bool) {
		c := conversation{yield: func(said Said) bool { return yield(said, nil) }}
		for r, err := range s.Entries(ctx, id) {
			if err != nil {
				yield(Said{}, err)
				return
			}
			if !c.record(&r) {
				return
			}
		}
		c.endTurn()
	}
}

// conversation puts the pieces together.
type conversation struct {
	yield func(Said) bool
	turn  string
	at    time.Time
	text  strings.Builder // what the agent is saying
	calls []openCall      // of the turn
}

type openCall struct {
	id string
	at time.Time
	toolCall
}

func (c *conversation) record(r *Record) bool {
	if r.TurnID != c.turn && r.TurnID != "" {
		if !c.endTurn() {
			return false
		}
		c.turn = r.TurnID
	}
	switch b := r.Body.(type) {
	case Message:
		return c.flush() && (b.Content == "" || c.say(r.Time, string(b.Role), b.Content))
	case Compaction:
		return c.flush() && c.say(r.Time, EntrySummary, b.Summary)
	case Update:
		for _, u := range b.shown() {
			if !c.update(r.Time, u) {
				return false
			}
		}
	}
	return true
}

func (c *conversation) say(at time.Time, kind, text string) bool {
	return c.yield(Said{Entry{kind, text}, at, c.turn})
}

// flush ends what the agent is saying.
func (c *conversation) flush() bool {
	text := c.text.String()
	c.text.Reset()
	return text == "" || c.say(c.at, string(RoleAssistant), text)
}

// endTurn ends everything; a call that has not ended was cut short.
func (c *conversation) endTurn() bool {
	if !c.flush() {
		return false
	}
	calls := c.calls
	c.calls = nil
	for _, call := range calls {
		if !c.say(call.at, EntryTool, call.line()) {
			return false
		}
	}
	return true
}

func (c *conversation) update(at time.Time, raw json.RawMessage) bool {
	var u sessionUpdate
	switch kind := acp.UpdateKind(raw); kind {
	case acp.AgentMessageChunk:
		if json.Unmarshal(raw, &u) == nil {
			if c.text.Len() == 0 {
				c.at = at
			}
			c.text.WriteString(acp.ParseContentBlock(acp.ContentBlock(u.Content)).Text)
		}
	case "tool_call", "tool_call_update":
		if json.Unmarshal(raw, &u) != nil {
			return true
		}
		return c.flush() && c.call(at, &u)
	}
	return true
}

func (c *conversation) call(at time.Time, u *sessionUpdate) bool {
	i := slices.IndexFunc(c.calls, func(o openCall) bool { return o.id == u.ToolCallID })
	if i < 0 {
		c.calls = append(c.calls, openCall{id: u.ToolCallID, at: at})
		i = len(c.calls) - 1
	}
	c.calls[i].merge(u.toolCall)
	if call := c.calls[i]; call.Status == "completed" || call.Status == "failed" {
		c.calls = slices.Delete(c.calls, i, i+1)
		return c.say(call.at, EntryTool, call.line())
	}
	return true
}
