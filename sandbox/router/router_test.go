package router

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sessions"
)

func TestInitializeStartsNothing(t *testing.T) {
	r := newRig(t, nil)
	if got := r.journal.all(); len(got) != 0 {
		t.Errorf("initialize did %q", got)
	}
	resp, err := r.router.Initialize(t.Context(), &acp.InitializeRequest{})
	if err != nil || resp.AgentInfo.Name != "gander" || !resp.AgentCapabilities.LoadSession {
		t.Errorf("initialize: %+v, %v", resp, err)
	}
	_, err = r.editor.Conn.Authenticate(t.Context(), &acp.AuthenticateRequest{MethodID: "key"})
	if errorCode(err) != acp.CodeInvalidParams || !strings.Contains(err.Error(), "LLM_API_KEY") {
		t.Errorf("authenticate: %v", err)
	}
}

func TestNewSessionChecks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tests := []struct {
		name   string
		req    acp.NewSessionRequest
		adjust func(*rig)
		code   int
		text   string
	}{
		{"relative", acp.NewSessionRequest{CWD: "src"}, nil, acp.CodeInvalidParams, `cwd must be an absolute path, got "src"`},
		{"missing", acp.NewSessionRequest{CWD: dir + "/no"}, nil, acp.CodeInvalidParams, "no such file or directory"},
		{"a file", acp.NewSessionRequest{CWD: file}, nil, acp.CodeInvalidParams, file + " is not a directory"},
		{"a bad additional directory", acp.NewSessionRequest{CWD: dir, AdditionalDirectories: []string{dir, "x"}}, nil, acp.CodeInvalidParams, "additionalDirectories[1] must be an absolute path"},
		{"agent unusable", acp.NewSessionRequest{CWD: dir}, func(r *rig) { r.agent.check = errors.New("duck is not installed; run gander agent install duck") }, acp.CodeInternalError, "run gander agent install duck"},
		{"agent unknown", acp.NewSessionRequest{CWD: dir}, func(r *rig) { r.opts.Agent = "emu" }, acp.CodeInvalidParams, `there is no agent "emu"; choose one of duck, swan`},
		{"sandbox impossible", acp.NewSessionRequest{CWD: dir}, func(r *rig) {
			r.driver.check, r.second.check = errors.New("no namespaces"), errors.New("no daemon")
		}, acp.CodeInternalError, "box: no namespaces; crate: no daemon"},
		{"sandbox unknown", acp.NewSessionRequest{CWD: dir}, func(r *rig) { r.opts.Sandbox = "moon" }, acp.CodeInternalError, `there is no sandbox "moon"`},
		{"bad project configuration", acp.NewSessionRequest{CWD: dir}, func(r *rig) {
			r.opts.Choose = func(string) (Choice, error) { return Choice{}, errors.New("agent: no such key") }
		}, acp.CodeInternalError, "agent: no such key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.adjust)
			_, err := r.editor.Conn.NewSession(t.Context(), &tt.req)
			if errorCode(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want code %d with %q", err, tt.code, tt.text)
			}
			if got := r.journal.all(); len(got) != 0 {
				t.Errorf("it did %q all the same", got)
			}
			left, _ := os.ReadDir(filepath.Join(r.dir, "sessions"))
			if len(left) != 0 {
				t.Errorf("it left %v", left)
			}
		})
	}
}

func TestProjectChoosesAgentSandboxAndModel(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.opts.Choose = func(string) (Choice, error) { return Choice{Agent: "swan", Sandbox: "crate", Model: "small"}, nil }
	})
	s := r.open(t)
	if got := current(s.ConfigOptions); got != "agent=swan sandbox=crate" {
		t.Errorf("options %s", got)
	}
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	r.journal.wait(t, "open swan mode= model=small resume=", 1)
}

