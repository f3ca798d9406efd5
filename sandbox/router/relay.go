package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/outbound/doorway"
	"gander.dev/gander/sandbox/router/changes"
	"gander.dev/gander/sessions"
)

// relay is the acp.Client that an inner agent talks to: the one road from the
// agent to the transcript and the editor. Its updates come one at a time.
type relay struct {
	calls
	b *backend

	files chan struct{}   // holds a token for each file that passes
	doors chan struct{}   // holds a token for each connection of dialFiles
	texts *doorway.Places // for what passes there

	// mu guards what follows. It is held while an update is passed on, so that
	// none is on its way any more when end returns.
	mu    sync.Mutex
	turn  *turn              // nil between turns
	ctx   context.Context    // of sending in the turn: ends with it and with the backend
	stop  context.CancelFunc // ends ctx
	use   shownUse
	heard heard

	children map[acp.SessionID]*child // of the agent, by its own ids
	plans    []plan                   // of the agent, for clients that know one

	latest time.Time    // of the last update of the turn
	asking atomic.Int32 // questions that wait for the person
}

func newRelay(b *backend) *relay {
	r := &relay{b: b, children: map[acp.SessionID]*child{}, files: make(chan struct{}, maxFiles), doors: make(chan struct{}, maxFiles), texts: doorway.NewPlaces(largeTexts)}
	r.calls = calls{s: b.s, ids: b.s.calls, shown: new(shownDiffs), was: new(wholeTexts), emit: func(update json.RawMessage) {
		r.s.record(r.turn.id, sessions.Update{Sent: []json.RawMessage{update}})
		r.s.send(r.ctx, update)
	}}
	return r
}

// begin makes the agent's updates part of a turn; before are the files, nil where they
// are not compared.
func (r *relay) begin(t *turn, before *changes.Before) {
	r.s.leaks.Look()
	ctx, cancel := context.WithCancel(t.ctx)
	detach := context.AfterFunc(r.b.ctx, cancel)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn, r.ctx, r.shown, r.heard = t, ctx, new(shownDiffs), heard{}
	r.noticed()
	r.was = &wholeTexts{files: r.s.files, before: before, written: map[string]*string{}}
	r.stop = func() { detach(); cancel() }
}

// end ends the turn's child sessions and gives every tool call that the agent left open a
// final status, failed with a reason or completed without one, and ends the turn's updates.
// It returns the differences that they have shown.
func (r *relay) end(reason string) shownDiffs {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endChildren(reason)
	r.endAll(reason)
	r.sayCost()
	r.stop()
	shown := *r.shown
	r.turn, r.shown, r.was = nil, new(shownDiffs), new(wholeTexts)
	return shown
}

// say puts an update of gander's own into the turn; it reports false when none runs.
func (r *relay) say(update json.RawMessage) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turn == nil {
		return false
	}
	r.s.send(r.s.now, update)
	return true
}

// SessionUpdate implements acp.Client. What the agent says beside an update, in the _meta
// of its notification, goes nowhere: it is not recorded, and nobody would look at it.
func (r *relay) SessionUpdate(_ context.Context, n *acp.SessionNotification) error {
	kind := acp.UpdateKind(n.Update)
	n.Meta = nil
	if !r.b.hosted() {
		n.Update = ofAgent(r.b.agent.Name(), kind, n.Update)
	}
	if n.SessionID != "" {
		r.ofChild(kind, n.SessionID, n.Update)
		return nil
	}
	switch kind {
	case acp.KindChild:
		r.announced(n.Update)
	case "session_message", "session_message_chunk":
		r.message(n.Update)
	case "current_mode_update", "config_option_update":
		r.stateChanged(kind, n.Update)
	default:
		r.pass(kind, n)
	}
	return nil
}

