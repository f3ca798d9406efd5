package e2e

import (
	"strings"
	"testing"
)

// A command that a signal or its time ends, or that ends with a code, is a failed tool call that says
// so, at once; what it prints for a terminal is text where there is none.
func TestHowCommandsEnd(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		e := w.gander(nil)
		e.initialize()
		s := e.session(w.mkdir("project"))
		killed, crashed := "ended by a signal", "ended by a signal"
		if w.cell.agent.name == "opencode" {
			killed, crashed = "exited with code 137 (signal KILL)", "exited with code 139 (signal SEGV)"
		}
		for _, tt := range []struct {
			step           step
			status, output string
		}{
			{w.shell("echo some; exit 3"), "failed", "exited with code 3"},
			{w.shell("echo some; kill -KILL $$"), "failed", killed},
			{w.shell("echo some; kill -SEGV $$"), "failed", crashed},
			{step{"tool": w.cell.agent.shell, "args": map[string]any{"command": "echo some; sleep 600", "description": "a command", "timeout": 1000, "timeout_secs": 1}}, "failed", "some"},
			{w.shell("printf '\\033[31msome\\033[0m\\n 10%%\\r 50%%\\r100%%\\n'"), "completed", "some\n100%"},
		} {
			turn := s.prompt(script(t, tt.step, says("done"))).done("end_turn")
			var last update
			for _, u := range turn.updates {
				if u.ToolCallID != "" {
					last = u
				}
			}
			text := last.text()
			if last.Status != tt.status || !strings.Contains(text, tt.output) || !strings.Contains(text, "some") {
				t.Errorf("%v ends as %s with %q, want %s and %q", tt.step, last.Status, text, tt.status, tt.output)
			}
		}
	})
}
