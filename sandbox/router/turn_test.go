package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
)

func TestTurnsRunOneAtATimeInOrder(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, func(r *rig) {
		r.agent.onTurn = func(_ context.Context, c *fakeConv, text string) (*acp.PromptResponse, error) {
			c.say("begin " + text)
			<-gate
			c.say("end " + text)
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	s := r.open(t)
	var replies []<-chan reply
	for _, text := range []string{"one", "two", "three"} {
		replies = append(replies, r.prompt(t, s.SessionID, text))
		queued(t, r, s.SessionID, len(replies)) // requests may overtake each other otherwise
	}
	for i := range replies {
		gate <- struct{}{}
		if got := <-replies[i]; got.stop != acp.StopEndTurn {
			t.Fatalf("prompt %d: %+v", i, got)
		}
	}
	want := []string{"begin one", "end one", "stop end_turn", "begin two", "end two", "stop end_turn", "begin three", "end three", "stop end_turn"}
	written := r.written()
	turns := slices.DeleteFunc(written[slices.Index(written, "begin one"):], func(frame string) bool {
		return frame == "available_commands_update" || strings.HasPrefix(frame, "This prompt waits") // the session's, whenever they come
	})
	if diff := cmp.Diff(want, turns); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

// queued waits until a session has n turns.
func queued(t *testing.T, r *rig, id acp.SessionID, n int) {
	t.Helper()
	s, err := r.router.session(id)
	if err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		got := s.turns
		s.mu.Unlock()
		if got >= n {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("%d turns are queued, want %d", got, n)
		}
	}
}

// The response to one prompt is on the wire before anything of the next turn,
// also when the agent answers at once and many prompts wait.
func TestResponsesAreNotOvertaken(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t)
	var replies []<-chan reply
	for range 50 {
		replies = append(replies, r.prompt(t, s.SessionID, "x"))
	}
	for _, c := range replies {
		if got := <-c; got.stop != acp.StopEndTurn {
			t.Fatal(got)
		}
	}
	written := r.written()
	written = slices.DeleteFunc(written[slices.Index(written, "you said: x"):], func(frame string) bool {
		return strings.HasPrefix(frame, "This prompt waits") // which is of no turn
	})
	for i, f := range written {
		if want := []string{"you said: x", "stop end_turn"}[i%2]; f != want {
			t.Fatalf("frame %d is %q, want %q; all: %q", i, f, want, written)
		}
	}
}

// Whatever an agent answers, the client gets a frame that it takes, and the next prompt
// its turn.
func TestAnswersThatDoNotFit(t *testing.T) {
	long := strings.Repeat("x", 2_000_000)
	for name, tt := range map[string]struct {
		resp acp.PromptResponse
		err  error
		want acp.StopReason // empty: an error
	}{
		"stop reason": {resp: acp.PromptResponse{StopReason: acp.StopReason(long)}, want: acp.StopEndTurn},
		"_meta":       {resp: acp.PromptResponse{StopReason: acp.StopEndTurn, Meta: marshal(map[string]string{"x": long})}, want: acp.StopEndTurn},
		"usage":       {resp: acp.PromptResponse{StopReason: acp.StopEndTurn, Usage: marshal(map[string]string{"x": long})}, want: acp.StopEndTurn},
		"error":       {err: errors.New(long)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.agent.onTurn = func(_ context.Context, _ *fakeConv, text string) (*acp.PromptResponse, error) {
					if text == "long" {
						return &tt.resp, tt.err
					}
					return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
				}
			})
			s := r.open(t)
			if got := r.ask(t, s.SessionID, "long"); got.stop != tt.want || (got.err == nil) != (tt.want != "") || len(fmt.Sprint(got.err)) > 10_000 {
				t.Errorf("got %.100q, %.200s", got.stop, fmt.Sprint(got.err))
			}
			r.wantStop(t, s.SessionID, "next", acp.StopEndTurn)
		})
	}
}

