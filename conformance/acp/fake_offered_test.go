package acp

import "encoding/json"

// ahead says what can be chosen, without a session.
func (f *fake) ahead(id json.RawMessage, p sessionParams) {
	if p.CWD == nil {
		f.fail(id, -32602, "no cwd")
		return
	}
	options := f.options(&fakeSession{mode: "auto", model: "m1"})
	if f.broken("forgets an option") {
		options = options[1:]
	}
	f.reply(id, map[string]any{"configOptions": options})
}

// status says whether a session is open.
func (f *fake) status(id json.RawMessage, p sessionParams) {
	f.mu.Lock()
	open := p.SessionID != nil && f.sessions[*p.SessionID] != nil
	f.mu.Unlock()
	switch {
	case f.broken("calls everything saved"):
		f.reply(id, map[string]any{"status": "saved"})
	case open:
		f.reply(id, map[string]any{"status": "open"})
	case p.SessionID != nil && stored(*p.SessionID) != nil:
		f.reply(id, map[string]any{"status": "saved"})
	default:
		f.fail(id, -32002, "no such session")
	}
}

// archive puts a session into the archive, or takes it out.
func (f *fake) archive(id json.RawMessage, method string, p sessionParams) {
	if p.SessionID == nil || stored(*p.SessionID) == nil {
		f.fail(id, -32002, "no such session")
		return
	}
	s := stored(*p.SessionID)
	s.archived = method == "session/archive" && !f.broken("archives nothing")
	s.save()
	f.reply(id, map[string]any{})
}

// wants reports whether a list has a session.
func (f *fake) wants(filter string, archived bool) bool {
	switch filter {
	case "only":
		return archived
	case "include":
		return true
	}
	return !archived
}

// tellOffered tells what the client offers to show.
func (t *fakeTurn) tellOffered() {
	if t.broken("tells what nobody offers") {
		t.update(t.s, "notice", map[string]any{"severity": "info", "title": "unasked"})
	}
	if !t.offered {
		return
	}
	title, removed, ended := "by the way", "p1", "completed"
	if t.broken("has nothing to notice") {
		title = ""
	}
	if t.broken("removes other plans") {
		removed = "p2"
	}
	if t.broken("compacts for ever") {
		ended = "in_progress"
	}
	t.update(t.s, "notice", map[string]any{"severity": "info", "title": title})
	t.update(t.s, "plan_update", map[string]any{"plan": map[string]any{"type": "items", "planId": "p1", "entries": []any{}}})
	t.update(t.s, "plan_removed", map[string]any{"planId": removed})
	t.update(t.s, "compaction_update", map[string]any{"compactionId": "c", "status": "in_progress"})
	t.update(t.s, "compaction_update", map[string]any{"compactionId": "c", "status": ended})
	var suggestions any = []any{map[string]any{"text": "go on"}}
	if t.broken("suggests one thing") {
		suggestions = "go on"
	}
	t.update(t.s, "prompt_suggestions_update", map[string]any{"suggestions": suggestions})
}

// child is a sub-agent, whose answer it returns.
func (c *fakeCall) child() string {
	const answer = "child words"
	if !c.offered {
		return answer
	}
	tell := func(state map[string]any) {
		c.update(c.s, "subagent_update", map[string]any{"sessionId": c.id + "-child", "title": "child", "state": state})
	}
	tell(map[string]any{"state": "running"})
	c.chunk(&fakeSession{id: c.id + "-child"}, "agent_message_chunk", answer)
	if !c.broken("leaves children at work") {
		tell(map[string]any{"state": "idle", "stopReason": "end_turn"})
	}
	return answer
}
