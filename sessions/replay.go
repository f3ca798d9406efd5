package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"iter"

	"gander.dev/gander/acp"
)

// Replay reads a session as the updates that show it to a client again: prompts
// as user_message_chunk, one per content block, and what the client was sent of
// messages, thoughts, tool calls with their content, plans; compactions as a
// thought. What is only about a moment (modes, options, commands, usage,
// questions) is left out, and so is a torn end and what a [Rewind] took back. Compacted and pruned messages are
// shown: only agents do without them.
//
// With a limit only the last items are replayed; an item is a prompt, a message
// or thought with all its pieces, a tool call with its updates, a plan. 0 means
// all. One record is held at a time, whatever the length.
func (s *Store) Replay(ctx context.Context, id acp.SessionID, limit int) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for n, err := range s.limited(ctx, id, limit, false) {
			if !yield(n.Update, err) {
				return
			}
		}
	}
}

// ReplayWithChildren is Replay for a client that knows child sessions: each update with the
// session that it is in. A child is an item.
func (s *Store) ReplayWithChildren(ctx context.Context, id acp.SessionID, limit int) iter.Seq2[acp.SessionNotification, error] {
	return s.limited(ctx, id, limit, true)
}

func (s *Store) limited(ctx context.Context, id acp.SessionID, limit int, children bool) iter.Seq2[acp.SessionNotification, error] {
	return func(yield func(acp.SessionNotification, error) bool) {
		skip := 0
		if limit > 0 {
			r := replay{children: children}
			for _, err := range s.replay(ctx, id, &r) {
				if err != nil {
					yield(acp.SessionNotification{}, err)
					return
				}
			}
			skip = max(0, r.items-limit)
		}
		for n, err := range s.replay(ctx, id, &replay{skip: skip, children: children}) {
			if !yield(n, err) {
				return
			}
		}
	}
}

// replay counts items and leaves the first ones out.
type replay struct {
	skip, items int
	turn        string
	last        string // what the last update was a piece of
	seed        maphash.Seed
	shown       map[uint64]bool // the turn's tool calls: whether they are shown

	children bool                   // they are shown as sessions
	known    map[acp.SessionID]bool // those that are shown
}

// maxReplayedCalls bounds the tool calls of a turn whose updates are told from those of
// others; of more all are forgotten. Models choose their number, and how long ids are.
const maxReplayedCalls = 1 << 16

func (s *Store) replay(ctx context.Context, id acp.SessionID, r *replay) iter.Seq2[acp.SessionNotification, error] {
	return func(yield func(acp.SessionNotification, error) bool) {
		var taken left
		if f, err := s.fold(ctx, id); err == nil { // one without a header is shown as a whole
			taken.spans = f.Left
		}
		for rec, err := range s.Entries(ctx, id) {
			if err != nil {
				yield(acp.SessionNotification{}, err)
				return
			}
			if taken.has(rec.ID) {
				continue
			}
			if c, ok := rec.Body.(Child); ok && r.showChild(&c) && !yield(acp.SessionNotification{SessionID: c.SessionID, Update: c.Update}, nil) {
				return
			}
			for _, u := range r.updates(&rec) {
				if r.show(u) && !yield(acp.SessionNotification{SessionID: id, Update: u}, nil) {
					return
				}
			}
		}
	}
}

// showChild counts a child session and reports whether an update of it is replayed: of one
// that was announced before the last items nothing is.
func (r *replay) showChild(c *Child) bool {
	if !r.children {
		return false
	}
	if acp.UpdateKind(c.Update) != acp.KindChild {
		return r.known[c.SessionID]
	}
	id := acp.SessionID(stringOf(acp.Member(c.Update, "sessionId")))
	shown, known := r.known[id]
	if !known {
		r.items++
		r.last = string(id)
		shown = r.items > r.skip
		if r.known == nil || len(r.known) >= maxReplayedCalls {
			r.known = map[acp.SessionID]bool{}
		}
		r.known[id] = shown
	}
	return shown
}

// updates are the updates that a record is for a client.
func (r *replay) updates(rec *Record) []json.RawMessage {
	if rec.TurnID != "" && rec.TurnID != r.turn || r.shown == nil {
		r.turn, r.last, r.seed, r.shown = rec.TurnID, "", maphash.MakeSeed(), map[uint64]bool{}
	}
	switch b := rec.Body.(type) {
	case Message:
		r.last = ""
		return messageUpdates(rec.ID, b)
	case Compaction:
		return []json.RawMessage{acp.MessageChunk(acp.AgentThoughtChunk, rec.ID, fmt.Sprintf("[Earlier messages were summed up for the agent]\n%s", b.Summary))}
	case Update:
		if b.Child != "" && r.children {
			return nil
		}
		return b.shown()
	case TurnEvent:
		if b.Event == TurnEnd && b.Error != "" { // the client got it as an error
			return []json.RawMessage{acp.MessageChunk(acp.AgentThoughtChunk, rec.ID, "This turn failed: "+b.Error+"\n")}
		}
	}
	return nil
}

func messageUpdates(id string, m Message) []json.RawMessage {
	kind := acp.UserMessageChunk
	switch m.Role {
	case RoleAssistant:
		kind = acp.AgentMessageChunk
	case RoleSystem:
		return nil
	}
	if len(m.Blocks) == 0 {
		return []json.RawMessage{acp.MessageChunk(kind, id, m.Content)}
	}
	out := make([]json.RawMessage, 0, len(m.Blocks))
	for _, b := range m.Blocks {
		chunk, err := json.Marshal(struct {
			SessionUpdate string           `json:"sessionUpdate"`
			MessageID     string           `json:"messageId,omitempty"`
			Content       acp.ContentBlock `json:"content"`
		}{kind, id, b})
		if err == nil { // else the line was no JSON, and no record
			out = append(out, chunk)
		}
	}
	return out
}

// show counts an update and reports whether it is replayed.
func (r *replay) show(u json.RawMessage) bool {
	kind := acp.UpdateKind(u)
	switch kind {
	case acp.UserMessageChunk, acp.AgentMessageChunk, acp.AgentThoughtChunk:
		id := stringOf(acp.Member(u, "messageId")) // without one a message ends where another kind begins
		if piece := kind + " " + id; r.last != piece {
			r.last = piece
			r.items++
		}
	case "plan", "plan_update", "plan_removed":
		r.last = kind
		r.items++
	case "tool_call", "tool_call_update":
		return r.showCall(kind, u)
	default:
		return false
	}
	return r.items > r.skip
}

func (r *replay) showCall(kind string, u json.RawMessage) bool {
	id := maphash.String(r.seed, stringOf(acp.Member(u, "toolCallId"))) // one without an id is passed as it is
	shown, known := r.shown[id]
	if kind == "tool_call" || !known {
		r.last = kind
		r.items++
		shown = r.items > r.skip && (kind == "tool_call" || r.skip == 0)
		if len(r.shown) >= maxReplayedCalls {
			clear(r.shown)
		}
		r.shown[id] = shown
	}
	return shown
}
