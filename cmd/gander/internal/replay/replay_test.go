package replay

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"gander.dev/gander/acp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A viewer is the client of a recording; it writes down what it sees.
type viewer struct {
	*acp.AgentConn
	t *testing.T

	mu   sync.Mutex
	seen []string
	ask  func(context.Context) // before a question is answered
}

func (v *viewer) SessionUpdate(_ context.Context, n *acp.SessionNotification) error {
	v.note(string(n.SessionID) + " " + string(n.Update))
	return nil
}

func (v *viewer) RequestPermission(ctx context.Context, r *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	v.note(string(r.SessionID) + " asks " + string(r.ToolCall))
	if v.ask != nil {
		v.ask(ctx)
	}
	return &acp.RequestPermissionResponse{Outcome: acp.PermissionOutcome{Outcome: "selected", OptionID: r.Options[0].OptionID}}, nil
}

func (v *viewer) note(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen = append(v.seen, text)
}

// took is what was seen since the last call.
func (v *viewer) took() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen := v.seen
	v.seen = nil
	return seen
}

// watch plays a recording to a viewer.
func watch(t *testing.T, o Options) *viewer {
	t.Helper()
	here, there := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = acp.ServeAgent(t.Context(), there, func(c *acp.ClientConn) acp.Agent { return New(c, o) }, nil)
	}()
	v := &viewer{t: t}
	v.AgentConn = acp.DialAgent(here, v, nil)
	t.Cleanup(func() {
		_ = v.Close()
		<-served
	})
	if _, err := v.Initialize(t.Context(), &acp.InitializeRequest{ProtocolVersion: 1}); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *viewer) open() *acp.NewSessionResponse {
	v.t.Helper()
	s, err := v.NewSession(v.t.Context(), &acp.NewSessionRequest{CWD: "/", MCPServers: []json.RawMessage{}})
	if err != nil {
		v.t.Fatal(err)
	}
	return s
}

func (v *viewer) say(id acp.SessionID) (*acp.PromptResponse, error) {
	return v.Prompt(v.t.Context(), &acp.PromptRequest{SessionID: id, Prompt: []acp.ContentBlock{acp.TextBlock("anything")}})
}