// The client knows the session before it hears of it, whatever the agent does.
func TestNothingComesBeforeTheSession(t *testing.T) {
	r := newRigFor(t, acp.ClientCapabilities{Session: acp.ClientSessionCapabilities{Notices: []byte(`{}`)}}, func(r *rig) {
		r.agent.onOpen = func(_ context.Context, c *fakeConv) error {
			c.update(`{"sessionUpdate":"available_commands_update","availableCommands":[]}`)
			c.update(`{"sessionUpdate":"current_mode_update","currentModeId":"auto"}`)
			return nil
		}
		r.driver.warnings = []string{"the project is owned by root"}
	})
	for range 20 {
		s, err := r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: t.TempDir(), MCPServers: []json.RawMessage{[]byte(`{"type":"sse","name":"db"}`), []byte(`{"type":"acp","name":"ide"}`)}})
		if err != nil {
			t.Fatal(err)
		}
		r.editor.Wait(t, "the commands and notices", func() bool {
			updates := r.editor.Updates(s.SessionID)
			return slices.Contains(r.editor.Kinds(s.SessionID), "available_commands_update") && about(updates, "server db is left out") && about(updates, "server ide is left out") && about(updates, "owned by root")
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := map[string]bool{}
	for _, line := range r.frames {
		var f struct {
			Params, Result struct {
				SessionID string `json:"sessionId"`
			}
		}
		if json.Unmarshal([]byte(line), &f); f.Result.SessionID != "" {
			known[f.Result.SessionID] = true
		}
		if id := f.Params.SessionID; id != "" && !known[id] {
			t.Fatalf("a frame of a session that the client does not know: %s", line)
		}
	}
}

func about(updates []json.RawMessage, text string) bool {
	return slices.ContainsFunc(updates, func(u json.RawMessage) bool { return strings.Contains(string(u), text) })
}

// Without notices the same is said in the first turn.
func TestNoticesWaitForATurn(t *testing.T) {
	r := newRig(t, func(r *rig) { r.driver.warnings = []string{"the project is owned by root"} })
	s, err := r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: t.TempDir(), MCPServers: []json.RawMessage{[]byte(`{"type":"sse","name":"db"}`)}})
	if err != nil {
		t.Fatal(err)
	}
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	r.wantStop(t, s.SessionID, "y", acp.StopEndTurn)
	thoughts := r.editor.Text(s.SessionID, acp.AgentThoughtChunk)
	if strings.Count(thoughts, "owned by root") != 1 || strings.Count(thoughts, "server db is left out") != 1 {
		t.Errorf("thoughts %q", thoughts)
	}
}

func TestSandboxSpec(t *testing.T) {
	cwd, extra, shown := t.TempDir(), t.TempDir(), t.TempDir()
	library := filepath.Join(shown, "library")
	if err := os.Mkdir(library, 0o755); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(r *rig) { r.opts.ReadOnly = []string{shown} })
	s, err := r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: cwd + "/.", AdditionalDirectories: []string{extra, library}})
	if err != nil {
		t.Fatal(err)
	}
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	spec := r.driver.last().spec
	want := []sandbox.Mount{{Path: "/opt/duck"}, {Path: extra, Writable: true, Ruled: true}, {Path: library, Ruled: true}}
	if diff := cmp.Diff(want, spec.Mounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	if spec.WorkingDir != cwd || spec.Labels["session"] != string(s.SessionID) || len(spec.Doors) != 1 {
		t.Errorf("spec %+v", spec)
	}
	if got := r.agent.conv().params.ModelAddr; got != "127.0.0.1:4711" {
		t.Errorf("the model is at %q", got)
	}
	if info, err := os.Stat(spec.Home); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("home: %v, %v", info, err)
	}
	if _, err := r.editor.Conn.CloseSession(t.Context(), &acp.CloseSessionRequest{SessionID: s.SessionID}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(spec.Home); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the home is still there: %v", err)
	}
}

func TestCloseSession(t *testing.T) {
	block := func(r *rig) {
		r.agent.onOpen = func(ctx context.Context, _ *fakeConv) error { <-ctx.Done(); return ctx.Err() }
	}
	tests := map[string]struct {
		adjust func(*rig)
		reach  string // journal entry to wait for
		prompt bool
	}{
		"idle":                {nil, "open duck mode= model= resume=", false},
		"in a turn":           {func(r *rig) { r.agent.onTurn = untilCancelled }, "prompt x in mode auto", true},
		"while starting":      {block, "open duck mode= model= resume=", false},
		"a prompt that waits": {block, "open duck mode= model= resume=", true},
		"creation that hangs": {func(r *rig) {
			r.driver.onCreate = func(ctx context.Context, _ sandbox.Spec) error { <-ctx.Done(); return ctx.Err() }
		}, "create", true},
		"an agent that is off": {func(r *rig) { r.agent.onTurn = deaf; r.opts.CancelDeadline = 1 }, "prompt x in mode auto", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tt.adjust)
			s := r.open(t)
			var end <-chan reply
			if tt.prompt {
				end = r.prompt(t, s.SessionID, "x")
				queued(t, r, s.SessionID, 1)
			}
			r.journal.wait(t, tt.reach, 1)
			if _, err := r.editor.Conn.CloseSession(t.Context(), &acp.CloseSessionRequest{SessionID: s.SessionID}); err != nil {
				t.Fatal(err)
			}
			if tt.prompt {
				if got := <-end; got.stop != acp.StopCancelled {
					t.Error(got)
				}
			}
			if r.journal.count("close sandbox") != len(r.driver.made) || r.journal.count("close model") == 0 {
				t.Errorf("something is left: %q", r.journal.all())
			}
			if got := r.ask(t, s.SessionID, "y"); errorCode(got.err) != acp.CodeResourceNotFound {
				t.Errorf("a prompt after the end: %+v", got)
			}
			_, err := r.editor.Conn.CloseSession(t.Context(), &acp.CloseSessionRequest{SessionID: s.SessionID})
			if errorCode(err) != acp.CodeResourceNotFound {
				t.Errorf("closing again: %v", err)
			}
		})
	}
}

