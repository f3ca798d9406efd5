package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gander.dev/gander/cmd/gander/internal/demo"
	"gander.dev/gander/conformance/model"
)

// escaping is a command with processes that want to stay.
func (c *child) escaping() string {
	return strings.ReplaceAll("trap '' TERM HUP; (setsid sleep MARK &); echo started; sleep MARK & sleep MARK", "MARK", c.marker)
}

// Whatever ends the server, nothing that its tools started is left, exit code 0
// where it can say so.
func TestMCPEnds(t *testing.T) {
	for _, end := range []string{"EOF", "15", "2", "1", "9"} {
		t.Run(end, func(t *testing.T) {
			c := prepare(t)
			c.start(nil, "mcp", "developer")
			c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"probe","version":"1"}}}`)
			c.send(`{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"shell","arguments":{"command":%q}}}`, c.escaping())
			c.expect(`"output":"started"`)
			c.awaitMarked()
			if n, err := strconv.Atoi(end); err == nil {
				c.signal(syscall.Signal(n))
			} else {
				_ = c.stdin.Close()
			}
			if end != "9" {
				c.expect(`"id":"call","error":{"code":-32603,"message":"Shell command was cancelled by user"}`)
				if code := c.wait(); code != 0 {
					t.Errorf("exit code %d", code)
				}
			}
			c.nothingLeft()
		})
	}
}

// A cancelled call is answered, and what it started is gone; so is the next one's,
// and the server goes on.
func TestMCPCancel(t *testing.T) {
	c := prepare(t)
	c.start(nil, "mcp", "developer")
	for range 3 {
		c.send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"shell","arguments":{"command":%q}}}`, c.escaping())
		c.awaitMarked()
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"enough"}}`)
		c.expect(`"id":7,"error":{"code":-32603,"message":"Shell command was cancelled by user"}`)
		if left, _ := demo.Processes(c.marker); len(left) > 0 {
			t.Fatalf("answered before all was gone: %q", left)
		}
	}
	c.send(`{"jsonrpc":"2.0","id":8,"method":"ping"}`)
	c.expect(`"id":8,"result":{}`)
	_ = c.stdin.Close()
	if code := c.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// goose answers an editor, and has the tools of a server that the editor names
// developer: what its command prints comes while it runs, and cancelling the turn
// ends the command with everything that it started. What .gooseignore closes stays closed.
func TestGooseCancelsTheTool(t *testing.T) {
	goose := goosePath()
	if goose == "" {
		if os.Getenv("GANDER_CHECK") != "" {
			t.Fatal("the real goose is missing (make agents)")
		}
		t.Skip("there is no goose here (make agents)")
	}
	c := prepare(t)
	for name, text := range map[string]string{".gooseignore": ".closed\n", ".closed": "closed content\n", "Makefile": "all:\n\t@cat .clo*\n"} {
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c.startProgram(goose, c.gooseEnv(c.cancelScript()), "goose", "acp")
	c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{},"clientInfo":{"name":"probe","version":"1"}}}`)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":%q,"mcpServers":[{"name":"developer","command":%q,"args":["mcp","developer"],"env":[]}]}}`, c.dir, c.link())
	var opened struct {
		Result struct {
			SessionID string `json:"sessionId"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(c.expect(`"id":1`)), &opened); err != nil {
		t.Fatal(err)
	}
	session := opened.Result.SessionID
	c.send(`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"please hang"}]}}`, session)
	live := c.expect(`"output":"started"`)
	for _, want := range []string{`"status":"in_progress"`, `"toolCallId":"call_`, `"requestId":`} {
		if !strings.Contains(live, want) {
			t.Errorf("%s is not in %s", want, live)
		}
	}
	c.awaitMarked()
	c.send(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%q}}`, session)
	c.expect(`"stopReason":"cancelled"`)
	c.nothingLeft()
	c.send(`{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"please look"}]}}`, session)
	shown := c.expect(`"status":"completed"`) // with the copy that has the note for people
	if !strings.Contains(shown, "for the person") || !strings.Contains(shown, "Permission denied") || strings.Contains(shown, "closed content") {
		t.Errorf("the editor is shown %s", shown)
	}
	c.expect(`"id":3`)
	_ = c.stdin.Close()
	c.wait()
}

// link is gander's program under its own name.
func (c *child) link() string {
	c.t.Helper()
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	link := filepath.Join(filepath.Dir(c.dir), "gander")
	if err := os.Symlink(self, link); err != nil {
		c.t.Fatal(err)
	}
	return link
}

func (c *child) cancelScript() string {
	command, err := json.Marshal(c.escaping())
	if err != nil {
		c.t.Fatal(err)
	}
	return `{"rules": [
  {"match": "please hang", "steps": [{"tool": "developer__shell", "args": {"command": ` + string(command) + `}}]},
  {"match": "please look", "steps": [{"tool": "developer__shell", "args": {"command": "python3 -c \"print(open('.clo'+'sed').read())\"; grep -r content .; make -s; echo for the pers''on"}}, {"text": "done"}]}]}`
}

// gooseEnv starts a scripted model and is goose's environment for it.
func (c *child) gooseEnv(text string) []string {
	c.t.Helper()
	script, err := model.ParseScript([]byte(text))
	if err != nil {
		c.t.Fatal(err)
	}
	server := model.New(model.Options{Script: script, Models: []string{"scripted"}, Key: testKey})
	url, err := server.Start()
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = server.Close() })
	return []string{
		"GOOSE_PROVIDER=openai", "GOOSE_MODEL=scripted", "GOOSE_DISABLE_KEYRING=1", "GOOSE_DISABLE_SESSION_NAMING=true",
		"GOOSE_MODE=auto", "GOOSE_PATH_ROOT=" + filepath.Join(c.home, "goose"), "OPENAI_HOST=" + url, "OPENAI_API_KEY=" + testKey,
	}
}
