package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sessions"
)

// fakeLoops has one run, which does what the test says.
type fakeLoops struct {
	journal *journal

	// mu guards what follows.
	mu   sync.Mutex
	loop Loop
	err  error // of everything
}

func (f *fakeLoops) set(change func(*fakeLoops)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeLoops) become(state telemetry.State, reason string) {
	f.set(func(f *fakeLoops) {
		f.loop.State, f.loop.Reason, f.loop.Over = state, reason, state == telemetry.Stopped
	})
}

func (f *fakeLoops) Loop(context.Context, acp.SessionID) (Loop, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.journal.add("look")
	return f.loop, f.err
}

func (f *fakeLoops) Say(_ context.Context, id acp.SessionID, text string) error {
	return f.note("say %s %s", id, text)
}

func (f *fakeLoops) Steer(_ context.Context, id acp.SessionID, verb string) error {
	return f.note("steer %s %s", id, verb)
}

func (f *fakeLoops) note(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.journal.add(format, args...)
	}
	return f.err
}

// loopRig is a rig with a loop's session, which the test writes as the loop does.
type loopRig struct {
	*rig
	loops *fakeLoops
	tr    *sessions.Transcript
	cwd   string
	id    acp.SessionID
}

func newLoopRig(t *testing.T) *loopRig {
	t.Helper()
	l := &loopRig{cwd: t.TempDir(), id: "loop-session"}
	l.rig = newRig(t, func(r *rig) {
		l.loops = &fakeLoops{journal: r.journal, loop: Loop{ID: "run-1", Agent: "duck", Sandbox: "box", State: telemetry.Running, Iteration: 1}}
		r.opts.Loops, r.opts.LoopEvery = l.loops, 20*time.Millisecond
	})
	var err error
	l.tr, err = l.store.Create(sessions.Header{SessionID: l.id, SessionKey: "loop:duck:main", AgentID: "duck", Origin: sessions.OriginLoop, WorkspacePath: l.cwd, WorkingPath: l.cwd})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.tr.Close() })
	return l
}

// wrote appends records of an iteration.
func (l *loopRig) wrote(t *testing.T, iteration int, bodies ...sessions.Body) {
	t.Helper()
	for _, b := range bodies {
		if err := l.tr.Append(sessions.Record{TurnID: fmt.Sprintf("iteration-%d", iteration), Body: b}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.tr.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (l *loopRig) begin(t *testing.T, iteration int) {
	t.Helper()
	l.wrote(t, iteration, sessions.TurnEvent{Event: sessions.TurnStart}, sessions.Message{Role: sessions.RoleUser, Content: fmt.Sprintf("Iteration %d", iteration)})
}

func (l *loopRig) end(t *testing.T, iteration int) {
	t.Helper()
	l.wrote(t, iteration, sessions.TurnEvent{Event: sessions.TurnEnd, StopReason: acp.StopEndTurn, Agent: "duck", Usage: json.RawMessage(`{"totalTokens":7}`)})
}

func saidBy(text string) sessions.Update {
	return sessions.Update{Sent: []json.RawMessage{acp.MessageChunk(acp.AgentMessageChunk, "m-"+text, text)}}
}

// attach loads the session in the rig's editor.
func (l *loopRig) attach(t *testing.T) []json.RawMessage {
	t.Helper()
	return l.load(t, l.id, l.cwd)
}

// waitText waits for words in the thread.
func (l *loopRig) waitText(t *testing.T, words string) {
	t.Helper()
	l.editor.Wait(t, words, func() bool {
		return slices.ContainsFunc(texts(l.editor.Updates(l.id)), func(s string) bool { return strings.Contains(s, words) })
	})
}

// started are the entries of the journal about sandboxes and agents.
func (l *loopRig) started() []string {
	return slices.DeleteFunc(l.journal.all(), func(e string) bool {
		return e == "look" || strings.HasPrefix(e, "say ") || strings.HasPrefix(e, "steer ")
	})
}

// A loop's session is listed, replayed and then followed. Nothing is started and
// nothing claimed.
func TestAttach(t *testing.T) {
	l := newLoopRig(t)
	l.begin(t, 1)
	call := sessions.Update{Sent: []json.RawMessage{json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"1-a","title":"make","kind":"execute","status":"in_progress"}`)}}
	l.wrote(t, 1, saidBy("hello"), call)
	list, err := l.editor.Conn.ListSessions(t.Context(), &acp.ListSessionsRequest{CWD: l.cwd})
	if err != nil || len(list.Sessions) != 1 || list.Sessions[0].SessionID != l.id || !strings.Contains(string(list.Sessions[0].Meta), `"origin":"loop"`) {
		t.Fatalf("the list is %+v, %v", list, err)
	}
	want := []string{"user_message Iteration 1", "agent_message hello", "tool_call make in_progress"}
	if diff := cmp.Diff(want, texts(l.attach(t))); diff != "" {
		t.Errorf("replay (-want +got):\n%s", diff)
	}
	release, err := l.store.Claim(l.id)
	if err != nil {
		t.Errorf("the editor has claimed a loop's session: %v", err)
	} else {
		release()
	}
	l.wrote(t, 1, saidBy("still here"))
	l.end(t, 1)
	l.begin(t, 2)
	l.waitText(t, "Iteration 2")
	live := texts(l.editor.Updates(l.id))
	live = live[slices.Index(live, "available_commands_update")+1:]
	want = []string{"agent_message still here", "tool_call_update failed", "user_message Iteration 2"} // the call that nobody ended
	if diff := cmp.Diff(want, live); diff != "" {
		t.Errorf("live (-want +got):\n%s", diff)
	}
	if got := l.started(); len(got) != 0 {
		t.Errorf("attaching did %q", got)
	}
}

// The thread of a loop that is over has no open tool calls.
func TestAttachToWhatIsOver(t *testing.T) {
	l := newLoopRig(t)
	l.loops.become(telemetry.Stopped, "")
	l.begin(t, 1)
	l.wrote(t, 1, sessions.Update{Sent: []json.RawMessage{json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"1-a","title":"make"}`)}})
	want := []string{"user_message Iteration 1", "tool_call make", "tool_call_update failed"}
	if diff := cmp.Diff(want, texts(l.attach(t))); diff != "" {
		t.Errorf("replay (-want +got):\n%s", diff)
	}
}

