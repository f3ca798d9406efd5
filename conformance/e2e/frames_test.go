package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A frame is one line on the wire between editor and agent.
type frame struct {
	out      bool // from the editor
	at       time.Duration
	line     string
	problems []string // with the schema

	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage
}

func parseFrame(ev event) frame {
	f := frame{out: ev.Dir == "out", at: ev.at(), line: ev.Line, problems: ev.Problems}
	_ = json.Unmarshal([]byte(ev.Line), &f) // what is no JSON is among the problems
	return f
}

func (f frame) isResponse() bool { return f.Method == "" && f.ID != nil }

func (f frame) sessionID() string {
	var p struct{ SessionID string }
	_ = json.Unmarshal(f.Params, &p)
	return p.SessionID
}

// update returns what a session/update says.
func (f frame) update() (update, bool) {
	if f.out || f.Method != "session/update" {
		return update{}, false
	}
	var p struct{ Update json.RawMessage }
	_ = json.Unmarshal(f.Params, &p)
	u := update{raw: p.Update, at: f.at}
	_ = json.Unmarshal(p.Update, &u)
	return u, true
}

// An update is the part of a session/update that tests look at.
type update struct {
	raw           json.RawMessage
	at            time.Duration
	SessionUpdate string
	MessageID     string
	ToolCallID    string
	Title         string
	Kind          string
	Status        string
	CurrentModeID string
	Used, Size    int64
	SessionID     string // of the child that a subagent_update is about
	State         struct{ State, StopReason string }
	Content       json.RawMessage
	RawInput      json.RawMessage
	Locations     []struct{ Path string }
	ConfigOptions []configOption
}

type configOption struct {
	ID, Name, Category string
	Type               string
	CurrentValue       any
	Options            []struct{ Value, Name string }
}

func (o configOption) values() []string {
	var all []string
	for _, v := range o.Options {
		all = append(all, v.Value)
	}
	return all
}

// text returns all text in the content of an update.
func (u update) text() string {
	var b strings.Builder
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			if s, ok := v["text"].(string); ok {
				b.WriteString(s)
			}
			walk(v["content"])
		}
	}
	var v any
	_ = json.Unmarshal(u.Content, &v)
	walk(v)
	return b.String()
}

func (u update) final() bool { return u.Status == "completed" || u.Status == "failed" }

// A turn is a prompt as it was on the wire.
type turn struct {
	session   string
	id        string
	begun     time.Duration
	cancelled time.Duration // when the editor sent session/cancel; 0: never
	ended     time.Duration // 0: no answer
	updates   []update      // of the session, between begun and ended
	calls     []string      // tool calls that began while no earlier turn of the session was open
	children  []childUpdate // of the sessions that are children of it
	answer    promptAnswer
	err       json.RawMessage
}

// A childUpdate is an update of a child session.
type childUpdate struct {
	session string
	update
}

type promptAnswer struct {
	StopReason string
	Usage      *struct{ TotalTokens, InputTokens, OutputTokens int64 }
}

// text is what the agent has said to the person.
func (t turn) text() string {
	var b strings.Builder
	for _, u := range t.updates {
		if u.SessionUpdate == "agent_message_chunk" {
			b.WriteString(u.text())
		}
	}
	return b.String()
}

// kinds lists the updates in order, repeated kinds once.
func (t turn) kinds() []string {
	var all []string
	for _, u := range t.updates {
		kind := u.SessionUpdate
		if u.Status != "" {
			kind += " " + u.Status
		}
		all = append(all, kind)
	}
	return slices.Compact(all)
}

// tool returns the state of a tool call after all its updates, by its position.
func (t turn) tool(i int) (update, bool) {
	var ids []string
	for _, u := range t.updates {
		if u.ToolCallID != "" && !slices.Contains(ids, u.ToolCallID) {
			ids = append(ids, u.ToolCallID)
		}
	}
	if i >= len(ids) {
		return update{}, false
	}
	var all update
	for _, u := range t.updates {
		if u.ToolCallID == ids[i] {
			_ = json.Unmarshal(u.raw, &all)
		}
	}
	return all, true
}

// A record collects frames and reads the turns off them.
type record struct {
	frames []frame
	turns  []*turn
	open   []*turn
	parent map[string]string // of the child sessions
}