func read(t *testing.T, name string) *Recording {
	t.Helper()
	r, err := Read(t.Context(), filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTranscript(t *testing.T) {
	r := read(t, "two-turns.jsonl")
	if r.Skipped != 1 {
		t.Errorf("%d lines are left out, want the one of a later version", r.Skipped)
	}
	v := watch(t, Options{Recording: r})
	s := v.open()
	if s.SessionID != "s-1" {
		t.Errorf("the session is %q", s.SessionID)
	}
	answer, err := v.say(s.SessionID)
	if err != nil || answer.StopReason != acp.StopEndTurn {
		t.Fatalf("%+v, %v", answer, err)
	}
	_, err = v.say(s.SessionID)
	if err == nil || !strings.Contains(err.Error(), "ends inside this turn") {
		t.Errorf("the torn turn: %v", err)
	}
	want := []string{
		`s-1 {"sessionUpdate":"available_commands_update","availableCommands":[]}`,
		`s-1 {"sessionUpdate":"tool_call","toolCallId":"c","title":"touch made","kind":"execute","status":"pending"}`,
		`s-1 asks {"toolCallId":"c","title":"touch made"}`,
		`s-1 {"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}`,
		`s-1 {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"made"}}`,
		`s-1 {"sessionUpdate":"session_info_update","title":"Making"}`,
		`s-1 {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"half"}}`,
	}
	if diff := cmp.Diff(want, v.took()); diff != "" {
		t.Errorf("what was played (-want +got):\n%s", diff)
	}
	_, err = v.say(s.SessionID)
	if err == nil || !strings.Contains(err.Error(), "the recording is over: all of its turns (2)") {
		t.Errorf("after the end: %v", err)
	}
	if again := v.open(); again.SessionID != "s-1-2" {
		t.Errorf("a second session is %q", again.SessionID)
	}
}

// Transcripts of other tools have neither ids nor ends of turns: each prompt has its
// answer all the same, the last one too, and one that nothing was said to.
func TestTranscriptOfAnotherTool(t *testing.T) {
	v := watch(t, Options{Recording: read(t, "other-tool.jsonl")})
	s := v.open()
	for _, want := range []string{"first answer", "", "third answer", "made"} {
		answer, err := v.say(s.SessionID)
		if seen := strings.Join(v.took(), "\n"); err != nil || answer.StopReason != acp.StopEndTurn || !strings.Contains(seen, want) || want == "" && seen != "" {
			t.Errorf("%+v, %v; played %q, want %q", answer, err, seen, want)
		}
	}
	v = watch(t, Options{Recording: read(t, "other-tool-alone.jsonl")})
	s = v.open()
	if answer, err := v.say(s.SessionID); err != nil || answer.StopReason != acp.StopEndTurn {
		t.Errorf("the last turn: %+v, %v", answer, err)
	}
}

func TestTrace(t *testing.T) {
	v := watch(t, Options{Recording: read(t, "trace.jsonl")})
	s := v.open()
	if s.SessionID != "tr-1" || s.Modes == nil || len(s.ConfigOptions) != 1 {
		t.Fatalf("%+v", s)
	}
	answer, err := v.say(s.SessionID)
	if err != nil || answer.StopReason != acp.StopMaxTokens {
		t.Errorf("%+v, %v", answer, err)
	}
	_, err = v.say(s.SessionID)
	if e, ok := errors.AsType[*acp.Error](err); !ok || e.Code != acp.CodeInvalidParams || e.Message != "prompt is empty" {
		t.Errorf("a turn that failed then: %v", err)
	}
	after, err := v.SetConfigOption(t.Context(), &acp.SetConfigOptionRequest{SessionID: s.SessionID, ConfigID: "o", Value: json.RawMessage(`"y"`)})
	if err != nil || string(after.ConfigOptions[0].CurrentValue) != `"y"` {
		t.Errorf("%+v, %v", after, err)
	}
	if _, err := v.SetConfigOption(t.Context(), &acp.SetConfigOptionRequest{SessionID: s.SessionID, ConfigID: "o", Value: json.RawMessage(`"z"`)}); err == nil {
		t.Error("a value that was never offered is taken")
	}
	if _, err := v.SetSessionMode(t.Context(), &acp.SetSessionModeRequest{SessionID: s.SessionID, ModeID: "c"}); err == nil {
		t.Error("a mode that was never offered is taken")
	}
}

func TestLoadShowsEverything(t *testing.T) {
	v := watch(t, Options{Recording: read(t, "two-turns.jsonl")})
	load := func(id acp.SessionID) error {
		_, err := v.LoadSession(t.Context(), &acp.LoadSessionRequest{SessionID: id, CWD: "/", MCPServers: []json.RawMessage{}})
		return err
	}
	if err := load("s-1"); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(v.took(), "\n")
	for _, want := range []string{"make it", "user_message_chunk", "tool_call_update", "made", "again", "half"} {
		_, rest, found := strings.Cut(all, want)
		if !found {
			t.Fatalf("%q is not in its place: %s", want, all)
		}
		all = rest
	}
	if err := load("other"); err == nil {
		t.Error("a session that was never recorded is loaded")
	}
}

// A cancel ends the turn also while a question is open; the next prompt plays the next turn.
func TestCancel(t *testing.T) {
	v := watch(t, Options{Recording: read(t, "two-turns.jsonl")})
	s := v.open()
	v.ask = func(ctx context.Context) {
		if err := v.AgentConn.Cancel(s.SessionID); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
	}
	answer, err := v.say(s.SessionID)
	if err != nil || answer.StopReason != acp.StopCancelled {
		t.Fatalf("%+v, %v", answer, err)
	}
	if _, err := v.say(s.SessionID); err == nil || !strings.Contains(err.Error(), "ends inside this turn") {
		t.Errorf("the next turn: %v", err)
	}
}

// With a speed the pauses of the recording are kept: the end of the trace's first
// turn is ten seconds behind its only update, and the update half a second behind
// its start here.
func TestSpeed(t *testing.T) {
	r := read(t, "trace.jsonl")
	first := r.Sessions[0].Turns[0]
	first.Steps[0].Time = first.Begun.Add(time.Second)
	v := watch(t, Options{Recording: r, Speed: 5})
	s := v.open()
	begun := time.Now()
	if _, err := v.say(s.SessionID); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < 200*time.Millisecond {
		t.Errorf("a second at five times the speed took %v", took)
	}
}

func TestNothingToPlay(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "text": "hello\nthere\n", "other JSON": `{"a":1}` + "\n", "a header alone": `{"type":"session","schemaVersion":1,"sessionId":"s"}` + "\n",
		"a trace without a turn": `{"time":"2026-11-22T00:00:00Z","dir":"in","frame":{"jsonrpc":"2.0","id":0,"method":"initialize"}}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(t.Context(), file); !errors.Is(err, ErrEmpty) {
				t.Errorf("%v, want ErrEmpty", err)
			}
		})
	}
}
