package controlplane_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/controlplane/planetest"
)

// goose and opencode run side by side; one workspace has one loop.
func TestSeveralRuns(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	want(t, s, 409, "POST", "/api/sandbox/pause", nil)
	if r := want(t, s, 200, "POST", "/api/sandbox/stop", nil); r.text != `{"status":"stopped"}` {
		t.Errorf("stopping nothing answered %s", r.text)
	}
	goose := begin(t, s, nil)
	opencode := begin(t, s, map[string]any{"agentType": "opencode"})
	again := want(t, s, 409, "POST", "/api/sandbox/start", map[string]any{"agentType": "goose"})
	if again.body["runId"] != goose {
		t.Errorf("the second start answered %s", again.text)
	}
	want(t, s, 200, "POST", "/api/sandbox/start", map[string]any{"agentType": "goose", "workspace": t.TempDir()})
	if r := want(t, s, 409, "POST", "/api/sandbox/stop", nil); !strings.Contains(r.text, goose) || !strings.Contains(r.text, opencode) {
		t.Errorf("stopping one of three answered %s", r.text)
	}
	want(t, s, 409, "POST", "/api/sandbox/pause", map[string]any{"agentType": "goose"}) // two of them
	want(t, s, 200, "POST", "/api/sandbox/pause", map[string]any{"agentType": "opencode"})
	for _, order := range []string{"step", "resume", "cancel", "stop"} {
		want(t, s, 200, "POST", "/api/sandbox/"+order, map[string]any{"runId": opencode})
	}
	want(t, s, 409, "POST", "/api/sandbox/resume", map[string]any{"runId": opencode})
	want(t, s, 200, "POST", "/api/sandbox/stop", map[string]any{"runId": opencode}) // it is stopped
	want(t, s, 404, "POST", "/api/sandbox/stop", map[string]any{"runId": "none"})
	var orders []string
	for _, o := range s.Fleet.Orders() {
		if strings.HasSuffix(o, opencode) {
			orders = append(orders, strings.Fields(o)[0])
		}
	}
	if got := strings.Join(orders, " "); got != "start pause step resume cancel stop" {
		t.Errorf("the fleet was told %s", got)
	}
	if n := len(want(t, s, 200, "GET", "/api/sandbox/status", nil).body["sandboxes"].([]any)); n != 2 {
		t.Errorf("%d sandboxes live, want 2", n)
	}
	begin(t, s, map[string]any{"agentType": "opencode"}) // its workspace is free again
}

// Of many starts in one workspace at the same moment one goes on.
func TestConcurrentStarts(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	var mu sync.Mutex
	codes := map[int]int{}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			r := ask(t, s, s.Token, "POST", "/api/sandbox/start", map[string]any{"agentType": "goose"})
			mu.Lock()
			defer mu.Unlock()
			codes[r.status]++
		})
	}
	all.Wait()
	if codes[200] != 1 || codes[409] != 15 {
		t.Errorf("the starts were answered %v", codes)
	}
}

// A start that fails leaves nothing, and says why in the status.
func TestStartThatFails(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	s.Fleet.AgentList = append(s.Fleet.AgentList, controlplane.AgentInfo{Name: "lame", Why: "it is not installed: npm install lame"})
	var refuse error
	s.Fleet.Fail = func(string, string) error { return refuse }
	for status, err := range map[int]error{
		400: fmt.Errorf("that model does not exist: %w", controlplane.ErrBadRequest),
		503: fmt.Errorf("no driver works here: %w", controlplane.ErrUnavailable),
		500: errors.New("a secret detail"),
	} {
		refuse = err
		if r := want(t, s, status, "POST", "/api/sandbox/start", map[string]any{"agentType": "goose", "prompt": "x"}); strings.Contains(r.text, "secret") {
			t.Errorf("%d: %s", status, r.text)
		}
	}
	refuse = nil
	if r := want(t, s, 503, "POST", "/api/sandbox/start", map[string]any{"agentType": "lame"}); !strings.Contains(r.text, "npm install lame") {
		t.Errorf("an agent that is not there: %s", r.text)
	}
	if runs := want(t, s, 200, "GET", "/api/runs", nil).body["runs"].([]any); len(runs) != 0 {
		t.Errorf("runs are left: %v", runs)
	}
	begin(t, s, nil)
}

