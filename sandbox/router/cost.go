package router

import (
	"encoding/json"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// shownUse is what the editor was last told that a conversation has used.
type shownUse struct {
	update json.RawMessage // as the agent said it; nil before it did
	cost   acp.Cost        // as the editor has it
}

// withCost is a usage_update with what the session's model calls have cost by the
// person's prices, in the place of what the agent thinks. r.mu is held.
func (r *relay) withCost(update json.RawMessage) json.RawMessage {
	r.use = shownUse{update: update}
	cost := r.s.cost()
	var fields map[string]json.RawMessage
	if cost == nil || json.Unmarshal(update, &fields) != nil {
		return update
	}
	fields["cost"] = marshal(cost)
	r.use.cost = *cost
	return marshal(fields)
}

// sayCost tells the editor what the turn has cost when that was not known yet with the
// agent's last word on what it has used. r.mu is held.
func (r *relay) sayCost() {
	cost := r.s.cost()
	if r.use.update == nil || cost == nil || *cost == r.use.cost {
		return
	}
	update := r.withCost(r.use.update)
	r.s.record(r.turn.id, sessions.Update{Sent: []json.RawMessage{update}})
	r.s.send(r.ctx, update)
}

// cost is what the session's model calls have cost so far; nil when that is not known.
func (s *session) cost() *acp.Cost {
	return s.r.opts.Terms.Cost(s.r.account(s.id), s.cwd)
}