// A prompt is a message to the loop, and lasts until the iteration that has it is over:
// not the one that runs already.
func TestAttachPrompt(t *testing.T) {
	l := newLoopRig(t)
	l.begin(t, 1)
	l.attach(t)
	other := l.again(t, acp.ClientCapabilities{}, func(r *rig) { r.opts.Loops = l.loops })
	other.load(t, l.id, l.cwd)

	reply := l.prompt(t, l.id, "look at the tests")
	l.journal.wait(t, "say loop-session look at the tests", 1)
	l.waitText(t, "The loop has the message for its next iteration.")
	l.end(t, 1)
	late := sessions.Record{TurnID: "iteration-late", Time: time.Now().Add(-time.Minute), Body: sessions.TurnEvent{Event: sessions.TurnStart}}
	if err := l.tr.Append(late); err != nil { // it began before, and is told of behind
		t.Fatal(err)
	}
	late.Body = sessions.TurnEvent{Event: sessions.TurnEnd}
	if err := l.tr.Append(late); err != nil {
		t.Fatal(err)
	}
	l.begin(t, 2)
	l.wrote(t, 2, saidBy("looking"))
	l.waitText(t, "looking")
	select {
	case got := <-reply:
		t.Fatalf("the prompt was answered with %+v before its iteration was over", got)
	default:
	}
	l.wrote(t, 2, saidBy("looked"))
	l.end(t, 2)
	if got := <-reply; got.stop != acp.StopEndTurn {
		t.Fatalf("the prompt was answered with %+v", got)
	}
	frames := l.written()
	if i, j := slices.Index(frames, "looked"), slices.Index(frames, "stop end_turn"); i < 0 || j < i {
		t.Errorf("the answer is not behind its iteration: %q", frames)
	}
	if slices.Contains(frames, "look at the tests") {
		t.Error("the editor was shown its own prompt again")
	}
	other.editor.Wait(t, "the message in the other editor", func() bool {
		return slices.Contains(texts(other.editor.Updates(l.id)), "user_message look at the tests")
	})
	l.loops.become(telemetry.Stopped, "")
	if got := texts(l.attach(t)); !slices.Contains(got, "user_message look at the tests") {
		t.Errorf("the message is not in the thread: %q", got)
	}
	if got := l.started(); len(got) != 0 {
		t.Errorf("prompting did %q", got)
	}
}

// The person learns that the loop does not get what is attached to a message.
func TestAttachPromptWithAttachments(t *testing.T) {
	for _, tt := range []struct {
		block string
		told  bool
	}{
		{`{"type":"resource_link","name":"a","uri":"file:///a"}`, false},
		{`{"type":"resource","resource":{"uri":"file:///a","text":"a text"}}`, true},
		{`{"type":"image","mimeType":"image/png","data":"AAAA"}`, true},
	} {
		l := newLoopRig(t)
		l.attach(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = l.editor.Conn.Prompt(ctx, &acp.PromptRequest{SessionID: l.id, Prompt: []acp.ContentBlock{acp.TextBlock("look"), acp.ContentBlock(tt.block)}})
		}()
		l.waitText(t, "has the message")
		told := slices.ContainsFunc(texts(l.editor.Updates(l.id)), func(s string) bool { return strings.Contains(s, "by its name only") })
		if told != tt.told {
			t.Errorf("%s: told %t", tt.block, told)
		}
		cancel()
		<-ended
	}
}

