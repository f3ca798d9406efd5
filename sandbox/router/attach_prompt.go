package router

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sessions"
)

// goOn is how to go on with a loop's conversation without the loop.
const goOn = "A fork of this session is an ordinary one, which goes on with the conversation."

// prompt gives the loop the person's message, and lasts until the iteration whose
// instruction has it is over: the editor shows that one as the answer. A cancel ends
// the waiting and not the loop.
func (a *attachment) prompt(ctx context.Context, req *acp.PromptRequest) (*acp.PromptResponse, error) {
	if err := canBeAnswered(req.Prompt); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.mu.Lock()
	defer context.AfterFunc(a.prompts, cancel)()
	before, given := a.last, make(chan struct{})
	a.last = given
	a.mu.Unlock()
	acp.Release(ctx)
	if before != nil { // the loop gets messages in the order of the prompts
		select {
		case <-before:
		case <-ctx.Done():
		}
	}
	d, said := a.deliver(ctx, req.Prompt)
	close(given)
	if d != nil {
		defer a.forget(d)
		return a.answered(ctx, d), nil
	}
	if ctx.Err() == nil {
		a.tell(ctx, said)
	}
	return ended(ctx, nil), nil
}

// ended is the response of a prompt; the usage is the iteration's.
func ended(ctx context.Context, e *sessions.TurnEvent) *acp.PromptResponse {
	switch {
	case ctx.Err() != nil:
		return &acp.PromptResponse{StopReason: acp.StopCancelled}
	case e != nil:
		return &acp.PromptResponse{StopReason: acp.StopEndTurn, Usage: e.Usage}
	}
	return &acp.PromptResponse{StopReason: acp.StopEndTurn}
}

// cancelPrompts ends the waiting of every prompt.
func (a *attachment) cancelPrompts() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopPrompts()
	a.prompts, a.stopPrompts = context.WithCancel(a.ctx)
}

// deliver gives a prompt to the loop, or to gander when it is a command. Without a
// delivery there is nothing to wait for, and said is the answer.
func (a *attachment) deliver(ctx context.Context, prompt []acp.ContentBlock) (d *delivery, said string) {
	if name, args, ok := slashed(prompt); ok {
		if c := loopCommandNamed(name); c != nil {
			return nil, a.obey(ctx, c, args)
		}
	}
	text := strings.TrimSpace(plainText(prompt))
	if text == "" {
		return nil, "The message is empty; say something to the loop."
	}
	loop, err := a.r.opts.Loops.Loop(ctx, a.id)
	if err == nil && loop.Over {
		return nil, fmt.Sprintf("This loop is %s and takes no messages any more. %s `gander loop start` begins another loop.", loop.String(), goOn)
	}
	if err == nil {
		err = a.r.opts.Loops.Say(ctx, a.id, text)
	}
	if err != nil {
		return nil, fmt.Sprintf("The loop did not get the message: %s. %s", errorText(err), goOn)
	}
	d = a.await()
	a.keep(context.WithoutCancel(ctx), text)
	if slices.ContainsFunc(prompt, holdsMore) {
		a.send(ctx, thought("The loop gets what is attached by its name only; the agent can read files that are in the workspace."))
	}
	if loop.idle() {
		a.forget(d)
		return nil, a.hindrance(&loop, nil)
	}
	a.send(ctx, thought("The loop has the message for its next iteration."))
	return d, ""
}

// holdsMore reports whether a block has more in it than plainText says.
func holdsMore(block acp.ContentBlock) bool {
	kind := acp.ParseContentBlock(block).Type
	return kind != "text" && kind != "resource_link"
}

// keep writes what the person said into the thread. One that cannot be written is
// still said.
func (a *attachment) keep(ctx context.Context, text string) {
	id := "said-" + newID()
	a.mu.Lock()
	a.own[id] = true
	turn := a.turn
	a.mu.Unlock()
	err := a.r.opts.Store.Append(ctx, a.id, sessions.Record{ID: id, TurnID: turn, Body: sessions.Message{Role: sessions.RoleUser, Content: text}})
	if err != nil {
		a.log.Warn("a message to a loop is not in its transcript", "err", err)
	}
}

// answered waits for the end of the iteration that has a message. It asks now and
// then how the loop does: one that is paused or over begins none.
func (a *attachment) answered(ctx context.Context, d *delivery) *acp.PromptResponse {
	look := time.NewTicker(a.r.opts.LoopEvery)
	defer look.Stop()
	idle, told := 0, ""
	for {
		select {
		case e := <-d.ended:
			return ended(ctx, &e)
		case <-ctx.Done():
			return ended(ctx, nil)
		case <-look.C:
		}
		loop, err := a.r.opts.Loops.Loop(ctx, a.id)
		what := a.hindrance(&loop, err)
		switch {
		case ctx.Err() != nil:
		case err == nil && loop.idle():
			idle++
		default:
			idle = 0
			if what != "" && what != told {
				a.send(ctx, thought(what))
			}
			told = what
		}
		if idle == 2 { // asked again, for what was still on its way into the transcript
			a.tell(ctx, what)
			return ended(ctx, nil)
		}
	}
}

// hindrance says why the iteration with a message may not come soon; empty when it does.
func (a *attachment) hindrance(loop *Loop, err error) string {
	switch {
	case err != nil:
		return fmt.Sprintf("The loop has the message; how it does is not known: %s. Cancel to stop waiting.", errorText(err))
	case loop.Over:
		return fmt.Sprintf("The loop is %s. %s", loop.String(), goOn)
	case loop.State == telemetry.Paused:
		return fmt.Sprintf("The loop has the message and is %s; it takes it up when it goes on: /resume, or /step for one iteration.", loop.String())
	case loop.State == telemetry.Unready:
		return fmt.Sprintf("The loop has the message and waits: %s. Cancel to stop waiting.", loop.String())
	}
	return ""
}