// The editor goes away in the middle of everything: nothing is left, and nothing
// new is started.
func TestEndOfTheConnection(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.agent.onTurn = deaf
		r.opts.CancelDeadline = 10 * patience // which is not waited for
	})
	idle, busy := r.open(t), r.open(t)
	end := r.prompt(t, busy.SessionID, "x")
	r.journal.wait(t, "prompt x in mode auto", 1)
	r.journal.wait(t, "open duck mode= model= resume=", 2)
	_ = r.editor.Conn.Close()
	if got := <-end; got.err == nil {
		t.Errorf("the prompt ended with %+v", got)
	}
	r.journal.wait(t, "close sandbox", 1)
	r.router.Close()
	if n := r.journal.count("close sandbox"); n != 2 || r.journal.count("create") != 2 {
		t.Errorf("journal %q", r.journal.all())
	}
	for _, id := range []acp.SessionID{idle.SessionID, busy.SessionID} {
		if _, err := r.router.session(id); err == nil {
			t.Error("a session is still there")
		}
	}
	if _, err := r.router.NewSession(t.Context(), &acp.NewSessionRequest{CWD: t.TempDir()}); err == nil {
		t.Error("a session was opened after the end")
	}
}

// concurrent are the records of TestTranscript that come while the agent starts.
var concurrent = []string{"agent started", `config mode "approve"`, "update sent config_option_update", "update sent current_mode_update"}

func TestTranscript(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			c.update(`{"sessionUpdate":"tool_call","toolCallId":"t1","title":"edit","locations":[{"path":"a.go"}]}`)
			c.ask(ctx, `{"toolCallId":"t1","title":"edit"}`)
			c.say("done")
			return &acp.PromptResponse{StopReason: acp.StopEndTurn, Usage: []byte(`{"totalTokens":3}`)}, nil
		}
	})
	s := r.open(t)
	if _, err := r.editor.Conn.SetSessionMode(t.Context(), &acp.SetSessionModeRequest{SessionID: s.SessionID, ModeID: "approve"}); err != nil {
		t.Fatal(err)
	}
	r.wantStop(t, s.SessionID, "hello", acp.StopEndTurn)
	r.agent.conv().die("exited with code 9")
	r.journal.wait(t, "close sandbox", 1)
	r.router.Close()
	var got, beside []string
	for rec, err := range r.store.Entries(t.Context(), s.SessionID) {
		if err != nil {
			t.Fatal(err)
		}
		if text := summary(rec); slices.Contains(concurrent, text) {
			beside = append(beside, text)
		} else {
			got = append(got, text)
		}
	}
	slices.Sort(beside)
	if diff := cmp.Diff(concurrent, beside); diff != "" {
		t.Errorf("records of the start (-want +got):\n%s", diff)
	}
	want := []string{
		"session duck", "turn start", "message hello", "update mended tool_call", "permission ask", "permission selected", "update agent_message_chunk", "update sent tool_call_update", "turn end_turn {\"totalTokens\":3}",
		"agent exited duck exited with code 9",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// summary is a record in a few words.
func summary(rec sessions.Record) string {
	words := []string{string(rec.Body.Type())}
	switch b := rec.Body.(type) {
	case sessions.Header:
		words = append(words, b.AgentID)
	case sessions.ConfigChange:
		words = append(words, b.ConfigID, string(b.Value))
	case sessions.AgentEvent:
		words = append(words, b.Event, b.Error)
	case sessions.TurnEvent:
		words = append(words, strings.TrimPrefix(b.Event, "end"), string(b.StopReason), b.Error, string(b.Usage))
	case sessions.Message:
		words = append(words, b.Content)
	case sessions.Update:
		switch {
		case b.Update == nil:
			words = append(words, "sent", acp.UpdateKind(b.Sent[0]))
		case b.Sent != nil:
			words = append(words, "mended", acp.UpdateKind(b.Update))
		default:
			words = append(words, acp.UpdateKind(b.Update))
		}
	case sessions.Permission:
		if b.Request != nil {
			words = append(words, "ask")
		} else {
			words = append(words, acp.ParseContentBlock(b.Outcome).Type, "selected")
		}
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}