// Messages arrive in the order of the prompts, and one iteration can answer them all.
func TestAttachPromptsInOrder(t *testing.T) {
	l := newLoopRig(t)
	l.attach(t)
	var replies []<-chan reply
	for i := range 5 {
		replies = append(replies, l.prompt(t, l.id, fmt.Sprintf("message %d", i)))
		l.journal.wait(t, fmt.Sprintf("say loop-session message %d", i), 1)
	}
	l.editor.Wait(t, "five messages", func() bool {
		n := 0
		for _, s := range texts(l.editor.Updates(l.id)) {
			if strings.Contains(s, "has the message") {
				n++
			}
		}
		return n == 5
	})
	l.begin(t, 1)
	l.end(t, 1)
	for i, r := range replies {
		if got := <-r; got.stop != acp.StopEndTurn {
			t.Errorf("message %d was answered with %+v", i, got)
		}
	}
}

// A cancel ends the waiting; the loop goes on, and the next prompt waits again.
func TestAttachCancel(t *testing.T) {
	l := newLoopRig(t)
	l.attach(t)
	for i := range 2 {
		reply := l.prompt(t, l.id, "hello")
		l.journal.wait(t, "say loop-session hello", i+1)
		l.cancel(t, l.id)
		if got := <-reply; got.stop != acp.StopCancelled {
			t.Fatalf("the cancelled prompt was answered with %+v", got)
		}
	}
	if slices.ContainsFunc(l.journal.all(), func(e string) bool { return strings.HasPrefix(e, "steer") }) {
		t.Errorf("cancelling steered the loop: %q", l.journal.all())
	}
}

// Where no iteration will come the prompt ends, and says why and how to go on.
func TestAttachPromptInVain(t *testing.T) {
	noPlane := errors.New("no control plane runs; start it with gander serve")
	for _, tt := range []struct {
		name      string
		before    func(*fakeLoops) // the prompt
		meanwhile func(*fakeLoops)
		want      string
	}{
		{name: "stopped", before: func(f *fakeLoops) { f.loop.State, f.loop.Over = telemetry.Stopped, true }, want: "is stopped and takes no messages any more. A fork"},
		{name: "no control plane", before: func(f *fakeLoops) { f.err = noPlane }, want: "did not get the message: no control plane runs; start it with gander serve. A fork"},
		{name: "paused", before: func(f *fakeLoops) { f.loop.State, f.loop.Reason = telemetry.Paused, "5 failures" }, want: "is paused (5 failures); it takes it up when it goes on: /resume"},
		{name: "paused meanwhile", meanwhile: func(f *fakeLoops) { f.loop.State = telemetry.Paused }, want: "is paused; it takes it up when it goes on"},
		{name: "stopped meanwhile", meanwhile: func(f *fakeLoops) { f.loop.State, f.loop.Over = telemetry.Done, true }, want: "The loop is done. A fork"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLoopRig(t)
			l.attach(t)
			if tt.before != nil {
				l.loops.set(tt.before)
			}
			reply := l.prompt(t, l.id, "hello")
			if tt.meanwhile != nil {
				l.waitText(t, "has the message")
				l.loops.set(tt.meanwhile)
			}
			if got := <-reply; got.stop != acp.StopEndTurn {
				t.Errorf("answered with %+v", got)
			}
			if got := l.editor.Text(l.id, acp.AgentMessageChunk); !strings.Contains(got, tt.want) {
				t.Errorf("the person was told %q, want %q", got, tt.want)
			}
		})
	}
}

// A control plane that goes away while a prompt waits is told of, and waited for.
func TestAttachPlaneGoesAway(t *testing.T) {
	l := newLoopRig(t)
	l.attach(t)
	reply := l.prompt(t, l.id, "hello")
	l.waitText(t, "has the message")
	l.loops.set(func(f *fakeLoops) { f.err = errors.New("no control plane runs") })
	l.waitText(t, "how it does is not known: no control plane runs. Cancel to stop waiting.")
	l.loops.set(func(f *fakeLoops) { f.err, f.loop.State, f.loop.Reason = nil, telemetry.Unready, "503" })
	l.waitText(t, "The loop has the message and waits: llm_unavailable (503). Cancel to stop waiting.")
	l.begin(t, 1)
	l.end(t, 1)
	if got := <-reply; got.stop != acp.StopEndTurn {
		t.Errorf("answered with %+v", got)
	}
}