// After a restart runs go on being steered; one whose keeper is lost is shown as failed,
// and as running again when it tells so.
func TestAdoption(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	kept, lost := begin(t, s, nil), begin(t, s, map[string]any{"agentType": "opencode"})
	stopped := begin(t, s, map[string]any{"agentType": "goose", "workspace": t.TempDir()})
	want(t, s, 200, "POST", "/api/sandbox/stop", map[string]any{"runId": stopped})
	s.Fleet.Emit(lost, telemetry.Event{Type: telemetry.IterationStart, Iteration: 1})
	for _, run := range []string{kept, lost, stopped} {
		sent(t, s, run)
	}
	s.Stop()
	s.Fleet.Play(kept) // it goes on meanwhile
	s.Fleet.Fail = func(order, run string) error {
		if order == "adopt" && run == lost {
			return errors.New("gone")
		}
		return nil
	}
	s.Restart()
	sent(t, s, kept)
	state := func(run string) string {
		return want(t, s, 200, "GET", "/api/runs/"+run, nil).body["state"].(string)
	}
	if state(kept) != "waiting" || state(lost) != "failed" || state(stopped) != "stopped" {
		t.Errorf("after the restart: %s, %s, %s", state(kept), state(lost), state(stopped))
	}
	if n := want(t, s, 200, "GET", "/api/runs/"+kept, nil).body["lastSeq"]; n != float64(len(s.Fleet.Events(kept))) {
		t.Errorf("%v events of %d are there", n, len(s.Fleet.Events(kept)))
	}
	if slices.Contains(s.Fleet.Orders(), "adopt "+stopped) {
		t.Error("a stopped run was to be adopted")
	}
	row := want(t, s, 200, "GET", "/api/telemetry/iterations?run="+lost, nil).body["iterations"].([]any)[0].(map[string]any)
	if row["outcome"] != "interrupted" || row["end_time"] == nil {
		t.Errorf("the iteration of the lost run is %v", row)
	}
	s.Fleet.Emit(lost, telemetry.Event{Type: telemetry.StateChange, State: telemetry.Running})
	sent(t, s, lost)
	if state(lost) != "running" {
		t.Errorf("the lost run that is back is %s", state(lost))
	}
}

// The workspace of a run that is lost is kept for it, as its keeper may come back, until
// somebody stops it; that of one that has ended is free.
func TestWorkspaceOfALostRun(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	lost := begin(t, s, nil)
	sent(t, s, lost)
	s.Stop()
	s.Fleet.Fail = func(order, _ string) error {
		if order == "adopt" {
			return errors.New("gone")
		}
		return nil
	}
	s.Restart()
	if r := want(t, s, 409, "POST", "/api/sandbox/start", map[string]any{"agentType": "goose"}); r.body["runId"] != lost || !strings.Contains(r.text, "failed") {
		t.Errorf("a start beside a lost run: %s", r.text)
	}
	want(t, s, 200, "POST", "/api/sandbox/stop", map[string]any{"runId": lost})
	ended := begin(t, s, nil)
	s.Fleet.Emit(ended, telemetry.Event{Type: telemetry.StateChange, State: telemetry.Stopped}) // by its keeper, whom somebody has told
	sent(t, s, ended)
	begin(t, s, nil)
}

// A run that ends while it is paused has ended: it does not go on, and its workspace is free.
func TestEndDuringAnOrder(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	run := begin(t, s, nil)
	s.Fleet.Fail = func(order, _ string) error {
		if order != "pause" {
			return nil
		}
		s.Fleet.Emit(run, telemetry.Event{Type: telemetry.StateChange, State: telemetry.Done})
		return s.Fleet.Sent(t.Context(), run)
	}
	want(t, s, 200, "POST", "/api/sandbox/pause", nil)
	sent(t, s, run)
	if r := want(t, s, 200, "GET", "/api/runs/"+run, nil).body; r["state"] != "done" || r["desired"] != "stopped" {
		t.Errorf("the run is %v and wanted to be %v", r["state"], r["desired"])
	}
	begin(t, s, nil)
}