func (r *record) add(f frame) {
	r.frames = append(r.frames, f)
	switch {
	case f.out && f.Method == "session/prompt":
		t := &turn{session: f.sessionID(), id: string(f.ID), begun: f.at}
		r.turns = append(r.turns, t)
		r.open = append(r.open, t)
	case f.out && f.Method == "session/cancel":
		r.cancel(f)
	case !f.out && f.Method == "session/update":
		r.update(f)
	case !f.out && f.isResponse():
		r.answer(f)
	}
}

func (r *record) cancel(f frame) {
	for _, t := range r.open {
		if t.session == f.sessionID() && t.cancelled == 0 {
			t.cancelled = f.at
		}
	}
}

func (r *record) update(f frame) {
	u, _ := f.update()
	if u.SessionUpdate == "subagent_update" {
		if r.parent == nil {
			r.parent = map[string]string{}
		}
		r.parent[u.SessionID] = f.sessionID()
	}
	top := f.sessionID()
	for r.parent[top] != "" {
		top = r.parent[top]
	}
	earlier := false
	for _, t := range r.open {
		switch {
		case t.session != top:
		case top == f.sessionID():
			if u.SessionUpdate == "tool_call" && !earlier {
				t.calls = append(t.calls, u.ToolCallID)
			}
			earlier = true
			t.updates = append(t.updates, u)
		default:
			t.children = append(t.children, childUpdate{f.sessionID(), u})
		}
	}
}

func (r *record) answer(f frame) {
	for i, t := range r.open {
		if t.id == string(f.ID) {
			t.ended, t.err = f.at, f.Error
			_ = json.Unmarshal(f.Result, &t.answer)
			r.open = slices.Delete(r.open, i, i+1)
			return
		}
	}
}

// checkFrames is run on every record.
func (e *editor) checkFrames() {
	e.mu.Lock()
	defer e.mu.Unlock()
	var bad []string
	for _, f := range e.rec.frames {
		for _, p := range f.problems {
			bad = append(bad, fmt.Sprintf("%s\n\tin %s", p, shorten(f.line)))
		}
	}
	bad = append(bad, findings(&e.rec, e.dies)...)
	for _, line := range e.sdk {
		if !e.tolerant {
			bad = append(bad, "the SDK says: "+line)
		}
	}
	if e.expects != "" {
		before := len(bad)
		bad = slices.DeleteFunc(bad, func(b string) bool { return strings.Contains(b, e.expects) })
		if len(bad) == before {
			e.t.Errorf("no finding about %q, which was expected", e.expects)
		}
	}
	const enough = 10
	for i, b := range bad {
		if i == enough {
			e.t.Errorf("and %d more", len(bad)-enough)
			break
		}
		e.t.Error(b)
	}
}

func shorten(s string) string {
	if len(s) > 400 {
		return s[:400] + "…"
	}
	return s
}

// findings says what is wrong with a record beyond the shape of its frames.
// dies: the agent was ended in the middle of it.
func findings(r *record, dies bool) []string {
	c := checker{sessions: map[string]bool{}, ended: map[string]bool{}, pending: map[string]string{}}
	for _, f := range r.frames {
		c.frame(f)
	}
	for _, t := range r.turns {
		c.turn(t, dies)
	}
	return c.bad
}

type checker struct {
	bad      []string
	sessions map[string]bool
	ended    map[string]bool   // child sessions that do nothing any more
	pending  map[string]string // unanswered requests of the editor: id → method
}

func (c *checker) say(f frame, format string, args ...any) {
	c.bad = append(c.bad, fmt.Sprintf(format, args...)+"\n\tin "+shorten(f.line))
}

func (c *checker) frame(f frame) {
	if f.out {
		if f.ID != nil && f.Result == nil && f.Error == nil {
			c.pending[string(f.ID)] = f.Method
		}
		if f.Method == "session/load" || f.Method == "session/resume" { // the editor knows it, and load replays before it answers
			c.sessions[f.sessionID()] = true
		}
		return
	}
	if len(f.line) > 1<<20 {
		c.say(f, "a frame of %d bytes, more than 1 MB", len(f.line))
	}
	if strings.Contains(f.line, canary) {
		c.say(f, "the key is on the wire")
	}
	if f.isResponse() && string(f.ID) != "null" {
		c.response(f)
	}
	if u, ok := f.update(); ok {
		c.update(f, u)
	}
}

