package e2e

import (
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// developerTool is the name by which an agent's model calls a tool of gander's
// developer server.
func (a *agent) developerTool(name string) string {
	if a.name == "goose" {
		return "developer__" + name
	}
	return "developer_" + name
}

// With tools: developer an agent has no tools of its own. What commands print is
// shown while they run, they end with a cancel, and ignored files stay closed.
func TestDeveloperTools(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		w.write(w.mkdir("gander"), "config.json", `{"tools": "developer"}`)
		e := w.gander(nil)
		e.initialize()
		project := w.mkdir("project")
		w.write(project, ".env", "SECRET=ignored-value-88")
		s := e.session(project)
		shell, edit := w.cell.developerTool("shell"), w.cell.developerTool("text_editor")

		busy := s.prompt(script(t,
			step{"tool": shell, "args": map[string]any{"command": "echo visible; until [ -e go ]; do sleep 0.05; done; echo late; cat \"$(printf .en; printf v)\""}},
			step{"tool": edit, "args": map[string]any{"command": "write", "path": project + "/made.txt", "file_text": "made\n"}},
			step{"text": "{{last_tool_result}}"},
		))
		busy.until("the output of the command while it runs", func(u update) bool {
			return !u.final() && strings.Contains(u.text(), "visible") && !strings.Contains(u.text(), "late")
		})
		w.write(project, "go", "")
		turn := busy.done("end_turn")
		if got := w.read(project + "/made.txt"); got != "made\n" {
			t.Errorf("made.txt holds %q", got)
		}
		tool, _ := turn.tool(0)
		if tool.Kind != "execute" || !strings.Contains(tool.text(), "late") || strings.Contains(tool.text(), "ignored-value-88") {
			t.Errorf("the shell call ends as %+v with the text %q", tool, tool.text())
		}
		onlyDeveloper(t, w)

		m := mark(t, 0)
		p := s.prompt(script(t, step{"tool": shell, "args": map[string]any{
			"command": "export GANDER_E2E_MARK=" + m + "; trap '' TERM; (setsid sleep 600 &); echo ready; sleep 600; true",
		}}, says("not reached")))
		p.until("the command to run", func(u update) bool { return strings.Contains(u.text(), "ready") })
		eventually(t, "the mark to be seen", func() bool { return len(marked(t, m)) > 0 })
		s.cancel()
		cancelled(t, "a developer shell", p, m)
		if got := s.prompt(script(t, step{"tool": shell, "args": map[string]any{"command": "echo again"}}, step{"text": "{{last_tool_result}}"})).done("end_turn").text(); !strings.Contains(got, "again") {
			t.Errorf("after a cancel the shell says %q", got)
		}
	})
}

// offered are the names of all tools that the model has been offered.
func (w *world) offered() map[string]bool {
	offered := map[string]bool{}
	for _, r := range w.model.Requests() {
		for _, name := range r.Tools {
			offered[name] = true
		}
	}
	return offered
}

// onlyDeveloper checks what the agent offered its model.
func onlyDeveloper(t *testing.T, w *world) {
	t.Helper()
	offered := w.offered()
	for _, name := range []string{"shell", "text_editor"} {
		if !offered[w.cell.developerTool(name)] {
			t.Errorf("the model was not offered %s, only %q", name, slices.Sorted(maps.Keys(offered)))
		}
	}
	for _, own := range []string{w.cell.shell, w.cell.write, "edit", "developer__write"} {
		if offered[own] {
			t.Errorf("the model was offered the agent's own %s", own)
		}
	}
}

// A goose that runs takes gander's developer server in and lets it go again, by its
// own requests: its tools are there and gone, and so is its process.
func TestGooseAddsAndRemovesTheServer(t *testing.T) {
	w := newWorld(t, home, 0)
	e := w.goose(nil)
	e.initialize()
	project := w.mkdir("project")
	s := e.session(project)
	const extensions = "_goose/unstable/session/extensions/"
	ask := func(what string, params map[string]any) {
		t.Helper()
		params["sessionId"] = s.id
		var none map[string]any
		if err := e.request(extensions+what, params, &none); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	servers := func() int {
		return len(slices.DeleteFunc(descendants(t, e.pid()), func(p proc) bool { return !strings.Contains(p.args, "mcp developer") }))
	}
	ask("remove", map[string]any{"extensionKey": "developer"})
	ask("add", map[string]any{"extension": map[string]any{"type": "mcp", "server": map[string]any{
		"name": "developer", "command": needGander(t), "args": []string{"mcp", "developer"}, "env": []any{},
	}}})
	eventually(t, "the server to run", func() bool { return servers() == 1 })
	s.prompt(script(t, step{"tool": "developer__shell", "args": map[string]any{"command": "pwd > where.txt"}}, says("done"))).done("end_turn")
	if got := w.read(project + "/where.txt"); got != project+"\n" {
		t.Errorf("the command ran in %q", got)
	}
	if offered := w.offered(); !offered["developer__text_editor"] {
		t.Errorf("the model was offered %q", slices.Sorted(maps.Keys(offered)))
	}
	ask("remove", map[string]any{"extensionKey": "developer"})
	eventually(t, "the server to be gone", func() bool { return servers() == 0 })
	before := len(w.model.Requests())
	s.prompt(script(t, says("without"))).done("end_turn")
	for _, r := range w.model.Requests()[before:] {
		if slices.Contains(r.Tools, "developer__text_editor") {
			t.Errorf("after it was removed the model is offered %q", r.Tools)
		}
	}
}

// goose --container starts a server of its extensions in a container, where gander answers as goose.
// Files that .gooseignore closes stay closed there, below docker's own seccomp profile.
func TestGooseInAContainer(t *testing.T) {
	needDocker(t)
	w := newWorld(t, home, 0)
	project := w.mkdir("project")
	for name, text := range map[string]string{".gooseignore": ".closed\n", ".closed": "closed content\n", "open.txt": "open content\n"} {
		w.write(project, name, text)
	}
	id := strings.TrimSpace(docker(t, "run", "--detach", "--rm", "--init", "--network=none", "--volume", project+":"+project, "--workdir", project,
		"--volume", needGander(t)+":/usr/local/bin/goose:ro", "debian:bookworm-slim", "sleep", "3600"))
	t.Cleanup(func() { docker(t, "rm", "--force", id) })
	cmd := exec.CommandContext(soon(t), agents[0].program(t), "run", "--container", id, "--no-profile", "--with-extension", "developer:goose mcp developer", "--quiet", "--output-format", "stream-json",
		"--text", script(t,
			step{"tool": "developer__shell", "args": map[string]any{"command": "hostname; cat open.txt; f=.clo; cat ${f}sed; grep -r content ."}},
			says("done")))
	cmd.Dir, cmd.Env = project, list(w.gooseEnv(nil))
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err != nil || !strings.Contains(text, id[:12]) || !strings.Contains(text, "open content") || !strings.Contains(text, "Permission denied") || strings.Contains(text, "closed content") {
		t.Errorf("goose ends with %v: %s", err, text)
	}
}
