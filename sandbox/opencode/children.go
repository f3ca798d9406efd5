package opencode

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"gander.dev/gander/acp"
)

// opencode's ACP server says nothing of its sub-agents but that a call of the tool "task" runs,
// and loses their questions. Its own server tells of both. So each call of task has to ask, which
// is answered once that server is being listened to: then nothing of the sub-agent is missed.
// A call that has a sub-agent is shown as a child session in its place.

// taskTool is the tool that starts a sub-agent.
const taskTool = "task"

// children are the sub-agents of a conversation.
type children struct {
	out     acp.Client
	control *control // nil where the host does not reach it: there are no sub-agents then
	dir     string
	log     *slog.Logger
	conv    conversation // after of

	// mu guards what follows. Nothing is sent while it is held.
	mu      sync.Mutex
	held    map[string]*heldCall     // calls of task, by opencode's ids
	working map[acp.SessionID]*child // sub-agents at work
	watch   *watch                   // nil while nobody listens
}

// heldCall is a call of task that is not shown.
type heldCall struct {
	first json.RawMessage // its tool_call
	begun bool            // it has a sub-agent, which is shown
}

// watch is the time in which opencode is listened to: from the first call of task in a turn to
// its end.
type watch struct {
	ctx    context.Context
	stop   context.CancelFunc
	ended  chan struct{} // closed when nothing more comes
	nobody chan struct{} // closed when the turn is over and no sub-agent works
	over   bool          // the turn is
	asking sync.WaitGroup
}

// child is a sub-agent at work. But for its questions and its cancel only the goroutine of the
// events uses it.
type child struct {
	id    acp.SessionID
	call  string // opencode's id of the call of task
	mend  *mender
	ctx   context.Context // of its questions
	stop  context.CancelFunc
	roles map[string]string // of messages
	texts map[string]*spoken
	calls map[string]bool // open tool calls
	last  string          // the part whose text is the answer so far
	text  []byte          // that text

	questions map[string]context.CancelFunc // by opencode's ids; guarded by children.mu
	cancelled bool                          // guarded by children.mu
}

// spoken counts the words of a part that have been passed on.
type spoken struct {
	kind string
	n    int // in bytes
}

const (
	// settleTime bounds the work of sub-agents after their turn.
	settleTime = 2 * time.Second
	// maxHeld bounds the calls of task of a turn, maxSaid the messages and parts of a sub-agent
	// that are known, and maxAnswer the text that is kept of an answer, in bytes.
	maxHeld, maxSaid, maxAnswer = 256, 10_000, 64 << 10
)

func newChildren(out acp.Client, c *control, dir string, log *slog.Logger) *children {
	return &children{out: out, control: c, dir: dir, log: log, held: map[string]*heldCall{}, working: map[acp.SessionID]*child{}}
}

// conversation is an acpagent.Session, as far as it is needed here.
type conversation interface {
	ID() string
	Cancel() error
}

// of says which conversation it is, before its first prompt.
func (k *children) of(conv conversation) { k.conv = conv }

// own is opencode's id of the conversation.
func (k *children) own() acp.SessionID { return acp.SessionID(k.conv.ID()) }

// endTurn cancels the turn, as a question in it would wait for ever.
func (k *children) endTurn(why string, err error) {
	k.tell(why+" The turn ends.", err)
	if err := k.conv.Cancel(); err != nil {
		k.log.Warn("ending a turn of opencode", "err", err)
	}
}

// hold takes the updates of calls of task out of those that are shown; id is opencode's. It
// returns those to be shown now.
func (k *children) hold(kind, id, status string, update json.RawMessage, tool string) []json.RawMessage {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.held[id]
	switch {
	case k.control == nil:
	case kind == "tool_call" && tool == taskTool && len(k.held) < maxHeld:
		k.held[id] = &heldCall{first: update}
		return nil
	case h == nil || kind == "tool_call":
	case status == "completed" || status == "failed":
		delete(k.held, id)
		if h.begun {
			return nil
		}
		return []json.RawMessage{h.first, update}
	default:
		return nil
	}
	return []json.RawMessage{update}
}

// isTask reports whether a question is about a call of task.
func (k *children) isTask(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held[id] != nil
}

// admit answers the question whether a sub-agent may start: it may when it will be seen.
func (k *children) admit(ctx context.Context) *acp.RequestPermissionResponse {
	answer := "once"
	if err := k.listen(ctx); err != nil {
		answer = "reject"
		k.tell("opencode's sub-agent was refused: gander could not see what it does.", err)
	}
	return &acp.RequestPermissionResponse{Outcome: acp.PermissionOutcome{Outcome: "selected", OptionID: answer}}
}

// tell tells the person what does not work.
func (k *children) tell(what string, err error) {
	k.log.Warn(what, "err", err)
	k.send("", acp.NoticeUpdate("warning", what, err.Error()))
}

