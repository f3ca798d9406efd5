package router

import (
	"cmp"
	"encoding/json"
	"slices"

	"gander.dev/gander/acp"
)

// Agents are offered notices, compactions and plans with ids whatever the client knows. One that
// does not know them gets them in words, and all plans as one.

// plan is a plan of the agent's with an id.
type plan struct {
	id      string
	entries []json.RawMessage
}

// maxPlans bounds the plans of an agent that are kept.
const maxPlans = 20

// reworded returns the updates that a client gets for one that it does not know; known is false
// for any other update. mu is held.
func (r *relay) reworded(kind string, update json.RawMessage) (sent []json.RawMessage, known bool) {
	has := r.s.r.client.Capabilities()
	switch {
	case kind == "notice" && has.Session.Notices == nil:
		text := stringOf(acp.Member(update, "title"))
		if more := stringOf(acp.Member(update, "description")); more != "" {
			text += "\n" + more
		}
		return []json.RawMessage{thought(text)}, true
	case kind == "compaction_update" && has.Session.Compaction == nil:
		return r.compactionInWords(update), true
	case kind == "compaction_summary_chunk" && has.Session.Compaction == nil:
		return []json.RawMessage{}, true
	case (kind == "plan_update" || kind == "plan_removed") && has.Plan == nil:
		return []json.RawMessage{r.onePlan(kind, update)}, true
	}
	return nil, false
}

func (r *relay) compactionInWords(update json.RawMessage) []json.RawMessage {
	name := r.b.agent.Name()
	switch stringOf(acp.Member(update, "status")) {
	case acp.CompactionInProgress:
		return []json.RawMessage{thought(name + " sums up the conversation, which has become long.")}
	case acp.CompactionCompleted:
		text := name + " goes on with a summary of the conversation."
		if summary := acp.ToolText(blocksAsContent(acp.Member(update, "summary"))); summary != "" {
			text += "\n" + summary
		}
		return []json.RawMessage{thought(text)}
	case acp.CompactionFailed:
		return []json.RawMessage{thought(name + " could not sum up the conversation: " + cmp.Or(stringOf(acp.Member(update, "error")), "it does not say why") + ".")}
	}
	return []json.RawMessage{}
}

// blocksAsContent makes content of a tool call of content blocks.
func blocksAsContent(blocks json.RawMessage) []json.RawMessage {
	var out []json.RawMessage
	for _, block := range listOf(blocks) {
		out = append(out, marshal(map[string]any{"type": "content", "content": block}))
	}
	return out
}

// onePlan returns all plans of the agent as the one that older clients know, after a change of
// one of them. mu is held.
func (r *relay) onePlan(kind string, update json.RawMessage) json.RawMessage {
	said := update
	if kind == "plan_update" {
		said = acp.Member(update, "plan")
	}
	id := cutText(stringOf(acp.Member(said, "planId")), maxInput)
	i := slices.IndexFunc(r.plans, func(p plan) bool { return p.id == id })
	switch {
	case kind == "plan_removed" && i >= 0:
		r.plans = slices.Delete(r.plans, i, i+1)
	case kind == "plan_update" && i >= 0:
		r.plans[i].entries = planEntries(said)
	case kind == "plan_update" && len(r.plans) < maxPlans:
		r.plans = append(r.plans, plan{id, planEntries(said)})
	}
	all := []json.RawMessage{}
	for _, p := range r.plans {
		all = append(all, p.entries...)
	}
	return acp.WithFields(json.RawMessage(`{"sessionUpdate":"plan"}`), map[string]any{"entries": all})
}

// planEntries returns the entries of a plan; one that is a text or a file is one entry.
func planEntries(said json.RawMessage) []json.RawMessage {
	if stringOf(acp.Member(said, "type")) == "items" {
		return listOf(acp.Member(said, "entries"))
	}
	text := cmp.Or(stringOf(acp.Member(said, "content")), stringOf(acp.Member(said, "uri")))
	return []json.RawMessage{marshal(map[string]string{"content": text, "priority": "medium", "status": "in_progress"})}
}
