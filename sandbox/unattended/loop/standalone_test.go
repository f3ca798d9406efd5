package loop

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"gander.dev/gander/sandbox/telemetry"
)

// A loop that no keeper keeps gets the mail of its own run: all of it, once, and nobody else's.
func TestStandaloneMail(t *testing.T) {
	known, mail := false, "for the run before"
	plane := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("run") && !known {
			http.NotFound(w, r)
			return
		}
		if r.URL.Path == "/api/prompt" {
			fmt.Fprint(w, `{"content": "the prompt of all", "version": "1"}`)
			return
		}
		fmt.Fprintf(w, `{"human_msg": %q, "human_updated_at": "2026-01-02 03:04:05"}`, mail)
	}))
	defer plane.Close()
	dir := t.TempDir()
	l := New(Options{Output: func(Output) {}})
	ask := func(want ...string) {
		t.Helper()
		s := &standalone{o: StandaloneOptions{Dir: dir, Start: Start{RunID: "new"}, Plane: telemetry.Target{URL: plane.URL}}, client: plane.Client()}
		for range 2 {
			if err := s.prompt(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			if err := s.mailbox(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(l.saved.Messages, want) {
			t.Errorf("the loop has %q, want %q", l.saved.Messages, want)
		}
	}
	ask()
	if l.saved.Prompt.Content != "the prompt of all" {
		t.Errorf("before its run is known the prompt is %q", l.saved.Prompt.Content)
	}
	known, mail = true, "first"
	ask("first")
	mail = "of the same second"
	ask("first", "of the same second")
	ask("first", "of the same second") // a new process
}
