package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// A program that the editor passes as an MCP server runs outside of the sandbox,
// when the person says so, and is gone with the session; the agent has its tools.
func TestServersOfTheEditor(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		project, outside := w.mkdir("project"), w.mkdir("outside")
		e := w.gander(nil)
		e.initialize()
		m := mark(t, 0)
		var opened struct{ SessionID string }
		err := e.request("session/new", map[string]any{"cwd": project, "mcpServers": []any{
			map[string]any{"name": "outside", "command": needGander(t), "args": []string{"mcp", "developer"}, "env": []any{map[string]string{"name": "GANDER_E2E_MARK", "value": m}}},
			map[string]any{"name": "unwanted", "command": "/bin/cat", "args": []string{}, "env": []any{}},
		}}, &opened)
		if err != nil {
			t.Fatal(err)
		}
		s := &session{editor: e, id: opened.SessionID}
		tool := "outside__shell"
		if w.cell.agent.name == "opencode" {
			tool = "outside_shell"
		}
		p := s.prompt(script(t, step{"tool": tool, "args": map[string]any{"command": "echo from outside > " + outside + "/made.txt"}}, step{"text": "{{last_tool_result}}"}))
		ask := e.permission(1)
		if !strings.Contains(ask.ToolCall.Title, "outside") || !strings.Contains(ask.ToolCall.text(), "mcp developer") {
			t.Errorf("the person is asked %q with %q", ask.ToolCall.Title, ask.ToolCall.text())
		}
		e.choose(ask, "allow_once")
		e.choose(e.permission(2), "reject_once")
		turn := p.done("end_turn")
		if got, err := os.ReadFile(outside + "/made.txt"); string(got) != "from outside\n" {
			t.Errorf("the program has written %q, %v; the agent was told %q", got, err, turn.text())
		}
		if len(marked(t, m)) == 0 {
			t.Error("the program does not run")
		}
		e.end()
		eventually(t, "the program to be gone", func() bool { return len(marked(t, m)) == 0 })
	})
}

// addressed is a real MCP server with an address, and what it has seen.
type addressed struct {
	url string

	// mu guards what follows.
	mu      sync.Mutex
	headers []http.Header
}

// serveTools serves the tools "note", which says its argument back, and "ask", which
// asks the person of the client that calls it.
func serveTools(t *testing.T) *addressed {
	t.Helper()
	tools := server.NewMCPServer("addressed", "1", server.WithElicitation())
	tools.AddTool(mcp.NewTool("note", mcp.WithString("text")), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("noted " + req.GetString("text", "")), nil
	})
	tools.AddTool(mcp.NewTool("ask"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		got, err := tools.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{
			Message:         "Which colour?",
			RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"colour": map[string]any{"type": "string"}}, "required": []string{"colour"}},
		}})
		if err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		content, _ := json.Marshal(got.Content)
		return mcp.NewToolResultText(string(got.Action) + " " + string(content)), nil
	})
	a := new(addressed)
	over := server.NewStreamableHTTPServer(tools)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.headers = append(a.headers, r.Header.Clone())
		a.mu.Unlock()
		if r.Header.Get("Mcp-Method") == "server/discover" { // as servers of today: they begin with initialize
			http.Error(w, "no session", http.StatusBadRequest)
			return
		}
		over.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	a.url = s.URL + "/mcp?key=in-the-address"
	return a
}

// openWith opens a session with a server that has an address, in an editor that can be
// asked with forms.
func (w *world) openWith(a *addressed) *session {
	w.t.Helper()
	e := startEditor(w.t, launch{
		command: w.acp(), env: w.ganderEnv(nil), uid: w.uid, gid: w.gid, dir: w.dir,
		serves: []string{"elicitation/create"},
	})
	var got initialized
	if err := e.request("initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{"elicitation": map[string]any{"form": map[string]any{}}}}, &got); err != nil {
		w.t.Fatal(err)
	}
	var opened struct{ SessionID string }
	if err := e.request("session/new", map[string]any{"cwd": w.mkdir("project"), "mcpServers": []any{map[string]any{
		"type": "http", "name": "addressed", "url": a.url, "headers": []any{map[string]string{"name": "Authorization", "value": "Bearer of-the-person"}},
	}}}, &opened); err != nil {
		w.t.Fatal(err)
	}
	return &session{editor: e, id: opened.SessionID}
}

// toolOf is a tool of a server as an agent's model calls it.
func (w *world) toolOf(server, tool string) string {
	if w.cell.agent.name == "opencode" {
		return server + "_" + tool
	}
	return server + "__" + tool
}

// A server with an address is used from the sandbox, which has no network and never
// holds what the editor knows of it: gander adds that outside.
func TestServersWithAnAddress(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		a := serveTools(t)
		s := w.openWith(a)
		p := s.prompt(script(t,
			step{"tool": w.toolOf("addressed", "note"), "args": map[string]any{"text": "real-7"}}, step{"text": "{{last_tool_result}}"}))
		s.editor.choose(s.editor.permission(1), "allow_once")
		if got := p.done("end_turn").text(); !strings.Contains(got, "noted real-7") {
			t.Errorf("the agent was told %q", got)
		}
		a.mu.Lock()
		for _, h := range a.headers {
			if h.Get("Authorization") != "Bearer of-the-person" {
				t.Errorf("the server was called with %v", h)
			}
		}
		a.mu.Unlock()
		// What runs inside knows neither.
		got := s.prompt(script(t, w.cell.runs("cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; grep -rsE 'of-the-per[s]on|in-the-addr[e]ss' ~ && echo fou''nd"), step{"text": "{{last_tool_result}}"})).done("end_turn").text()
		if !strings.Contains(got, "PATH=") || strings.Contains(got, "of-the-person") || strings.Contains(got, "in-the-address") || strings.Contains(got, "found") {
			t.Errorf("inside is %q", got)
		}
	})
}

// A server's question to the person goes through the agent to the editor, and the
// answer back. opencode has no such questions: the server is told so.
func TestQuestionsOfServers(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		s := w.openWith(serveTools(t))
		e := s.editor
		p := s.prompt(script(t, step{"tool": w.toolOf("addressed", "ask"), "args": map[string]any{}}, step{"text": "{{last_tool_result}}"}))
		e.choose(e.permission(1), "allow_once")
		if w.cell.agent.name == "opencode" {
			if got := p.done("end_turn").text(); got == "" || strings.Contains(got, "accept") {
				t.Errorf("the agent was told %q", got)
			}
			return
		}
		ask := e.event("the question", func(ev event) bool { return ev.Ev == "asked" && ev.Method == "elicitation/create" })
		var q struct{ SessionID, Message, Mode string }
		if err := json.Unmarshal(ask.Params, &q); err != nil || q.SessionID != s.id || q.Mode != "form" || q.Message != "goose asks from its sandbox: Which colour?" {
			t.Errorf("the question is %s", ask.Params)
		}
		e.do("answer", map[string]any{"n": ask.N, "result": map[string]any{"action": "accept", "content": map[string]string{"colour": "teal-7"}}})
		if got := p.done("end_turn").text(); !strings.Contains(got, `accept {"colour":"teal-7"}`) {
			t.Errorf("the agent was told %q", got)
		}
	})
}
