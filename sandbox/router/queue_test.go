package router

import (
	"context"
	"strings"
	"testing"

	"gander.dev/gander/acp"
)

// A prompt that waits is said to, is listed while the turn before it runs, and can be taken
// back; the others keep their order.
func TestQueue(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, func(r *rig) {
		r.agent.onTurn = func(_ context.Context, c *fakeConv, text string) (*acp.PromptResponse, error) {
			c.say("doing " + text)
			<-gate
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	id := r.open(t).SessionID
	r.wantStop(t, id, "/queue", acp.StopEndTurn)
	var replies []<-chan reply
	for _, text := range []string{"one", "two", "three"} {
		replies = append(replies, r.prompt(t, id, text))
		queued(t, r, id, len(replies))
	}
	r.editor.Wait(t, "what is said of the prompt that waits", func() bool {
		return strings.Contains(r.said(id), "This prompt waits, as number 2: three.")
	})
	r.wantStop(t, id, "/queue", acp.StopEndTurn)
	r.wantStop(t, id, "/queue drop 7", acp.StopEndTurn)
	r.wantStop(t, id, "/queue drop 1", acp.StopEndTurn)
	if got := <-replies[1]; got.stop != acp.StopCancelled {
		t.Errorf("the prompt that was taken back: %+v", got)
	}
	r.wantStop(t, id, "/now", acp.StopEndTurn)
	close(gate)
	for _, i := range []int{0, 2} {
		if got := <-replies[i]; got.stop != acp.StopEndTurn {
			t.Errorf("prompt %d: %+v", i, got)
		}
	}
	said := r.said(id)
	for _, want := range []string{"No prompt waits.", `Prompts that wait:\n1. two\n2. three\n`, "choose a number from 1 to 2", "Taken back: two", "say what to go on with", "doing one", "doing three"} {
		if !strings.Contains(said, want) {
			t.Errorf("the person reads %s, without %q", said, want)
		}
	}
	if strings.Contains(said, "doing two") {
		t.Error("the agent has the prompt that was taken back")
	}
}

// A /now ends the turn that runs and comes before what waits; alone it is a prompt.
func TestNow(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, text string) (*acp.PromptResponse, error) {
			c.say("doing " + text)
			if text == "one" {
				return untilCancelled(ctx, c, text)
			}
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	id := r.open(t).SessionID
	one := r.prompt(t, id, "one")
	r.editor.Wait(t, "the first turn", func() bool { return strings.Contains(r.said(id), "doing one") })
	two := r.prompt(t, id, "two")
	queued(t, r, id, 2)
	r.wantStop(t, id, "/now go on like this", acp.StopEndTurn)
	if got := <-one; got.stop != acp.StopCancelled {
		t.Errorf("the turn that ran: %+v", got)
	}
	if got := <-two; got.stop != acp.StopEndTurn {
		t.Errorf("the turn that waited: %+v", got)
	}
	said := r.said(id)
	now, after := strings.Index(said, "doing go on like this"), strings.Index(said, "doing two")
	if now < 0 || after < now {
		t.Errorf("the person reads %s", said)
	}
	r.wantStop(t, id, "/now alone", acp.StopEndTurn)
	if !strings.Contains(r.said(id), "doing alone") {
		t.Errorf("without a turn that runs: %s", r.said(id))
	}
}
