package router

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sessions"
)

// childTerms say what a child session is.
type childTerms struct {
	parent             *child // nil: it is a child of the session itself
	title, description string
	cwd                string // empty: the session's
	// cancel ends what the child does, and nothing else; nil: it cannot be cancelled alone.
	cancel func()
}

// A child is a child session of a session: a sub-agent of its agent, or work that gander has
// given to another one. A client that knows child sessions gets it as one. Any other gets one
// tool call for each of its tasks, with the end of what it says and does, and its questions
// name it. The transcript has both.
//
// begin comes first, and again after end when there is more to do; update and ask come
// between them.
type child struct {
	s      *session
	id     acp.SessionID // the client's
	native bool          // the client knows child sessions

	// mu guards what follows.
	mu    sync.Mutex
	terms childTerms
	turn  *turn              // in which it works; nil while it does nothing
	last  *turn              // in which it worked last
	ctx   context.Context    // of its questions: ends with its work
	stop  context.CancelFunc // ends ctx
	stand stand
	said  *confine.Stream // its words, as what must not be said may come in pieces
	calls calls
}

// stand is the tool call that stands for what a child does.
type stand struct {
	id   string
	text []byte // what the child says and does, the end of it
	line bool   // text ends with a line about a tool
	sent time.Time
}

const (
	// maxStand bounds the text of a stand, in bytes.
	maxStand = 16 << 10
	// standPause bounds how often a stand is sent again for some more words.
	standPause = 300 * time.Millisecond
	// maxChildren bounds the child sessions of an agent that are known; of more those that
	// do nothing are forgotten.
	maxChildren = 200
	// maxChildWords bounds title and description of a child, in bytes.
	maxChildWords = 4 << 10
)

// newChild returns a child session that nobody knows of before begin.
func (s *session) newChild(terms childTerms) *child {
	c := &child{s: s, id: acp.SessionID(newID()), terms: terms, native: s.showsChildren(), said: s.leaks.Stream(leakSaid)}
	c.ctx, c.stop = context.WithCancel(s.ctx)
	c.calls = calls{s: s, ids: newCallIDs(), shown: new(shownDiffs), was: new(wholeTexts), emit: func(update json.RawMessage) { c.put(c.id, update) }}
	return c
}

// showsChildren reports whether the client knows child sessions.
func (s *session) showsChildren() bool { return s.r.client.Capabilities().Subagents != nil }

// parentID is the session that the child is a child of.
func (c *child) parentID() acp.SessionID {
	if c.terms.parent != nil {
		return c.terms.parent.id
	}
	return c.s.id
}

// name returns the words by which a person knows the child. mu is held.
func (c *child) name() string {
	own := cmp.Or(confine.Printable(firstLine(c.terms.title)), confine.Printable(firstLine(c.terms.description)), "sub-agent")
	if c.terms.parent != nil {
		return c.terms.parent.called() + " › " + own
	}
	return own
}

// called is name for those that do not hold mu.
func (c *child) called() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name()
}

// begin announces the child, or says that it works again, in a turn.
func (c *child) begin(t *turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn != nil {
		return
	}
	c.turn, c.last = t, t
	c.stop()
	c.ctx, c.stop = context.WithCancel(t.ctx)
	c.s.follow(c)
	c.sayState(acp.ChildState{State: acp.ChildRunning})
	c.stand = stand{id: "gander-child-" + newID(), sent: time.Now()}
	c.putStand(acp.WithFields(json.RawMessage(`{"sessionUpdate":"tool_call"}`), map[string]any{
		"toolCallId": c.stand.id, "title": c.name(), "kind": "other", "status": "in_progress", "content": c.standText(),
		"_meta": map[string]any{metaKey: map[string]any{"subagent": map[string]any{"title": c.terms.title}}},
	}), true)
}