// The fork of a loop's session is an ordinary one that knows the conversation.
func TestAttachFork(t *testing.T) {
	l := newLoopRig(t)
	l.begin(t, 1)
	l.wrote(t, 1, saidBy("the word is quince"))
	l.end(t, 1)
	l.attach(t)
	fork, err := l.editor.Conn.ForkSession(t.Context(), &acp.ForkSessionRequest{SessionID: l.id, CWD: l.cwd})
	if err != nil {
		t.Fatal(err)
	}
	l.wantStop(t, fork.SessionID, "which word?", acp.StopEndTurn)
	if got := strings.Join(l.agent.conv().prompts(), "\n"); !strings.Contains(got, "the word is quince") {
		t.Errorf("the agent was told %q", got)
	}
}

// What is a loop's is not changed, and not deleted while the loop runs.
func TestAttachKeepsOff(t *testing.T) {
	l := newLoopRig(t)
	l.attach(t)
	if _, err := l.editor.Conn.SetConfigOption(t.Context(), &acp.SetConfigOptionRequest{SessionID: l.id, ConfigID: "agent", Value: quote("swan")}); errorCode(err) != acp.CodeInvalidRequest || !strings.Contains(err.Error(), "fork the session") {
		t.Errorf("choosing another agent: %v", err)
	}
	if _, err := l.editor.Conn.SetSessionMode(t.Context(), &acp.SetSessionModeRequest{SessionID: l.id, ModeID: "auto"}); errorCode(err) != acp.CodeInvalidRequest {
		t.Errorf("choosing another mode: %v", err)
	}
	if _, err := l.editor.Conn.Request(t.Context(), acp.MethodSetSessionModel, &acp.SetSessionModelRequest{SessionID: l.id, ModelID: "large"}); errorCode(err) != acp.CodeInvalidRequest {
		t.Errorf("choosing another model as older clients do: %v", err)
	}
	_, err := l.editor.Conn.DeleteSession(t.Context(), &acp.DeleteSessionRequest{SessionID: l.id})
	if errorCode(err) != acp.CodeInvalidRequest || !strings.Contains(err.Error(), "stop it first: gander loop stop run-1") {
		t.Errorf("deleting the session of a loop that runs: %v", err)
	}
	if _, err := l.editor.Conn.LoadSession(t.Context(), &acp.LoadSessionRequest{SessionID: l.id, CWD: t.TempDir()}); errorCode(err) != acp.CodeInvalidParams {
		t.Errorf("loading it in another directory: %v", err)
	}
	if _, err := l.editor.Conn.CloseSession(t.Context(), &acp.CloseSessionRequest{SessionID: l.id}); err != nil {
		t.Errorf("closing: %v", err)
	}
	if _, err := l.editor.Prompt(t.Context(), l.id, "hello"); errorCode(err) != acp.CodeResourceNotFound {
		t.Errorf("prompting what was closed: %v", err)
	}
	l.loops.become(telemetry.Stopped, "")
	if _, err := l.editor.Conn.DeleteSession(t.Context(), &acp.DeleteSessionRequest{SessionID: l.id}); err != nil {
		t.Errorf("deleting the session of a loop that is over: %v", err)
	}
	if _, err := l.store.Info(t.Context(), l.id); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("it is still there: %v", err)
	}
}

// Slash commands steer the loop; resume shows nothing of before.
func TestAttachCommands(t *testing.T) {
	l := newLoopRig(t)
	l.begin(t, 1)
	if _, err := l.editor.Conn.ResumeSession(t.Context(), &acp.ResumeSessionRequest{SessionID: l.id, CWD: l.cwd}); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"pause", "resume", "step", "cancel"} {
		l.wantStop(t, l.id, "/"+verb, acp.StopEndTurn)
		l.journal.wait(t, "steer loop-session "+verb, 1)
	}
	l.wantStop(t, l.id, "/status", acp.StopEndTurn)
	l.wantStop(t, l.id, "/export", acp.StopEndTurn)
	l.wantStop(t, l.id, "/pause now", acp.StopEndTurn)
	l.loops.set(func(f *fakeLoops) { f.err = errors.New("no control plane runs") })
	l.wantStop(t, l.id, "/pause", acp.StopEndTurn)
	l.loops.set(func(f *fakeLoops) { f.err = ErrNoLoop })
	l.wantStop(t, l.id, "/status", acp.StopEndTurn)
	got := l.editor.Text(l.id, acp.AgentMessageChunk)
	for _, want := range []string{"The loop pauses", "- state: running", "- loop: `run-1`", "thread.md", "/pause: it takes no argument", "/pause: no control plane runs", "no run of this session any more"} {
		if !strings.Contains(got, want) {
			t.Errorf("the person was not told %q, but %q", want, got)
		}
	}
	if strings.Contains(l.editor.Text(l.id, acp.UserMessageChunk), "Iteration 1") {
		t.Error("resume has replayed the thread")
	}
}