// stateChanged takes what the agent says of its mode and options. The client is
// told in the house's own terms: these lists hold more than the agent's.
func (r *relay) stateChanged(kind string, update json.RawMessage) {
	if r.s.leaks.update(kind, update) != nil {
		return
	}
	r.s.record("", sessions.Update{Update: update, Sent: []json.RawMessage{}})
	var u struct {
		CurrentModeID string `json:"currentModeId"`
	}
	if json.Unmarshal(update, &u) == nil && u.CurrentModeID != "" && len(u.CurrentModeID) <= maxInput {
		r.s.modeReported(r.b, u.CurrentModeID)
	}
	r.s.publish()
}

// pass records an update and sends it on. What is not about the session as a
// whole belongs to a turn and is dropped when that is over.
func (r *relay) pass(kind string, n *acp.SessionNotification) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noticed()
	if r.s.leaks.update(kind, n.Update) != nil {
		return // a turn that runs ends
	}
	if r.turn == nil {
		r.passBetween(kind, n.Update)
		return
	}
	if kind == acp.UserMessageChunk { // what the person says, the client knows
		r.s.record(r.turn.id, sessions.Update{Update: n.Update, Sent: []json.RawMessage{}})
		r.s.log.Debug("dropped an update that says something as the person")
		return
	}
	r.heard.see(kind, n.Update)
	if sent, other := r.reworded(kind, n.Update); other {
		r.s.record(r.turn.id, sessions.Update{Update: n.Update, Sent: sent})
		for _, update := range sent {
			r.s.send(r.ctx, update)
		}
		return
	}
	rec := sessions.Update{Update: n.Update}
	if kind == "tool_call" || kind == "tool_call_update" {
		sent, err := r.tool(kind, n.Update)
		if errors.Is(err, errEnded) {
			r.s.record(r.turn.id, sessions.Update{Update: n.Update, Sent: []json.RawMessage{}})
		}
		if err != nil {
			r.s.log.Debug("dropped an update of a tool call", "err", err)
			return
		}
		r.explain(n.Update)
		if &sent[0] != &n.Update[0] {
			rec.Sent = []json.RawMessage{sent}
			n.Update = sent
			if r.s.leaks.update(kind, sent) != nil { // with what gander adds, as the text that was there
				return
			}
		}
	}
	if kind == "usage_update" {
		if sent := r.withCost(n.Update); &sent[0] != &n.Update[0] {
			n.Update, rec.Sent = sent, []json.RawMessage{sent}
		}
	}
	if kind == "available_commands_update" {
		n.Update = r.s.commandsAnnounced(n.Update)
		rec.Sent = []json.RawMessage{n.Update}
	}
	r.s.record(r.turn.id, rec)
	if kind == "session_info_update" {
		n.Update = r.s.called(n.Update)
	}
	r.s.pass(r.ctx, n) // a turn is one of a session that the client knows
}

// passBetween is pass between turns. It does not wait for a slow client: a
// cancel behind it must get through to the agent.
func (r *relay) passBetween(kind string, update json.RawMessage) {
	switch kind {
	case "available_commands_update":
		sent := r.s.commandsAnnounced(update)
		r.s.record("", sessions.Update{Update: update, Sent: []json.RawMessage{sent}})
		r.s.send(r.s.now, sent)
	case "usage_update":
		sent := r.withCost(update)
		r.s.record("", sessions.Update{Update: update, Sent: []json.RawMessage{sent}})
		r.s.send(r.s.now, sent)
	case "session_info_update":
		r.s.record("", sessions.Update{Update: update})
		r.s.send(r.s.now, r.s.called(update))
	default:
		r.s.record("", sessions.Update{Update: update, Sent: []json.RawMessage{}})
		r.s.log.Debug("dropped an update that came outside of a turn", "kind", kind)
	}
}

// marshal is the JSON of a type of the wire, which always has one.
func marshal(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil { // raw fields that are no JSON: the agent's
		raw = fmt.Appendf(nil, "%q", err)
	}
	return raw
}
