package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// A skill that is installed is listed to the model by the agent itself, can be loaded by it, its
// script runs inside, and nothing inside can write it. An agent's own with the same id counts first.
func TestSkills(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		env := w.ganderEnv(nil)
		install := func(name, description, prints string, flags ...string) {
			dir := w.mkdir("made/" + name)
			w.write(dir, "SKILL.md", "---\nname: tidy-up\ndescription: "+description+"\n---\nRun scripts/tidy.sh, the quincunx way.\n")
			w.write(w.mkdir("made/"+name+"/scripts"), "tidy.sh", "echo "+prints+"\n")
			command := append([]string{needGander(t), "skill", "install", dir}, flags...)
			if out, code := w.run(t, env, command...); code != 0 {
				t.Fatalf("%v: exit code %d, %s", command, code, out)
			}
		}
		install("all", "Sorts the heliotrope imports.", "by all")

		e := w.gander(nil)
		e.initialize()
		project := w.mkdir("project")
		s := e.session(project)
		skill := "$HOME/.agents/skills/tidy-up"
		s.prompt(script(t, w.shell("sh "+skill+"/scripts/tidy.sh > ran; (echo x >> "+skill+"/SKILL.md) 2> refused; rm -rf "+skill+"/scripts 2>> refused; mv "+skill+" away; ls > after"), says("done"))).done("end_turn")
		if got := w.read(filepath.Join(project, "ran")); got != "by all\n" {
			t.Errorf("its script printed %q", got)
		}
		if got := w.read(filepath.Join(project, "refused")); !strings.Contains(got, "Read-only file system") {
			t.Errorf("writing it was refused with %q", got)
		}
		if got := w.read(filepath.Join(w.ganderHome(), "skills", "tidy-up", "SKILL.md")); !strings.HasSuffix(got, "way.\n") {
			t.Errorf("the skill is now %q", got)
		}
		if !w.heard("heliotrope") {
			t.Error("the model was not told of the skill")
		}

		install("own", "Sorts the own vermilion imports.", "by its own", "--agent", w.cell.agent.name)
		s = e.session(project)
		s.prompt(script(t, w.shell("sh "+skill+"/scripts/tidy.sh > ran"), says("done"))).done("end_turn")
		if got := w.read(filepath.Join(project, "ran")); got != "by its own\n" || !w.heard("vermilion") {
			t.Errorf("with a skill of the agent's own the script printed %q; told: %v", got, w.heard("vermilion"))
		}
	})
}

// notesServer is an MCP server with one tool, which tries to write beside itself.
const notesServer = `while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id": *\([0-9]*\).*/\1/p')
  case $line in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"notes","version":"1"}}}' ;;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"quill","description":"Writes amaranth notes.","inputSchema":{"type":"object","properties":{}}}]}}' ;;
    *'"tools/call"'*)
      (echo x > "$1/more") 2> served
      echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"noted"}]}}' ;;
    *'"id"'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"not known"}}' ;;
  esac
done
`

// An enabled plugin counts with all that it brings, beside a server of its own: the model is told of its skill and
// loads it, its command is given to the agent, and its MCP server runs inside. Disabled, nothing does.
func TestPlugins(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		env := w.ganderEnv(nil)
		made := w.mkdir("made")
		for name, text := range map[string]string{
			".claude-plugin/plugin.json": `{"name": "notes"}`,
			"skills/ink/SKILL.md":        "---\nname: ink\ndescription: Mixes saffron ink.\n---\nRun scripts/ink.sh, the quincunx way.\n",
			"skills/ink/scripts/ink.sh":  "echo inked\n",
			"commands/proof.md":          "Proofread $ARGUMENTS in the cerulean way.\n",
			".mcp.json":                  `{"mcpServers": {"notes": {"command": "/bin/sh", "args": ["${CLAUDE_PLUGIN_ROOT}/server.sh", "${CLAUDE_PLUGIN_ROOT}"]}}}`,
			"server.sh":                  notesServer,
		} {
			w.write(w.mkdir(filepath.Join("made", filepath.Dir(name))), filepath.Base(name), text)
		}
		plugin := func(args ...string) {
			if out, code := w.run(t, env, append([]string{needGander(t), "plugin"}, args...)...); code != 0 {
				t.Fatalf("%v: exit code %d, %s", args, code, out)
			}
		}
		plugin("install", made)

		e := w.gander(nil)
		e.initialize()
		project := w.mkdir("project")
		s := e.session(project)
		skill := "$HOME/.agents/skills/ink"
		load := step{"tool": "load_skill", "args": map[string]any{"name": "ink"}}
		if w.cell.agent.name == "opencode" { // its tool needs ripgrep, which may not be there
			load = w.shell("cat " + skill + "/SKILL.md")
		}
		s.prompt(script(t, load,
			w.shell("sh "+skill+"/scripts/ink.sh > ran; (echo x >> "+skill+"/SKILL.md) 2> refused"),
			step{"tool": "notes__quill|notes_quill", "args": map[string]any{}},
			says("done"),
		)).done("end_turn")
		if got := w.read(filepath.Join(project, "ran")); got != "inked\n" {
			t.Errorf("its script printed %q", got)
		}
		for _, file := range []string{"refused", "served"} {
			if got := w.read(filepath.Join(project, file)); !strings.Contains(got, "Read-only file system") {
				t.Errorf("%s: writing the plugin was refused with %q", file, got)
			}
		}
		s.prompt("/proof a.go").done("end_turn")
		for _, word := range []string{"saffron", "quincunx", "amaranth", "Proofread a.go in the cerulean way."} {
			if !w.heard(word) {
				t.Errorf("the model was not told %q", word)
			}
		}

		plugin("disable", "notes")
		s = e.session(project)
		s.prompt(script(t, w.shell("ls -a $HOME/.agents/skills > listed 2>&1; true"), says("done"))).done("end_turn")
		if got := w.read(filepath.Join(project, "listed")); strings.Contains(got, "ink") {
			t.Errorf("a disabled plugin's skill is there: %q", got)
		}
		last := w.model.Requests()
		if strings.Contains(string(last[len(last)-1].Body), "amaranth") {
			t.Error("a disabled plugin's server is there")
		}
	})
}

// heard reports whether the model was told of something.
func (w *world) heard(word string) bool {
	for _, r := range w.model.Requests() {
		if strings.Contains(string(r.Body), word) {
			return true
		}
	}
	return false
}
