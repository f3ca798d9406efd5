package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// buffers are what a person has open in the editor and not saved.
type buffers struct {
	// mu guards what follows.
	mu    sync.Mutex
	texts map[string]string
	asked []string // method and path of every request
}

func (b *buffers) answer(method string, params json.RawMessage) any {
	var p struct{ Path, Content string }
	_ = json.Unmarshal(params, &p) // a request without a path is answered for none
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, method+" "+p.Path)
	if method == "fs/write_text_file" {
		b.texts[p.Path] = p.Content
		return map[string]any{}
	}
	if text, ok := b.texts[p.Path]; ok {
		return map[string]any{"content": text}
	}
	text, _ := os.ReadFile(p.Path) // an editor opens whatever it is asked for
	return map[string]any{"content": string(text)}
}

func (b *buffers) text(path string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.texts[path]
}

// openIn starts an editor that offers its buffers.
func (b *buffers) openIn(w *world, project string) *session {
	w.t.Helper()
	e := startEditor(w.t, launch{
		command: w.acp(), env: w.ganderEnv(nil), uid: w.uid, gid: w.gid, dir: w.dir,
		serves: []string{"fs/read_text_file", "fs/write_text_file"},
	})
	e.answers, e.allows = b.answer, true
	var got initialized
	if err := e.request("initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{
		"fs": map[string]bool{"readTextFile": true, "writeTextFile": true},
	}}, &got); err != nil {
		w.t.Fatal(err)
	}
	return e.session(project)
}

// The agent sees what is not saved and changes it in the editor, which is never
// asked for a file that rules close or that a link of the agent's leads to, nor to
// write one that is protected.
func testBuffers(t *testing.T, w *world, edit func(path, old, new string) step) {
	project, outside := w.mkdir("project"), w.mkdir("outside")
	w.write(project, "a.txt", "on the disk\n")
	w.write(project, ".env", "KEY=ignored-value-91\n")
	w.write(project, ".envrc", "theirs\n")
	w.write(w.mkdir("project/deploy"), "run.sh", "theirs\n")
	w.write(outside, "secret.txt", "outside-value-92\n")
	b := &buffers{texts: map[string]string{project + "/a.txt": "not yet saved\n"}}
	s := b.openIn(w, project)

	turn := s.prompt(script(t, edit(project+"/a.txt", "not yet saved", "edited by the agent"), step{"text": "{{last_tool_result}}"})).done("end_turn")
	if got := b.text(project + "/a.txt"); got != "edited by the agent\n" {
		t.Errorf("the buffer holds %q; the agent was told %q", got, turn.text())
	}
	if got := w.read(project + "/a.txt"); got != "on the disk\n" {
		t.Errorf("the disk holds %q: saving is the editor's", got)
	}
	tool, _ := turn.tool(0)
	if tool.Kind != "edit" || len(tool.Locations) == 0 || tool.Locations[0].Path != project+"/a.txt" || !strings.Contains(string(tool.Content), `"diff"`) || !strings.Contains(string(tool.Content), project+"/a.txt") {
		t.Errorf("the edit is shown as kind %q at %s with %s", tool.Kind, tool.Locations, tool.Content)
	}

	turn = s.prompt(script(t, edit(project+"/.env", "KEY", "LOCK"), step{"text": "{{last_tool_result}}"})).done("end_turn")
	if strings.Contains(turn.text(), "ignored-value-91") || w.read(project+"/.env") != "KEY=ignored-value-91\n" {
		t.Errorf("the closed file: %q, on the disk %q", turn.text(), w.read(project+"/.env"))
	}

	latin := w.write(project, "latin.txt", "caf\xe9 before\n") // which this editor shows with U+FFFD
	turn = s.prompt(script(t, edit(latin, "before", "after"), step{"text": "{{last_tool_result}}"})).done("end_turn")
	if got := w.read(latin); got != "caf\xe9 before\n" && got != "caf\xe9 after\n" || strings.Contains(b.text(latin), "\ufffd") || !strings.Contains(turn.text(), "not UTF-8") {
		t.Errorf("the file that is not UTF-8 holds %q, the buffer %q; the agent was told %q", got, b.text(latin), turn.text())
	}

	for _, protected := range []string{".envrc", "deploy/run.sh"} { // by gander, and by the policy of the person
		turn = s.prompt(script(t, edit(project+"/"+protected, "theirs", "the agent's"), step{"text": "{{last_tool_result}}"})).done("end_turn")
		if got := w.read(project + "/" + protected); got != "theirs\n" {
			t.Errorf("%s holds %q; the agent was told %q", protected, got, turn.text())
		}
	}

	s.prompt(script(t, w.linkOut(outside), says("linked"))).done("end_turn")
	for _, name := range []string{"/link.txt", "/dir/secret.txt"} {
		turn = s.prompt(script(t, edit(project+name, "outside", "inside"), step{"text": "{{last_tool_result}}"})).done("end_turn")
		if strings.Contains(turn.text(), "value-92") {
			t.Errorf("%s: the agent was told %q", name, turn.text())
		}
	}
	if got := w.read(outside + "/secret.txt"); got != "outside-value-92\n" {
		t.Errorf("the file outside holds %q", got)
	}
	if _, err := os.Lstat(filepath.Join(project, "link.txt")); err != nil {
		t.Errorf("commands do not run in the sandbox: %v", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, asked := range b.asked {
		reads := strings.HasPrefix(asked, "fs/read_text_file ")
		if !strings.HasSuffix(asked, project+"/a.txt") && !(reads && (strings.HasSuffix(asked, "/latin.txt") || strings.HasSuffix(asked, "/.envrc") || strings.HasSuffix(asked, "/deploy/run.sh"))) {
			t.Errorf("the editor was asked: %s", asked)
		}
	}
}

// linkOut makes links that lead out of the project, with the tools that the test
// leaves the agent.
func (w *world) linkOut(outside string) step {
	tool := w.cell.shell
	if strings.Contains(w.read(filepath.Join(w.ganderHome(), "config.json")), "developer") {
		tool = w.cell.developerTool("shell")
	}
	return step{"tool": tool, "args": map[string]any{"command": "ln -s " + outside + "/secret.txt link.txt; ln -s " + outside + " dir", "description": "links"}}
}

// goose's own tools ask the editor; opencode's never do.
func TestFilesOfTheEditor(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		w.write(w.mkdir("gander"), "config.json", `{"policy": {"writes": {"protect": ["/deploy"]}}}`)
		testBuffers(t, w, func(path, old, new string) step {
			return step{"tool": "edit", "args": map[string]any{"path": path, "before": old, "after": new}}
		})
	})
}

// With the developer tools both do.
func TestFilesOfTheEditorByDeveloperTools(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		w.write(w.mkdir("gander"), "config.json", `{"tools": "developer", "policy": {"writes": {"protect": ["/deploy"]}}}`)
		testBuffers(t, w, func(path, old, new string) step {
			return step{"tool": w.cell.developerTool("text_editor"), "args": map[string]any{"command": "str_replace", "path": path, "old_str": old, "new_str": new}}
		})
	})
}
