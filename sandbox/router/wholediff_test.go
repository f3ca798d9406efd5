package router

import (
	"encoding/json"
	"strings"
	"testing"

	"gander.dev/gander/acp"
)

// A tool call that writes a file over shows what was there, whatever the agent leaves
// out, and the end of the turn does not show it again.
func TestAFileThatIsWrittenOver(t *testing.T) {
	p := newProject(t)
	p.do = func(c *fakeConv) {
		write := func(id, path, text string) {
			p.write(t, path, text)
			update := `{"sessionUpdate":"tool_call","toolCallId":"` + id + `","title":"write","kind":"edit","status":"completed","content":[{"type":"diff","path":"` + path + `","newText":"` + text + `"}]}`
			if err := c.params.Client.SessionUpdate(t.Context(), &acp.SessionNotification{Update: json.RawMessage(update)}); err != nil {
				t.Error(err)
			}
		}
		write("t1", "a.txt", "first")
		write("t2", "a.txt", "second")
		write("t3", "new.txt", "new")
		write("t4", "image", "text")
	}
	updates := p.turnUpdates(t, "go")
	old := map[string]string{}
	for _, u := range updates {
		var call struct {
			ToolCallID string
			Content    []json.RawMessage
		}
		if json.Unmarshal(u, &call) == nil && len(call.Content) == 1 {
			var d struct {
				Path    string
				OldText json.RawMessage
			}
			_ = json.Unmarshal(call.Content[0], &d)
			old[call.ToolCallID] = strings.TrimPrefix(d.Path, p.dir) + " " + string(d.OldText)
		}
	}
	for id, want := range map[string]string{"t1": `/a.txt "one\ntwo\n"`, "t2": `/a.txt "first"`, "t3": "/new.txt ", "t4": "/image "} {
		if old[id] != want {
			t.Errorf("%s shows %q before, want %q", id, old[id], want)
		}
	}
	if c := theChanges(t, updates); c != nil && len(c.Locations) > 1 { // of the image
		t.Errorf("shown again: %+v", c)
	}
}
