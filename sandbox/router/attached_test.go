package router

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gander.dev/gander/acp"
)

// What a prompt carries of closed files comes neither to the agent nor into the
// transcript or the run's trace; all else does.
func TestClosedFilesInPrompts(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need rights there")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, added := filepath.Join(base, "project"), filepath.Join(base, "added")
	for name, text := range map[string]string{
		"project/.gooseignore": "*.secret\n/closed/\n", "project/notes.secret": "x", "project/closed/a": "x", "project/main.go": "x",
		"project/one.txt": "x", "project/a%20b.secret": "x", "added/.env": "x", "added/open": "x", "outside.secret": "x",
	} {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "one.txt"), filepath.Join(dir, "two.txt")); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"project/soft": "notes.secret", "project/there": "../added", "project/out": "../outside.secret", "project/loop": "loop", "alias": "project"} {
		if err := os.Symlink(to, filepath.Join(base, name)); err != nil {
			t.Fatal(err)
		}
	}
	const content = "c0ntent-of-the-file"
	resource := func(uri string) string {
		return fmt.Sprintf(`{"type":"resource","resource":{"uri":%q,"text":"%s"}}`, uri, content)
	}
	for name, tt := range map[string]struct {
		block string
		left  string // what is said of it; empty: it stays
	}{
		"text":                 {resource("file://" + dir + "/notes.secret"), "notes.secret is closed"},
		"a blob":               {`{"type":"resource","resource":{"uri":"file://` + dir + `/notes.secret","blob":"` + content + `"}}`, "notes.secret is closed"},
		"an image":             {`{"type":"image","mimeType":"image/png","data":"` + content + `","uri":"file://localhost` + dir + `/notes.secret"}`, "notes.secret is closed"},
		"lines of it":          {resource("file://" + dir + "/notes.secret#L3:9"), "notes.secret is closed"},
		"a symbol":             {resource("file://" + dir + "/notes.secret?symbol=x#L3"), "notes.secret is closed"},
		"escaped":              {resource("FILE://" + dir + "/note%73.secret"), "notes.secret is closed"},
		"not escaped":          {resource("file://" + dir + "/a%20b.secret"), ".secret is closed"},
		"a path":               {resource(dir + "/sub/../notes.secret"), "notes.secret is closed"},
		"a relative path":      {resource("./notes.secret"), "notes.secret is closed"},
		"Zed's":                {resource("zed:///agent/selection?path=" + dir + "/notes.secret"), "notes.secret is closed"},
		"in a closed dir":      {resource("file://" + dir + "/closed/a"), "closed/a is closed"},
		"not there yet":        {resource("file://" + dir + "/new.secret"), "new.secret is closed"},
		"by a link":            {resource("file://" + dir + "/soft"), "soft is closed"},
		"by a name of the dir": {resource("file://" + base + "/alias/notes.secret"), "notes.secret is closed"},
		"an added directory":   {resource("file://" + added + "/.env"), ".env is closed"},
		"by a link to that":    {resource("file://" + dir + "/there/.env"), ".env is closed"},
		"a file of two names":  {resource("file://" + dir + "/one.txt"), "several names"},
		"an open file":         {resource("file://" + dir + "/main.go#L1"), ""},
		"an open one there":    {resource("file://" + added + "/open"), ""},
		"outside":              {resource("file://" + base + "/outside.secret"), ""},
		"by a link out":        {resource("file://" + dir + "/out"), ""},
		"a loop":               {resource("file://" + dir + "/loop"), ""},
		"of the web":           {resource("https://example.org/notes.secret"), ""},
		"an image of nowhere":  {`{"type":"image","mimeType":"image/png","data":"` + content + `"}`, ""},
		"pasted":               {string(acp.TextBlock(content + " file://" + dir + "/notes.secret")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigFor(t, acp.ClientCapabilities{Session: acp.ClientSessionCapabilities{Notices: []byte(`{}`)}}, nil)
			s, err := r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: dir, AdditionalDirectories: []string{added}, MCPServers: []json.RawMessage{}})
			if err != nil {
				t.Fatal(err)
			}
			prompt := []acp.ContentBlock{acp.TextBlock("look"), acp.ContentBlock(tt.block)}
			if _, err := r.editor.Conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: s.SessionID, Prompt: prompt}); err != nil {
				t.Fatal(err)
			}
			asked := r.agent.conv().blocks()
			if stays := strings.Contains(asked, content); stays != (tt.left == "") || !strings.Contains(asked, "look") {
				t.Errorf("the agent was given %s", asked)
			}
			said := r.said(s.SessionID)
			if told := strings.Contains(said, "left out of the prompt"); told != (tt.left != "") || !strings.Contains(said, tt.left) {
				t.Errorf("the person was told %s", said)
			}
			r.router.Close()
			if kept := r.kept(t, s.SessionID); strings.Contains(kept, content) != (tt.left == "") {
				t.Errorf("the transcript is %s", kept)
			}
		})
	}
}

// A command is one whatever was left out before it.
func TestCommandBesideClosedFile(t *testing.T) {
	r := newRig(t, nil)
	dir := t.TempDir()
	id := r.editor.NewSession(t, dir).SessionID
	prompt := []acp.ContentBlock{acp.ContentBlock(`{"type":"resource","resource":{"uri":"file://` + filepath.ToSlash(dir) + `/.env","text":"x"}}`), acp.TextBlock("/status")}
	if _, err := r.editor.Conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: id, Prompt: prompt}); err != nil {
		t.Fatal(err)
	}
	if said := r.editor.Text(id, acp.AgentMessageChunk); !strings.Contains(said, "- session: ") {
		t.Errorf("said: %s", said)
	}
}
