package router

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sessions"
)

// errCancelled is the cause of a turn's context when the client cancelled it.
var errCancelled = errors.New("the client cancelled the turn")

// turn is one prompt from its place in the queue until its stop reason.
type turn struct {
	s            *session
	id           string
	prompt       []acp.ContentBlock
	command      *command // non-nil: it is for gander, with args
	args         string
	fresh        bool            // the agent is told nothing of what was said before
	agent        string          // who was given the prompt; empty when nobody was
	agentSession string          // that agent's own id of the conversation
	ctx          context.Context // ends when the turn is cancelled, or the connection ends
	cancel       context.CancelCauseFunc
	head         chan struct{} // closed when it is this turn's turn
	finished     chan struct{} // closed when nothing of it runs any more
	started      time.Time
}

// enqueue takes the next place in the session's queue. What of the prompt is kept may lack
// content of closed files.
func (s *session) enqueue(ctx context.Context, prompt, kept []acp.ContentBlock) *turn {
	ctx, cancel := context.WithCancelCause(ctx)
	t := &turn{s: s, id: newID(), prompt: kept, ctx: ctx, cancel: cancel, head: make(chan struct{}), finished: make(chan struct{})}
	t.command, t.args = commandOf(prompt)
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.command == nil {
		s.turns++
	}
	s.queue = append(s.queue, t)
	if len(s.queue) == 1 {
		close(t.head)
	}
	if s.closed {
		cancel(errCancelled)
	}
	return t
}

// dequeue lets the next turn begin. It is called when the response of this one
// is on its way, so that nothing of the next overtakes it.
func (t *turn) dequeue() {
	t.cancel(nil)
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.queue, t)
	s.queue = slices.Delete(s.queue, i, i+1)
	if i == 0 && len(s.queue) > 0 {
		close(s.queue[0].head)
	}
}

// isOver reports whether nothing of the turn runs any more.
func (t *turn) isOver() bool {
	select {
	case <-t.finished:
		return true
	default:
		return false
	}
}

// cancelTurns cancels the running turn and the waiting ones, for a cause.
func (s *session) cancelTurns(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.queue {
		t.cancel(cause)
	}
}

// run waits for the turn's place, has it answered and records it. A turn that is
// cancelled while it waits ends at once.
func (t *turn) run() (*acp.PromptResponse, error) {
	defer close(t.finished)
	t.started = time.Now()
	select {
	case <-t.head:
	case <-t.ctx.Done():
	}
	defer t.trace()()
	forgotten := t.beginAnew()
	begin := sessions.TurnEvent{Event: sessions.TurnStart}
	if t.command != nil {
		begin.Command = t.command.name
	}
	t.s.record(t.id, begin)
	t.s.record(t.id, sessions.Message{Role: sessions.RoleUser, Content: plainText(t.prompt), Blocks: t.prompt})
	var resp *acp.PromptResponse
	var err error
	switch {
	case t.ctx.Err() != nil:
	case forgotten != nil:
		err = forgotten
	case t.command != nil:
		resp = t.obey()
	default:
		if err = t.s.stopped(); err == nil {
			err = t.s.stillThere()
		}
		if err == nil {
			resp, err = t.answer()
		}
		if why := t.s.leaks.TakeStop(); why != "" { // the turn has ended before it was ended
			t.cancel(&haltError{why})
		}
	}
	if t.ctx.Err() != nil { // whatever went wrong meanwhile: the person cancelled, or the policy
		resp, err = &acp.PromptResponse{StopReason: acp.StopCancelled, Meta: stopMeta(context.Cause(t.ctx))}, nil
	}
	t.recordEnd(resp, err)
	return resp, err
}

// beginAnew has agents forget what was said before a turn that asks for it.
func (t *turn) beginAnew() error {
	if !t.fresh || t.ctx.Err() != nil {
		return nil
	}
	_, err := t.s.forgetAll(t.ctx)
	return err
}

// recordEnd records how the turn ended. The response waits for the disk: it is
// the acknowledgement of the turn, and what was acknowledged stays.
func (t *turn) recordEnd(resp *acp.PromptResponse, err error) {
	end := sessions.TurnEvent{Event: sessions.TurnEnd, DurationMS: time.Since(t.started).Milliseconds(), Error: errorText(err)}
	if resp != nil {
		end.StopReason, end.Usage = resp.StopReason, resp.Usage
	}
	if t.agent != "" {
		end.Cost = t.s.cost()
	}
	end.Agent, end.AgentSessionID = t.agent, t.agentSession
	t.s.record(t.id, end)
	t.s.acknowledge(t.ctx)
}