// cannotStop is a fleet's error where keepers do not end.
func cannotStop(order, _ string) error {
	if order == "stop" {
		return fmt.Errorf("its daemon hangs: %w", controlplane.ErrUnavailable)
	}
	return nil
}

// A run is stopped when its keeper has stopped it: until then it keeps its workspace, and
// one that was taken for ended and has a keeper is stopped.
func TestStopThatFails(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	run := begin(t, s, nil)
	s.Fleet.Fail = cannotStop
	want(t, s, 503, "POST", "/api/sandbox/stop", nil)
	want(t, s, 409, "POST", "/api/sandbox/start", map[string]any{"agentType": "goose"})
	s.Fleet.Fail = nil
	s.Fleet.Emit(run, telemetry.Event{Type: telemetry.StateChange, State: telemetry.Stopped})
	sent(t, s, run)
	want(t, s, 200, "POST", "/api/sandbox/stop", map[string]any{"runId": run})
	if !slices.Contains(s.Fleet.Orders(), "stop "+run) {
		t.Errorf("a keeper that lives was not told to stop: %q", s.Fleet.Orders())
	}
}

// A run that could not be stopped, not by the next control plane either, is not shown as
// stopped, and has its workspace until it is.
func TestStopThatFailsAtAdoption(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	run := begin(t, s, nil)
	s.Fleet.Fail = cannotStop
	want(t, s, 503, "POST", "/api/sandbox/stop", nil)
	sent(t, s, run)
	s.Restart()
	if r := want(t, s, 200, "GET", "/api/runs/"+run, nil).body; r["state"] != "stopping" || r["stoppedAt"] != nil {
		t.Errorf("the run is %v since %v", r["state"], r["stoppedAt"])
	}
	want(t, s, 409, "POST", "/api/sandbox/start", map[string]any{"agentType": "goose"})
	s.Fleet.Fail = nil
	want(t, s, 200, "POST", "/api/sandbox/stop", map[string]any{"runId": run})
	begin(t, s, nil)
}

// A workspace is also what is above it and below it.
func TestWorkspacesWithinOneAnother(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	top := t.TempDir()
	inner, beside := filepath.Join(top, "inner"), filepath.Join(top, "inner2")
	for _, dir := range []string{filepath.Join(inner, "deep"), beside} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(beside, "link")
	if err := os.Symlink(inner, link); err != nil {
		t.Fatal(err)
	}
	first := begin(t, s, map[string]any{"agentType": "goose", "workspace": inner})
	for _, dir := range []string{top, inner, link, filepath.Join(link, "deep")} {
		if r := want(t, s, 409, "POST", "/api/sandbox/start", map[string]any{"agentType": "opencode", "workspace": dir}); r.body["runId"] != first {
			t.Errorf("a start in %s: %s", dir, r.text)
		}
	}
	begin(t, s, map[string]any{"agentType": "opencode", "workspace": beside})
}

