package acpagent

import (
	"context"
	"encoding/json"
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

func TestConversation(t *testing.T) {
	rec := new(recorder)
	b := &box{process: newProcess(t)}
	agent := fakeAgent()
	agent.Serve(t, b.process.agent)
	s, err := openIn(t, b, sandbox.SessionParams{WorkingDir: "/project", Client: rec}, Options{
		Command: sandbox.Command{Args: []string{"duck", "acp"}, Env: []string{"A=1"}},
		Mend:    func(u json.RawMessage) json.RawMessage { return acp.WithFields(u, map[string]any{"mended": true}) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if !b.command.Infrastructure || b.command.Args[1] != "acp" {
		t.Errorf("started %+v", b.command)
	}
	if s.ID() != "s1" || s.State().Modes.CurrentModeID != "auto" {
		t.Errorf("session %q in %+v", s.ID(), s.State())
	}
	resp, err := prompt(t, s, "hello")
	if err != nil || resp.StopReason != acp.StopEndTurn {
		t.Fatal(resp, err)
	}
	if got := rec.all(); len(got) != 1 || !strings.Contains(got[0], `"hello"`) || !strings.Contains(got[0], `"mended":true`) {
		t.Errorf("updates before the answer: %q", got)
	}
	want := []string{acp.MethodInitialize, acp.MethodNewSession, acp.MethodPrompt}
	if diff := cmp.Diff(want, agent.Received()); diff != "" {
		t.Errorf("methods (-want +got):\n%s", diff)
	}
}

// The agent is offered nothing of the editor's machine.
func TestNothingIsOffered(t *testing.T) {
	var frames []string
	agent := fakeAgent()
	_, _ = mustOpen(t, agent, sandbox.SessionParams{WorkingDir: "/project"}, Options{
		Trace: func(dir acp.Direction, line []byte) {
			if dir == acp.Out {
				frames = append(frames, string(line))
			}
		},
	})
	if !strings.Contains(frames[0], `"protocolVersion":1`) || strings.Contains(frames[0], "true") {
		t.Errorf("initialize was %s", frames[0])
	}
	if !strings.Contains(frames[1], `"mcpServers":[]`) || !strings.Contains(frames[1], `"cwd":"/project"`) {
		t.Errorf("session/new was %s", frames[1])
	}
}

func TestRequestsOfTheAgent(t *testing.T) {
	var got []string
	agent := fakeAgent()
	agent.OnPrompt = func(ctx context.Context, c *acp.ClientConn, _ *acp.PromptRequest) (*acp.PromptResponse, error) {
		resp, err := c.RequestPermission(ctx, &acp.RequestPermissionRequest{SessionID: "s1", ToolCall: update(`{"toolCallId":"t"}`), Options: []acp.PermissionOption{{OptionID: "yes", Name: "Yes", Kind: "allow_once"}}})
		if err != nil {
			return nil, err
		}
		got = append(got, resp.Outcome.OptionID)
		_, err = c.Request(ctx, "fs/read_text_file", map[string]string{"path": "/etc/passwd"})
		got = append(got, err.Error())
		return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
	}
	s, _ := mustOpen(t, agent, sandbox.SessionParams{}, Options{})
	if _, err := prompt(t, s, "x"); err != nil {
		t.Fatal(err)
	}
	if got[0] != "yes" || !strings.Contains(got[1], "-32601") {
		t.Errorf("the agent was answered %q", got)
	}
}

func TestChoicesAtTheStart(t *testing.T) {
	agent := fakeAgent()
	s, _ := mustOpen(t, agent, sandbox.SessionParams{Model: "large", Mode: "approve"}, Options{})
	st := s.State()
	if got := StringValue(Option(st.ConfigOptions, acp.CategoryModel)); got != "large" {
		t.Errorf("model %q", got)
	}
	if got := StringValue(Option(st.ConfigOptions, acp.CategoryMode)); got != "approve" || st.Modes.CurrentModeID != "approve" {
		t.Errorf("mode %q and %q", got, st.Modes.CurrentModeID)
	}
	want := []string{acp.MethodInitialize, acp.MethodNewSession, acp.MethodSetConfigOption, acp.MethodSetSessionMode}
	if diff := cmp.Diff(want, agent.Received()); diff != "" {
		t.Errorf("methods (-want +got):\n%s", diff)
	}
}

func TestChoicesTheAgentHasAlready(t *testing.T) {
	agent := fakeAgent()
	_, _ = mustOpen(t, agent, sandbox.SessionParams{Model: "small", Mode: "auto"}, Options{})
	if got := agent.Received(); len(got) != 2 {
		t.Errorf("methods %q", got)
	}
}

// An agent that says yes and stays in another mode is found out.
func TestModeThatIsNotTaken(t *testing.T) {
	agent := fakeAgent()
	var conn *acp.ClientConn
	agent.OnPrompt = nil
	serve := func(c *acp.ClientConn) acp.Agent { conn = c; return agent.New(c) }
	agent.OnSetMode = func(ctx context.Context, req *acp.SetSessionModeRequest) error {
		return conn.SessionUpdate(ctx, &acp.SessionNotification{SessionID: req.SessionID, Update: acp.CurrentModeUpdate("auto")})
	}
	proc := newProcess(t)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() { defer close(served); _ = acp.ServeAgent(ctx, proc.agent, serve, nil) }()
	t.Cleanup(func() { cancel(); <-served })

	_, err := openIn(t, &box{process: proc}, sandbox.SessionParams{Mode: "approve"}, Options{})
	if err == nil || !strings.Contains(err.Error(), `duck says its mode is "auto" after it was asked for "approve"`) {
		t.Fatalf("opened with %v", err)
	}
	wait(t, "the end of the process", proc.gone)
}

func TestStateFollowsTheAgent(t *testing.T) {
	agent := fakeAgent()
	agent.OnPrompt = func(ctx context.Context, c *acp.ClientConn, req *acp.PromptRequest) (*acp.PromptResponse, error) {
		send := func(u json.RawMessage) {
			_ = c.SessionUpdate(ctx, &acp.SessionNotification{SessionID: req.SessionID, Update: u})
		}
		switch acp.ParseContentBlock(req.Prompt[0]).Text {
		case "mode":
			send(acp.CurrentModeUpdate("approve"))
		case "options":
			_, options := state()
			options[0].CurrentValue = quote("auto")
			options[1].CurrentValue = quote("large")
			send(acp.ConfigOptionUpdate(options))
		case "nothing":
			send(acp.ConfigOptionUpdate(nil))
		}
		return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
	}
	s, _ := mustOpen(t, agent, sandbox.SessionParams{}, Options{})
	for _, tt := range []struct{ prompt, mode, model string }{
		{"mode", "approve", "small"},
		{"options", "auto", "large"},
		{"nothing", "auto", "large"},
	} {
		if _, err := prompt(t, s, tt.prompt); err != nil {
			t.Fatal(err)
		}
		st := s.State()
		mode, model := StringValue(Option(st.ConfigOptions, acp.CategoryMode)), StringValue(Option(st.ConfigOptions, acp.CategoryModel))
		if st.Modes.CurrentModeID != tt.mode || mode != tt.mode || model != tt.model {
			t.Errorf("after %s: modes %q, mode %q, model %q", tt.prompt, st.Modes.CurrentModeID, mode, model)
		}
	}
}

func TestSetConfigOption(t *testing.T) {
	s, _ := mustOpen(t, fakeAgent(), sandbox.SessionParams{}, Options{})
	options, err := s.SetConfigOption(t.Context(), "mode", quote("approve"))
	if err != nil || StringValue(Option(options, acp.CategoryMode)) != "approve" {
		t.Fatal(options, err)
	}
	if got := s.State().Modes.CurrentModeID; got != "approve" {
		t.Errorf("the legacy mode is %q", got)
	}
}

// Words of another session are not taken for the mode and the options of this
// one, and passed on only where child sessions are taken. acp.md 3.2: an update is one of the
// session it names.
func TestUpdatesOfOtherSessions(t *testing.T) {
	for _, tt := range []struct {
		offered json.RawMessage
		want    []string
	}{
		{nil, []string{" own"}},
		{json.RawMessage(`{}`), []string{"child words", " own", "child "}},
	} {
		agent, rec := fakeAgent(), new(recorder)
		agent.OnPrompt = func(ctx context.Context, c *acp.ClientConn, req *acp.PromptRequest) (*acp.PromptResponse, error) {
			_ = c.SessionUpdate(ctx, &acp.SessionNotification{SessionID: "child", Update: acp.MessageChunk(acp.AgentMessageChunk, "", "words")})
			_ = c.SessionUpdate(ctx, &acp.SessionNotification{SessionID: req.SessionID, Update: acp.MessageChunk(acp.AgentMessageChunk, "", "own")})
			_ = c.SessionUpdate(ctx, &acp.SessionNotification{SessionID: "child", Update: acp.CurrentModeUpdate("approve")})
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
		s, _ := mustOpen(t, agent, sandbox.SessionParams{Client: rec, Capabilities: acp.ClientCapabilities{Subagents: tt.offered}}, Options{})
		if _, err := prompt(t, s, "x"); err != nil {
			t.Fatal(err)
		}
		if got := rec.texts(); !slices.Equal(got, tt.want) {
			t.Errorf("offered %s: updates %q, want %q", tt.offered, got, tt.want)
		}
		if mode := s.State().Modes.CurrentModeID; mode != "auto" {
			t.Errorf("the mode is %q, which is the other session's", mode)
		}
	}
}

func TestResume(t *testing.T) {
	load := func(ctx context.Context, c *acp.ClientConn, req *acp.LoadSessionRequest) (*acp.LoadSessionResponse, error) {
		if req.SessionID != "s9" {
			return nil, acp.SessionNotFound(req.SessionID)
		}
		_ = c.SessionUpdate(ctx, &acp.SessionNotification{SessionID: req.SessionID, Update: acp.MessageChunk(acp.AgentMessageChunk, "", "old words, ")})
		_ = c.SessionUpdate(ctx, &acp.SessionNotification{SessionID: req.SessionID, Update: acp.MessageChunk(acp.AgentMessageChunk, "", "old words")})
		modes, options := state()
		return &acp.LoadSessionResponse{Modes: modes, ConfigOptions: options}, nil
	}
	tests := map[string]struct {
		can    bool
		resume string
		words  []string
		id     string
		loads  int
	}{
		"continues":        {true, "s9", nil, "s9", 1},
		"has lost it":      {true, "s8", nil, "s1", 1},
		"cannot":           {false, "s9", nil, "s1", 0},
		"nothing to":       {true, "", nil, "s1", 0},
		"knows the end":    {true, "s9", []string{"which?", "words,\n old"}, "s9", 1},
		"has lost the end": {true, "s9", []string{"which?", "older words"}, "s1", 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			agent := fakeAgent()
			agent.Capabilities.LoadSession = tt.can
			agent.OnLoadSession = load
			rec := new(recorder)
			s, _ := mustOpen(t, agent, sandbox.SessionParams{ResumeID: tt.resume, ResumeWords: tt.words, Client: rec}, Options{})
			if s.ID() != tt.id {
				t.Errorf("session %q, want %q", s.ID(), tt.id)
			}
			loads := 0
			for _, m := range agent.Received() {
				if m == acp.MethodLoadSession {
					loads++
				}
			}
			if loads != tt.loads {
				t.Errorf("%d loads, want %d", loads, tt.loads)
			}
			if _, err := prompt(t, s, "new words"); err != nil {
				t.Fatal(err)
			}
			if got := rec.all(); len(got) != 1 || strings.Contains(got[0], "old words") {
				t.Errorf("updates %q, want those of the turn only", got)
			}
		})
	}
}

func TestOpenErrors(t *testing.T) {
	tests := map[string]struct {
		agent func(*process) // talks instead of an ACP agent
		box   error          // of starting
		want  string
	}{
		"not startable": {nil, errors.New("exec: no such file"), "starting duck in its sandbox: exec: no such file"},
		"exits at once": {func(p *process) {
			_, _ = p.errs.Write([]byte("error: no CA bundle\n  hint: install ca-certificates\n"))
			p.exit(sandbox.ExitStatus{Code: 3}, nil)
		}, nil, "opening a session with duck (/opt/duck): duck exited with code 3; its last words: error: no CA bundle | hint: install ca-certificates"},
		"is killed":         {func(p *process) { p.exit(sandbox.ExitStatus{Code: 137, Signal: "KILL"}, nil) }, nil, "duck was ended by signal KILL"},
		"loses its sandbox": {func(p *process) { p.exit(sandbox.ExitStatus{}, sandbox.ErrGone) }, nil, "duck ended: the sandbox has ended"},
		"closes its output": {func(p *process) { _ = p.agent.Close() }, nil, "duck was ended by signal KILL"},
		"says nothing": {func(p *process) {
			_, _ = p.errs.Write([]byte("waiting for a lock"))
			buf := make([]byte, 1024)
			for {
				if _, err := p.agent.Read(buf); err != nil {
					return
				}
			}
		}, nil, "it did not answer within 50ms"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := newProcess(t)
			if tt.agent != nil {
				done := make(chan struct{})
				go func() { defer close(done); tt.agent(p) }()
				defer func() { <-done }()
			}
			o := Options{}
			if name == "says nothing" {
				o.StartTime = 50 * time.Millisecond
			}
			_, err := openIn(t, &box{process: p, err: tt.box}, sandbox.SessionParams{}, o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if tt.box == nil {
				wait(t, "the end of the process", p.gone)
			}
		})
	}
}

func TestErrorsOfOpeningAreTheAgents(t *testing.T) {
	agent := fakeAgent()
	agent.OnNewSession = func(context.Context, *acp.NewSessionRequest) (*acp.NewSessionResponse, error) {
		return nil, acp.Internal("Failed to resolve provider", nil)
	}
	_, proc, err := open(t, agent, sandbox.SessionParams{}, Options{})
	if err == nil || !strings.Contains(err.Error(), "session/new: Failed to resolve provider") {
		t.Errorf("got %v", err)
	}
	wait(t, "the end of the process", proc.gone)
}

func TestCancelledOpening(t *testing.T) {
	agent := fakeAgent()
	called := make(chan struct{})
	agent.OnNewSession = func(ctx context.Context, _ *acp.NewSessionRequest) (*acp.NewSessionResponse, error) {
		close(called)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	proc := newProcess(t)
	agent.Serve(t, proc.agent)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-called; cancel() }()
	if _, err := Open(ctx, &box{process: proc}, sandbox.SessionParams{Client: new(recorder)}, Options{Name: "duck", Command: sandbox.Command{Args: []string{"duck"}}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wait(t, "the end of the process", proc.gone)
}

func TestNotices(t *testing.T) {
	agent := fakeAgent()
	agent.OnNewSession = func(context.Context, *acp.NewSessionRequest) (*acp.NewSessionResponse, error) {
		return &acp.NewSessionResponse{Meta: []byte(`{"failed":"db"}`)}, nil
	}
	s, _ := mustOpen(t, agent, sandbox.SessionParams{}, Options{Notices: func(meta json.RawMessage) []string { return []string{string(meta)} }})
	if got := s.State().Notices; !slices.Equal(got, []string{`{"failed":"db"}`}) {
		t.Errorf("notices %q", got)
	}
}

// turnThat opens a session whose turn does something to its own process.
func turnThat(t *testing.T, do func(p *process)) (*Session, *process) {
	t.Helper()
	agent := fakeAgent()
	var proc *process
	agent.OnPrompt = func(ctx context.Context, _ *acp.ClientConn, _ *acp.PromptRequest) (*acp.PromptResponse, error) {
		do(proc)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	proc = newProcess(t)
	agent.Serve(t, proc.agent)
	s, err := openIn(t, &box{process: proc}, sandbox.SessionParams{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s, proc
}

func TestDeathInATurn(t *testing.T) {
	tests := map[string]struct {
		do   func(p *process)
		want string
	}{
		"exits":             {func(p *process) { p.exit(sandbox.ExitStatus{Code: 101}, nil) }, "duck exited with code 101"},
		"closes its output": {func(p *process) { _ = p.agent.Close() }, "duck was ended by signal KILL"},
		"loses its sandbox": {func(p *process) { p.exit(sandbox.ExitStatus{}, sandbox.ErrGone) }, "duck ended: the sandbox has ended"},
		"with last words": {func(p *process) {
			for i := range 20 {
				fmt.Fprintf(p.errs, "line %d\n", i)
			}
			_, _ = p.errs.Write([]byte(strings.Repeat("é", 5000)))
			p.exit(sandbox.ExitStatus{Code: 1}, nil)
		}, "its last words: line 13 | line 14"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, _ := turnThat(t, tt.do)
			if s.Err() != nil {
				t.Errorf("before the end: %v", s.Err())
			}
			_, err := prompt(t, s, "x")
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if len(err.Error()) > 1<<13 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			wait(t, "Done", s.Done())
			if s.Err() == nil || s.Err().Error() != err.Error() {
				t.Errorf("Err says %v", s.Err())
			}
			if _, err := prompt(t, s, "y"); err == nil {
				t.Error("a dead agent answered")
			}
		})
	}
}

func TestDeathBetweenTurns(t *testing.T) {
	s, proc := mustOpen(t, fakeAgent(), sandbox.SessionParams{}, Options{})
	proc.exit(sandbox.ExitStatus{Code: 2}, nil)
	wait(t, "Done", s.Done())
	if want := "duck exited with code 2"; s.Err() == nil || s.Err().Error() != want {
		t.Errorf("Err says %v, want %q", s.Err(), want)
	}
}

func TestCancelledPrompt(t *testing.T) {
	agent := fakeAgent()
	started := make(chan struct{}, 1)
	agent.OnPrompt = func(ctx context.Context, _ *acp.ClientConn, _ *acp.PromptRequest) (*acp.PromptResponse, error) {
		started <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s, _ := mustOpen(t, agent, sandbox.SessionParams{}, Options{})
	type result struct {
		resp *acp.PromptResponse
		err  error
	}
	end := make(chan result, 1)
	go func() {
		resp, err := prompt(t, s, "x")
		end <- result{resp, err}
	}()
	<-started
	if err := s.Cancel(); err != nil {
		t.Fatal(err)
	}
	if got := <-end; got.err != nil || got.resp.StopReason != acp.StopCancelled {
		t.Errorf("%+v", got)
	}
}

func TestClose(t *testing.T) {
	s, proc := mustOpen(t, fakeAgent(), sandbox.SessionParams{}, Options{})
	start := time.Now()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	wait(t, "the end of the process", proc.gone)
	wait(t, "Done", s.Done())
	if took := time.Since(start); took > patience/2 {
		t.Errorf("it took %v", took)
	}
}

// An agent that stays when its output is closed is killed, and not waited for in vain.
func TestStubbornProcess(t *testing.T) {
	s, proc := turnThat(t, func(p *process) { p.stubborn = true; _ = p.agent.Close() })
	end := make(chan error, 1)
	go func() {
		_, err := prompt(t, s, "x")
		end <- err
	}()
	<-proc.killed
	proc.exit(sandbox.ExitStatus{Code: 137, Signal: "KILL"}, nil)
	if err := <-end; err == nil || !strings.Contains(err.Error(), "signal KILL") {
		t.Errorf("got %v", err)
	}
}

func TestWithValue(t *testing.T) {
	_, options := state()
	changed := WithValue(options, acp.CategoryModel, "large")
	if StringValue(&changed[1]) != "large" || StringValue(&options[1]) != "small" {
		t.Errorf("changed %s, before %s", changed[1].CurrentValue, options[1].CurrentValue)
	}
	if got := WithValue(options, "none", "x"); len(got) != len(options) {
		t.Errorf("%d options", len(got))
	}
	if got := StringValue(&acp.ConfigOption{CurrentValue: []byte("true")}); got != "" {
		t.Errorf("the value of a switch is %q", got)
	}
}

// The id of a session is kept for good.
func TestSessionIDsAreShort(t *testing.T) {
	agent := fakeAgent()
	agent.OnNewSession = func(context.Context, *acp.NewSessionRequest) (*acp.NewSessionResponse, error) {
		return &acp.NewSessionResponse{SessionID: acp.SessionID(strings.Repeat("x", maxID+1))}, nil
	}
	if _, _, err := open(t, agent, sandbox.SessionParams{}, Options{}); err == nil || !strings.Contains(err.Error(), "1025 bytes") {
		t.Errorf("got %v", err)
	}
}
