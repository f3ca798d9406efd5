package sessions_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
	"github.com/google/go-cmp/cmp"
)

func openRuns(t *testing.T, dir string, o *sessions.RunsOptions) *sessions.Runs {
	t.Helper()
	r, err := sessions.OpenRuns(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func readRun(t *testing.T, r *sessions.Runs, id string) *sessions.Run {
	t.Helper()
	run, err := r.Read(id)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// TestForgetRuns: of a session nothing stays, be its turn whole or cut short by a crash,
// and of the others everything.
func TestForgetRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	runs := openRuns(t, dir, nil)
	if err := runs.Forget(id); err != nil {
		t.Errorf("before there is any: %v", err)
	}
	for turn, session := range map[string]acp.SessionID{"t1": id, "t2": id, "other": "another"} {
		runs.Start(sessions.RunSession{AgentID: "goose", SessionID: session, TurnID: turn, WorkingPath: "/p"}, time.Now()).Close()
	}
	begun, err := os.ReadFile(filepath.Join(dir, "t2.json"))
	if err != nil || os.Remove(filepath.Join(dir, "t2.json")) != nil {
		t.Fatal(err)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, begun); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "t2.jsonl"), []byte(`{"type":"run","timestamp":1,"run":`+line.String()+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := runs.Forget(id); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(dir + "/*"); len(left) != 1 || filepath.Base(left[0]) != "other.json" {
		t.Errorf("left: %q", left)
	}
}

func TestRunTrace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home", "runs")
	hide := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("hunter22"), []byte("[redacted]")) }
	runs := openRuns(t, dir, &sessions.RunsOptions{Redact: hide})
	at := time.UnixMilli(1795199788254).UTC()
	trace := runs.Start(sessions.RunSession{AgentID: "goose", SessionID: id, TurnID: "t1", WorkingPath: "/p", IsNewSession: true}, at)
	for _, r := range aTurn() {
		r.Time = at
		if m, ok := r.Body.(sessions.Message); ok {
			m.Content = "say hunter22"
			r.Body = m
		}
		if e, ok := r.Body.(sessions.TurnEvent); ok && e.Event == sessions.TurnEnd {
			trace.Record(sessions.Record{ID: "q", Time: at, Body: sessions.Permission{Request: json.RawMessage(`{"x":1}`)}})
			trace.Record(sessions.Record{ID: "q", Time: at, Body: sessions.Permission{Outcome: json.RawMessage(`{"outcome":"cancelled"}`)}})
			for _, n := range []sessions.Network{
				{Host: "a.example", Port: 443, Allowed: true, By: "*.example", Times: 1},
				{Host: "b.invalid", Port: 81, Reason: "no rule", Times: 1},
				{Host: "a.example", Port: 443, Allowed: true, By: "*.example", Times: 10},
			} {
				trace.Record(sessions.Record{Time: at, Body: n})
			}
			trace.Record(sessions.Record{Time: at, Body: sessions.Changes{Paths: []sessions.ChangedPath{{Path: "a", Change: "modified"}}}})
		}
		trace.Record(r)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "t1.jsonl"))
	if err != nil || strings.Contains(string(raw), "hunter22") || !strings.Contains(string(raw), "[redacted]") {
		t.Errorf("while it runs: %s, %v", raw, err)
	}
	trace.Close()
	trace.Close()
	got := readRun(t, runs, "t1")
	want := &sessions.Run{
		SchemaVersion: 2, RunID: "t1", Status: sessions.RunOK, StartedAt: at, CompletedAt: &at, EntryAgentID: "goose", UserMessage: "say [redacted]",
		Session: sessions.RunSession{AgentID: "goose", SessionID: id, TurnID: "t1", WorkingPath: "/p", IsNewSession: true},
		Execution: sessions.RunExecution{
			AgentID: "goose", ProviderSessionID: "g-7", Stdout: "Done.", StopReason: acp.StopEndTurn, Usage: got.Execution.Usage,
			Permissions: []sessions.RunPermission{{ID: "q", Request: got.Execution.Permissions[0].Request, Outcome: got.Execution.Permissions[0].Outcome}},
			Network:     []sessions.Network{{Host: "a.example", Port: 443, Allowed: true, By: "*.example", Times: 10}, {Host: "b.invalid", Port: 81, Reason: "no rule", Times: 1}},
			Effect:      &sessions.Changes{Paths: []sessions.ChangedPath{{Path: "a", Change: "modified"}}},
		},
		Orchestration: sessions.RunOrchestration{Mode: "single-agent", FinalMessage: "Done.", Steps: []sessions.RunStep{
			{Step: 1, Timestamp: at, ToolCallID: "c1", Kind: "execute", Title: "ls", Status: "completed"},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(got.Execution.Permissions[0].Outcome) == 0 || len(got.Execution.Usage) == 0 {
		t.Error("the answer or the usage is missing")
	}
	if info, err := os.Stat(filepath.Join(dir, "t1.json")); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.jsonl")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// What was decided about hosts is bounded in a trace, and says how much more there was.
func TestRunTraceOfManyHosts(t *testing.T) {
	runs := openRuns(t, filepath.Join(t.TempDir(), "runs"), nil)
	trace := runs.Start(sessions.RunSession{TurnID: "many"}, time.Now())
	for i := range 700 {
		trace.Record(sessions.Record{Body: sessions.Network{Host: fmt.Sprintf("h%d.example", i), Port: 443, Times: 1}})
	}
	trace.Close()
	if x := readRun(t, runs, "many").Execution; len(x.Network) != 500 || x.OmittedNetwork != 200 {
		t.Errorf("%d are kept and %d omitted", len(x.Network), x.OmittedNetwork)
	}
}

func TestRunTraceOfEveryEnd(t *testing.T) {
	runs := openRuns(t, filepath.Join(t.TempDir(), "runs"), nil)
	for i, tt := range []struct {
		end    *sessions.TurnEvent
		status string
	}{
		{&sessions.TurnEvent{Event: "end", StopReason: acp.StopCancelled}, sessions.RunCancelled},
		{&sessions.TurnEvent{Event: "end", StopReason: acp.StopMaxTokens}, sessions.RunLimit},
		{&sessions.TurnEvent{Event: "end", StopReason: acp.StopRefusal}, sessions.RunFailed},
		{&sessions.TurnEvent{Event: "end", Error: "goose has ended"}, sessions.RunFailed},
		{nil, sessions.RunFailed},
	} {
		turn := fmt.Sprint("turn-", i)
		trace := runs.Start(sessions.RunSession{TurnID: turn}, time.Now())
		if tt.end != nil {
			trace.Record(sessions.Record{Body: *tt.end})
		}
		trace.Record(sessions.Record{Body: sessions.Notice{Text: "what comes later is not of the turn"}})
		trace.Close()
		got := readRun(t, runs, turn)
		if got.Status != tt.status || got.Execution.Code != 1 || got.CompletedAt == nil {
			t.Errorf("%+v: %s, code %d", tt.end, got.Status, got.Execution.Code)
		}
		if tt.end != nil && got.Execution.Error != tt.end.Error {
			t.Errorf("error %q", got.Execution.Error)
		}
	}
	if _, err := runs.Read("../x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a path as an id: %v", err)
	}
	var none *sessions.Trace
	none.Record(sessions.Record{})
	none.Close()
}

// What a killed gander leaves becomes a trace when the next one begins; what runs
// stays, and of the old ones as many as are to be kept.
func TestRunsAreFinishedAndCleared(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	running := openRuns(t, dir, nil).Start(sessions.RunSession{TurnID: "running"}, time.Now())
	killed := `{"type":"run","timestamp":1,"run":{"schemaVersion":2,"runId":"killed","status":"running","userMessage":"","orchestration":{"mode":"single-agent"}}}
{"type":"message","role":"user","content":"hello","timestamp":2}
{"type":"update","timestamp":2,"update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"ls","status":"pending"}}
{"type":"upda`
	for name, content := range map[string]string{"killed.jsonl": killed, "empty.jsonl": "", "old-1.json": "{}", "old-2.json": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "old-1.json"), past, past); err != nil {
		t.Fatal(err)
	}
	runs := openRuns(t, dir, &sessions.RunsOptions{Keep: 1})
	runs.Start(sessions.RunSession{TurnID: "next"}, time.Now()).Close()
	if _, err := os.Stat(filepath.Join(dir, "running.jsonl")); err != nil {
		t.Errorf("the trace of a turn that runs was taken away: %v", err)
	}
	running.Record(sessions.Record{Body: sessions.TurnEvent{Event: "end", StopReason: acp.StopEndTurn}})
	running.Close()
	got := readRun(t, runs, "killed")
	if got.Status != sessions.RunInterrupted || got.UserMessage != "hello" || len(got.Orchestration.Steps) != 1 || got.Execution.Error == "" {
		t.Errorf("killed: %+v", got)
	}
	if got := readRun(t, runs, "running"); got.Status != sessions.RunOK {
		t.Errorf("running: %+v", got)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 4 || strings.Contains(strings.Join(left, " "), "old-1") {
		t.Errorf("left: %v, %v", left, err)
	}
}

// However long the names are that an agent gives, a trace and the index stay small.
func TestLongNamesAreNotKept(t *testing.T) {
	dir, long := t.TempDir(), strings.Repeat("x", 1<<20)
	call := sessions.Update{Update: json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"` + long + `","title":"t"}`)}
	end := sessions.TurnEvent{Event: sessions.TurnEnd, Agent: "goose", AgentSessionID: long, StopReason: acp.StopReason(long)}
	runs := openRuns(t, filepath.Join(dir, "runs"), nil)
	trace := runs.Start(sessions.RunSession{TurnID: "long"}, time.Now())
	for _, body := range []sessions.Body{call, end} {
		trace.Record(sessions.Record{TurnID: "long", Body: body})
	}
	trace.Close()
	store, err := sessions.Open(filepath.Join(dir, "sessions"), nil)
	if err != nil {
		t.Fatal(err)
	}
	transcript, err := store.Create(sessions.Header{SessionID: id})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []sessions.Body{
		sessions.AgentEvent{Event: sessions.AgentStarted, Agent: "goose", AgentSessionID: long},
		end,
		sessions.Update{Update: json.RawMessage(`{"sessionUpdate":"` + long + `"}`)},
	} {
		if err := transcript.Append(sessions.Record{TurnID: "t", Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	if err := transcript.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the index is written
		if _, err := store.Info(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"runs/long.json", "sessions/index"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Size() > 100<<10 {
			t.Errorf("%s has %d bytes", name, info.Size())
		} else if err != nil {
			t.Error(err)
		}
	}
}
