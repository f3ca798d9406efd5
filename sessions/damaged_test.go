package sessions_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// A transcript whose header cannot be read is no session and not forgotten either: it is
// named wherever its session is asked for, whether the index knows it from before or not,
// and stays as it is.
func TestDamagedHeader(t *testing.T) {
	const id = acp.SessionID("0198c1d2-aaaa-7000-8000-000000000001")
	for _, indexed := range []bool{false, true} {
		dir := t.TempDir()
		s := openStore(t, dir, nil)
		tr, err := s.Create(sessions.Header{SessionID: id, SessionKey: string(id), AgentID: "goose", WorkingPath: dir})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(tr.Append(sessions.Record{Body: sessions.Notice{Text: "said"}}), tr.Close()); err != nil {
			t.Fatal(err)
		}
		if indexed {
			if _, err := s.List(t.Context(), sessions.ListOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		file := filepath.Join(dir, string(id)+".jsonl")
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		copy(content, bytes.Repeat([]byte{0}, 30)) // of the same length
		if err := os.WriteFile(file, append(content, "{}\n"...), 0o600); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(file)

		for range 2 { // the second time from the index
			page, err := s.List(t.Context(), sessions.ListOptions{CWD: t.TempDir()})
			if err != nil || len(page.Sessions) != 0 || !slices.Equal(page.Damaged, []acp.SessionID{id}) {
				t.Errorf("indexed %t: list = %+v, %v", indexed, page, err)
			}
			s = openStore(t, dir, nil)
		}
		_, info := s.Info(t.Context(), id)
		_, byPrefix := s.Resolve(t.Context(), string(id[:8]), "goose")
		_, _, resumed := s.Resume(t.Context(), id)
		_, prepared := s.Prepare(t.Context(), sessions.Request{Ref: string(id), Agent: "goose", WorkingDir: dir})
		for name, err := range map[string]error{"info": info, "resolve": byPrefix, "resume": resumed, "prepare": prepared} {
			if !errors.Is(err, sessions.ErrDamaged) || errors.Is(err, sessions.ErrNotFound) || !strings.Contains(err.Error(), file) {
				t.Errorf("indexed %t: %s: %v", indexed, name, err)
			}
		}
		if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
			t.Errorf("indexed %t: the transcript was changed: %v", indexed, err)
		}
	}
}

// What the index still says of a transcript is not gone on with when the file lost it.
func TestDamagedBehindTheIndex(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, nil)
	tr, err := s.Create(sessions.Header{SessionID: "s-1", SessionKey: "agent:goose:main", AgentID: "goose", WorkingPath: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Info(t.Context(), "s-1"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "s-1.jsonl")
	was, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte("xxxx"), 0)
	if err := errors.Join(err, f.Close(), os.Chtimes(file, was.ModTime(), was.ModTime())); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Resolve(t.Context(), "main", "goose"); !errors.Is(err, sessions.ErrDamaged) {
		t.Errorf("by its key: %v", err)
	}
}
