package transcript

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sessions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// aRun is the run of the tests.
func aRun() controlplane.Run {
	created := "2026-11-22T04:00:00.000Z"
	return controlplane.Run{RunID: "run-1", SessionID: "session-1", Agent: "goose", Workspace: "/project", CreatedAt: &created, Prompt: controlplane.RunPrompt{Content: "Mend the tests.\nAll of them."}}
}

// twoIterations are events of every kind.
func twoIterations() []telemetry.Event {
	events := []telemetry.Event{
		{Type: telemetry.StateChange, State: telemetry.Running},
		{Type: telemetry.IterationStart, Iteration: 1, Summary: "Starting iteration 1"},
		{Type: telemetry.Thought, Iteration: 1, Content: "hm"},
		{Type: telemetry.Text, Iteration: 1, Content: "Let me "},
		{Type: telemetry.Text, Iteration: 1, Content: "look."},
		{Type: telemetry.ToolUse, Iteration: 1, Summary: "shell: command=ls", Content: `{"command":"ls"}`, Tool: "shell", ToolCallID: "c1"},
		{Type: telemetry.ToolResult, Iteration: 1, Summary: "a.go", Content: "a.go\n", Tool: "shell", ToolCallID: "c1", Status: telemetry.Completed},
		{Type: telemetry.ToolUse, Iteration: 1, Summary: "edit: path=a.go", Content: `{"path":"a.go","before":"x","after":"y"}`, Tool: "edit", ToolCallID: "c2"},
		{Type: telemetry.ToolResult, Iteration: 1, Summary: "no", Content: "no such text", Tool: "edit", ToolCallID: "c2", Status: telemetry.Failed},
		{Type: telemetry.Text, Iteration: 1, Content: "Done."},
		{Type: telemetry.IterationEnd, Iteration: 1, Status: string(telemetry.OK), Usage: &telemetry.Usage{Input: 20, Output: 10, Total: 30}},
		{Type: telemetry.StateChange, State: telemetry.Waiting, Until: 5},
		{Type: telemetry.StateChange, State: telemetry.Running},
		{Type: telemetry.IterationStart, Iteration: 2},
		{Type: telemetry.Error, Iteration: 2, Summary: "500", Content: "the model answered 500"},
		{Type: "novelty", Iteration: 2, Content: "?"},
		{Type: telemetry.ToolUse, Iteration: 2, Summary: "shell", Content: `{"command":"` + strings.Repeat("x", 20), Truncated: true, Bytes: 9000, Tool: "developer__shell", ToolCallID: "c1"},
		{Type: telemetry.IterationEnd, Iteration: 2, Status: string(telemetry.LLMUnavailable), Reason: "the model does not answer: 500"},
		{Type: telemetry.StateChange, State: telemetry.Unready, Reason: "500", Until: 7},
		{Type: telemetry.StateChange, State: telemetry.Unready, Reason: "500", Until: 9},
		{Type: telemetry.StateChange, State: telemetry.Stopped},
	}
	for i := range events {
		events[i].Seq, events[i].Time = int64(i+1), int64(1000*(i+1))
	}
	return events
}

func open(t *testing.T, dir string) *sessions.Store {
	t.Helper()
	store, err := sessions.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// shown are the updates that a client gets of the session.
func shown(t *testing.T, store *sessions.Store) []string {
	t.Helper()
	var out []string
	for u, err := range store.Replay(t.Context(), "session-1", 0) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(u))
	}
	return out
}

// give has a new writer take events, as another process would.
func give(t *testing.T, dir string, events ...telemetry.Event) {
	t.Helper()
	w := New(open(t, dir), nil)
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := w.OnEvents(t.Context(), aRun(), events); err != nil {
		t.Fatal(err)
	}
}

