package router

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/acp"
)

func TestCancelAnsweredInTime(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.opts.CancelDeadline = patience
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, text string) (*acp.PromptResponse, error) {
			if text == "quick" {
				return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
			}
			c.update(`{"sessionUpdate":"tool_call","toolCallId":"t1","title":"sleep"}`)
			resp, err := untilCancelled(ctx, c, text)
			r.journal.wait(t, "abort model calls", 1) // as an agent does that waits for its model
			return resp, err
		}
	})
	s := r.open(t)
	r.wantStop(t, s.SessionID, "quick", acp.StopEndTurn) // so that the mark is the second
	end := r.prompt(t, s.SessionID, "slow")
	r.editor.Wait(t, "the tool call", func() bool { return slices.Contains(r.editor.Kinds(s.SessionID), "tool_call") })
	r.cancel(t, s.SessionID)
	if got := <-end; got.stop != acp.StopCancelled {
		t.Fatal(got)
	}
	j := r.journal.all()
	want := []string{"prompt slow in mode auto", "cancel", "abort model calls", "answer", "kill since 2"}
	if diff := cmp.Diff(want, j[slices.Index(j, want[0]):]); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	if n := finals(r, s.SessionID, "t1", "failed"); n != 1 {
		t.Errorf("the tool call got %d final statuses", n)
	}
	r.wantStop(t, s.SessionID, "quick", acp.StopEndTurn)
	if n := r.journal.count("create"); n != 1 {
		t.Errorf("%d sandboxes were made, want the first to be kept", n)
	}
}

func TestCancelThatTheAgentIgnores(t *testing.T) {
	for name, adjust := range map[string]func(*rig){
		"it does not answer":          func(r *rig) { r.opts.CancelDeadline = 10 * time.Millisecond; r.agent.onTurn = deafTo("slow") },
		"its processes cannot be hit": func(r *rig) { r.driver.killErr = errors.New("hunting: timeout") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.agent.onTurn = func(ctx context.Context, c *fakeConv, text string) (*acp.PromptResponse, error) {
					if text == "slow" {
						return untilCancelled(ctx, c, text)
					}
					c.say(text)
					return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
				}
				adjust(r)
			})
			s := r.open(t)
			r.wantStop(t, s.SessionID, "my name is Ada", acp.StopEndTurn)
			end := r.prompt(t, s.SessionID, "slow")
			r.journal.wait(t, "prompt slow in mode auto", 1)
			r.cancel(t, s.SessionID)
			if got := <-end; got.stop != acp.StopCancelled {
				t.Fatal(got)
			}
			if n := r.journal.count("close sandbox"); n != 1 {
				t.Errorf("%d sandboxes were closed before the answer, want 1", n)
			}
			r.journal.wait(t, "create", 2) // right away, for the next prompt
			r.wantStop(t, s.SessionID, "go on", acp.StopEndTurn)
			if text := r.editor.Text(s.SessionID, acp.AgentMessageChunk); !strings.Contains(text, "User: my name is Ada") {
				t.Errorf("the fresh agent was not told what was said: %q", text)
			}
		})
	}
}

// deafTo is a turn that never answers one prompt and echoes the others.
func deafTo(prompt string) func(context.Context, *fakeConv, string) (*acp.PromptResponse, error) {
	return func(ctx context.Context, c *fakeConv, text string) (*acp.PromptResponse, error) {
		if text == prompt {
			return deaf(ctx, c, text)
		}
		c.say(text)
		return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
	}
}

func TestCancelTwiceAndAfterTheAgentDied(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, text string) (*acp.PromptResponse, error) {
			<-c.cancelled
			c.die("exited with code 1")
			return deaf(ctx, c, text)
		}
	})
	s := r.open(t)
	end := r.prompt(t, s.SessionID, "x")
	r.journal.wait(t, "prompt x in mode auto", 1)
	r.cancel(t, s.SessionID)
	r.cancel(t, s.SessionID)
	if got := <-end; got.stop != acp.StopCancelled {
		t.Fatal(got)
	}
	if n := r.journal.count("cancel"); n != 1 {
		t.Errorf("the agent was asked %d times to stop", n)
	}
}

