package e2e

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// authRequired is the code that makes editors offer the ways to authenticate.
const authRequired = -32000

// A gander that is not set up leads the editor to gander setup, and works in the
// same process once that has been done. An older IDE then chooses the model its own way.
func TestEditorIsLedToSetup(t *testing.T) {
	n := newNewcomer(t)
	for k, v := range agents[0].env(t) {
		if k != "GOOSE_MODEL" {
			n.env[k] = v
		}
	}
	e := startEditor(t, launch{command: []string{n.gander, "acp"}, env: n.env, uid: n.w.uid, gid: n.w.gid, dir: n.w.dir})
	var greeted struct {
		AuthMethods []struct {
			ID, Type string
			Args     []string
		}
	}
	if err := e.request("initialize", map[string]any{
		"protocolVersion": 1, "clientCapabilities": map[string]any{"auth": map[string]any{"terminal": true}},
	}, &greeted); err != nil {
		t.Fatal(err)
	}
	terminal := ""
	for _, m := range greeted.AuthMethods {
		if m.Type == "terminal" {
			terminal = strings.Join(m.Args, " ")
		}
	}
	if terminal != "--setup" {
		t.Errorf("the methods are %+v, want one for the terminal with --setup", greeted.AuthMethods)
	}
	wantAuth := func(err error) {
		t.Helper()
		wrong, ok := errors.AsType[*rpcError](err)
		if !ok || wrong.Code != authRequired || !strings.Contains(wrong.Message, "gander setup") {
			t.Errorf("without a configuration: %v", err)
		}
	}
	params := map[string]any{"cwd": n.project, "mcpServers": []any{}}
	wantAuth(e.request("session/new", params, nil))
	wantAuth(e.request("authenticate", map[string]any{"methodId": "configuration"}, nil))

	n.does(t, map[string]string{"LLM_API_KEY": canary}, "setup", "--non-interactive", "--host", n.w.host, "--model", "scripted", "--store-key")
	eventually(t, "gander acp to notice the configuration", func() bool {
		return e.request("authenticate", map[string]any{"methodId": "configuration"}, nil) == nil
	})
	s := e.session(n.project)
	s.prompt(script(t, step{"text": "Hello."})).done("end_turn")
	if err := e.request("session/set_model", map[string]any{"sessionId": s.id, "modelId": "scripted"}, nil); err != nil {
		t.Errorf("session/set_model of an older IDE: %v", err)
	}
	err := e.request("session/set_model", map[string]any{"sessionId": s.id, "modelId": "nosuch"}, nil)
	if err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("session/set_model with a model that nobody has: %v", err)
	}
	e.end()

	e = startEditor(t, launch{command: []string{n.gander, "acp"}, env: n.env, uid: n.w.uid, gid: n.w.gid, dir: n.w.dir})
	if auth := encode(t, e.initialize().AgentCapabilities["auth"]); auth != `{"logout":{},"status":{}}` {
		t.Errorf("with a stored key the capabilities are %s", auth)
	}
	s = e.session(n.project)
	s.prompt(script(t, step{"text": "Hello."})).done("end_turn")
	if err := e.request("logout", map[string]any{}, nil); err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Join(n.env["HOME"], ".gander", "model.key")) {
		t.Error("after logout the key is still there")
	}
	wantAuth(e.request("session/new", params, nil))
	wantAuth(e.request("session/prompt", map[string]any{"sessionId": s.id, "prompt": []any{map[string]any{"type": "text", "text": "Are you there?"}}}, nil))
	e.end()
}