func TestThread(t *testing.T) {
	dir := t.TempDir()
	give(t, dir, twoIterations()...)
	store := open(t, dir)
	want := []string{
		`{"sessionUpdate":"user_message_chunk","messageId":"loop-2-1","content":{"type":"text","text":"Iteration 1"}}`,
		`{"sessionUpdate":"agent_thought_chunk","messageId":"loop-3","content":{"type":"text","text":"hm"}}`,
		`{"sessionUpdate":"agent_message_chunk","messageId":"loop-4","content":{"type":"text","text":"Let me "}}`,
		`{"sessionUpdate":"agent_message_chunk","messageId":"loop-4","content":{"type":"text","text":"look."}}`,
		`{"sessionUpdate":"tool_call","toolCallId":"1-c1","title":"shell: command=ls","kind":"execute","status":"in_progress","rawInput":{"command":"ls"}}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"1-c1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"a.go\n"}}]}`,
		`{"sessionUpdate":"tool_call","toolCallId":"1-c2","title":"edit: path=a.go","kind":"edit","status":"in_progress","content":[{"newText":"y","oldText":"x","path":"/project/a.go","type":"diff"}],"locations":[{"path":"/project/a.go"}],"rawInput":{"path":"a.go","before":"x","after":"y"}}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"1-c2","status":"failed","content":[{"type":"content","content":{"type":"text","text":"no such text"}}]}`,
		`{"sessionUpdate":"agent_message_chunk","messageId":"loop-10","content":{"type":"text","text":"Done."}}`,
		`{"sessionUpdate":"user_message_chunk","messageId":"loop-14-1","content":{"type":"text","text":"Iteration 2"}}`,
		`{"sessionUpdate":"agent_thought_chunk","messageId":"loop-15","content":{"type":"text","text":"Error: the model answered 500\n"}}`,
		`{"sessionUpdate":"tool_call","toolCallId":"2-c1","title":"shell","kind":"execute","status":"in_progress","content":[{"type":"content","content":{"type":"text","text":"{\"command\":\"xxxxxxxxxxxxxxxxxxxx\n[cut off here: 9000 bytes in all]"}}]}`,
		`{"sessionUpdate":"agent_thought_chunk","messageId":"loop-18-0","content":{"type":"text","text":"This turn failed: llm_unavailable: the model does not answer: 500\n"}}`,
		`{"sessionUpdate":"agent_thought_chunk","messageId":"loop-19","content":{"type":"text","text":"The loop is llm_unavailable: 500.\n"}}`,
		`{"sessionUpdate":"agent_thought_chunk","messageId":"loop-21","content":{"type":"text","text":"The loop is stopped.\n"}}`,
	}
	if diff := cmp.Diff(want, shown(t, store)); diff != "" {
		t.Errorf("the thread (-want +got):\n%s", diff)
	}
	info, err := store.Info(t.Context(), "session-1")
	if err != nil {
		t.Fatal(err)
	}
	if info.Key != "loop:goose:main" || info.Origin != sessions.OriginLoop || info.WorkingPath != "/project" || info.Title != "goose loop: Mend the tests." || info.Turns != 2 || info.ToolCalls != 3 || string(info.Usage) != `{"inputTokens":20,"outputTokens":10,"totalTokens":30}` {
		t.Errorf("the session is %+v", info)
	}
	for rec, err := range store.Entries(t.Context(), "session-1") {
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := rec.Body.(sessions.TurnEvent); ok && e.Event == sessions.TurnEnd && rec.TurnID == "iteration-1" && (e.DurationMS != 9000 || e.StopReason != acp.StopEndTurn || e.Agent != "goose") {
			t.Errorf("the first iteration ended with %+v", e)
		}
	}
}

// A run in a weaker sandbox says so in its title, as long as it is in one.
func TestWeaker(t *testing.T) {
	dir := t.TempDir()
	title := func(seq int64, weaker ...string) string {
		give(t, dir, telemetry.Event{Seq: seq, Type: telemetry.Sandbox, Summary: "A sandbox", Weaker: weaker})
		info, err := open(t, dir).Info(t.Context(), "session-1")
		if err != nil {
			t.Fatal(err)
		}
		return info.ShownTitle()
	}
	if got := title(1, "files are not closed"); got != "[weaker sandbox: files are not closed] goose loop: Mend the tests." {
		t.Errorf("the title is %q", got)
	}
	if got := title(2); got != "goose loop: Mend the tests." {
		t.Errorf("the title in the next sandbox is %q", got)
	}
}

