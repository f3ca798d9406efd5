package router

import (
	"encoding/json"
	"fmt"
	"strings"

	"gander.dev/gander/acp"
)

// heard holds what came of the agent since its last tool call.
type heard struct{ text, thought, failed bool }

func (h *heard) see(kind string, update json.RawMessage) {
	switch kind {
	case "agent_message_chunk":
		c := acp.ParseContentBlock(acp.Member(update, "content"))
		h.text = h.text || c.Type != "text" || strings.TrimSpace(c.Text) != ""
	case acp.AgentThoughtChunk:
		h.thought = true
	case "tool_call":
		*h = heard{}
	case "tool_call_update":
		if stringOf(acp.Member(update, "status")) == "failed" {
			h.failed = true
		}
	}
}

// sayWordless tells the person of a turn that the agent has ended without a word. After a
// tool call that was refused or failed that is no wonder.
func (b *backend) sayWordless(resp *acp.PromptResponse) {
	b.relay.mu.Lock()
	h := b.relay.heard
	b.relay.mu.Unlock()
	m, ok := b.place.Model.(finisher)
	if !ok || m.LastFinish() == "" {
		return // the model was not asked, or has failed
	}
	filtered := m.LastFinish() == "content_filter" || resp.StopReason == acp.StopRefusal
	var why string
	switch {
	case filtered:
		why = "the endpoint has filtered the model's answer (content_filter). Say it in other words, or choose another model."
	case h.text || h.failed || resp.StopReason != acp.StopEndTurn:
		return
	case h.thought:
		why = "the model has only thought, and said nothing. Ask it to go on, or choose another model."
	default:
		why = "the model's answer was empty. Ask it to go on, or choose another model."
	}
	b.s.tell("warning", fmt.Sprintf("%s has ended its turn without an answer: %s", b.agent.Name(), why))
}
