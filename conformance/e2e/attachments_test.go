package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"path/filepath"
	"strings"
	"testing"
)

// ask prompts with further blocks behind the text.
func (s *session) ask(text string, more ...any) *pending {
	s.t.Helper()
	s.mu.Lock()
	before := len(s.rec.turns)
	s.mu.Unlock()
	p := &pending{session: s, text: text, n: s.begin("session/prompt", map[string]any{
		"sessionId": s.id, "prompt": append([]any{map[string]any{"type": "text", "text": text}}, more...),
	})}
	s.wait("the prompt to be on the wire", func() bool {
		for _, t := range s.rec.turns[before:] {
			if t.session == s.id {
				p.turn = t
				return true
			}
		}
		return false
	})
	return p
}

// An agent gets in another way what it cannot take, which is said, and neither that prompt nor
// a later one fails for it: links to documents, embedded data, pipes, lines of a file, and
// images for a model that the agent believes blind.
func TestAttachments(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		project := w.mkdir("project")
		w.write(project, "plan.docx", "PK\x03\x04 no text\xff")
		w.write(project, "long.txt", strings.Repeat("a line of the long file\n", 20_000))
		e := w.gander(map[string]string{w.cell.agent.variable("_MODEL"): "a-model-that-nobody-knows"})
		e.initialize()
		s := e.session(project)
		uri := func(name string) string { return "file://" + filepath.Join(project, name) }
		link := func(name, kind string) map[string]any {
			return map[string]any{"type": "resource_link", "name": name, "uri": uri(name), "mimeType": kind}
		}
		s.prompt(script(t, w.shell("mkfifo pipe"), says("made"))).done("end_turn")

		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = z.Write([]byte("quince in a gzip"))
		_ = z.Close()
		before := len(w.model.Requests())
		turn := s.ask(script(t, w.shell("gzip -dc $(find / -name '1-packed.gz' 2>/dev/null | head -1)"), step{"text": "{{last_tool_result}}"}),
			link("plan.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
			link("long.txt", "text/plain"), link("pipe", "text/plain"),
			map[string]any{"type": "resource_link", "name": "long.txt", "uri": uri("long.txt") + "#L3-L9"},
			map[string]any{"type": "resource", "resource": map[string]any{"uri": "file:///elsewhere/packed.gz", "mimeType": "application/gzip", "blob": base64.StdEncoding.EncodeToString(packed.Bytes())}},
			map[string]any{"type": "resource", "resource": map[string]any{"uri": "file:///elsewhere/note.txt", "mimeType": "application/octet-stream", "blob": base64.StdEncoding.EncodeToString([]byte("medlar in a blob"))}},
		).done("end_turn")
		if !strings.Contains(turn.text(), "quince in a gzip") {
			t.Errorf("the agent cannot read the embedded file: %q", turn.text())
		}
		w.told(before, "medlar in a blob", project+"/plan.docx", "lines 3 to 9", "packed.gz", "no file but a pipe")
		if asked := w.asked(before); strings.Count(asked, "a line of the long file") > 100 {
			t.Error("the long file is in the prompt")
		}
		said := everything(turn)
		for _, want := range []string{"does not take attachments of the type application/gzip", "gets the path of plan.docx", "pipe is no file but a pipe"} {
			if !strings.Contains(said, want) {
				t.Errorf("the person reads %q, without %q", said, want)
			}
		}

		image := map[string]any{"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}
		before = len(w.model.Requests())
		turn = s.ask(script(t, says("seen")), image).done("end_turn")
		arrived, told := strings.Contains(w.asked(before), image["data"].(string)[:64]), strings.Contains(everything(turn), "has left out 1 of the attached images")
		if arrived == told {
			t.Errorf("the image arrived: %v; the person was told that it did not: %v", arrived, told)
		}
		if got := s.prompt(script(t, says("and the thread goes on"))).done("end_turn").text(); !strings.Contains(got, "and the thread goes on") {
			t.Errorf("the next prompt is answered %q", got)
		}
	})
}
