package dashboard_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"gander.dev/gander/conformance/browsertest"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/controlplane/dashboard"
	"gander.dev/gander/sandbox/unattended/controlplane/planetest"
)

// A world is a real control plane with the page, over a fleet whose runs say what the test has them say.
type world struct {
	*planetest.Server
	t *testing.T
}

func newWorld(t *testing.T) *world {
	w := &world{Server: planetest.Start(t, planetest.Options{Page: dashboard.Files()}), t: t}
	w.Fleet.AgentList = []controlplane.AgentInfo{
		{Name: "goose", Available: true},
		{Name: "opencode", Available: true},
		{Name: "other", Why: "other is not installed: run gander agent install other"},
	}
	return w
}

// page opens the page in a browser, and waits until it is connected.
func (w *world) page(o browsertest.Options) *browsertest.Page {
	w.t.Helper()
	p := browsertest.Start(w.t, o)
	p.Open(w.URL + "/#token=" + w.Token)
	p.WaitText("#connection", "Live")
	return p
}

// ask sends a request as a person, and decodes the answer, which must be a success.
func (w *world) ask(method, path string, body, answer any) {
	w.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.URL+path, bytes.NewReader(data))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		w.t.Fatalf("%s %s: %d %s, %v", method, path, resp.StatusCode, text, err)
	}
	if answer == nil {
		return
	}
	if err := json.Unmarshal(text, answer); err != nil {
		w.t.Fatal(err)
	}
}

// run starts a run without the page.
func (w *world) run(agent string) string {
	w.t.Helper()
	var started struct{ RunID string }
	w.ask("POST", "/api/sandbox/start", map[string]any{"agentType": agent, "prompt": "Mend the tests of " + agent}, &started)
	return started.RunID
}

// last is the number of the last event that a run told.
func (w *world) last(run string) int64 { return int64(len(w.Fleet.Events(run))) }

// ordered waits until the fleet was given an order.
func (w *world) ordered(order string) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); !slices.Contains(w.Fleet.Orders(), order); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited a minute for the order %q; there were %q", order, w.Fleet.Orders())
		}
	}
}

// iteration are the events of one whole iteration of an agent at work.
func iteration(n int64) []telemetry.Event {
	call := func(id, tool, arguments string) telemetry.Event {
		return telemetry.Event{Iteration: n, Type: telemetry.ToolUse, Tool: tool, ToolCallID: id, Summary: tool + ": " + arguments, Content: `{"name":"` + tool + `","arguments":` + arguments + `}`}
	}
	events := []telemetry.Event{
		{Iteration: n, Type: telemetry.IterationStart, Summary: fmt.Sprintf("Starting iteration %d", n)},
		{Iteration: n, Type: telemetry.Thought, Summary: "The loader", Content: "The loader looked suspicious in the last iteration; I look at its test before I change anything."},
		{Iteration: n, Type: telemetry.Text, Summary: "I run the tests", Content: "I run the tests first.\n\nThen:\n1. read what failed\n2. mend it"},
		call("a", "shell", `{"command":"go test ./...","timeout":120}`),
		{Iteration: n, Type: telemetry.ToolResult, Tool: "shell", ToolCallID: "a", Status: telemetry.Failed, Summary: "FAIL", Content: "--- FAIL: TestLoad (0.00s)\n    load_test.go:12: got 3, want 4\nFAIL"},
		call("b", "text_editor", `{"command":"str_replace","path":"/workspace/load.go","old_str":"n := 3\nreturn n","new_str":"n := 4 // with the header\nreturn n"}`),
		{Iteration: n, Type: telemetry.ToolResult, Tool: "text_editor", ToolCallID: "b", Status: telemetry.Completed, Summary: "edited", Content: "--- a/load.go\n+++ b/load.go\n@@ -1,2 +1,2 @@\n-n := 3\n+n := 4 // with the header\n return n"},
		{Iteration: n, Type: telemetry.Error, Summary: "gofump: command not found", Content: "gofump: command not found\nexit status 127"},
		{
			Iteration: n, Type: telemetry.IterationEnd, Status: string(telemetry.OK), Summary: "Completed: 2 actions, 1 errors", Actions: 2, Errors: 1,
			Usage: &telemetry.Usage{Input: 9000 + 400*n, Output: 800, Total: 9800 + 400*n, Cost: 0.02}, Vitals: &telemetry.Vitals{CPU: float64(20 + n%5*15), Memory: float64(280 + 8*n), Disk: 90},
		},
	}
	return events
}
