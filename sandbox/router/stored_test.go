package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// again is another gander on the same home, after this one or beside it.
func (r *rig) again(t *testing.T, capabilities acp.ClientCapabilities, adjust func(*rig)) *rig {
	t.Helper()
	return newRigFor(t, capabilities, func(next *rig) {
		next.dir = r.dir
		var err error
		if next.store, err = sessions.Open(filepath.Join(r.dir, "sessions"), nil); err != nil {
			t.Fatal(err)
		}
		next.opts.Store, next.opts.StateDir = next.store, r.opts.StateDir
		if adjust != nil {
			adjust(next)
		}
	})
}

// load loads a session and returns its replay.
func (r *rig) load(t *testing.T, id acp.SessionID, cwd string) []json.RawMessage {
	t.Helper()
	before := len(r.editor.Updates(id))
	if _, err := r.editor.Conn.LoadSession(t.Context(), &acp.LoadSessionRequest{SessionID: id, CWD: cwd}); err != nil {
		t.Fatal(err)
	}
	all := r.editor.Updates(id)[before:]
	if i := slices.IndexFunc(all, func(u json.RawMessage) bool { return acp.UpdateKind(u) == "available_commands_update" }); i >= 0 {
		all = all[:i] // what came behind the response
	}
	return all
}

// texts are updates in a short form.
func texts(updates []json.RawMessage) []string {
	var out []string
	for _, raw := range updates {
		var u struct {
			Kind    string          `json:"sessionUpdate"`
			Title   string          `json:"title"`
			Status  string          `json:"status"`
			Content json.RawMessage `json:"content"`
		}
		_ = json.Unmarshal(raw, &u)
		text := acp.ParseContentBlock(u.Content).Text + acp.ToolText(listOf(u.Content))
		out = append(out, strings.Join(slices.DeleteFunc([]string{strings.TrimSuffix(u.Kind, "_chunk"), u.Title, u.Status, strings.TrimSpace(text)}, func(s string) bool { return s == "" }), " "))
	}
	return out
}