func TestSessionsRunSideBySide(t *testing.T) {
	both := make(chan struct{}, 2)
	all := make(chan struct{})
	r := newRig(t, func(r *rig) {
		r.agent.onTurn = func(_ context.Context, c *fakeConv, text string) (*acp.PromptResponse, error) {
			both <- struct{}{}
			<-all
			c.say(text)
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	a, b := r.open(t), r.open(t)
	first, second := r.prompt(t, a.SessionID, "to a"), r.prompt(t, b.SessionID, "to b")
	<-both
	<-both // both turns run now
	close(all)
	if x, y := <-first, <-second; x.stop != acp.StopEndTurn || y.stop != acp.StopEndTurn {
		t.Fatal(x, y)
	}
	if got := r.editor.Text(a.SessionID, acp.AgentMessageChunk); got != "to a" {
		t.Errorf("session a was told %q", got)
	}
}

func TestStartFailureFailsTheFirstPrompt(t *testing.T) {
	const sentence = "no namespaces here; allow them with sysctl"
	fail := true
	r := newRig(t, func(r *rig) {
		r.driver.onCreate = func(context.Context, sandbox.Spec) error {
			if fail {
				return errors.New(sentence)
			}
			return nil
		}
	})
	s := r.open(t)
	got := r.ask(t, s.SessionID, "hello")
	if errorCode(got.err) != acp.CodeInternalError || !strings.Contains(got.err.Error(), sentence) {
		t.Fatalf("the prompt ended with %+v, want the reason", got)
	}
	r.journal.wait(t, "close model", r.journal.count("create"))
	fail = false
	r.wantStop(t, s.SessionID, "again", acp.StopEndTurn)
}

func TestAgentThatDiesWhileOpening(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.agent.onOpen = func(_ context.Context, c *fakeConv) error {
			c.die("exited with code 3")
			return errors.New("opening a session with duck: duck exited with code 3; its last words: no CA bundle")
		}
	})
	got := r.ask(t, r.open(t).SessionID, "hello")
	if got.err == nil || !strings.Contains(got.err.Error(), "its last words: no CA bundle; gander agent test duck --log-level debug shows more") {
		t.Fatalf("the prompt ended with %+v", got)
	}
	r.journal.wait(t, "close sandbox", 1)
}

func TestSlowStartIsVisible(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, func(r *rig) {
		r.opts.SlowStart = time.Millisecond
		r.driver.onCreate = func(ctx context.Context, _ sandbox.Spec) error {
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return nil
		}
	})
	s := r.open(t)
	end := r.prompt(t, s.SessionID, "hello")
	r.editor.Wait(t, "word of the slow start", func() bool {
		return strings.Contains(r.editor.Text(s.SessionID, acp.AgentThoughtChunk), "Starting duck in a box sandbox")
	})
	close(gate)
	if got := <-end; got.stop != acp.StopEndTurn {
		t.Fatal(got)
	}
}

func TestStarting(t *testing.T) {
	for driver, want := range map[string]string{"local": "Starting duck in a local sandbox …", sandbox.Off: "Starting duck without a sandbox …"} {
		if got := starting("duck", driver); got != want {
			t.Errorf("starting(%q) = %q, want %q", driver, got, want)
		}
	}
}

func TestAgentDeathInATurn(t *testing.T) {
	for _, resumes := range []bool{true, false} {
		r := newRig(t, func(r *rig) {
			r.agent.resumes = resumes
			r.agent.onTurn = func(ctx context.Context, c *fakeConv, text string) (*acp.PromptResponse, error) {
				if text == "die" {
					c.update(`{"sessionUpdate":"tool_call","toolCallId":"t1","title":"shell"}`)
					c.die("exited with code 101; its last words: thread panicked")
					return deaf(ctx, c, text)
				}
				c.say("heard: " + text)
				return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
			}
		})
		s := r.open(t)
		r.wantStop(t, s.SessionID, "my name is Ada", acp.StopEndTurn)
		got := r.ask(t, s.SessionID, "die")
		if errorCode(got.err) != acp.CodeInternalError || !strings.Contains(got.err.Error(), "exited with code 101; its last words: thread panicked") {
			t.Fatalf("the prompt ended with %+v, want the agent's last words", got)
		}
		if n := finals(r, s.SessionID, "t1", "failed"); n != 1 {
			t.Errorf("the open tool call got %d final statuses, want 1", n)
		}
		r.wantStop(t, s.SessionID, "who am I?", acp.StopEndTurn)
		r.journal.wait(t, "open duck mode= model= resume=duck-1", 1)
		told := strings.Contains(r.editor.Text(s.SessionID, acp.AgentMessageChunk), "User: my name is Ada")
		if told == resumes {
			t.Errorf("agent that resumes: %v; it was given the history: %v", resumes, told)
		}
		if n := r.journal.count("close sandbox"); n != 1 {
			t.Errorf("%d sandboxes were closed, want that of the dead agent", n)
		}
	}
}

// finals counts the updates that give a tool call a final status.
func finals(r *rig, id acp.SessionID, call, status string) int {
	n := 0
	for _, u := range r.editor.Updates(id) {
		if strings.Contains(string(u), `"`+call+`"`) && strings.Contains(string(u), `"status":"`+status+`"`) {
			n++
		}
	}
	return n
}

