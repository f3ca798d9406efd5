package router

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/acp"
)

// TestMissingPrograms has commands not find programs: those of this machine are told of, each once,
// with the setting that shows them, and those that are nowhere are not. So are bounds that were met.
func TestMissingPrograms(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "brew7"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	const met = "3 processes were killed"
	for _, tt := range []struct {
		name   string
		client acp.ClientCapabilities
	}{
		{"text", acp.ClientCapabilities{}},
		{"terminal", acp.ClientCapabilities{Meta: map[string]json.RawMessage{terminalOutput: []byte("true")}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRigFor(t, tt.client, func(r *rig) { r.driver.isolated, r.driver.exceeded = true, []string{met} })
			r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
				c.update(`{"sessionUpdate":"tool_call","toolCallId":"1","title":"do","kind":"execute","status":"pending"}`)
				c.update(`{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"failed","content":[{"type":"content","content":{"type":"text","text":"built\nbash: line 1: brew7: command not found\nbash: line 2: brew8: command not found"}}]}`)
				return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
			}
			id := r.open(t).SessionID
			for range 2 {
				r.wantStop(t, id, "go", acp.StopEndTurn)
			}
			want := "brew7 is outside (" + dir + "/brew7) and not in the sandbox, or what it is run by is not; name its directory in policy.readOnlyPaths"
			r.editor.Wait(t, want, func() bool { return strings.Contains(r.said(id), want) })
			r.editor.Wait(t, met, func() bool { return strings.Contains(r.said(id), met) })
			if said := r.said(id); strings.Count(said, met) != 1 || strings.Count(said, want) != 1 || strings.Contains(said, "brew8 is outside") {
				t.Errorf("said: %s", said)
			}
		})
	}
}
