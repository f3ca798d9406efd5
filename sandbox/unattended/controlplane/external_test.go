package controlplane_test

import (
	"fmt"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/unattended/controlplane/planetest"
)

// TestDefaultAgent checks that a start that names no agent starts opencode.
func TestDefaultAgent(t *testing.T) {
	for _, body := range []any{nil, map[string]any{}, map[string]any{"prompt": "be kind"}} {
		s := planetest.Start(t, planetest.Options{})
		r := want(t, s, 200, "POST", "/api/sandbox/start", body)
		if r.body["agentType"] != "opencode" || r.body["status"] != "started" {
			t.Errorf("%v: %s", body, r.text)
		}
	}
}

// iterationRows returns the iterations, the newest first, as "number actions events outcome".
func iterationRows(t *testing.T, s *planetest.Server, run string) []string {
	t.Helper()
	var rows []string
	for _, r := range want(t, s, 200, "GET", "/api/telemetry/iterations?run="+run, nil).body["iterations"].([]any) {
		row := r.(map[string]any)
		events := want(t, s, 200, "GET", fmt.Sprintf("/api/telemetry/iteration/%v", row["id"]), nil).body["events"].([]any)
		rows = append(rows, fmt.Sprint(row["seq"], " ", row["action_count"], " ", len(events), " ", row["summary"]))
	}
	return rows
}

// TestTelemetryOfARun checks that events with a runId belong to the iteration of their batch,
// with and without numbers, that a summary needs none, and that what is sent again, also
// after a restart, and what comes late is there once.
func TestTelemetryOfARun(t *testing.T) {
	for name, numbered := range map[string]bool{"numbered": true, "without numbers": false} {
		t.Run(name, func(t *testing.T) {
			s := planetest.Start(t, planetest.Options{})
			const run = "elsewhere-1"
			seq := 0
			batch := func(iteration int, types ...string) map[string]any {
				var events []any
				for i, kind := range types {
					e := map[string]any{"type": kind, "summary": fmt.Sprint(kind, i)}
					if numbered {
						seq++
						e["seq"] = seq
					}
					events = append(events, e)
				}
				return map[string]any{"runId": run, "iterationId": iteration, "events": events}
			}
			twice := func(path string, body map[string]any) {
				t.Helper()
				first := want(t, s, 200, "POST", path, body)
				s.Restart()
				if again := want(t, s, 200, "POST", path, body); again.text != first.text {
					t.Errorf("answered %s, and again %s", first.text, again.text)
				}
			}
			summary := func(iteration int, text string) map[string]any {
				return map[string]any{"runId": run, "iterationId": iteration, "summary": text, "actionCount": 1, "errorCount": 0, "vitals": map[string]any{"cpu": 1, "memory": 2, "disk": 3}}
			}
			twice("/api/telemetry/stream", batch(1, "iteration_start", "tool_use", "tool_result"))
			twice("/api/telemetry/summary", summary(1, "Completed: one"))
			want(t, s, 200, "POST", "/api/telemetry/summary", summary(1, "another"))
			twice("/api/telemetry/stream", batch(2, "iteration_start", "text"))
			twice("/api/telemetry/stream", batch(3, "iteration_start", "tool_use", "text"))
			twice("/api/telemetry/summary", summary(3, "Completed: three"))
			want(t, s, 200, "POST", "/api/telemetry/summary", summary(2, "Completed: late")) // it counted as interrupted
			got := strings.Join(iterationRows(t, s, run), ", ")
			if want := "3 1 4 Completed: three, 2 1 3 Completed: late, 1 1 4 Completed: one"; got != want {
				t.Errorf("iterations %s\nwant %s", got, want)
			}
			if n := len(want(t, s, 200, "GET", "/api/telemetry/vitals?run="+run, nil).body["vitals"].([]any)); n != 3 {
				t.Errorf("%d vitals, want 3", n)
			}
			if numbered { // what is missing is asked for as its loop counts
				seq++
				if r := want(t, s, 409, "POST", "/api/telemetry/stream", batch(3, "text")); r.body["lastSeq"] != 8.0 {
					t.Errorf("a gap: %s", r.text)
				}
			}
		})
	}
}

// TestExternalRuns checks that a run of which only telemetry comes is not taken for one of
// this control plane, and can be dismissed and deleted.
func TestExternalRuns(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	tell := func() {
		t.Helper()
		want(t, s, 200, "POST", "/api/telemetry/stream", map[string]any{"runId": "elsewhere-1", "iterationId": 1, "events": []any{map[string]any{"type": "text", "summary": "x", "timestamp": "2026-02-25T10:00:00Z"}}})
	}
	tell()
	status := func(path string) string {
		t.Helper()
		r := want(t, s, 200, "GET", path, nil)
		return fmt.Sprint(r.body["status"], " ", r.body["agentType"], " ", len(r.body["sandboxes"].([]any)))
	}
	if got := status("/api/sandbox/status") + ", " + status("/api/sandbox/status?run=elsewhere-1"); got != "not_running <nil> 0, not_running <nil> 0" {
		t.Errorf("the status is %s", got)
	}
	want(t, s, 200, "POST", "/api/sandbox/stop", nil)
	want(t, s, 409, "POST", "/api/sandbox/stop", map[string]any{"runId": "elsewhere-1"})
	own := begin(t, s, nil)
	tell() // it is the newest that tells something
	if got := status("/api/sandbox/status"); got != "running goose 1" {
		t.Errorf("the status is %s", got)
	}
	for _, order := range []string{"POST /dismiss", "DELETE "} {
		method, path, _ := strings.Cut(order, " ")
		want(t, s, 409, method, "/api/runs/"+own+path, nil)
		want(t, s, 404, method, "/api/runs/nobody"+path, nil)
	}
	want(t, s, 200, "POST", "/api/runs/elsewhere-1/dismiss", nil)
	tell()
	s.Restart()
	if r := want(t, s, 200, "GET", "/api/runs/elsewhere-1", nil); r.body["state"] != "stopped" || r.body["stoppedAt"] == nil {
		t.Errorf("it is %s", r.text)
	}
	want(t, s, 200, "DELETE", "/api/runs/elsewhere-1", nil)
	want(t, s, 404, "GET", "/api/runs/elsewhere-1", nil)
	if n := len(want(t, s, 200, "GET", "/api/telemetry/iterations", nil).body["iterations"].([]any)); n != 0 {
		t.Errorf("%d iterations are left", n)
	}
}
