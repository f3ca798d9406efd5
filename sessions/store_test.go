package sessions_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const id acp.SessionID = "s-1"

func openStore(t *testing.T, dir string, o *sessions.Options) *sessions.Store {
	t.Helper()
	s, err := sessions.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func create(t *testing.T, s *sessions.Store) *sessions.Transcript {
	t.Helper()
	tr, err := s.Create(sessions.Header{SessionID: id, SessionKey: "acp:s-1:main", AgentID: "goose", WorkingPath: "/project"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close() })
	return tr
}

func appendAll(t *testing.T, tr *sessions.Transcript, records ...sessions.Record) {
	t.Helper()
	for _, r := range records {
		if err := tr.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := tr.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func readAll(t *testing.T, s *sessions.Store) []sessions.Record {
	t.Helper()
	var records []sessions.Record
	for r, err := range s.Entries(t.Context(), id) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

// everyBody is one record of each kind, with the awkward values.
func everyBody() []sessions.Record {
	exit := 0
	at := time.UnixMilli(1795199788254)
	raw := json.RawMessage(`{"sessionUpdate":"x","n":12345678901234567890,"s":"<é\u00e9>","_meta":{"a":[]}}`)
	bodies := []sessions.Body{
		sessions.Message{Role: sessions.RoleUser, Content: "hé\n\"<&>", Blocks: []acp.ContentBlock{[]byte(`{"type":"image"}`)}},
		sessions.Compaction{Summary: "s", CompactedMessages: 3, KeptMessages: 2},
		sessions.Update{Update: raw},
		sessions.Update{Update: raw, Sent: []json.RawMessage{}},
		sessions.Update{Update: raw, Sent: []json.RawMessage{[]byte(`{"a":1}`), []byte(`{"b":2}`)}},
		sessions.Update{Sent: []json.RawMessage{[]byte(`{"a":1}`)}},
		sessions.Permission{Request: raw},
		sessions.Permission{Outcome: json.RawMessage(`{"outcome":"cancelled"}`)},
		sessions.TurnEvent{Event: sessions.TurnStart},
		sessions.TurnEvent{Event: sessions.TurnEnd, StopReason: acp.StopEndTurn, Usage: json.RawMessage(`{"used":1}`), DurationMS: 12},
		sessions.AgentEvent{Event: sessions.AgentExited, Agent: "goose", AgentSessionID: "20261120_41", ExitCode: &exit, Stderr: "x\n"},
		sessions.Notice{Level: "warn", Text: "line\u2028separator"},
		sessions.Network{Host: "a.example", Port: 443, Allowed: true, By: "*.example", Times: 10},
		sessions.Network{Host: "[::1", Reason: "CONNECT needs host:port", Times: 1},
		sessions.ConfigChange{ConfigID: "model", Value: json.RawMessage(`"m"`)},
	}
	var records []sessions.Record
	for _, b := range bodies {
		records = append(records, sessions.Record{ID: "i\"1", TurnID: "t1", Time: at, Body: b})
	}
	return records
}

func TestRoundTrip(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "home", "sessions"), nil)
	want := everyBody()
	appendAll(t, create(t, s), want...)
	got := readAll(t, s)
	header, ok := got[0].Body.(sessions.Header)
	if !ok || header.SessionID != id || header.SchemaVersion != 1 || header.WorkingPath != "/project" || header.CreatedAt.IsZero() {
		t.Errorf("header = %+v", got[0].Body)
	}
	if diff := cmp.Diff(want, got[1:], cmpopts.IgnoreFields(sessions.Record{}, "Raw")); diff != "" {
		t.Error(diff)
	}
}

func TestOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sessions")
	s := openStore(t, dir, nil)
	tr, err := s.Create(sessions.Header{
		SessionID: id, SessionKey: "k", AgentID: "goose", CreatedAt: time.UnixMilli(1795199788254),
		WorkspacePath: "/p", WorkingPath: "/p/w",
	})
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMilli(1795199788300)
	appendAll(t, tr,
		sessions.Record{ID: "r-0", Time: at, Body: sessions.Message{Role: "user", Content: "a<b"}},
		sessions.Record{ID: "r-1", Time: at, TurnID: "t1", Body: sessions.Update{Update: json.RawMessage("{\n \"a\": \"<\" }")}})
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "s-1.jsonl")
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"session","schemaVersion":1,"sessionId":"s-1","sessionKey":"k","agentId":"goose","createdAt":"2026-11-20T18:36:28.254Z","workspacePath":"/p","workingPath":"/p/w"}
{"type":"message","id":"r-0","timestamp":1795199788300,"role":"user","content":"a<b"}
{"type":"update","id":"r-1","turnId":"t1","timestamp":1795199788300,"update":{"a":"<"}}
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, file: 0o600} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", path, info.Mode().Perm(), err, want)
		}
	}
}