// send passes on an update of a sub-agent's, or without an id of the conversation's.
func (k *children) send(in acp.SessionID, update json.RawMessage) {
	_ = k.out.SessionUpdate(context.Background(), &acp.SessionNotification{SessionID: in, Update: update}) // a client that is gone needs none
}

// listen begins to listen to opencode, unless it is done already.
func (k *children) listen(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.watch != nil {
		return nil
	}
	w := &watch{ended: make(chan struct{}), nobody: make(chan struct{})}
	w.ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	events, err := k.control.watch(w.ctx)
	if err != nil {
		w.stop()
		return err
	}
	k.watch = w
	go k.follow(w, events)
	return nil
}

// follow passes on what events tell.
func (k *children) follow(w *watch, events *events) {
	defer close(w.ended)
	defer w.asking.Wait()
	defer w.stop()
	defer func() { _ = events.body.Close() }()
	defer context.AfterFunc(w.ctx, func() { _ = events.body.Close() })()
	for {
		e, err := events.next()
		if w.ctx.Err() != nil {
			return
		}
		if err != nil { // questions from now on would be lost
			k.endTurn("opencode no longer tells what its sub-agents do.", err)
			return
		}
		k.happened(w, e)
	}
}

// settle ends the listening when the turn is over and its sub-agents have ended, which is told
// at the same time.
func (k *children) settle() {
	k.mu.Lock()
	w := k.watch
	clear(k.held)
	if w == nil {
		k.mu.Unlock()
		return
	}
	w.over = true
	k.quiet()
	k.mu.Unlock()
	select {
	case <-w.nobody:
	case <-w.ended:
	case <-time.After(settleTime):
	}
	w.stop()
	<-w.ended
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.working {
		c.stop()
	}
	clear(k.working)
	k.watch = nil
}

// quiet says that no sub-agent works, if so. mu is held.
func (k *children) quiet() {
	if w := k.watch; w != nil && w.over && len(k.working) == 0 {
		select {
		case <-w.nobody:
		default:
			close(w.nobody)
		}
	}
}

// happened takes an event.
func (k *children) happened(w *watch, e event) {
	var p struct {
		SessionID acp.SessionID `json:"sessionID"`
		MessageID string        `json:"messageID"`
		PartID    string        `json:"partID"`
		RequestID string        `json:"requestID"`
		Field     string        `json:"field"`
		Delta     string        `json:"delta"`
		Info      struct {
			ID   string `json:"id"`
			Role string `json:"role"`
		} `json:"info"`
		Part *part `json:"part"`
	}
	if json.Unmarshal(e.Properties, &p) != nil {
		return
	}
	if p.Part != nil {
		p.SessionID = acp.SessionID(p.Part.SessionID)
	}
	k.mu.Lock()
	c := k.working[p.SessionID]
	k.mu.Unlock()
	switch {
	case e.Type == "permission.asked":
		k.asked(w, c, e.Properties)
	case e.Type == "message.part.updated" && p.Part != nil && p.SessionID == k.own():
		k.task(w, p.Part)
	case c == nil:
	case e.Type == "permission.replied":
		k.answered(c, p.RequestID)
	case e.Type == "message.updated" && len(c.roles) < maxSaid:
		c.roles[p.Info.ID] = p.Info.Role
	case e.Type == "message.part.updated" && p.Part != nil:
		k.part(c, p.Part)
	case e.Type == "message.part.delta" && p.Field == "text":
		k.say(c, p.PartID, p.MessageID, p.Delta)
	}
}

// task takes what the conversation says of a call of task: its sub-agent begins or ends.
func (k *children) task(w *watch, p *part) {
	var m struct {
		SessionID acp.SessionID `json:"sessionId"`
	}
	if p.Tool != taskTool || json.Unmarshal(p.State.Metadata, &m) != nil || m.SessionID == "" {
		return
	}
	k.mu.Lock()
	c := k.working[m.SessionID]
	k.mu.Unlock()
	switch p.State.Status {
	case "running":
		if c == nil {
			k.begin(w, m.SessionID, p)
		}
	case "completed":
		if c != nil {
			k.end(c, &acp.ChildState{State: acp.ChildIdle, StopReason: acp.StopEndTurn})
		}
	case "error":
		if c != nil {
			k.end(c, k.failed(c, p.State.Error))
		}
	}
}

// failed says how a sub-agent has ended that did not end well.
func (k *children) failed(c *child, why string) *acp.ChildState {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.cancelled || slices.Contains([]string{"Task cancelled", "Tool execution aborted"}, why) {
		return &acp.ChildState{State: acp.ChildIdle, StopReason: acp.StopCancelled}
	}
	return &acp.ChildState{State: acp.ChildIdle, StopReason: acp.StopError, Error: acp.Internal(why, nil)}
}