func (c *checker) response(f frame) {
	method, ok := c.pending[string(f.ID)]
	if !ok {
		c.say(f, "an answer nobody waits for, or a second one")
	}
	delete(c.pending, string(f.ID))
	if (method == "session/new" || method == "session/fork") && f.Result != nil {
		var r struct{ SessionID string }
		_ = json.Unmarshal(f.Result, &r)
		c.sessions[r.SessionID] = true
	}
}

// update: JetBrains hangs, and Zed drops it, when an update comes before the
// answer of session/new.
func (c *checker) update(f frame, u update) {
	if !c.sessions[f.sessionID()] {
		c.say(f, "an update of a session the editor does not know yet")
	}
	if c.ended[f.sessionID()] {
		c.say(f, "an update of a child session after its end")
	}
	if u.SessionUpdate == "subagent_update" {
		c.sessions[u.SessionID], c.ended[u.SessionID] = true, u.State.State == "idle"
	}
	for _, l := range u.Locations {
		if !filepath.IsAbs(l.Path) {
			c.say(f, "a relative location %q", l.Path)
		}
	}
}

// turn: exactly one answer, and no tool call that spins on for ever.
func (c *checker) turn(t *turn, dies bool) {
	if t.ended == 0 {
		if !dies {
			c.bad = append(c.bad, "a prompt without an answer in session "+t.session)
		}
		return
	}
	open := map[string]bool{}
	for _, u := range t.updates {
		switch {
		case u.SessionUpdate == "tool_call":
			open[u.ToolCallID] = !u.final()
		case u.SessionUpdate == "tool_call_update" && u.final():
			open[u.ToolCallID] = false
		}
	}
	for id, is := range open {
		if is && slices.Contains(t.calls, id) {
			c.bad = append(c.bad, fmt.Sprintf("tool call %s has no final status at the end of its turn", id))
		}
	}
}

// What finds nothing proves nothing: each rule must object to a record that breaks it.
func TestFindings(t *testing.T) {
	const (
		open    = `> {"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}` + "\n" + `< {"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}`
		prompt  = open + "\n" + `> {"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s"}}`
		answer  = "\n" + `< {"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}`
		started = "\n" + `< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c"}}}`
		ended   = "\n" + `< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"failed"}}}`
		ofChild = "\n" + `< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"kid","update":{"sessionUpdate":"agent_message_chunk"}}}`
		queued  = "\n" + `> {"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s"}}` + started + "\n" + `< {"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}`
		placed  = "\n" + `< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"c","locations":[{"path":"a/b"}]}}}`
	)
	child := func(state string) string {
		return "\n" + `< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"subagent_update","sessionId":"kid","state":{"state":"` + state + `"}}}}`
	}
	tests := []struct{ name, frames, want string }{
		{"a good turn", prompt + started + ended + answer, ""},
		{"a tool call without an end", prompt + started + answer, "no final status"},
		{"a tool call of the turn before the queued one", prompt + queued + ended + answer, ""},
		{"a tool call of the turn before without an end", prompt + queued + answer, "no final status"},
		{"no answer", prompt, "without an answer"},
		{"two answers", prompt + answer + answer, "nobody waits for"},
		{"an early update", strings.TrimPrefix(started, "\n"), "does not know yet"},
		{"a child", prompt + child("running") + ofChild + child("idle") + answer, ""},
		{"a child that was not announced", prompt + ofChild + answer, "does not know yet"},
		{"a child after its end", prompt + child("running") + child("idle") + ofChild + answer, "after its end"},
		{"a relative path", open + placed, "relative location"},
		{"the key", `< {"jsonrpc":"2.0","method":"_x","params":"` + canary + `"}`, "the key"},
		{"a huge frame", `< {"jsonrpc":"2.0","method":"_x","params":"` + strings.Repeat("x", 1<<20) + `"}`, "more than 1 MB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var rec record
			for i, line := range strings.Split(tt.frames, "\n") {
				ev := event{MS: float64(i + 1), Line: line[2:], Dir: "in"}
				if line[0] == '>' {
					ev.Dir = "out"
				}
				rec.add(parseFrame(ev))
			}
			got := strings.Join(findings(&rec, false), "\n")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("findings %q, want %q", shorten(got), tt.want)
			}
		})
	}
}
