package sessions

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"gander.dev/gander/acp"
)

// historyBuilder collects turns and forgets old ones as it goes, so that a
// transcript of any length costs about max bytes.
type historyBuilder struct {
	max   int
	size  int // bytes of text in turns
	turns []*draft

	omittedTurns, omittedEntries int
	summary                      string
}

// draft is a Turn in the making.
type draft struct {
	id         string
	entries    []*draftEntry
	stopReason acp.StopReason
	err        string
	own        bool // gander's own: no agent saw it
}

type draftEntry struct {
	kind string
	text []byte
	call string // the tool call's id
	tool toolCall
}

// finish returns what was collected.
func (b *historyBuilder) finish() *History {
	b.trim()
	h := &History{Summary: b.summary, OmittedTurns: b.omittedTurns, OmittedEntries: b.omittedEntries}
	for _, d := range b.turns {
		if d.own {
			continue
		}
		t := Turn{ID: d.id, StopReason: d.stopReason, Error: d.err}
		for _, e := range d.entries {
			t.Entries = append(t.Entries, Entry{Kind: e.kind, Text: string(e.text)})
		}
		h.Turns = append(h.Turns, t)
	}
	return h
}

func (b *historyBuilder) add(r *Record) {
	switch body := r.Body.(type) {
	case Message:
		b.say(r.TurnID, string(body.Role), body.Content, true)
	case Compaction:
		if len(b.turns) == 0 { // else it is an older one: the last comes first
			b.summarize(body.Summary)
		}
	case Update:
		for _, raw := range body.shown() {
			b.update(r.TurnID, body, raw)
		}
	case TurnEvent:
		b.turnEvent(r.TurnID, body)
	}
	if b.max > 0 && b.size > 2*b.max {
		b.trim()
	}
}

// summarize takes the summary; it gets at most half of the room.
func (b *historyBuilder) summarize(text string) {
	if b.max > 0 {
		text = string(tail([]byte(text), b.max/2))
		b.max = max(1, b.max-len(text))
	}
	b.summary = text
}

// shown is what the person saw.
func (u Update) shown() []json.RawMessage {
	if u.Sent == nil && u.Update != nil {
		return []json.RawMessage{u.Update}
	}
	return u.Sent
}

func (b *historyBuilder) turnEvent(id string, e TurnEvent) {
	if e.Event == TurnStart {
		b.turn(id, true).own = e.Command != ""
		return
	}
	t := b.turn(id, false)
	t.stopReason, t.err = e.StopReason, e.Error
}

// turn is the turn to add to: the one with the id, which is the last or near
// it, else a new one. Without ids a new one begins only when begins is set.
func (b *historyBuilder) turn(id string, begins bool) *draft {
	for _, t := range slices.Backward(b.turns) {
		if t.id == id && (id != "" || !begins) {
			return t
		}
		if id == "" {
			break
		}
	}
	b.turns = append(b.turns, &draft{id: id})
	return b.turns[len(b.turns)-1]
}

// say adds text: to the last entry when that is of the same kind and whole is false.
func (b *historyBuilder) say(turnID, kind, text string, whole bool) {
	if text == "" {
		return
	}
	t := b.turn(turnID, kind == string(RoleUser) && whole)
	if t.own {
		return
	}
	b.size += len(text)
	if n := len(t.entries); !whole && n > 0 && t.entries[n-1].kind == kind {
		t.entries[n-1].text = append(t.entries[n-1].text, text...)
		return
	}
	t.entries = append(t.entries, &draftEntry{kind: kind, text: []byte(text)})
}

// sessionUpdate is what matters here of the updates of ACP.
type sessionUpdate struct {
	SessionUpdate string          `json:"sessionUpdate"`
	Content       json.RawMessage `json:"content"`
	ToolCallID    string          `json:"toolCallId"`
	toolCall
}