// sayState says all that is known of the child on the session that it is a child of. mu is held.
func (c *child) sayState(state acp.ChildState) {
	u := acp.ChildUpdate{
		SessionID: c.id, Title: c.terms.title, Description: c.terms.description, CWD: c.terms.cwd,
		Capabilities: new(acp.ChildCapabilities), State: &state,
	}
	if c.terms.cancel != nil {
		u.Capabilities.Cancel = &acp.Supported{}
	}
	c.put(c.parentID(), marshal(u))
}

// describe changes what is known of the child: an empty title or description stays as it was.
func (c *child) describe(title, description string, cancel func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.terms.title, c.terms.description = cmp.Or(title, c.terms.title), cmp.Or(description, c.terms.description)
	c.terms.cancel = cancel
	if c.turn == nil {
		return
	}
	c.sayState(acp.ChildState{State: acp.ChildRunning})
	c.putStand(acp.WithFields(json.RawMessage(`{"sessionUpdate":"tool_call_update"}`), map[string]any{"toolCallId": c.stand.id, "title": c.name()}), false)
}

// put records an update of the child, or about it, and sends it to a client that knows child
// sessions. mu is held.
func (c *child) put(in acp.SessionID, update json.RawMessage) {
	c.s.record(c.last.id, sessions.Child{SessionID: in, Update: update})
	if c.native {
		c.s.passIn(c.last.ctx, in, &acp.SessionNotification{Update: update})
	}
}

// putStand records an update of the tool call that stands for the child, and sends it to a
// client that knows no child sessions. Where the client knows them, only notable ones are
// recorded. mu is held.
func (c *child) putStand(update json.RawMessage, notable bool) {
	if notable || !c.native {
		c.s.record(c.last.id, sessions.Update{Sent: []json.RawMessage{update}, Child: c.id})
	}
	if !c.native {
		c.s.send(c.last.ctx, update)
	}
}

// update passes an update of the child's on, mended. What is gander's to say of a session, its
// mode, options and commands, a child does not say.
func (c *child) update(kind string, update json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil || c.leaks(kind, update) != nil {
		return
	}
	var name string // of the tool that a call is of
	switch kind {
	case "current_mode_update", "config_option_update", "available_commands_update", "notice":
		return
	case "tool_call", "tool_call_update":
		if tc := c.calls.tools.find(stringOf(acp.Member(update, "toolCallId"))); tc != nil {
			name = tc.tool
		}
		sent, err := c.calls.tool(kind, update)
		if err != nil || c.leaks(kind, sent) != nil {
			return
		}
		update = sent
	}
	c.put(c.id, update)
	if c.turn != nil {
		c.standFor(kind, name, update)
	}
}

// leaks looks for what must not be said. mu is held.
func (c *child) leaks(kind string, update json.RawMessage) error {
	if kind == acp.AgentMessageChunk || kind == acp.AgentThoughtChunk {
		return c.s.leaks.chunk(c.said, update)
	}
	return c.s.leaks.update(kind, update)
}

// standFor puts an update of the child's into the tool call that stands for it: its words,
// and a line for each tool. mu is held.
func (c *child) standFor(kind, name string, update json.RawMessage) {
	switch kind {
	case acp.AgentMessageChunk:
		c.write(acp.ParseContentBlock(acp.Member(update, "content")).Text, false)
	case "tool_call":
		c.write("["+firstLine(stringOf(acp.Member(update, "title")))+"]", true)
	case "tool_call_update":
		if stringOf(acp.Member(update, "status")) == "failed" {
			c.write("["+firstLine(name)+" failed]", true)
		}
	}
}

// write adds to the text of the stand: words, or a line of its own. mu is held.
func (c *child) write(text string, line bool) {
	if text == "" {
		return
	}
	if n := len(c.stand.text); (line || c.stand.line) && n > 0 && c.stand.text[n-1] != '\n' {
		c.stand.text = append(c.stand.text, '\n')
	}
	c.stand.line = line
	c.stand.text = append(c.stand.text, text...)
	if over := len(c.stand.text) - maxStand; over > 0 {
		c.stand.text = append([]byte("[…]"), c.stand.text[over+len("[…]"):]...)
	}
	if line || time.Since(c.stand.sent) >= standPause {
		c.stand.sent = time.Now()
		c.putStand(acp.ToolCallProgress(c.stand.id, "", c.standText()), false)
	}
}

