package controlplane_test

import (
	"fmt"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/controlplane/planetest"
)

// What clients of the succeeded system send, without a token, and what they were
// answered; its answers to bad input (500, after a change) are the ones that are not
// kept.
func TestOldClients(t *testing.T) {
	s := planetest.Start(t, planetest.Options{Change: func(o *controlplane.Options) { o.Compat = true }})
	old := func(status int, method, path, body string) reply {
		t.Helper()
		var b any
		if body != "" {
			b = body
		}
		r := ask(t, s, "", method, path, b)
		if r.status != status {
			t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, r.status, r.text, status)
		}
		return r
	}
	is := func(r reply, text string) {
		t.Helper()
		if r.text != text {
			t.Errorf("answered %s, want %s", r.text, text)
		}
	}
	is(old(200, "GET", "/health", ""), `{"status":"ok"}`)
	if r := old(200, "GET", "/api/prompt", ""); r.body["content"] != "" || r.body["updated_at"] != nil {
		t.Errorf("no prompt: %s", r.text)
	}
	is(old(200, "PUT", "/api/prompt", `{"content":"Be kind."}`), `{"current":"Be kind.","previous":null}`)
	is(old(400, "PUT", "/api/prompt", `{"content":" "}`), `{"error":"content is required"}`)
	is(old(200, "POST", "/api/sandbox/stop", ""), `{"status":"stopped"}`)
	if r := old(200, "GET", "/api/sandbox/status", ""); r.body["status"] != "not_running" || r.body["sessionId"] != nil {
		t.Errorf("the status: %s", r.text)
	}
	old(503, "GET", "/api/sandbox/files", "")
	is(old(404, "GET", "/api/telemetry/iteration/1", ""), `{"error":"not found"}`)
	is(old(200, "GET", "/api/telemetry/iterations?limit=1", ""), `{"iterations":[]}`)
	is(old(200, "GET", "/api/mailbox", ""), `{"agent_msg":null,"human_msg":null}`)

	// A loop: one request an event, then the summary. Two equal calls are two events here.
	events := dialWithout(t, s)
	event := func(n int, kind, summary, content string) {
		t.Helper()
		body := fmt.Sprintf(`{"iterationId":%d,"events":[{"type":%q,"summary":%q,"content":%q}]}`, n, kind, summary, content)
		if content == "" {
			body = fmt.Sprintf(`{"iterationId":%d,"events":[{"type":%q,"summary":%q,"timestamp":"2026-02-25T10:00:00Z"}]}`, n, kind, summary)
		}
		if r := old(200, "POST", "/api/telemetry/stream", body); r.body["received"] != 1.0 {
			t.Errorf("answered %s", r.text)
		}
	}
	iterate := func(n int) {
		event(n, "iteration_start", fmt.Sprintf("Starting iteration %d", n), "")
		event(n, "tool_use", "shell: command=ls", `{"name":"shell"}`)
		event(n, "tool_use", "shell: command=ls", `{"name":"shell"}`)
		event(n, "tool_result", "files", "a\nb")
	}
	summary := func(n int) {
		is(old(200, "POST", "/api/telemetry/summary", fmt.Sprintf(
			`{"iterationId":%d,"summary":"Completed: 2 actions, 0 errors","actionCount":2,"errorCount":0,"vitals":{"cpu":3.5,"memory":512,"disk":100}}`, n)), `{"ok":true}`)
	}
	iterate(1)
	is(old(400, "POST", "/api/telemetry/stream", `{}`), `{"error":"events is required, a list"}`)
	rows := func(query string) []any {
		return old(200, "GET", "/api/telemetry/iterations"+query, "").body["iterations"].([]any)
	}
	if r := rows("")[0].(map[string]any); r["end_time"] != nil || r["action_count"] != 2.0 || r["seq"] != 1.0 {
		t.Errorf("the running iteration: %v", r)
	}
	summary(1)
	iterate(2) // and dies; the next one interrupts it
	iterate(3)
	summary(3)
	all := rows("?session=current")
	var got []string
	for _, r := range all {
		row := r.(map[string]any)
		got = append(got, fmt.Sprintln(row["seq"], row["action_count"], row["error_count"], row["summary"], len(row["start_time"].(string))))
	}
	if g := strings.Join(got, ""); g != "3 2 0 Completed: 2 actions, 0 errors 19\n2 2 0 Interrupted 19\n1 2 0 Completed: 2 actions, 0 errors 19\n" {
		t.Errorf("the iterations: %s", g)
	}
	detail := old(200, "GET", fmt.Sprintf("/api/telemetry/iteration/%v", all[0].(map[string]any)["id"]), "").body
	if n := len(detail["events"].([]any)); n != 5 {
		t.Errorf("iteration 3 has %d events, want 5", n)
	}
	if v := old(200, "GET", "/api/telemetry/vitals", "").body["vitals"].([]any); len(v) != 2 || v[0].(map[string]any)["memory_mb"] != 512.0 {
		t.Errorf("the vitals: %v", v)
	}
	recent := old(200, "GET", "/api/telemetry/events/recent?limit=3", "").body["events"].([]any)
	last := recent[2].(map[string]any)
	if data := last["data"].(map[string]any); len(recent) != 3 || last["type"] != "iteration_end" || data["iterationId"] != 3.0 || last["timestamp"] == nil {
		t.Errorf("the recent events: %v", recent)
	}
	// The live stream has the same, in order, each with the timestamp it came with.
	first := events.event()
	if data := first["data"].(map[string]any); first["type"] != "iteration_start" || first["timestamp"] != "2026-02-25T10:00:00.000Z" || data["iterationId"] != 1.0 || data["summary"] != "Starting iteration 1" {
		t.Errorf("the first live event: %v", first)
	}
	if m := events.kind("iteration_end"); m["data"].(map[string]any)["vitals"].(map[string]any)["cpu"] != 3.5 {
		t.Errorf("the live end: %v", m)
	}

	// A loop that begins to count anew is another run.
	iterate(1)
	if n := len(rows("?session=current")); n != 1 {
		t.Errorf("the new run has %d iterations", n)
	}
	if n := len(old(200, "GET", "/api/telemetry/iterations", "").body["iterations"].([]any)); n != 4 {
		t.Errorf("all runs have %d iterations", n)
	}
	// An old dashboard starts and stops; what is new needs the token.
	if r := old(200, "POST", "/api/sandbox/start", `{"agentType":"goose"}`); r.body["status"] != "started" || r.body["containerId"] == "" || r.body["agentType"] != "goose" {
		t.Errorf("the start: %s", r.text)
	}
	if r := old(200, "GET", "/api/sandbox/status", ""); r.body["status"] != "running" || r.body["agentType"] != "goose" {
		t.Errorf("the status: %s", r.text)
	}
	old(200, "PUT", "/api/mailbox/human", `{"message":"hello"}`)
	old(200, "POST", "/api/sandbox/stop", "")
	old(401, "GET", "/api/runs", "")
	old(401, "GET", "/metrics", "")

	strict := planetest.Start(t, planetest.Options{})
	if r := ask(t, strict, "", "GET", "/api/prompt", nil); r.status != 401 {
		t.Errorf("without the switch: %d", r.status)
	}
}
