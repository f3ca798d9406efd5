package router

import (
	"bytes"
	"encoding/json"
	"fmt"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// A childCanceller is an AgentSession that can end the work of one of its child sessions.
type childCanceller interface {
	CancelChild(id acp.SessionID) error
}

// maxChildID bounds an agent's id of a child session, in bytes.
const maxChildID = 1 << 10

// ofChild takes an update of one of the agent's child sessions. What comes of one that was not
// announced, or outside of a turn, is dropped.
func (r *relay) ofChild(kind string, inner acp.SessionID, update json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.children[inner]
	if c == nil || r.turn == nil {
		r.s.log.Debug("dropped an update of a child session", "kind", kind, "known", c != nil)
		return
	}
	r.noticed()
	switch kind {
	case acp.KindChild:
		r.childSaid(c, update)
		return
	case "session_message", "session_message_chunk":
		if update = r.addressed(update); update == nil {
			return
		}
	}
	c.calls.was = r.was
	if c.native { // else what it changes is shown at the end of the turn
		c.calls.shown = r.shown
	}
	c.update(kind, update)
}

// announced takes what the agent says of a child of the conversation itself.
func (r *relay) announced(update json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turn == nil {
		r.s.log.Debug("dropped what the agent says of a child session outside of a turn")
		return
	}
	r.noticed()
	r.childSaid(nil, update)
}

// childSaid is an agent's word about a child of parent; nil is the conversation itself. mu is held.
func (r *relay) childSaid(parent *child, update json.RawMessage) {
	if r.s.leaks.update(acp.KindChild, update) != nil {
		return
	}
	id := acp.SessionID(stringOf(acp.Member(update, "sessionId")))
	if id == "" || len(id) > maxChildID || string(id) == r.b.conv.ID() {
		return
	}
	c := r.children[id]
	cancel := r.cancelOf(id, acp.Member(acp.Member(update, "capabilities"), "cancel"))
	title, description := childWords(acp.Member(update, "title")), childWords(acp.Member(update, "description"))
	state := acp.Member(update, "state")
	if c == nil {
		if !r.roomForChild() {
			return
		}
		c = r.s.newChild(childTerms{parent: parent, title: title, description: description, cwd: stringOf(acp.Member(update, "cwd")), cancel: cancel})
		r.children[id] = c
		c.begin(r.turn)
	} else if title != "" || description != "" || acp.Member(update, "capabilities") != nil {
		if acp.Member(update, "capabilities") == nil {
			cancel = c.canceller()
		}
		c.describe(title, description, cancel)
	}
	switch stringOf(acp.Member(state, "state")) {
	case acp.ChildRunning:
		c.begin(r.turn)
	case acp.ChildIdle:
		stop := acp.StopReason(cutText(stringOf(acp.Member(state, "stopReason")), maxInput))
		c.end(stop, childWords(acp.Member(acp.Member(state, "error"), "message")))
	}
}

// cancelOf returns a function that cancels a child alone; nil where the agent does not offer it.
func (r *relay) cancelOf(inner acp.SessionID, offered json.RawMessage) func() {
	conv, ok := r.b.conv.(childCanceller)
	if !ok || !bytes.HasPrefix(offered, []byte{'{'}) {
		return nil
	}
	return func() {
		if err := conv.CancelChild(inner); err != nil {
			r.s.log.Debug("cancelling a child session at the agent", "err", err)
		}
	}
}

// canceller returns the function that cancels the child.
func (c *child) canceller() func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.terms.cancel
}

// roomForChild makes room for a further child where there is none, and reports whether it
// could. mu is held.
func (r *relay) roomForChild() bool {
	if len(r.children) < maxChildren {
		return true
	}
	for id, c := range r.children {
		if c.idle() {
			delete(r.children, id)
			return true
		}
	}
	why := fmt.Sprintf("%s has more than %d sub-agents at work: what further ones do is not shown.", r.b.agent.Name(), maxChildren)
	r.s.spawn(func() { r.s.notice("warning", why) }) // where it is said, mu is taken
	return false
}

// addressed is an agent's message between sessions with the client's ids of them; nil where
// one of them is not known. mu is held.
func (r *relay) addressed(update json.RawMessage) json.RawMessage {
	set := map[string]any{}
	for _, name := range []string{"senderSessionId", "recipientSessionId"} {
		id := stringOf(acp.Member(update, name))
		switch c := r.children[acp.SessionID(id)]; {
		case id == "":
		case id == r.b.conv.ID():
			set[name] = r.s.id
		case c == nil:
			return nil
		default:
			set[name] = c.id
		}
	}
	return acp.WithFields(update, set)
}

// message passes on a message between sessions that the conversation itself shows. Clients
// that know no child sessions see it in what stands for the child.
func (r *relay) message(update json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turn == nil || r.s.leaks.update("session_message", update) != nil {
		return
	}
	if update = r.addressed(update); update == nil {
		return
	}
	r.s.record(r.turn.id, sessions.Child{SessionID: r.s.id, Update: update})
	r.s.send(r.ctx, update) // held back where the client does not know them
}

// endChildren ends the work of the agent's child sessions, as their turn ends. mu is held.
func (r *relay) endChildren(reason string) {
	var stop acp.StopReason // not known: the agent has not said it
	switch {
	case r.turn.ctx.Err() != nil:
		stop = acp.StopCancelled
	case reason != "":
		stop = acp.StopError
	}
	for _, c := range r.children {
		c.end(stop, reason)
	}
}

// asker finds by the agent's id of a session who asks in a turn: the book of its tool calls,
// and the child; nil for the conversation itself. mu is held.
func (r *relay) asker(t *turn, inner acp.SessionID) (*calls, *child) {
	if c := r.children[inner]; c != nil {
		c.begin(t) // a child that asks works
		return &c.calls, c
	}
	return &r.calls, nil
}