// answer has the agent answer the prompt.
func (t *turn) answer() (*acp.PromptResponse, error) {
	kept := make(chan struct{})
	t.s.work.Go(func() { // close waits for this turn before it waits for work
		defer close(kept)
		t.s.acknowledge(t.ctx)
	})
	t.askServers()
	if t.ctx.Err() != nil {
		return nil, t.ctx.Err()
	}
	t.giveBack()
	b, err := t.awaitBackend()
	if err != nil {
		return nil, err
	}
	defer t.release(b)
	mark, err := b.sb.Mark(t.ctx)
	switch {
	case t.ctx.Err() != nil:
		return nil, t.ctx.Err()
	case err != nil:
		b.stop() // what cannot be marked cannot be cleaned up after
		return nil, acp.Internal(fmt.Sprintf("the sandbox does not work any more (%v); the next prompt starts a fresh one and goes on with this conversation", err), nil)
	}
	switch err := b.check(t.ctx); {
	case t.ctx.Err() != nil:
		return nil, t.ctx.Err()
	case err != nil:
		return nil, acp.Internal(fmt.Sprintf("the agent was not asked: %v", err), nil)
	}
	b.place.Model.Proceed()
	t.s.r.beginWork(t.s)
	defer t.s.r.endWork(t.s)
	before := t.s.files.begin(t, b)
	b.relay.begin(t, before)
	t.s.showPending(t.ctx)
	prompt := t.withHistory(b)
	if !b.hosted() {
		prompt = t.attachments(b, prompt)
	}
	<-kept                  // whatever the agent does, it is known what it was asked for
	if t.ctx.Err() != nil { // the cancel might reach the agent before the prompt
		b.relay.end("")
		return nil, t.ctx.Err()
	}
	t.given(b)
	resp, err := t.ask(b, mark, prompt)
	t.known(b)
	defer func() { t.heal(b, prompt, err) }()
	if err == nil && t.ctx.Err() == nil {
		b.sayWordless(resp)
	}
	reason := ""
	switch {
	case t.ctx.Err() != nil:
		reason = "Cancelled."
	case err != nil:
		reason = errorText(err)
	}
	found := t.s.files.end(t, before, b.relay.end(reason))
	if resp != nil && t.s.r.opts.Parent != "" {
		resp.Meta = t.told(found)
	}
	return resp, err
}

// ask prompts the agent and waits for its answer, or for the end of the turn.
func (t *turn) ask(b *backend, mark sandbox.Mark, prompt []acp.ContentBlock) (*acp.PromptResponse, error) {
	answered, asked := make(chan answer, 1), time.Now()
	t.s.work.Go(func() { // close waits for this turn before it waits for work
		resp, err := b.conv.Prompt(b.ctx, prompt)
		answered <- answer{resp, err}
	})
	watching, over := context.WithCancel(t.ctx)
	watched := make(chan struct{})
	go func() { defer close(watched); t.watchSilence(watching, b) }()
	defer func() { over(); <-watched }()
	select {
	case a := <-answered:
		if t.ctx.Err() == nil {
			return b.checked(a.result(b, asked))
		}
		answered <- a
	case <-t.ctx.Done():
	}
	t.cancelAgent(b, mark, answered)
	return nil, t.ctx.Err()
}

// answer is what the agent's Prompt returned.
type answer struct {
	resp *acp.PromptResponse
	err  error
}

// result is the answer to what was asked then, as the client gets it.
func (a answer) result(b *backend, asked time.Time) (*acp.PromptResponse, error) {
	if a.err == nil {
		return b.honest(a.resp), nil
	}
	if b.over() {
		return nil, acp.Internal(fmt.Sprintf("%v. The next prompt starts %s again and goes on with this conversation.", b.ending(a.err), b.agent.Name()), nil)
	}
	why, refused := b.callFailed(asked)
	e, ok := errors.AsType[*acp.Error](a.err)
	switch {
	case refused:
		return nil, acp.Internal(why, json.RawMessage(byPolicy))
	case ok && e.Code == acp.CodeAuthRequired: // the client could only offer ways to sign in that gander does not have
		return nil, acp.Internal(cmp.Or(why, fmt.Sprintf("the model did not accept the key that %s's calls are made with (%s); gander provider list says where it is from", b.agent.Name(), e.Message)), nil)
	}
	if ok && Refused(e) && !b.hosted() { // as only gander says
		return nil, &acp.Error{Code: e.Code, Message: e.Message}
	}
	return nil, a.err
}

// A failer is a Model that knows why its last call failed, and whether that is because
// the person's policy refused it; why is empty when it did not fail, or before since.
type failer interface {
	LastFailure(since time.Time) (why string, refused bool)
}

