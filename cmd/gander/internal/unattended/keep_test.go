package unattended

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/telemetry"
)

// leakToken is in a closed file of what closedProject makes.
const leakToken = "tok-1a2b3c4d5e6f7g8h"

func closedProject(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".env"), []byte("API_KEY="+leakToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// stopping looks for what is closed in a project, by the strictest policy.
func stopping(t *testing.T, project string) *confine.Leaks {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	l := confine.NewLeaks(confine.LeakOptions{
		Mode: confine.CanariesStop, Project: project, Context: ctx, Notice: func(string, string) {}, Stop: func(string) {},
		Spawn: func(f func()) { go f() }, Log: slog.New(slog.DiscardHandler),
	})
	l.Look()
	if err := l.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	return l
}

// Closed content is seen in whatever field of an event a loop writes it to, and in
// letters.
func TestLeaksOfALoop(t *testing.T) {
	leaks := stopping(t, closedProject(t))
	l := &looping{leaks: leaks, said: map[telemetry.Type]io.Writer{telemetry.Text: leaks.Stream(recorded)}}
	for _, e := range []telemetry.Event{
		{Type: telemetry.ToolResult, Summary: leakToken},
		{Type: telemetry.ToolResult, Content: leakToken},
		{Type: telemetry.ToolResult, Tool: leakToken},
		{Type: telemetry.ToolResult, ToolCallID: leakToken},
		{Type: telemetry.ToolResult, Status: leakToken},
		{Type: telemetry.ToolResult, Reason: leakToken},
		{Type: leakToken},
		{Type: telemetry.Text, Summary: leakToken},
		{Type: telemetry.Text, Tool: leakToken},
	} {
		if l.look(e) == nil {
			raw, _ := json.Marshal(e)
			t.Errorf("%s may be kept", raw)
		}
	}
	pieces := []telemetry.Event{{Type: telemetry.Text, Content: leakToken[:7]}, {Type: telemetry.Text, Content: leakToken[7:], Summary: "x", Iteration: 3}}
	if err := l.look(pieces[0]); err != nil {
		t.Error(err)
	}
	if l.look(pieces[1]) == nil {
		t.Error("in pieces it may be kept")
	}
	if err := l.look(telemetry.Event{Type: telemetry.ToolResult, Content: "harmless"}); err != nil {
		t.Error(err)
	}
	if err := l.lookAt([]byte(`{"message":"` + leakToken + `"}`)); err == nil || !strings.Contains(err.Error(), "policy.canaries") {
		t.Errorf("a letter: %v", err)
	}
}