// The prompt: one for all runs, one of a run, their versions, and who is told.
func TestPrompts(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	if r := want(t, s, 200, "GET", "/api/prompt", nil); r.body["content"] != "" || r.body["updated_at"] != nil || r.header.Get("ETag") != `"0"` {
		t.Errorf("no prompt is %s %v", r.text, r.header)
	}
	if r := want(t, s, 200, "PUT", "/api/prompt", map[string]any{"content": "one"}); r.text != `{"current":"one","previous":null}` {
		t.Errorf("the first prompt: %s", r.text)
	}
	if r := want(t, s, 200, "PUT", "/api/prompt", map[string]any{"content": "two"}); r.body["previous"] != "one" {
		t.Errorf("the second prompt: %s", r.text)
	}
	run := begin(t, s, nil)
	stream := dial(t, s, "run="+run)
	token := s.Fleet.RunToken(run)
	asked := func() reply { return ask(t, s, token, "GET", "/api/prompt", nil) }
	first := asked()
	if first.body["content"] != "two" {
		t.Errorf("the run is asked %s", first.text)
	}
	etag := first.header.Get("ETag")
	again := func() int {
		r, err := s.Request(t.Context(), "GET", "/api/prompt", nil)
		if err != nil {
			t.Fatal(err)
		}
		return ask(t, s, token, "GET", "/api/prompt", nil, func(q *http.Request) {
			q.Header = r.Header
			q.Header.Set("Authorization", "Bearer "+token)
			q.Header.Set("If-None-Match", etag)
		}).status
	}
	if code := again(); code != 304 {
		t.Errorf("the same prompt again: %d, want 304", code)
	}
	want(t, s, 200, "PUT", "/api/prompt?run="+run, map[string]any{"content": "own \x00 \u2028 é"})
	if code := again(); code != 200 {
		t.Errorf("another prompt: %d, want 200", code)
	}
	if m := stream.kind("prompt"); m["data"].(map[string]any)["content"] != "own \x00 \u2028 é" || m["runId"] != run {
		t.Errorf("live: %v", m)
	}
	want(t, s, 200, "PUT", "/api/prompt", map[string]any{"content": "three"})
	if r := asked(); r.body["content"] != "own \x00 \u2028 é" {
		t.Errorf("a run with its own prompt is asked %s", r.text)
	}
	if h := want(t, s, 200, "GET", "/api/prompt/history", nil).body["history"].([]any); len(h) != 3 || h[0].(map[string]any)["content"] != "three" {
		t.Errorf("the history is %v", h)
	}
	if h := want(t, s, 200, "GET", "/api/prompt/history?run="+run, nil).body["history"].([]any); len(h) != 1 || h[0].(map[string]any)["runId"] != run {
		t.Errorf("the run's history is %v", h)
	}
	if orders := s.Fleet.Orders(); !slices.Contains(orders, "prompt ") || !slices.Contains(orders, "prompt "+run) {
		t.Errorf("the fleet was told %q", orders)
	}
	if r := ask(t, s, token, "GET", "/api/prompt?run=another", nil); r.status != 403 {
		t.Errorf("another run's prompt by a sandbox: %d", r.status)
	}
}

func TestMailbox(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	if r := want(t, s, 200, "GET", "/api/mailbox", nil); r.text != `{"agent_msg":null,"human_msg":null}` {
		t.Errorf("no mailbox: %s", r.text)
	}
	want(t, s, 400, "PUT", "/api/mailbox/human", map[string]any{"message": "hello"})
	run := begin(t, s, nil)
	want(t, s, 200, "PUT", "/api/mailbox/human", map[string]any{"message": "hello"})
	if !slices.Contains(s.Fleet.Orders(), "message "+run+" hello") {
		t.Errorf("the fleet was told %q", s.Fleet.Orders())
	}
	token := s.Fleet.RunToken(run)
	if r := ask(t, s, token, "PUT", "/api/mailbox/agent", map[string]any{"message": "I need a key"}); r.status != 200 || r.body["human_msg"] != "hello" {
		t.Errorf("the agent's message: %d %s", r.status, r.text)
	}
	s.Fleet.Fail = func(order, _ string) error { return fmt.Errorf("the keeper sleeps: %w", controlplane.ErrUnavailable) }
	want(t, s, 503, "PUT", "/api/mailbox/human", map[string]any{"message": "lost"})
	s.Fleet.Fail = nil
	if r := want(t, s, 200, "GET", "/api/mailbox?run="+run, nil).body; r["human_msg"] != "hello" || r["agent_msg"] != "I need a key" {
		t.Errorf("the mailbox is %v", r)
	}
	want(t, s, 200, "POST", "/api/sandbox/stop", nil)
	want(t, s, 409, "PUT", "/api/mailbox/human", map[string]any{"message": "too late"})
}