// callFailed is why the model call failed that an agent's error is about.
func (b *backend) callFailed(asked time.Time) (why string, refused bool) {
	if m, ok := b.place.Model.(failer); ok {
		return m.LastFailure(asked)
	}
	return "", false
}

// checked is what may leave of an answer.
func (b *backend) checked(resp *acp.PromptResponse, err error) (*acp.PromptResponse, error) {
	if err != nil {
		return nil, b.s.leaks.error(err)
	}
	if err := b.s.leaks.Check(leakSaid, marshal(resp)); err != nil {
		return nil, acp.Internal(err.Error(), nil)
	}
	resp.Meta = ourless(resp.Meta)
	return resp, nil
}

// A finisher is a Model that knows why the model's last answer ended, as the
// finish_reason of chat completions.
type finisher interface{ LastFinish() string }

// stopReasons are those of ACP v1. Clients do not take a response with another one.
var stopReasons = []acp.StopReason{acp.StopEndTurn, acp.StopMaxTokens, acp.StopMaxTurnRequests, acp.StopRefusal, acp.StopCancelled}

// honest is a response that says when the model was cut off: agents end such a
// turn as if the model had come to an end.
func (b *backend) honest(resp *acp.PromptResponse) *acp.PromptResponse {
	if !slices.Contains(stopReasons, resp.StopReason) {
		known := *resp
		known.StopReason, resp = acp.StopEndTurn, &known
	}
	m, ok := b.place.Model.(finisher)
	if !ok || resp.StopReason != acp.StopEndTurn || m.LastFinish() != "length" {
		return resp
	}
	cut := *resp
	cut.StopReason = acp.StopMaxTokens
	return &cut
}

// awaitBackend waits until the agent can be asked, and says so when that is slow.
// One that has just ended is replaced, and so are one that the person has replaced and
// one that could not start with what it keeps of its session.
func (t *turn) awaitBackend() (*backend, error) {
	slow := time.NewTimer(t.s.r.opts.SlowStart)
	defer slow.Stop()
	for again := false; ; {
		b := t.s.start()
		if b == nil { // the session was closed
			return nil, context.Canceled
		}
		err := t.awaitReady(b, slow.C)
		switch {
		case t.ctx.Err() != nil:
			return nil, t.ctx.Err()
		case !t.take(b):
			continue
		case again || err != nil && !b.astray || err == nil && !b.over():
			return b, err
		}
		t.release(b)
		again = true
		select {
		case <-b.ended:
		case <-t.ctx.Done():
			return nil, t.ctx.Err()
		}
	}
}

// take makes b the one that answers this turn: it is not ended before the turn.
// It is false when the person has chosen another one meanwhile.
func (t *turn) take(b *backend) bool {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if b.replaced {
		return false
	}
	b.turn = t
	return true
}

func (t *turn) release(b *backend) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	b.turn = nil
}

// given notes that b's agent is given this turn's prompt.
func (t *turn) given(b *backend) {
	t.agent = b.agent.Name()
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.s.last = t.id
}

// known notes that the turn is a part of the agent's own session. One that died in
// the turn may know nothing of it, and is told again.
func (t *turn) known(b *backend) {
	if b.over() {
		return
	}
	t.agentSession = b.conv.ID()
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.s.seen[t.agent] = memory{session: t.agentSession, turn: t.id}
}

func (t *turn) awaitReady(b *backend, slow <-chan time.Time) error {
	for {
		select {
		case <-b.ready:
			if b.err != nil {
				return t.s.r.lacking(b.err)
			}
			return nil
		case <-slow:
			t.s.send(t.ctx, thought(starting(b.agent.Name(), b.driver.Name())))
		case <-t.ctx.Done():
			return t.ctx.Err()
		}
	}
}

// starting says where an agent starts.
func starting(agent, driver string) string {
	if driver == sandbox.Off {
		return fmt.Sprintf("Starting %s without a sandbox …", agent)
	}
	return fmt.Sprintf("Starting %s in a %s sandbox …", agent, driver)
}

// plainText is a prompt as the transcript's message text.
func plainText(prompt []acp.ContentBlock) string {
	var parts []string
	for _, raw := range prompt {
		c := acp.ParseContentBlock(raw)
		switch c.Type {
		case "text":
			parts = append(parts, c.Text)
		case "resource_link", "resource":
			parts = append(parts, "["+c.URI+"]")
		default:
			parts = append(parts, "["+c.Type+"]")
		}
	}
	return strings.Join(parts, "\n")
}
