package controlplane_test

import (
	"maps"
	"testing"

	"gander.dev/gander/sandbox/unattended/controlplane/planetest"
	"gander.dev/gander/sandbox/unattended/loop"
)

// TestGrowing checks that live clients see a part of a message, of which nothing is kept.
func TestGrowing(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	run := begin(t, s, nil)
	live := dial(t, s, "")
	part := map[string]any{"iterationId": 1, "type": "text", "offset": 5, "content": "more"}
	want(t, s, 200, "POST", "/api/telemetry/growing?run="+run, part)
	if data := live.kind("growing")["data"].(map[string]any); data["offset"] != 5.0 || data["content"] != "more" {
		t.Errorf("live: %v", data)
	}
	for _, change := range []map[string]any{{"type": "error"}, {"offset": -1}, {"content": ""}, {"iterationId": 0}, {"offset": 70000}} {
		bad := map[string]any{"iterationId": 1, "type": "text", "offset": 0, "content": "x"}
		maps.Copy(bad, change)
		want(t, s, 422, "POST", "/api/telemetry/growing?run="+run, bad)
	}
	want(t, s, 404, "POST", "/api/telemetry/growing?run=nobody", part)
	for _, event := range want(t, s, 200, "GET", "/api/telemetry/events?run="+run, nil).body["events"].([]any) {
		if event.(map[string]any)["type"] == "text" {
			t.Errorf("kept: %v", event)
		}
	}
}

// TestDefaultBudget checks that a run has a budget unless somebody says otherwise.
func TestDefaultBudget(t *testing.T) {
	for name, tt := range map[string]struct {
		body   map[string]any
		tokens float64
	}{
		"nothing said": {map[string]any{}, loop.DefaultTokens},
		"tokens":       {map[string]any{"limits": map[string]any{"tokens": 5}}, 5},
		"a cost":       {map[string]any{"limits": map[string]any{"cost": 5}}, 0},
		"none":         {map[string]any{"noBudget": true}, 0},
	} {
		s := planetest.Start(t, planetest.Options{})
		r := want(t, s, 200, "GET", "/api/runs/"+begin(t, s, tt.body), nil)
		if got, _ := r.body["limits"].(map[string]any)["tokens"].(float64); got != tt.tokens {
			t.Errorf("%s: %v tokens", name, got)
		}
	}
}