func TestCancelWhileTheAgentStarts(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, func(r *rig) {
		r.agent.onOpen = func(ctx context.Context, _ *fakeConv) error {
			select {
			case <-gate:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	s := r.open(t)
	end := r.prompt(t, s.SessionID, "never")
	queued(t, r, s.SessionID, 1)
	r.cancel(t, s.SessionID)
	if got := <-end; got.stop != acp.StopCancelled {
		t.Fatal(got)
	}
	close(gate)
	r.wantStop(t, s.SessionID, "now", acp.StopEndTurn)
	if n := r.journal.count("prompt never in mode auto"); n != 0 {
		t.Error("the agent got the cancelled prompt")
	}
	if n := r.journal.count("create"); n != 1 {
		t.Errorf("%d sandboxes were made; the cancel should not have cost the start", n)
	}
}

// A turn that is cancelled while the files are looked at is none that the agent learns of:
// a cancel might reach it before the prompt, which it would work on then.
func TestCancelBeforeTheAgentIsAsked(t *testing.T) {
	r := newRig(t, func(r *rig) { r.opts.CancelDeadline = 10 * time.Millisecond })
	id := r.open(t).SessionID
	r.wantStop(t, id, "one", acp.StopEndTurn)
	s, err := r.router.session(id)
	if err != nil {
		t.Fatal(err)
	}
	s.files = &comparer{s: s, prepared: make(chan struct{}), stop: func() {}} // the first look does not end
	end := r.prompt(t, id, "never")
	for sb := r.driver.last(); !sb.marked(2); {
		time.Sleep(time.Millisecond)
	}
	r.cancel(t, id)
	if got := <-end; got.stop != acp.StopCancelled {
		t.Fatal(got)
	}
	s.files = nil
	r.wantStop(t, id, "two", acp.StopEndTurn)
	if asked, cancelled := r.journal.count("prompt never in mode auto"), r.journal.count("cancel"); asked+cancelled != 0 {
		t.Errorf("the agent was asked %d times, and %d times to stop", asked, cancelled)
	}
	if n := r.journal.count("create"); n != 1 {
		t.Errorf("%d sandboxes were made; the cancel should not have cost the agent", n)
	}
}

func TestCancelEndsQueuedPrompts(t *testing.T) {
	r := newRig(t, func(r *rig) { r.agent.onTurn = untilCancelled })
	s := r.open(t)
	var ends []<-chan reply
	for i := range 3 {
		ends = append(ends, r.prompt(t, s.SessionID, "x"))
		queued(t, r, s.SessionID, i+1)
	}
	r.journal.wait(t, "prompt x in mode auto", 1)
	r.cancel(t, s.SessionID)
	for _, end := range ends {
		if got := <-end; got.stop != acp.StopCancelled {
			t.Error(got)
		}
	}
	if n := r.journal.count("prompt x in mode auto"); n != 1 {
		t.Errorf("the agent got %d prompts", n)
	}
}

// $/cancel_request for a prompt that waits ends that one at once and leaves the
// others their order.
func TestCancelRequestOfAQueuedPrompt(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, func(r *rig) {
		r.agent.onTurn = func(_ context.Context, c *fakeConv, text string) (*acp.PromptResponse, error) {
			c.say("begin " + text)
			<-gate
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	s := r.open(t)
	first := r.prompt(t, s.SessionID, "one")
	queued(t, r, s.SessionID, 1)
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() {
		_, err := r.editor.Prompt(ctx, s.SessionID, "two")
		second <- err
	}()
	queued(t, r, s.SessionID, 2)
	third := r.prompt(t, s.SessionID, "three")
	queued(t, r, s.SessionID, 3)
	cancel()
	<-second
	late := time.After(patience)
	for !slices.Contains(r.written(), "stop cancelled") {
		select {
		case <-late:
			t.Fatalf("the cancelled prompt was not answered while another runs: %q", r.written())
		case <-time.After(time.Millisecond):
		}
	}
	if text := r.editor.Text(s.SessionID, acp.AgentMessageChunk); strings.Contains(text, "three") {
		t.Fatalf("a turn began while another runs: %q", text)
	}
	gate <- struct{}{}
	gate <- struct{}{}
	if a, b := <-first, <-third; a.stop != acp.StopEndTurn || b.stop != acp.StopEndTurn {
		t.Fatal(a, b)
	}
	if got := r.editor.Text(s.SessionID, acp.AgentMessageChunk); got != "begin onebegin three" {
		t.Errorf("turns: %q", got)
	}
}

func TestIdleCancelDoesNothing(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t)
	r.cancel(t, s.SessionID)
	r.cancel(t, "nobody")
	r.wantStop(t, s.SessionID, "one", acp.StopEndTurn)
	r.cancel(t, s.SessionID)
	r.wantStop(t, s.SessionID, "two", acp.StopEndTurn)
	if n := r.journal.count("cancel"); n != 0 {
		t.Errorf("the agent was asked %d times to stop", n)
	}
}

func TestCancelWhileAPermissionWaits(t *testing.T) {
	outcome := make(chan string, 1)
	withdrawn := make(chan struct{})
	r := newRig(t, func(r *rig) {
		r.opts.CancelDeadline = patience
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			outcome <- c.ask(ctx, `{"toolCallId":"t1","title":"rm"}`)
			return &acp.PromptResponse{StopReason: acp.StopCancelled}, nil
		}
	})
	r.editor.Permission = func(ctx context.Context, _ *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
		<-ctx.Done() // $/cancel_request, or else never
		close(withdrawn)
		return nil, ctx.Err()
	}
	s := r.open(t)
	end := r.prompt(t, s.SessionID, "x")
	r.editor.Wait(t, "the question", func() bool { return len(r.editor.Asked()) == 1 })
	r.cancel(t, s.SessionID)
	if got := <-outcome; got != "cancelled " {
		t.Errorf("the agent was answered %q", got)
	}
	<-withdrawn
	if got := <-end; got.stop != acp.StopCancelled {
		t.Error(got)
	}
}

// A client that stops reading holds up neither a cancel nor the end.
func TestClientThatDoesNotRead(t *testing.T) {
	stuck, gate := make(chan struct{}), make(chan struct{})
	r := newRig(t, func(r *rig) {
		r.opts.CancelDeadline = 50 * time.Millisecond
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			text := strings.Repeat("x", 1<<16)
			for ctx.Err() == nil {
				c.say(text)
			}
			return nil, ctx.Err()
		}
	})
	var once bool
	r.editor.OnUpdate = func(n *acp.SessionNotification) {
		if !once && acp.UpdateKind(n.Update) == acp.AgentMessageChunk {
			once = true
			close(stuck)
			<-gate
		}
	}
	s := r.open(t)
	end := r.prompt(t, s.SessionID, "x")
	<-stuck
	r.cancel(t, s.SessionID)
	r.journal.wait(t, "close sandbox", 1) // the agent was ended, although nobody reads
	close(gate)
	if got := <-end; got.stop != acp.StopCancelled {
		t.Error(got)
	}
}

// What takes long to close is waited for by the next prompt, not by the answer.
func TestSandboxThatClosesSlowly(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.opts.CancelDeadline = time.Millisecond
		r.agent.onTurn = deafTo("slow")
		r.driver.slow = make(chan struct{})
	})
	s := r.open(t)
	end := r.prompt(t, s.SessionID, "slow")
	r.journal.wait(t, "prompt slow in mode auto", 1)
	r.cancel(t, s.SessionID)
	if got := <-end; got.stop != acp.StopCancelled {
		t.Fatal(got)
	}
	next := r.prompt(t, s.SessionID, "next")
	queued(t, r, s.SessionID, 2)
	if n := r.journal.count("create"); n != 1 {
		t.Error("a second sandbox was made beside the one that closes")
	}
	close(r.driver.slow)
	if got := <-next; got.stop != acp.StopEndTurn {
		t.Fatal(got)
	}
}

func TestSandboxThatCannotBeMarked(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t)
	r.wantStop(t, s.SessionID, "one", acp.StopEndTurn)
	r.driver.unmarkable.Store(true)
	got := r.ask(t, s.SessionID, "two")
	if got.err == nil || !strings.Contains(got.err.Error(), "the sandbox does not work any more") {
		t.Fatalf("got %+v", got)
	}
	r.driver.unmarkable.Store(false)
	r.wantStop(t, s.SessionID, "three", acp.StopEndTurn)
	if n := r.journal.count("create"); n != 2 {
		t.Errorf("%d sandboxes were made, want a fresh one", n)
	}
}