type toolCall struct {
	Title  string `json:"title"`
	Kind   string `json:"kind"`
	Status string `json:"status"`
	// result is what came of it, more what it has printed since the last update.
	result, more string
}

func (b *historyBuilder) update(turnID string, from Update, raw json.RawMessage) {
	var u sessionUpdate
	if json.Unmarshal(raw, &u) != nil {
		return
	}
	switch u.SessionUpdate {
	case "agent_message_chunk":
		var block struct {
			Text string `json:"text"`
		}
		_ = json.Unmarshal(u.Content, &block) // a block without text says nothing
		b.say(turnID, string(RoleAssistant), block.Text, false)
	case "tool_call", "tool_call_update":
		u.readResult(from, raw)
		b.toolCall(turnID, u.ToolCallID, u.toolCall)
	}
}

// toolCall adds the line of a tool call or changes it.
func (b *historyBuilder) toolCall(turnID, id string, c toolCall) {
	t := b.turn(turnID, false)
	for _, e := range slices.Backward(t.entries) {
		if e.kind == EntryTool && e.call == id {
			e.tool.merge(c)
			b.setText(e, []byte(e.tool.line()))
			return
		}
	}
	if c.Title == "" {
		return // the end of a call that was left out
	}
	e := &draftEntry{kind: EntryTool, call: id}
	e.tool.merge(c)
	b.setText(e, []byte(e.tool.line()))
	t.entries = append(t.entries, e)
}

func (b *historyBuilder) setText(e *draftEntry, text []byte) {
	b.size += len(text) - len(e.text)
	e.text = text
}

func (c *toolCall) merge(u toolCall) {
	if u.Title != "" {
		c.Title = u.Title
	}
	if u.Kind != "" {
		c.Kind = u.Kind
	}
	if u.Status != "" {
		c.Status = u.Status
	}
	c.addResult(u)
}

func (c *toolCall) line() string {
	line := oneLine(c.Title)
	if c.Kind != "" {
		line = "[" + oneLine(c.Kind) + "] " + line
	}
	if c.Status != "" {
		line += " (" + oneLine(c.Status) + ")"
	}
	if result := strings.TrimSpace(c.result); result != "" {
		line += "\n  " + strings.ReplaceAll(result, "\n", "\n  ")
	}
	return line
}

// trim forgets what is too old to fit.
func (b *historyBuilder) trim() {
	if b.max <= 0 {
		return
	}
	old := 0
	for ; old < len(b.turns)-1 && b.size > b.max; old++ {
		for _, e := range b.turns[old].entries {
			b.size -= len(e.text)
		}
		b.omittedTurns++
		b.omittedEntries = 0
	}
	b.turns = slices.Delete(b.turns, 0, old)
	if len(b.turns) == 1 && b.size > b.max {
		b.trimTurn(b.turns[0])
	}
}

// trimTurn shortens the only turn left: its first entry, what was asked, stays,
// then the last ones that fit; those are cut when they alone are too long.
func (b *historyBuilder) trimTurn(t *draft) {
	old := 1
	for ; old < len(t.entries)-1 && b.size > b.max; old++ {
		b.size -= len(t.entries[old].text)
		b.omittedEntries++
	}
	if old > 1 {
		t.entries = slices.Delete(t.entries, 1, old)
	}
	for _, e := range slices.Backward(t.entries) {
		if excess := b.size - b.max; excess > 0 {
			keep := max(len(e.text)-excess, b.max/2)
			b.setText(e, tail(e.text, keep))
		}
	}
}

const cutMark = "(beginning left out) … "

// tail is the end of s, about n bytes of it, marked when something is missing.
func tail(s []byte, n int) []byte {
	if len(s) <= n {
		return s
	}
	start := max(0, min(len(s)-n+len(cutMark), len(s)))
	for start < len(s) && !utf8.RuneStart(s[start]) {
		start++
	}
	return append([]byte(cutMark), s[start:]...)
}