// Whatever is lost of the transcript in a crash is made again, and nothing twice: the
// same events come once more, after a cut at every line and inside of some.
func TestOnce(t *testing.T) {
	dir := t.TempDir()
	give(t, dir, twoIterations()...)
	file := filepath.Join(dir, "session-1.jsonl")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := shown(t, open(t, dir))
	cuts := []int{}
	at := 0
	for line := range bytes.Lines(whole) {
		at += len(line)
		cuts = append(cuts, at, at-len(line)/2)
	}
	for _, cut := range cuts {
		if cut <= bytes.IndexByte(whole, '\n') { // a session without a header was never there
			continue
		}
		again := t.TempDir()
		if err := os.WriteFile(filepath.Join(again, "session-1.jsonl"), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		give(t, again, twoIterations()...)
		if diff := cmp.Diff(want, shown(t, open(t, again))); diff != "" {
			t.Fatalf("cut at byte %d, in %q (-want +got):\n%s", cut, whole[max(0, cut-80):cut], diff)
		}
		if info, err := open(t, again).Info(t.Context(), "session-1"); err != nil || info.Title != "goose loop: Mend the tests." {
			t.Fatalf("cut at byte %d: the title is %q, %v", cut, info.Title, err)
		}
	}
}

// Batches of every size, each twice, from one writer and from many.
func TestBatches(t *testing.T) {
	events := twoIterations()
	dir := t.TempDir()
	give(t, dir, events...)
	want := shown(t, open(t, dir))
	for size := 1; size <= len(events); size += 3 {
		for _, restart := range []bool{false, true} {
			dir := t.TempDir()
			w := New(open(t, dir), nil)
			for i := 0; i < len(events); i += size {
				batch := events[max(0, i-2):min(len(events), i+size)] // some come again
				for range 2 {
					if err := w.OnEvents(t.Context(), aRun(), batch); err != nil {
						t.Fatal(err)
					}
				}
				if restart {
					if err := w.Close(); err != nil {
						t.Fatal(err)
					}
					w = New(open(t, dir), nil)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, shown(t, open(t, dir))); diff != "" {
				t.Fatalf("batches of %d, restarted %v (-want +got):\n%s", size, restart, diff)
			}
		}
	}
}

// What a person says in the thread meanwhile is nobody's event, and secrets are taken out.
func TestBesideOthers(t *testing.T) {
	dir := t.TempDir()
	store, err := sessions.Open(dir, &sessions.Options{Redact: func(line []byte) []byte { return bytes.ReplaceAll(line, []byte("hunter2"), []byte("***")) }})
	if err != nil {
		t.Fatal(err)
	}
	events := twoIterations()
	events[2].Content = "the password is hunter2"
	for i, e := range events {
		w := New(store, nil)
		if err := w.OnEvents(t.Context(), aRun(), []telemetry.Event{e}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		said := sessions.Record{ID: "said-" + fmt.Sprint(i), Body: sessions.Message{Role: sessions.RoleUser, Content: "hello"}}
		if err := store.Append(t.Context(), "session-1", said); err != nil {
			t.Fatal(err)
		}
	}
	all := strings.Join(shown(t, store), "\n")
	if n := strings.Count(all, `"text":"hello"`); n != len(events) {
		t.Errorf("%d of %d messages are there", n, len(events))
	}
	if n := strings.Count(all, "Iteration 2"); n != 1 {
		t.Errorf("the second iteration is there %d times", n)
	}
	if strings.Contains(all, "hunter2") || !strings.Contains(all, "the password is ***") {
		t.Errorf("the secret is in the thread: %s", all)
	}
}

// The next run of an agent takes the key over; the one before stays.
func TestNextRun(t *testing.T) {
	dir := t.TempDir()
	give(t, dir, twoIterations()...)
	store := open(t, dir)
	w := New(store, nil)
	next := aRun()
	next.RunID, next.SessionID, next.CreatedAt = "run-2", "session-2", nil
	if err := w.OnEvents(t.Context(), next, twoIterations()[:2]); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.OnEvents(t.Context(), next, twoIterations()); err == nil {
		t.Error("a writer that is closed takes events")
	}
	info, err := store.Resolve(t.Context(), "loop:goose:main", "")
	if err != nil || info.ID != "session-2" || info.PreviousID != "session-1" {
		t.Errorf("the key is that of %+v, %v", info, err)
	}
}

// A failure is said, and the same events later are written.
func TestFailure(t *testing.T) {
	dir := t.TempDir()
	w := New(open(t, dir), nil)
	defer func() { _ = w.Close() }()
	if err := w.OnEvents(t.Context(), aRun(), twoIterations()[:3]); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // the disk may be quicker than the context
		_ = w.OnEvents(ctx, aRun(), twoIterations())
	}
	if err := w.OnEvents(t.Context(), aRun(), twoIterations()); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for rec, err := range open(t, dir).Entries(t.Context(), "session-1") {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, rec.ID)
	}
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id] {
			t.Errorf("record %s is there twice, of %q", id, ids)
		}
		seen[id] = true
	}
}

// Tools of any name have a kind, and arguments of any shape are shown.
func TestCalls(t *testing.T) {
	for tool, want := range map[string]string{"shell": "execute", "developer__shell": "execute", "developer_text_editor": "edit", "Bash": "execute", "webfetch": "fetch", "": "other", "my_bash_tool": "other", "x_read": "read"} {
		if got := kindOf(tool); got != want {
			t.Errorf("%q is of kind %s, want %s", tool, got, want)
		}
	}
	th := &thread{workspace: "/w"}
	for _, content := range []string{"", "null", "[]", "7", `"text"`, `{"path":7}`, `{"path":"/etc/x","before":null,"after":"a"}`} {
		raw := th.call(&telemetry.Event{Type: telemetry.ToolUse, Tool: "edit", Content: content, Seq: 3})
		if !json.Valid(raw) || acp.UpdateKind(raw) != "tool_call" {
			t.Errorf("a call with %s is %s", content, raw)
		}
	}
}