func TestAgentDeathBetweenTurns(t *testing.T) {
	tests := map[string]func(r *rig){
		"the agent":   func(r *rig) { r.agent.conv().die("exited with code 0") },
		"the sandbox": func(r *rig) { _ = r.driver.last().Close() },
	}
	for what, kill := range tests {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, nil)
			s := r.open(t)
			r.wantStop(t, s.SessionID, "one", acp.StopEndTurn)
			kill(r)
			r.wantStop(t, s.SessionID, "two", acp.StopEndTurn) // at once, without waiting for the news
			if n := r.journal.count("create"); n != 2 {
				t.Errorf("%d sandboxes were made, want a fresh one", n)
			}
		})
	}
}

func TestErrorsOfTheAgent(t *testing.T) {
	tests := map[string]struct {
		err  error
		code int
		text string
	}{
		"its own":        {acp.InvalidParams("no such thing", nil), acp.CodeInvalidParams, "no such thing"},
		"authentication": {acp.AuthRequired("Authentication required"), acp.CodeInternalError, "gander provider list says where it is from"},
		"plain":          {errors.New("broken pipe"), acp.CodeInternalError, "broken pipe"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.agent.onTurn = func(context.Context, *fakeConv, string) (*acp.PromptResponse, error) { return nil, tt.err }
			})
			got := r.ask(t, r.open(t).SessionID, "x")
			if errorCode(got.err) != tt.code || !strings.Contains(got.err.Error(), tt.text) {
				t.Errorf("got %v, want code %d and %q", got.err, tt.code, tt.text)
			}
		})
	}
}

// A model that fails while the agent calls it a day: the failing calls are told.
func TestFailingModelCallsAreTold(t *testing.T) {
	for name, capabilities := range map[string]acp.ClientCapabilities{
		"as notices":  {Session: acp.ClientSessionCapabilities{Notices: []byte(`{}`)}},
		"as thoughts": {},
	} {
		t.Run(name, func(t *testing.T) {
			var r *rig
			r = newRigFor(t, capabilities, func(r0 *rig) {
				r0.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
					for range 2 { // each of them, although they say the same
						r.model().notice("warning", "The model endpoint failed (500).")
					}
					c.say("Ran into this error")
					return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
				}
			})
			s := r.open(t)
			r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
			told := 0
			for _, u := range r.editor.Updates(s.SessionID) {
				if strings.Contains(string(u), "The model endpoint failed (500).") {
					told++
				}
			}
			if told != 2 {
				t.Errorf("told %d times, want 2: %s", told, r.editor.Updates(s.SessionID))
			}
			if w := r.written(); w[len(w)-1] != "stop end_turn" {
				t.Errorf("something came after the turn: %q", w)
			}
		})
	}
}

func TestOpenToolCallsEndOnce(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			c.update(`{"sessionUpdate":"tool_call","toolCallId":"done","title":"a"}`)
			c.update(`{"sessionUpdate":"tool_call","toolCallId":"open","title":"b"}`)
			c.update(`{"sessionUpdate":"tool_call_update","toolCallId":"done","status":"completed"}`)
			c.update(`{"sessionUpdate":"tool_call_update","toolCallId":"open","status":"in_progress"}`)
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	s := r.open(t)
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	for _, id := range []string{"done", "open"} {
		if n := finals(r, s.SessionID, id, "completed"); n != 1 {
			t.Errorf("tool call %s was completed %d times", id, n)
		}
	}
}

// What the agent still sends of a turn that is over goes nowhere; what is about
// the session does.
func TestUpdatesBetweenTurns(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t)
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	c := r.agent.conv()
	c.say("late words")
	c.update(`{"sessionUpdate":"usage_update","used":5,"size":10}`)
	r.editor.Wait(t, "the usage", func() bool { return slices.Contains(r.editor.Kinds(s.SessionID), "usage_update") })
	if text := r.editor.Text(s.SessionID, acp.AgentMessageChunk); strings.Contains(text, "late") {
		t.Errorf("the client was told %q", text)
	}
}

func TestPromptsThatCannotBeAnswered(t *testing.T) {
	r := newRig(t, nil)
	if got := r.ask(t, "nobody", "x"); errorCode(got.err) != acp.CodeResourceNotFound {
		t.Errorf("unknown session: %v", got.err)
	}
	_, err := r.editor.Conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: r.open(t).SessionID})
	if errorCode(err) != acp.CodeInvalidParams {
		t.Errorf("empty prompt: %v", err)
	}
	_, err = r.editor.Conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: r.open(t).SessionID, Prompt: []acp.ContentBlock{
		acp.TextBlock("what do I say?"), acp.ContentBlock(`{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"}`),
	}})
	if errorCode(err) != acp.CodeInvalidParams || !strings.Contains(err.Error(), "prompt[1] is audio") {
		t.Errorf("audio: %v", err)
	}
}
