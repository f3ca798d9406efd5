package router

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gander.dev/gander/acp"
)

// Agents get of attachments what they can take, and the person is told of the rest by name.
func TestAttachments(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the paths are those of Unix")
	}
	project := t.TempDir()
	for name, size := range map[string]int{"short.txt": 10, "long.txt": maxLinked + 1, "plan.docx": 10, "odd#L3": 10} {
		if err := os.WriteFile(filepath.Join(project, name), []byte(strings.Repeat("x", size)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t, nil)
	opened, err := r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: project})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, block, given, said string }{
		{"a short text", `{"type":"resource_link","name":"a","uri":"file://` + project + `/short.txt","mimeType":"text/plain"}`, `"uri":"file://` + project + `/short.txt"`, ""},
		{"a long text", `{"type":"resource_link","name":"a","uri":"file://` + project + `/long.txt"}`, `[The person attached this file of 262145 bytes; read what you need of it: ` + project + `/long.txt]`, ""},
		{"a document", `{"type":"resource_link","name":"plan.docx","uri":"file://` + project + `/plan.docx","mimeType":"application/msword"}`, `[The person attached this file of the type application/msword: ` + project + `/plan.docx]`, "does not take links to files of the type application/msword: it gets the path of plan.docx"},
		{"lines", `{"type":"resource_link","name":"a","uri":"file://` + project + `/short.txt#L3-L9"}`, `[The person points at lines 3 to 9 of the file: ` + project + `/short.txt]`, ""},
		{"a name like lines", `{"type":"resource_link","name":"a","uri":"file://` + project + `/odd#L3"}`, `"uri":"file://` + project + `/odd#L3"`, ""},
		{"a directory", `{"type":"resource_link","name":"a","uri":"file://` + project + `"}`, `[The person points at the directory: ` + project + `]`, ""},
		{"an address", `{"type":"resource_link","name":"a","uri":"https://example.com/a.docx"}`, `"uri":"https://example.com/a.docx"`, ""},
		{"text in a blob", `{"type":"resource","resource":{"uri":"file:///a.bin","mimeType":"application/octet-stream","blob":"bWVkbGFy"}}`, `"text":"medlar"`, ""},
		{"an image in a blob", `{"type":"resource","resource":{"uri":"file:///a.png","mimeType":"image/png","blob":"AAECAw=="}}`, `"data":"AAECAw=="`, ""},
		{"a blob", `{"type":"resource","resource":{"uri":"file:///a.gz","mimeType":"application/gzip","blob":"AP8="}}`, `[The attachment a.gz was left out`, "The attachment a.gz (application/gzip) was left out"},
		{"an image of another type", `{"type":"image","mimeType":"image/tiff","data":"AP8=","uri":"file:///a.tiff"}`, `[The attachment a.tiff was left out`, "The attachment a.tiff (image/tiff) was left out"},
		{"an image", `{"type":"image","mimeType":"image/png","data":"AP8="}`, `"data":"AP8="`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := len(r.said(opened.SessionID))
			if _, err := r.editor.Conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: opened.SessionID, Prompt: []acp.ContentBlock{acp.TextBlock("see"), acp.ContentBlock(tt.block)}}); err != nil {
				t.Fatal(err)
			}
			if given := r.agent.conv().blocks(); !strings.Contains(given, tt.given) {
				t.Errorf("the agent gets %s", given)
			}
			if said := r.said(opened.SessionID)[before:]; !strings.Contains(said, tt.said) || tt.said == "" && strings.Contains(said, "attach") {
				t.Errorf("the person reads %s", said)
			}
		})
	}
}

// The lines that editors name in links, in their several ways.
func TestLinkedLines(t *testing.T) {
	for uri, want := range map[string]string{
		"file:///a": "", "file:///a#L3": "line 3", "file:///a#L3-L9": "lines 3 to 9", "file:///a#L3:9": "lines 3 to 9", "file:///a#3-9": "lines 3 to 9",
		"file:///a?lines=3-9": "lines 3 to 9", "file:///a?line=3": "line 3", "file:///a?start=3&end=9": "lines 3 to 9", "file:///a#section": "", "file:///a?start=x": "",
	} {
		u, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		if got := lines(u); got != want {
			t.Errorf("%s: %q, want %q", uri, got, want)
		}
	}
}

// An image that is in no call of the model is told of once, and one that is there is not.
func TestImagesThatAreLeftOut(t *testing.T) {
	const data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
	for body, told := range map[string]bool{
		`{"tools":[],"messages":"[image omitted]"}`: true, `{"tools":[],"messages":"data:image/png;base64,` + data + `"}`: false, `{"messages":"make a title"}`: false,
	} {
		r := newRig(t, nil)
		r.agent.onTurn = func(context.Context, *fakeConv, string) (*acp.PromptResponse, error) {
			for range 2 {
				r.sentByModel(t, []byte(body))
			}
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
		id := r.open(t).SessionID
		if _, err := r.editor.Conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: id, Prompt: []acp.ContentBlock{acp.TextBlock("see"), acp.ContentBlock(`{"type":"image","mimeType":"image/png","data":"` + data + `"}`)}}); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(r.said(id), "has left out 1 of the attached images"); n != map[bool]int{true: 1}[told] {
			t.Errorf("%s: told %d times", body, n)
		}
	}
}

// sentByModel has the only session's backend see a call of the model.
func (r *rig) sentByModel(t *testing.T, body []byte) {
	t.Helper()
	r.router.mu.Lock()
	defer r.router.mu.Unlock()
	for _, s := range r.router.sessions {
		s.mu.Lock()
		b := s.backend
		s.mu.Unlock()
		b.sent(body)
	}
}

// openedTimes counts how often the agent was opened.
func (a *fakeAgent) openedTimes() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.opened
}

// A prompt that fails with what is attached to it is not in the agent's next session.
func TestThreadHealsFromAttachments(t *testing.T) {
	r := newRig(t, func(r *rig) { r.agent.resumes = true })
	r.agent.onTurn = func(_ context.Context, c *fakeConv, prompt string) (*acp.PromptResponse, error) {
		if strings.Contains(prompt, "bad") && c.params.ResumeID == "" && r.agent.openedTimes() == 1 {
			return nil, errors.New("unsupported")
		}
		return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
	}
	id := r.open(t).SessionID
	image := acp.ContentBlock(`{"type":"image","mimeType":"image/png","data":"AP8="}`)
	if _, err := r.editor.Conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: id, Prompt: []acp.ContentBlock{image, acp.TextBlock("bad")}}); err == nil {
		t.Fatal("the prompt does not fail, so nothing is tried")
	}
	r.wantStop(t, id, "and now", acp.StopEndTurn)
	if c := r.agent.conv(); r.agent.openedTimes() != 2 || c.Resumed() {
		t.Errorf("opened %d times, resumed: %v", r.agent.openedTimes(), c.Resumed())
	}
	if !strings.Contains(r.said(id), "begins anew with the text of this thread") {
		t.Errorf("said %s", r.said(id))
	}
}
