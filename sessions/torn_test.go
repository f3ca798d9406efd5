package sessions_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gander.dev/gander/sessions"
)

// Wherever a crash cuts the file, what was complete is read, and the session
// goes on behind it.
func TestCutAnywhere(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, nil)
	tr := create(t, s)
	appendAll(t, tr, everyBody()...)
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "s-1.jsonl")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range whole {
		if err := os.WriteFile(file, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		complete := bytes.Count(whole[:cut], []byte("\n"))
		if cut+1 <= len(whole) && whole[cut] == '\n' {
			complete++ // only the newline is missing
		}
		if got := len(readAll(t, s)); got != complete {
			t.Fatalf("cut at %d: %d records, want %d", cut, got, complete)
		}
		resumed, _, err := s.Resume(t.Context(), id)
		if complete == 0 {
			if !errors.Is(err, sessions.ErrNotFound) {
				t.Fatalf("cut at %d, within the header: %v, want ErrNotFound", cut, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := resumed.Append(sessions.Record{Body: sessions.Notice{Text: "after"}}); err != nil {
			t.Fatal(err)
		}
		if err := resumed.Close(); err != nil {
			t.Fatal(err)
		}
		records := readAll(t, s)
		if last := records[len(records)-1].Body; last != (sessions.Notice{Text: "after"}) {
			t.Fatalf("cut at %d: the last record is %+v", cut, last)
		}
	}
}
