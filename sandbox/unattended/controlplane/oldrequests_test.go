package controlplane_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/controlplane/planetest"
)

// TestOldRequests checks the answers to further requests of the succeeded system, in its shapes.
// Where was is another status than want, the README's table has the row that row names.
func TestOldRequests(t *testing.T) {
	table, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	s := planetest.Start(t, planetest.Options{Change: func(o *controlplane.Options) { o.Compat = true }})
	for _, c := range []struct {
		method, path, body string
		was, want          int
		has                string // of the answer
		row                string
	}{
		{"PUT", "/api/mailbox/agent", `{"message":"hi"}`, 400, 400, "error", ""},
		{"PUT", "/api/mailbox/human", `{"message":" "}`, 400, 400, "error", ""},
		{"GET", "/api/sandbox/files/read?path=/workspace/x", "", 503, 503, "error", ""},
		{"POST", "/api/snapshots/capture", `{}`, 503, 503, "error", ""},
		{"GET", "/api/snapshots?limit=5", "", 200, 200, `"snapshots":[]`, ""},
		{"POST", "/api/snapshots/1/restore", `{}`, 404, 404, "error", ""},
		{"GET", "/api/telemetry/vitals?limit=100", "", 200, 200, `{"vitals":[]}`, ""},
		{"GET", "/api/telemetry/events/recent?limit=200", "", 200, 200, `{"events":[]}`, ""},
		{"GET", "/api/nothing", "", 404, 404, "", ""},
		{"POST", "/api/sandbox/start", `{"agentType":"cursor"}`, 200, 400, "goose", "an unknown agent"},
		{"POST", "/api/sandbox/start", `not json`, 200, 400, "error", "bad input"},
		{"POST", "/api/telemetry/stream", `not json`, 500, 400, "error", "bad input"},
		{"POST", "/api/telemetry/stream", `{"iterationId":1}`, 500, 400, "events is required", "bad input"},
		{"POST", "/api/telemetry/summary", `{"iterationId":1,"summary":"x","actionCount":1,"errorCount":0}`, 500, 200, `"ok":true`, "a summary without vitals"},
		{"GET", "/api/showcase", "", 200, 404, "error", "a showcase"},
		{"POST", "/api/showcase/launch", `{}`, 200, 404, "error", "a showcase"},
		{"GET", "/api/showcase/proxy/", "", 200, 404, "error", "a showcase"},
		{"POST", "/api/sandbox/start", "", 200, 200, `"agentType":"opencode"`, ""},
		{"GET", "/api/sandbox/files?path=/workspace/../etc", "", 200, 400, "error", "bad input"},
		{"GET", "/api/sandbox/files?path=/etc", "", 400, 400, "error", ""},
		{"GET", "/api/sandbox/files", "", 200, 200, `"entries":[],"path":"/workspace"`, ""},
		{"PUT", "/api/mailbox/human", `{"message":"hi"}`, 200, 200, `"human_msg":"hi"`, ""},
		{"POST", "/api/sandbox/start", `{}`, 200, 409, "works in", "one sandbox"},
		{"POST", "/api/snapshots/capture", `{"label":"a"}`, 200, 200, `"label":"a"`, ""},
		{"DELETE", "/api/snapshots/1", "", 200, 200, `"ok":true`, ""},
	} {
		if c.row != "" && !strings.Contains(string(table), "\n| "+c.row) {
			t.Errorf("%s %s: no row of the table begins with %q", c.method, c.path, c.row)
		}
		var body any
		if c.body != "" {
			body = c.body
		}
		r := ask(t, s, "", c.method, c.path, body)
		if r.status != c.want || !strings.Contains(r.text, c.has) || (c.was != c.want) != (c.row != "") {
			t.Errorf("%s %s %s: %d %s, want %d with %s", c.method, c.path, c.body, r.status, r.text, c.want, c.has)
		}
	}
}