func TestReadsForeignAndDamagedLines(t *testing.T) {
	dir := t.TempDir()
	content := `{"type":"session","schemaVersion":1,"sessionId":"s-1","sessionKey":"agent:dev:main","agentId":"dev","createdAt":"2026-02-07T10:00:00.000Z"}

{"type":"message","role":"assistant","content":"hi","timestamp":1795199788254}
{"type":"from-the-future","timestamp":"later","x":[1]}
{"type":"message","role":7}
` + "\x00\x00\x00" + `
{"type":"compaction","summary":"s","compactedMessages":4,"keptMessages":2,"timestamp":1795199788255}
{"type":"message","role":"user","cont`
	if err := os.WriteFile(filepath.Join(dir, "s-1.jsonl"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	var got []sessions.Body
	for _, r := range readAll(t, openStore(t, dir, nil)) {
		got = append(got, r.Body)
		if len(r.Raw) == 0 {
			t.Errorf("%v has no Raw", r.Body)
		}
	}
	want := []sessions.Body{
		sessions.Message{Role: "assistant", Content: "hi"},
		sessions.Unknown{Kind: "from-the-future"},
		sessions.Unknown{Kind: "message"},
		sessions.Unknown{},
		sessions.Compaction{Summary: "s", CompactedMessages: 4, KeptMessages: 2},
	}
	if diff := cmp.Diff(want, got[1:]); diff != "" {
		t.Error(diff)
	}
}

func TestLastLineWithoutNewline(t *testing.T) {
	dir := t.TempDir()
	line := `{"type":"message","role":"user","content":"complete","timestamp":1}`
	if err := os.WriteFile(filepath.Join(dir, "s-1.jsonl"), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, openStore(t, dir, nil)); len(got) != 1 {
		t.Errorf("records = %v, want the one that is complete", got)
	}
}

func TestResumeBehindTornTail(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, nil)
	tr := create(t, s)
	appendAll(t, tr, sessions.Record{Body: sessions.Notice{Text: "first"}})
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "s-1.jsonl")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(data, `{"type":"notice","te`...), 0o600); err != nil {
		t.Fatal(err)
	}
	tr, header, err := s.Resume(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if header.SessionKey != "acp:s-1:main" {
		t.Errorf("header = %+v", header)
	}
	appendAll(t, tr, sessions.Record{Body: sessions.Notice{Text: "second"}})
	records := readAll(t, s)
	if last := records[len(records)-1].Body; last != (sessions.Notice{Text: "second"}) || len(records) != 4 {
		t.Errorf("records = %+v", records)
	}
}

func TestErrors(t *testing.T) {
	s := openStore(t, t.TempDir(), nil)
	create(t, s)
	if _, err := s.Create(sessions.Header{SessionID: id}); !errors.Is(err, sessions.ErrExists) {
		t.Errorf("Create again: %v, want ErrExists", err)
	}
	for _, unknown := range []acp.SessionID{"other", "", "../s-1", "a/b"} {
		if _, _, err := s.Resume(t.Context(), unknown); !errors.Is(err, sessions.ErrNotFound) {
			t.Errorf("Resume(%q): %v, want ErrNotFound", unknown, err)
		}
		if _, err := s.History(t.Context(), unknown, 0); !errors.Is(err, sessions.ErrNotFound) {
			t.Errorf("History(%q): %v, want ErrNotFound", unknown, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Header(ctx, id); !errors.Is(err, context.Canceled) {
		t.Errorf("Header with an ended context: %v", err)
	}
	if _, err := sessions.Open("relative", nil); err == nil {
		t.Error("a relative directory was accepted")
	}
}

func TestCheckID(t *testing.T) {
	for _, good := range []acp.SessionID{"a", "0b6a3c1e-1111-4222-8333-444455556666", "20261120_41", "a.b", "console", "com10"} {
		if err := sessions.CheckID(good); err != nil {
			t.Errorf("CheckID(%q) = %v", good, err)
		}
	}
	bad := []acp.SessionID{"", ".", "..", ".a", "-a", "a/b", `a\b`, "a:b", "a b", "é", "a\x00", "a.", "nul", "CON.txt", "com1", "LPT9.x", acp.SessionID(strings.Repeat("a", 129))}
	for _, id := range bad {
		if err := sessions.CheckID(id); err == nil {
			t.Errorf("CheckID(%q) accepted it", id)
		}
	}
}