// standText is the content of the tool call that stands for the child. mu is held.
func (c *child) standText() []json.RawMessage {
	content := []json.RawMessage{}
	if task := c.terms.description; task != "" && task != c.terms.title {
		content = append(content, acp.ToolContent("Task: "+task))
	}
	if text := bytes.ToValidUTF8(c.stand.text, nil); len(text) > 0 {
		content = append(content, acp.ToolContent(string(text)))
	}
	return content
}

// end says that the child does nothing any more: why says what failed; empty for nothing.
func (c *child) end(stop acp.StopReason, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil {
		open := why
		if stop == acp.StopCancelled {
			open = cmp.Or(why, "It was cancelled.")
		}
		c.calls.endAll(open)
	}
	if c.turn == nil {
		return
	}
	state := acp.ChildState{State: acp.ChildIdle, StopReason: stop}
	status := "completed"
	if stop == acp.StopError {
		state.Error = acp.Internal(cmp.Or(why, "it failed"), nil)
	}
	if stop == acp.StopError || stop == acp.StopCancelled {
		status = "failed"
		c.write("["+cmp.Or(why, string(stop))+"]", true)
	}
	c.stop()
	c.s.unfollow(c)
	c.sayState(state)
	c.putStand(acp.ToolCallProgress(c.stand.id, status, c.standText()), true)
	c.turn = nil
}

// question is a question of the child as the client gets it: in the child's session, or in
// its name.
func (c *child) question(ask *acp.RequestPermissionRequest) {
	if c.native {
		ask.SessionID = c.id
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	title := fmt.Sprintf("%s: %s", c.name(), stringOf(acp.Member(ask.ToolCall, "title")))
	ask.ToolCall = acp.WithFields(ask.ToolCall, map[string]any{"toolCallId": c.stand.id, "title": title})
}

// answered gives the tool call that stands for the child its own title again, which a question
// has taken.
func (c *child) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn == nil {
		return
	}
	c.putStand(acp.WithFields(acp.ToolCallProgress(c.stand.id, "in_progress", c.standText()), map[string]any{"title": c.name()}), false)
}

// working returns a context that ends with ctx and with what the child does now.
func (c *child) working(ctx context.Context) (context.Context, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, stop := context.WithCancel(ctx)
	detach := context.AfterFunc(c.ctx, stop)
	return ctx, func() { detach(); stop() }
}

// idle reports whether the child does nothing.
func (c *child) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turn == nil
}

// cancelled ends what the child does, and what it asks, as the client wants.
func (c *child) cancelled() {
	c.mu.Lock()
	cancel, stop := c.terms.cancel, c.stop
	c.mu.Unlock()
	if cancel == nil {
		c.s.log.Debug("ignored the cancel of a child session that cannot be cancelled alone")
		return
	}
	stop()
	cancel()
}

// follow and unfollow keep the children at work, by the client's ids.
func (s *session) follow(c *child) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.children == nil {
		s.children = map[acp.SessionID]*child{}
	}
	s.children[c.id] = c
}

func (s *session) unfollow(c *child) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.children, c.id)
}

// child is a child session at work; nil when there is none with the id.
func (r *Router) child(id acp.SessionID) *child {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sessions {
		s.mu.Lock()
		c := s.children[id]
		s.mu.Unlock()
		if c != nil {
			return c
		}
	}
	return nil
}

// childWords are the words by which an agent describes a child, in bounds.
func childWords(raw json.RawMessage) string {
	return strings.ToValidUTF8(cutText(strings.TrimSpace(stringOf(raw)), maxChildWords), "")
}

func cutText(text string, most int) string {
	if len(text) > most {
		return text[:most]
	}
	return text
}