// A thread is the same in another process, and its agent goes on with its own session.
func TestLoad(t *testing.T) {
	first := newRig(t, func(r *rig) {
		r.agent.onTurn = func(_ context.Context, c *fakeConv, text string) (*acp.PromptResponse, error) {
			c.update(`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`)
			c.update(`{"sessionUpdate":"plan","entries":[{"content":"a","priority":"high","status":"pending"}]}`)
			c.update(`{"sessionUpdate":"tool_call","toolCallId":"t1","title":"edit a.go","kind":"edit"}`)
			c.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"completed","content":[{"type":"diff","path":"/a.go","oldText":null,"newText":"x"}]}`)
			c.say("you said: " + lastLine(text))
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	cwd := t.TempDir()
	s := first.editor.NewSession(t, cwd)
	first.wantStop(t, s.SessionID, "fix the tests", acp.StopEndTurn)
	first.mustSet(t, s.SessionID, "mode", "approve")
	first.router.Close()

	second := first.again(t, acp.ClientCapabilities{}, func(r *rig) { r.agent.resumes = true })
	updates := second.load(t, s.SessionID, cwd)
	want := []string{"user_message fix the tests", "agent_thought hm", "plan", "tool_call edit a.go", "tool_call_update completed", "agent_message you said: fix the tests"}
	if diff := cmp.Diff(want, texts(updates)); diff != "" {
		t.Errorf("replay (-want +got):\n%s", diff)
	}
	if !about(updates, `"content":[{"type":"diff","path":"/a.go","oldText":null,"newText":"x"}]`) {
		t.Errorf("the diff is not as it was: %s", updates)
	}
	if got := second.journal.all(); len(got) != 0 {
		t.Errorf("loading did %q", got)
	}
	second.wantStop(t, s.SessionID, "go on", acp.StopEndTurn)
	second.journal.wait(t, "open duck mode=approve model= resume=duck-1", 1)
	if strings.Contains(strings.Join(second.agent.conv().prompts(), "\n"), "fix the tests") {
		t.Error("an agent that has its own session was told again what it knows")
	}
	if got, want := second.agent.conv().params.ResumeWords, []string{"fix the tests", "you said: fix the tests"}; !slices.Equal(got, want) {
		t.Errorf("the agent shows by %q that it knows the last turn, want %q", got, want)
	}
	list, err := second.editor.Conn.ListSessions(t.Context(), &acp.ListSessionsRequest{CWD: cwd})
	if err != nil || len(list.Sessions) != 1 || list.Sessions[0].SessionID != s.SessionID || list.Sessions[0].Title != "fix the tests" || list.Sessions[0].CWD != cwd {
		t.Errorf("the list is %+v, %v", list, err)
	}
}

// An agent that lost its session is given the conversation, and the person is told.
func TestLoadWithoutTheAgentsSession(t *testing.T) {
	first := newRig(t, nil)
	cwd := t.TempDir()
	s := first.editor.NewSession(t, cwd)
	first.wantStop(t, s.SessionID, "the word is quince", acp.StopEndTurn)
	first.router.Close()
	second := first.again(t, acp.ClientCapabilities{}, nil) // its ids are those of the first again
	second.load(t, s.SessionID, cwd)
	second.wantStop(t, s.SessionID, "which word?", acp.StopEndTurn)
	if got := strings.Join(second.agent.conv().prompts(), "\n"); !strings.Contains(got, "the word is quince") {
		t.Errorf("the agent was told %q", got)
	}
	if got := second.editor.Text(s.SessionID, acp.AgentThoughtChunk); !strings.Contains(got, "duck could not go on with its own session") {
		t.Errorf("the person was told %q", got)
	}
	if got := texts(second.load(t, s.SessionID, cwd)); !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "could not go on") }) {
		t.Errorf("the replay does not show it: %q", got)
	}
}

func TestLoadChecks(t *testing.T) {
	r := newRig(t, nil)
	cwd := t.TempDir()
	s := r.editor.NewSession(t, cwd)
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(cwd, link); err != nil {
		t.Fatal(err)
	}
	load := func(r *rig, id acp.SessionID, dir string, meta string) error {
		_, err := r.editor.Conn.LoadSession(t.Context(), &acp.LoadSessionRequest{SessionID: id, CWD: dir, Meta: json.RawMessage(meta)})
		return err
	}
	for _, tt := range []struct {
		name     string
		id       acp.SessionID
		cwd      string
		meta     string
		code     int
		sentence string
	}{
		{"unknown", "0199-none", cwd, `{}`, acp.CodeResourceNotFound, "Session not found"},
		{"no id at all", "../../etc/passwd", cwd, `{}`, acp.CodeResourceNotFound, "Session not found"},
		{"elsewhere", s.SessionID, t.TempDir(), `{}`, acp.CodeInvalidParams, "belongs to " + cwd},
		{"relative", s.SessionID, "x", `{}`, acp.CodeInvalidParams, "absolute"},
		{"another key", s.SessionID, cwd, `{"sessionKey":"other"}`, acp.CodeInvalidParams, `does not have the key "other"`},
		{"unknown agent", s.SessionID, cwd, `{"agentId":"emu"}`, acp.CodeInvalidParams, `there is no agent "emu"`},
		{"by a link", s.SessionID, link, `{"sessionKey":" ","session":"` + string(s.SessionID) + `"}`, 0, ""},
	} {
		err := load(r, tt.id, tt.cwd, tt.meta)
		if errorCode(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.sentence) {
			t.Errorf("%s: %v, want code %d with %q", tt.name, err, tt.code, tt.sentence)
		}
	}
	// Two processes do not have one session open.
	other := r.again(t, acp.ClientCapabilities{}, nil)
	if err := load(other, s.SessionID, cwd, `{}`); err == nil || !strings.Contains(err.Error(), "open elsewhere") {
		t.Errorf("a session that another has open: %v", err)
	}
	if _, err := other.editor.Conn.DeleteSession(t.Context(), &acp.DeleteSessionRequest{SessionID: s.SessionID}); err == nil {
		t.Error("a session that another has open was deleted")
	}
	if _, err := r.editor.Conn.CloseSession(t.Context(), &acp.CloseSessionRequest{SessionID: s.SessionID}); err != nil {
		t.Fatal(err)
	}
	if err := load(other, s.SessionID, cwd, `{}`); err != nil {
		t.Errorf("after it was closed there: %v", err)
	}
}

// A session at work is not loaded beneath itself.
func TestLoadWhileATurnRuns(t *testing.T) {
	r := newRig(t, func(r *rig) { r.agent.onTurn = untilCancelled })
	cwd := t.TempDir()
	s := r.editor.NewSession(t, cwd)
	turn := r.prompt(t, s.SessionID, "x")
	r.journal.wait(t, "prompt x in mode auto", 1)
	if _, err := r.editor.Conn.ResumeSession(t.Context(), &acp.ResumeSessionRequest{SessionID: s.SessionID, CWD: cwd}); errorCode(err) != acp.CodeInvalidRequest {
		t.Errorf("resume: %v", err)
	}
	r.cancel(t, s.SessionID)
	<-turn
}

func TestResumeDoesNotReplay(t *testing.T) {
	first := newRig(t, nil)
	cwd := t.TempDir()
	s := first.editor.NewSession(t, cwd)
	first.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	first.router.Close()
	r := first.again(t, acp.ClientCapabilities{}, nil)
	resp, err := r.editor.Conn.ResumeSession(t.Context(), &acp.ResumeSessionRequest{SessionID: s.SessionID, CWD: cwd})
	if err != nil || current(resp.ConfigOptions) == "" {
		t.Fatalf("%+v, %v", resp, err)
	}
	r.wantStop(t, s.SessionID, "y", acp.StopEndTurn)
	if got := r.editor.Text(s.SessionID, acp.UserMessageChunk); got != "" {
		t.Errorf("replayed %q", got)
	}
}

func TestHistoryLimit(t *testing.T) {
	first := newRig(t, nil)
	cwd := t.TempDir()
	s := first.editor.NewSession(t, cwd)
	for i := range 5 {
		first.wantStop(t, s.SessionID, fmt.Sprint("prompt ", i), acp.StopEndTurn)
	}
	first.router.Close()
	r := first.again(t, acp.ClientCapabilities{}, func(r *rig) { r.opts.HistoryLimit = 3 })
	want := []string{"agent_message you said: prompt 3", "user_message prompt 4", "agent_message you said: prompt 4"}
	if diff := cmp.Diff(want, texts(r.load(t, s.SessionID, cwd))); diff != "" {
		t.Errorf("replay (-want +got):\n%s", diff)
	}
}

// A fork begins with the same thread and goes its own way.
func TestFork(t *testing.T) {
	r := newRig(t, func(r *rig) { r.agent.resumes = true })
	cwd := t.TempDir()
	s := r.editor.NewSession(t, cwd)
	r.wantStop(t, s.SessionID, "the word is quince", acp.StopEndTurn)
	fork, err := r.editor.Conn.ForkSession(t.Context(), &acp.ForkSessionRequest{SessionID: s.SessionID, CWD: cwd})
	if err != nil || fork.SessionID == "" || fork.SessionID == s.SessionID {
		t.Fatalf("fork: %+v, %v", fork, err)
	}
	r.wantStop(t, fork.SessionID, "which word?", acp.StopEndTurn)
	if got := strings.Join(r.agent.conv().prompts(), "\n"); !strings.Contains(got, "the word is quince") {
		t.Errorf("the agent of the fork was told %q", got)
	}
	r.wantStop(t, s.SessionID, "still here?", acp.StopEndTurn)
	if got := texts(r.load(t, s.SessionID, cwd)); slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "which word") }) {
		t.Errorf("the fork changed what it was made from: %q", got)
	}
	if got := texts(r.load(t, fork.SessionID, cwd)); got[0] != "user_message the word is quince" || !slices.Contains(got, "user_message which word?") {
		t.Errorf("the fork is %q", got)
	}
	if _, err := r.editor.Conn.ForkSession(t.Context(), &acp.ForkSessionRequest{SessionID: "none", CWD: cwd}); errorCode(err) != acp.CodeResourceNotFound {
		t.Errorf("fork of nothing: %v", err)
	}
}

func TestDelete(t *testing.T) {
	r := newRig(t, func(r *rig) { r.opts.Agents[0] = rememberer{r.agent} })
	s := r.open(t)
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	remembered := filepath.Join(r.opts.StateDir, "sandboxes", "duck-"+string(s.SessionID), "home", "memory")
	if err := os.WriteFile(remembered, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // deleting again is no error
		if _, err := r.editor.Conn.DeleteSession(t.Context(), &acp.DeleteSessionRequest{SessionID: s.SessionID}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Dir(filepath.Dir(remembered))); err == nil {
		t.Error("what the agent kept is still there")
	}
	list, err := r.editor.Conn.ListSessions(t.Context(), &acp.ListSessionsRequest{})
	if err != nil || len(list.Sessions) != 0 {
		t.Errorf("the list is %+v, %v", list, err)
	}
	if got := r.ask(t, s.SessionID, "y"); errorCode(got.err) != acp.CodeResourceNotFound {
		t.Errorf("a prompt after that: %+v", got)
	}
}

func TestSetTitle(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t)
	r.wantStop(t, s.SessionID, "## fix  the\tlogin\nplease", acp.StopEndTurn)
	r.editor.Wait(t, "the title made from the prompt", func() bool { return about(r.editor.Updates(s.SessionID), `"title":"fix the login"`) })
	resp, err := r.editor.Conn.SetSessionTitle(t.Context(), &acp.SetSessionTitleRequest{SessionID: s.SessionID, Title: " the\x1b login\n"})
	if err != nil || resp.Title != "the login" {
		t.Fatalf("%+v, %v", resp, err)
	}
	r.editor.Wait(t, "the title that the person gave", func() bool { return about(r.editor.Updates(s.SessionID), `"title":"the login"`) })
	if _, err := r.editor.Conn.SetSessionTitle(t.Context(), &acp.SetSessionTitleRequest{SessionID: s.SessionID, Title: "\n"}); errorCode(err) != acp.CodeInvalidParams {
		t.Errorf("an empty title: %v", err)
	}
	if _, err := r.editor.Conn.SetSessionTitle(t.Context(), &acp.SetSessionTitleRequest{SessionID: "none", Title: "x"}); errorCode(err) != acp.CodeResourceNotFound {
		t.Errorf("the title of nothing: %v", err)
	}
}

func TestListPages(t *testing.T) {
	r := newRig(t, nil)
	for range 5 {
		r.open(t)
	}
	seen := map[acp.SessionID]bool{}
	cursor := ""
	for page := 1; ; page++ {
		resp, err := r.editor.Conn.ListSessions(t.Context(), &acp.ListSessionsRequest{Cursor: cursor, Meta: json.RawMessage(`{"limit":2.7}`)})
		if err != nil || len(resp.Sessions) > 2 || page > 3 {
			t.Fatalf("page %d: %+v, %v", page, resp, err)
		}
		for _, s := range resp.Sessions {
			seen[s.SessionID] = true
		}
		if cursor = resp.NextCursor; cursor == "" {
			break
		}
	}
	if len(seen) != 5 {
		t.Errorf("%d sessions were listed, want 5", len(seen))
	}
	for _, req := range []acp.ListSessionsRequest{{Cursor: "nonsense"}, {CWD: "relative"}} {
		if _, err := r.editor.Conn.ListSessions(t.Context(), &req); errorCode(err) != acp.CodeInvalidParams {
			t.Errorf("%+v: %v", req, err)
		}
	}
}

// Agents are exchanged within a thread; each is told what it does not know.
func TestHotSwap(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.agent.resumes, r.other.resumes = true, true
		r.agent.onTurn = func(_ context.Context, c *fakeConv, text string) (*acp.PromptResponse, error) {
			c.update(`{"sessionUpdate":"tool_call","toolCallId":"t1","title":"cat secret.txt","kind":"execute"}`)
			c.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"the file says medlar"}}]}`)
			c.say("you said: " + lastLine(text))
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	cwd := t.TempDir()
	s := r.editor.NewSession(t, cwd)
	r.wantStop(t, s.SessionID, "the word is quince", acp.StopEndTurn)
	r.mustSet(t, s.SessionID, "agent", "swan")
	r.wantStop(t, s.SessionID, "which word?", acp.StopEndTurn)
	told := strings.Join(r.other.conv().prompts(), "\n")
	for _, want := range []string{"the word is quince", "you said: the word is quince", "cat secret.txt", "the file says medlar"} {
		if !strings.Contains(told, want) {
			t.Errorf("swan was not told %q: %s", want, told)
		}
	}
	r.wantStop(t, s.SessionID, "a pear", acp.StopEndTurn)
	if n := strings.Count(strings.Join(r.other.conv().prompts(), "\n"), "the word is quince"); n != 2 { // asked and answered
		t.Errorf("swan was told %d times", n)
	}
	r.mustSet(t, s.SessionID, "agent", "duck")
	r.wantStop(t, s.SessionID, "and now?", acp.StopEndTurn)
	r.journal.wait(t, "open duck mode= model= resume=duck-1", 1)
	told = strings.Join(r.agent.conv().prompts(), "\n")
	if strings.Contains(told, "the word is quince") || !strings.Contains(told, "which word?") || !strings.Contains(told, "a pear") {
		t.Errorf("duck was told %s", told)
	}
	r.router.Close()
	// What was said to whom survives, too.
	next := r.again(t, acp.ClientCapabilities{}, func(r *rig) { r.agent.resumes, r.other.resumes = true, true })
	thread := strings.Join(texts(next.load(t, s.SessionID, cwd)), "\n")
	for _, want := range []string{"From here on this thread is answered by swan.", "From here on this thread is answered by duck.", "swan was given the conversation so far"} {
		if !strings.Contains(thread, want) {
			t.Errorf("the thread does not show %q:\n%s", want, thread)
		}
	}
	next.wantStop(t, s.SessionID, "last", acp.StopEndTurn)
	if told := strings.Join(next.agent.conv().prompts(), "\n"); strings.Contains(told, "quince") || strings.Contains(told, "a pear") {
		t.Errorf("duck was told again %s", told)
	}
	next.mustSet(t, s.SessionID, "agent", "swan")
	next.wantStop(t, s.SessionID, "back", acp.StopEndTurn)
	next.journal.wait(t, "open swan mode= model= resume=swan-1", 1)
	if told := strings.Join(next.other.conv().prompts(), "\n"); strings.Contains(told, "a pear") || !strings.Contains(told, "and now?") {
		t.Errorf("swan was told %s", told)
	}
}

// A turn that runs is answered by whom it was given to, also when another agent is
// chosen meanwhile.
func TestHotSwapDuringATurn(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, func(r *rig) {
		r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			<-gate
			c.say("from duck")
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	s := r.open(t)
	first := r.prompt(t, s.SessionID, "one")
	r.journal.wait(t, "prompt one in mode auto", 1)
	if got := r.mustSet(t, s.SessionID, "agent", "swan"); !strings.Contains(got, "agent=swan") {
		t.Errorf("options %s", got)
	}
	second := r.prompt(t, s.SessionID, "two")
	close(gate)
	if a, b := <-first, <-second; a.stop != acp.StopEndTurn || b.stop != acp.StopEndTurn {
		t.Errorf("the turns ended with %+v and %+v", a, b)
	}
	if got := r.editor.Text(s.SessionID, acp.AgentMessageChunk); got != "from duckyou said: two" {
		t.Errorf("the thread says %q", got)
	}
}

// Old terminals are text, and what a crash left open is ended.
func TestReplayOfTerminals(t *testing.T) {
	zed := acp.ClientCapabilities{Meta: map[string]json.RawMessage{"terminal_output": json.RawMessage("true")}}
	r := newRigFor(t, zed, func(r *rig) {
		r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			c.update(`{"sessionUpdate":"tool_call","toolCallId":"t1","title":"make","kind":"execute"}`)
			c.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"in_progress","_meta":{"toolNotification":{"type":"live_output","params":{"chunks":[{"output":"one\n"}]}}}}`)
			c.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"one\ntwo\n"}}],"_meta":{"toolNotification":{"type":"live_output","params":{"chunks":[{"output":"two\n"}]}}}}`)
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	cwd := t.TempDir()
	s := r.editor.NewSession(t, cwd)
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	r.router.Close()
	crashed, _, err := r.store.Resume(t.Context(), s.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	opened := json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"t2","title":"sleep","kind":"execute","_meta":{"terminal_info":{"terminal_id":"t2"}},"content":[{"type":"terminal","terminalId":"t2"}]}`)
	output := json.RawMessage(`{"sessionUpdate":"tool_call_update","toolCallId":"t2","_meta":{"terminal_output":{"terminal_id":"t2","data":"half"}}}`)
	if err := crashed.Commit(t.Context(), sessions.Record{TurnID: "z", Body: sessions.Update{Sent: []json.RawMessage{opened, output}}}); err != nil {
		t.Fatal(err)
	}
	if err := crashed.Close(); err != nil {
		t.Fatal(err)
	}
	later := r.again(t, zed, nil)
	updates := later.load(t, s.SessionID, cwd)
	want := []string{"user_message x", "tool_call make", "tool_call_update completed one\ntwo", "tool_call sleep", "tool_call_update failed half\nInterrupted."}
	got := slices.DeleteFunc(texts(updates), func(s string) bool { return s == "tool_call_update in_progress" })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("replay (-want +got):\n%s", diff)
	}
	if about(updates, "terminal") {
		t.Errorf("a terminal of then is shown: %s", updates)
	}
	later.wantStop(t, s.SessionID, "y", acp.StopEndTurn)
	got = texts(later.load(t, s.SessionID, cwd))
	if end, next := slices.Index(got, "tool_call_update failed half\nInterrupted."), slices.Index(got, "user_message y"); end < 0 || end > next {
		t.Errorf("a call that was never ended is not ended where the person went on: %q", got)
	}
}

// A prompt that was cancelled while another turn ran stands in the middle of that: a
// command of the turn that ended after it is shown as text, too, with all it printed.
// acp.md 8: on load, never refer to terminals of then.
func TestReplayOfATurnAroundACancelledPrompt(t *testing.T) {
	zed := acp.ClientCapabilities{Meta: map[string]json.RawMessage{"terminal_output": json.RawMessage("true")}}
	printed, gate := make(chan struct{}), make(chan struct{})
	r := newRigFor(t, zed, func(r *rig) {
		r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			c.update(`{"sessionUpdate":"tool_call","toolCallId":"t1","title":"make","kind":"execute"}`)
			c.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"in_progress","_meta":{"toolNotification":{"type":"live_output","params":{"chunks":[{"output":"one\n"}]}}}}`)
			close(printed)
			<-gate
			c.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"one\ntwo\n"}}],"_meta":{"toolNotification":{"type":"live_output","params":{"chunks":[{"output":"two\n"}]}}}}`)
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	cwd := t.TempDir()
	s := r.editor.NewSession(t, cwd)
	first := r.prompt(t, s.SessionID, "x")
	<-printed
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan struct{})
	go func() {
		defer close(second)
		_, _ = r.editor.Prompt(ctx, s.SessionID, "y")
	}()
	queued(t, r, s.SessionID, 2)
	cancel() // $/cancel_request, of that prompt alone
	<-second
	for late := time.Now().Add(patience); !slices.Contains(r.written(), "stop cancelled"); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("the cancelled prompt was not answered: %q", r.written())
		}
	}
	close(gate)
	if got := <-first; got.stop != acp.StopEndTurn {
		t.Fatalf("the turn: %+v", got)
	}
	r.router.Close()
	updates := r.again(t, zed, nil).load(t, s.SessionID, cwd)
	if about(updates, "terminal") {
		t.Errorf("a terminal of then is shown: %s", updates)
	}
	if got := texts(updates); !slices.Contains(got, "user_message y") || got[len(got)-1] != "tool_call_update completed one\ntwo" {
		t.Errorf("replay: %q", got)
	}
}

// An agent that does not start with what it has kept of its session, as that is damaged,
// starts without it. One that does not start anyhow is not tried again and again.
func TestDamagedRecord(t *testing.T) {
	first := newRig(t, func(r *rig) { r.opts.Agents[0] = rememberer{r.agent} })
	cwd := t.TempDir()
	s := first.editor.NewSession(t, cwd)
	first.wantStop(t, s.SessionID, "the word is quince", acp.StopEndTurn)
	first.router.Close()
	broken := false
	second := first.again(t, acp.ClientCapabilities{}, func(r *rig) {
		r.opts.Agents[0] = rememberer{r.agent}
		r.agent.onOpen = func(_ context.Context, c *fakeConv) error {
			if c.params.ResumeID != "" || broken {
				return errors.New("the database is malformed")
			}
			return nil
		}
	})
	second.load(t, s.SessionID, cwd)
	second.wantStop(t, s.SessionID, "which word?", acp.StopEndTurn)
	if got := strings.Join(second.agent.conv().prompts(), "\n"); !strings.Contains(got, "the word is quince") {
		t.Errorf("the agent was told %q", got)
	}
	if got := second.editor.Text(s.SessionID, acp.AgentThoughtChunk); !strings.Contains(got, "duck could not go on with its own session") {
		t.Errorf("the person was told %q", got)
	}
	second.agent.conv().die("killed")
	broken = true
	before := second.agent.opened
	if _, err := second.editor.Prompt(t.Context(), s.SessionID, "again"); err == nil || !strings.Contains(err.Error(), "malformed") {
		t.Errorf("an agent that does not start: %v", err)
	}
	if n := second.agent.opened - before; n != 2 {
		t.Errorf("it was started %d times, want 2: with its record and without", n)
	}
}

// rememberer is a fake agent that keeps its conversations in a file.
type rememberer struct{ *fakeAgent }

func (rememberer) Remembers() []string { return []string{"memory"} }

// Between two openings of a session only what the agent remembers is left.
func TestHomesBetweenOpenings(t *testing.T) {
	remembering := func(r *rig) { r.opts.Agents[0] = rememberer{r.agent} }
	first := newRig(t, remembering)
	cwd := t.TempDir()
	s := first.editor.NewSession(t, cwd)
	first.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	dir := filepath.Join(first.opts.StateDir, "sandboxes", "duck-"+string(s.SessionID))
	for _, name := range []string{"memory", ".bashrc"} {
		if err := os.WriteFile(filepath.Join(dir, "home", name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first.router.Close()
	if got := namesIn(t, filepath.Join(dir, "home")); got != "memory" {
		t.Errorf("left are %s", got)
	}
	// A gander that was killed has left everything.
	if err := os.WriteFile(filepath.Join(dir, "home", ".bashrc"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	second := first.again(t, acp.ClientCapabilities{}, remembering)
	second.load(t, s.SessionID, cwd)
	second.wantStop(t, s.SessionID, "y", acp.StopEndTurn)
	if got := namesIn(t, filepath.Join(dir, "home")); got != "memory" {
		t.Errorf("the agent found %s", got)
	}
}

func namesIn(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

// What an agent left in its home does not lead out of it.
func TestTrimHome(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "memory"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	for _, d := range []string{"deep", "trimmed"} {
		if err := os.MkdirAll(filepath.Join(home, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.Symlink(outside, filepath.Join(home, "linked")),
		os.Symlink("/etc/passwd", filepath.Join(home, "direct")),
		os.WriteFile(filepath.Join(home, "deep", "memory"), []byte("ours"), 0o600),
		os.MkdirAll(filepath.Join(dir, "home.trimmed"), 0o700), // a trimming that was cut short
		os.WriteFile(filepath.Join(dir, "home.trimmed", "early"), []byte("moved before"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := trimHome(dir, []string{"linked/memory", "direct", "deep/memory", "early", "absent/x"}); err != nil {
		t.Fatal(err)
	}
	if got := namesIn(t, home); got != "deep direct early" {
		t.Errorf("left are %s", got)
	}
	if text, err := os.ReadFile(filepath.Join(outside, "memory")); err != nil || string(text) != "mine" {
		t.Errorf("the file outside is %q, %v", text, err)
	}
	big, err := os.Create(filepath.Join(home, "deep", "memory"))
	if err != nil {
		t.Fatal(err)
	}
	if err := big.Truncate(maxRemembered + 1); err != nil {
		t.Fatal(err)
	}
	_ = big.Close()
	if err := trimHome(dir, []string{"deep/memory"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(home); err == nil {
		t.Error("a memory that is too large was kept")
	}
	deep := "deep/" + strings.Repeat("d/", 200)
	if err := os.MkdirAll(filepath.Join(home, deep), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := trimHome(dir, []string{"deep"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(home); err == nil {
		t.Error("a memory that is too deep to be looked through soon was kept")
	}
}

func TestAliases(t *testing.T) {
	for in, want := range map[string]aliased{
		`{"agentId":" ","agent":" goose ","targetAgent":"x","sessionRef":"r","limit":7.9}`: {agent: "goose", session: "r", limit: 7},
		`{"agentId":7,"targetAgent":"x","sessionKey":"","session":"s","limit":"7"}`:        {agent: "x", session: "s"},
		`{"forceNewSession":"true","newSession":true,"disableSession":null,"noSession":1}`: {fresh: true},
		`{"forceNewSession":false,"newSession":true,"noSession":true}`:                     {off: true},
		`{"limit":-1}`: {}, `{"limit":0}`: {}, `{"limit":1e300}`: {}, `[]`: {}, `null`: {}, ``: {},
	} {
		if got := aliases(json.RawMessage(in)); got != want {
			t.Errorf("%s: %+v, want %+v", in, got, want)
		}
	}
}

// What agents keep goes with its session, and with that of others when there is much.
func TestTidy(t *testing.T) {
	r := newRig(t, func(r *rig) { r.opts.Agents[0] = rememberer{r.agent} })
	var ids []acp.SessionID
	for range 2 {
		s := r.open(t)
		r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
		ids = append(ids, s.SessionID)
		home := filepath.Join(r.opts.StateDir, "sandboxes", "duck-"+string(s.SessionID), "home")
		if err := os.WriteFile(filepath.Join(home, "memory"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left := func() string {
		t.Helper()
		if err := r.router.kept().Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(namesIn(t, filepath.Join(r.opts.StateDir, "sandboxes")), ".trash ", "")
	}
	both := ".lock duck-" + string(ids[0]) + " duck-" + string(ids[1])
	if err := os.Rename(filepath.Join(r.dir, "sessions", string(ids[1])+".jsonl"), filepath.Join(r.dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if got := left(); got != both {
		t.Errorf("while the sessions are open there are %s", got)
	}
	r.router.Close()
	if got := left(); got != ".lock duck-"+string(ids[0]) {
		t.Errorf("of a session that is there and one that is not there are %s", got)
	}
}

// An agent that died in a turn may know nothing of it, even if it goes on with its
// own session: it is told, in this process and in the next.
func TestAnAgentThatDiedIsToldAgain(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.agent.resumes = true
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, text string) (*acp.PromptResponse, error) {
			if lastLine(text) == "quince" {
				c.die("was ended by signal KILL")
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	cwd := t.TempDir()
	s := r.editor.NewSession(t, cwd)
	r.wantStop(t, s.SessionID, "medlar", acp.StopEndTurn)
	if got := r.ask(t, s.SessionID, "quince"); got.err == nil {
		t.Fatalf("the turn of an agent that died ended with %+v", got)
	}
	r.wantStop(t, s.SessionID, "and?", acp.StopEndTurn)
	if told := strings.Join(r.agent.conv().prompts(), "\n"); !strings.Contains(told, "User: quince") || strings.Contains(told, "User: medlar") {
		t.Errorf("the agent was told %q", told)
	}
	if got := r.ask(t, s.SessionID, "quince"); got.err == nil {
		t.Fatalf("the turn of an agent that died ended with %+v", got)
	}
	r.router.Close()
	next := r.again(t, acp.ClientCapabilities{}, func(r *rig) { r.agent.resumes = true })
	next.load(t, s.SessionID, cwd)
	next.wantStop(t, s.SessionID, "again", acp.StopEndTurn)
	if told := strings.Join(next.agent.conv().prompts(), "\n"); strings.Count(told, "User: quince") != 1 || strings.Contains(told, "User: and?") {
		t.Errorf("the agent was told %q", told)
	}
}

// titles are the titles that the client was told of a session.
func (r *rig) titles(id acp.SessionID) (all []string) {
	for _, raw := range r.editor.Updates(id) {
		u := map[string]any{"title": 0}
		if acp.UpdateKind(raw) != "session_info_update" || json.Unmarshal(raw, &u) != nil || u["title"] == 0 {
			continue // or says nothing of it
		}
		title, _ := u["title"].(string) // null takes it away
		all = append(all, title)
	}
	return all
}

// waitTitle waits until the client has been told a title last.
func (r *rig) waitTitle(t *testing.T, id acp.SessionID, want string) {
	t.Helper()
	r.editor.Wait(t, "the title "+want, func() bool {
		all := r.titles(id)
		return len(all) > 0 && all[len(all)-1] == want
	})
}

// wantListed fails the test unless a session is listed so.
func (r *rig) wantListed(t *testing.T, want string) {
	t.Helper()
	list, err := r.editor.Conn.ListSessions(t.Context(), &acp.ListSessionsRequest{})
	if err != nil || len(list.Sessions) != 1 || list.Sessions[0].Title != want {
		t.Errorf("the list is %+v, %v; want the title %q", list, err, want)
	}
}

// Whoever names the session and whenever: in a weaker sandbox the title says so, and
// what is stored does not.
func TestWeakerIsInTheTitle(t *testing.T) {
	const mark = "[weaker sandbox: closed files are open] "
	agentsOwn := func(_ context.Context, c *fakeConv, text string) (*acp.PromptResponse, error) {
		if lastLine(text) == "name it" {
			c.update(`{"sessionUpdate":"session_info_update","title":"the agent's","x":1}`)
			c.update(`{"sessionUpdate":"session_info_update","updatedAt":"2026-01-02T03:04:05Z"}`)
		}
		return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
	}
	first := newRig(t, func(r *rig) { r.driver.weaker, r.agent.onTurn = []string{"closed files are open"}, agentsOwn })
	cwd := t.TempDir()
	id := first.editor.NewSession(t, cwd).SessionID
	first.waitTitle(t, id, mark+"duck in "+filepath.Base(cwd))
	first.wantStop(t, id, "fix it", acp.StopEndTurn)
	first.waitTitle(t, id, mark+"fix it")
	first.wantStop(t, id, "name it", acp.StopEndTurn)
	first.editor.Wait(t, "what gander says after the turn", func() bool {
		return about(first.editor.Updates(id), `"title":"`+mark+`the agent's","updatedAt":`)
	})
	first.agent.conv().update(`{"sessionUpdate":"session_info_update","title":"the agent's, between turns"}`)
	first.waitTitle(t, id, mark+"the agent's, between turns")
	for _, title := range first.titles(id) {
		if title != "" && !strings.HasPrefix(title, mark) {
			t.Errorf("the client was told %q", title)
		}
	}
	if !slices.Contains(first.titles(id), mark+"the agent's") || !about(first.editor.Updates(id), `"updatedAt":"2026-01-02T03:04:05Z"`) {
		t.Errorf("what the agent said in its turn is missing: %q", first.titles(id))
	}
	for _, title := range []string{"mine", mark + "mine"} { // as an editor has it that lets the person edit what is shown
		resp, err := first.editor.Conn.SetSessionTitle(t.Context(), &acp.SetSessionTitleRequest{SessionID: id, Title: title})
		if err != nil || resp.Title != mark+"mine" {
			t.Fatalf("%+v, %v", resp, err)
		}
	}
	first.waitTitle(t, id, mark+"mine")
	first.wantListed(t, mark+"mine")
	if info, err := first.store.Info(t.Context(), id); err != nil || info.Title != "mine" {
		t.Errorf("stored is %q, %v", info.Title, err)
	}
	first.router.Close()

	second := first.again(t, acp.ClientCapabilities{}, func(r *rig) { r.driver.weaker = []string{"closed files are open"} })
	second.wantListed(t, mark+"mine")
	second.load(t, id, cwd)
	second.waitTitle(t, id, mark+"mine")
	if _, err := second.editor.Conn.ResumeSession(t.Context(), &acp.ResumeSessionRequest{SessionID: id, CWD: cwd}); err != nil {
		t.Fatal(err)
	}
	second.wantStop(t, id, "go on", acp.StopEndTurn)
	second.waitTitle(t, id, mark+"mine")
	if n := len(second.titles(id)); n != 2 {
		t.Errorf("loading, resuming and a turn told the title %d times, want 2", n)
	}
	second.router.Close()

	third := first.again(t, acp.ClientCapabilities{}, func(r *rig) { r.agent.onTurn = agentsOwn })
	third.load(t, id, cwd)
	third.wantStop(t, id, "go on", acp.StopEndTurn)
	third.waitTitle(t, id, "mine") // this sandbox is as it should be
	third.wantListed(t, "mine")
	third.wantStop(t, id, "name it", acp.StopEndTurn)
	third.waitTitle(t, id, "the agent's")
	if !about(third.editor.Updates(id), `{"sessionUpdate":"session_info_update","title":"the agent's","x":1}`) {
		t.Errorf("the agent's own was changed: %q", third.titles(id))
	}
}

// TestRefusedForkLeavesNothing: a fork that is refused is not in the list.
func TestRefusedForkLeavesNothing(t *testing.T) {
	r := newRig(t, nil)
	cwd := t.TempDir()
	id := r.editor.NewSession(t, cwd).SessionID
	r.wantStop(t, id, "x", acp.StopEndTurn)
	for _, req := range []acp.ForkSessionRequest{
		{AdditionalDirectories: []string{"/not/there"}},
		{Meta: json.RawMessage(`{"sessionKey":"none"}`)},
		{Meta: json.RawMessage(`{"agent":"none"}`)},
	} {
		req.SessionID, req.CWD = id, cwd
		if _, err := r.editor.Conn.ForkSession(t.Context(), &req); err == nil {
			t.Errorf("%+v was not refused", req)
		}
	}
	l, err := r.editor.Conn.ListSessions(t.Context(), &acp.ListSessionsRequest{})
	if err != nil || len(l.Sessions) != 1 || l.Sessions[0].SessionID != id {
		t.Errorf("left are %+v, %v", l, err)
	}
}
