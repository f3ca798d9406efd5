package e2e

import (
	"net"
	"strings"
	"testing"
)

// A server of the editor that accepts and never answers, or that ends, makes no thread
// unusable: the person is told which and how, the agent answers without it, and has its tools
// when it answers again, in the same conversation.
func TestSilentServersOfTheEditor(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		w.write(w.mkdir("gander"), "config.json", `{"mcp": {"allow": ["*"], "patience": "1s"}}`)
		hung, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts: the kernel does
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = hung.Close() })
		project, outside := w.mkdir("project"), w.mkdir("outside")
		e := w.gander(nil)
		e.initialize()
		sh := func(name, script string) map[string]any {
			return map[string]any{"name": name, "command": "/bin/sh", "args": []string{"-c", script}, "env": []any{}}
		}
		var opened struct{ SessionID string }
		if err := e.request("session/new", map[string]any{"cwd": project, "mcpServers": []any{
			sh("silent", "test -e "+outside+"/ok && exec "+needGander(t)+" mcp developer; exec sleep 1000"),
			sh("dying", "echo the database is locked >&2; exit 3"),
			map[string]any{"type": "http", "name": "hung", "url": "http://" + hung.Addr().String() + "/mcp", "headers": []any{}},
		}}, &opened); err != nil {
			t.Fatal(err)
		}
		s := &session{editor: e, id: opened.SessionID}
		said := refusedTurn(t, s, script(t, says("the first answer")))
		for _, want := range []string{
			"first", "answer", "MCP server silent did not answer",
			"MCP server dying has ended (exit code 3; its last words: the database is locked)",
			"MCP server hung (http://" + hung.Addr().String() + "/mcp) did not answer",
		} {
			if !strings.Contains(said, want) {
				t.Errorf("the person reads %q, without %q", said, want)
			}
		}
		w.write(outside, "ok", "")
		eventually(t, "the server to be given to the agent again", func() bool {
			return strings.Contains(refusedTurn(t, s, script(t, says("another answer"))), "answer again: silent.")
		})
		turn := s.prompt(script(t, step{"tool": w.toolOf("silent", "shell"), "args": map[string]any{"command": "echo from outside > " + outside + "/made.txt"}}, step{"text": "{{last_tool_result}}"})).done("end_turn")
		if got := w.read(outside + "/made.txt"); got != "from outside\n" {
			t.Errorf("its tool has written %q; the agent was told %q", got, turn.text())
		}
	})
}