// begin announces a sub-agent, and what it is to do.
func (k *children) begin(w *watch, id acp.SessionID, p *part) {
	var in struct {
		Description string `json:"description"`
		Prompt      string `json:"prompt"`
		Agent       string `json:"subagent_type"`
	}
	_ = acp.Decode(p.State.Input, &in) // it may say nothing
	c := &child{
		id: id, call: p.CallID, mend: newMender(k.dir), roles: map[string]string{}, texts: map[string]*spoken{},
		calls: map[string]bool{}, questions: map[string]context.CancelFunc{},
	}
	c.ctx, c.stop = context.WithCancel(w.ctx)
	k.mu.Lock()
	k.working[id] = c
	if h := k.held[p.CallID]; h != nil {
		h.begun = true
	}
	k.mu.Unlock()
	k.send("", childUpdate(&acp.ChildUpdate{
		SessionID: id, Title: cmp.Or(in.Description, in.Agent, "sub-agent"), Description: in.Prompt,
		Capabilities: &acp.ChildCapabilities{Cancel: &acp.Supported{}}, State: &acp.ChildState{State: acp.ChildRunning},
	}))
	k.send("", message(p.CallID+"-task", k.own(), id, in.Prompt))
}

// end says that a sub-agent has ended, and what it answered.
func (k *children) end(c *child, state *acp.ChildState) {
	c.stop()
	if len(c.text) > 0 {
		k.send("", message(c.call+"-answer", c.id, k.own(), strings.ToValidUTF8(string(c.text), "")))
	}
	k.send("", childUpdate(&acp.ChildUpdate{SessionID: c.id, State: state}))
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.working, c.id)
	k.quiet()
}

func childUpdate(u *acp.ChildUpdate) json.RawMessage {
	raw, _ := u.MarshalJSON() // which always works
	return raw
}

// message is a message of one session to another.
func message(id string, from, to acp.SessionID, text string) json.RawMessage {
	raw, _ := json.Marshal(map[string]any{ // strings always marshal
		"sessionUpdate": "session_message", "messageId": id, "senderSessionId": from, "recipientSessionId": to,
		"content": []any{acp.TextBlock(text)},
	})
	return raw
}

// part passes on what is new of a part of a message.
func (k *children) part(c *child, p *part) {
	switch p.Type {
	case "tool":
		k.tool(c, p)
	case "text", "reasoning":
		if p.Synthetic || p.Ignored || c.roles[p.MessageID] != "assistant" {
			return
		}
		t := c.texts[p.ID]
		if t == nil {
			if len(c.texts) >= maxSaid {
				return
			}
			t = &spoken{kind: map[string]string{"text": acp.AgentMessageChunk, "reasoning": acp.AgentThoughtChunk}[p.Type]}
			c.texts[p.ID] = t
		}
		if p.Type == "text" && c.last != p.ID {
			c.last, c.text = p.ID, nil
		}
		if n := t.n; n < len(p.Text) && utf8.RuneStart(p.Text[n]) {
			k.say(c, p.ID, p.MessageID, p.Text[n:])
		}
	}
}

// say passes on words of a part that is known.
func (k *children) say(c *child, id, message, text string) {
	t := c.texts[id]
	if t == nil {
		return
	}
	t.n += len(text)
	if id == c.last {
		c.text = append(c.text, text[:min(len(text), maxAnswer-len(c.text))]...)
	}
	k.send(c.id, acp.MessageChunk(t.kind, message, text))
}

// tool passes on what is new of a tool call, mended as those of the conversation.
func (k *children) tool(c *child, p *part) {
	known := c.calls[p.CallID]
	if !known && len(c.calls) >= maxCalls {
		return
	}
	c.calls[p.CallID] = true
	for _, update := range p.updates(k.dir, !known) {
		if update = c.mend.mend(update); update != nil {
			k.send(c.id, update)
		}
	}
	if p.State.Status == "completed" || p.State.Status == "error" {
		delete(c.calls, p.CallID)
	}
}

// ended reports whether a sub-agent works no more, or is to.
func (k *children) ended(c *child) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.watch == nil || k.watch.over || c != nil && (c.cancelled || k.working[c.id] != c)
}

// cancelled says that the turn is to end.
func (k *children) cancelled() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.working {
		c.cancelled = true
	}
}

// cancelChild ends what a sub-agent does, and nothing else.
func (k *children) cancelChild(id acp.SessionID) error {
	k.mu.Lock()
	c := k.working[id]
	if c != nil {
		c.cancelled = true
	}
	k.mu.Unlock()
	if c == nil {
		return errors.New("no sub-agent works in that session")
	}
	if err := k.control.abort(context.Background(), string(id)); err != nil {
		return fmt.Errorf("cancelling a sub-agent of opencode: %w", err)
	}
	return nil
}
