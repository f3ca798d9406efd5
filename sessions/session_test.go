package sessions_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
	"github.com/google/go-cmp/cmp"
)

// piece is a piece of what an agent says.
func piece(kind, text string) sessions.Record {
	return sessions.Record{TurnID: "t1", Body: sessions.Update{Update: acp.MessageChunk(kind, "m1", text)}}
}

func sent(raw string) sessions.Record {
	return sessions.Record{TurnID: "t1", Body: sessions.Update{Update: json.RawMessage(raw)}}
}

// aTurn is a turn with something of everything.
func aTurn() []sessions.Record {
	return []sessions.Record{
		{TurnID: "t1", Body: sessions.TurnEvent{Event: sessions.TurnStart}},
		{ID: "u1", TurnID: "t1", Body: sessions.Message{Role: sessions.RoleUser, Content: "# Fix the test\nplease", Blocks: []acp.ContentBlock{acp.TextBlock("# Fix the test\nplease"), []byte(`{"type":"resource_link","uri":"file:///a"}`)}}},
		{Body: sessions.AgentEvent{Event: sessions.AgentStarted, Agent: "goose", AgentSessionID: "g-7"}},
		piece(acp.AgentThoughtChunk, "hm"),
		piece(acp.AgentMessageChunk, "I "), piece(acp.AgentMessageChunk, "look."),
		sent(`{"sessionUpdate":"tool_call","toolCallId":"c1","title":"ls","kind":"execute","status":"pending"}`),
		{TurnID: "t1", Body: sessions.Update{
			Update: json.RawMessage(`{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed"}`),
			Sent:   []json.RawMessage{[]byte(`{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed","content":[{"type":"diff","path":"/p/a","oldText":"1","newText":"2"}]}`)},
		}},
		{TurnID: "t1", Body: sessions.Update{Update: json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"hidden"}`), Sent: []json.RawMessage{}}},
		sent(`{"sessionUpdate":"plan","entries":[]}`),
		sent(`{"sessionUpdate":"usage_update","used":5,"size":10}`),
		piece(acp.AgentMessageChunk, "Done."),
		{TurnID: "t1", Body: sessions.TurnEvent{Event: sessions.TurnEnd, StopReason: acp.StopEndTurn, Usage: json.RawMessage(`{"totalTokens":9}`)}},
		{Body: sessions.ConfigChange{ConfigID: "model", Value: json.RawMessage(`"big"`)}},
	}
}

func TestInfo(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "sessions"), nil)
	tr := create(t, s)
	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	records := aTurn()
	for i := range records {
		records[i].Time = at
	}
	records[len(records)-1].Time = at.Add(time.Hour) // a choice is not a conversation
	appendAll(t, tr, records...)
	got, err := s.Info(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if !got.UpdatedAt.Equal(at) || got.Bytes == 0 {
		t.Errorf("updated %v, want %v; %d bytes", got.UpdatedAt, at, got.Bytes)
	}
	want := sessions.Info{
		ID: id, Key: "acp:s-1:main", Agent: "goose", WorkingPath: "/project", Title: "Fix the test",
		CreatedAt: got.CreatedAt, UpdatedAt: got.UpdatedAt, Records: 15, Bytes: got.Bytes,
		Turns: 1, Messages: 3, ToolCalls: 1, InputChars: 21, OutputChars: 12, StopReason: acp.StopEndTurn,
		Usage: json.RawMessage(`{"totalTokens":9}`), AgentSessions: map[string]string{"goose": "g-7"}, Options: map[string]string{"model": "big"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Of a session that is deleted nothing is left, nor does a process bring it back that
// has listed it before.
func TestDeletedWords(t *testing.T) {
	dir := t.TempDir()
	store, other := openStore(t, dir, nil), openStore(t, dir, nil)
	tr := create(t, store)
	appendAll(t, tr, sessions.Record{Body: sessions.Title{Title: "quince"}})
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*sessions.Store{store, other} {
		if page, err := s.List(t.Context(), sessions.ListOptions{}); err != nil || len(page.Sessions) != 1 {
			t.Fatalf("%v, %v", page, err)
		}
	}
	if err := store.Delete(t.Context(), "s-1"); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*sessions.Store{other, store} {
		tr, err := s.Create(sessions.Header{SessionID: acp.SessionID(sessions.NewID()), WorkingPath: "/", AgentID: "duck"})
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.List(t.Context(), sessions.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		if index, err := os.ReadFile(filepath.Join(dir, "index")); err != nil || strings.Contains(string(index), "quince") {
			t.Errorf("the index has %s, %v", index, err)
		}
	}
}

// The index is a cache: however it is harmed, and whatever a crash takes from a
// transcript, a list says what the transcripts say.
func TestIndexIsNeverTheTruth(t *testing.T) {
	dir := t.TempDir()
	tr := create(t, openStore(t, dir, nil))
	appendAll(t, tr, aTurn()...)
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	list := func() sessions.Info {
		t.Helper()
		page, err := openStore(t, dir, nil).List(t.Context(), sessions.ListOptions{})
		if err != nil || len(page.Sessions) != 1 {
			t.Fatalf("%v, %v", page, err)
		}
		return page.Sessions[0]
	}
	want := list()
	index := filepath.Join(dir, "index")
	good, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"none": nil, "torn": good[:len(good)/2], "garbage": []byte("\x00\x00{}\ns-1 1 2\n"),
		"twice": append(slices.Clone(good), good...), "torn, then more": append(good[:len(good)/2:len(good)/2], append([]byte("\n"), good...)...),
		"another version": []byte("0-" + string(good)), "another size": []byte(strings.Replace(string(good), "s-1 ", "s-1 9", 1)),
	} {
		if err := os.WriteFile(index, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, list()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	// A loss of power takes the end, and something else is written there.
	file := filepath.Join(dir, "s-1.jsonl")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(string(whole)))
	cut := strings.Join(lines[:3], "")
	for len(cut) < len(whole)+10 {
		cut += `{"type":"turn","event":"start","turnId":"t9","timestamp":1}` + "\n"
	}
	if err := os.WriteFile(file, []byte(cut), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := list(); got.ToolCalls != 0 || got.Turns < 3 {
		t.Errorf("%+v, want only what is in the file", got)
	}
}

func TestList(t *testing.T) {
	dirs := t.TempDir()
	real, link := filepath.Join(dirs, "real"), filepath.Join(dirs, "link")
	if err := errors.Join(os.Mkdir(real, 0o700), os.Symlink(real, link)); err != nil {
		t.Skip("no links here: ", err)
	}
	s := openStore(t, filepath.Join(dirs, "sessions"), nil)
	if page, err := s.List(t.Context(), sessions.ListOptions{}); err != nil || len(page.Sessions) != 0 || page.Sessions == nil {
		t.Fatalf("nothing stored: %v, %v", page, err)
	}
	at := time.Now().Truncate(time.Second)
	for i := range 10 { // always two of the same time
		h := sessions.Header{SessionID: acp.SessionID(fmt.Sprint("s-", i)), AgentID: "goose", WorkingPath: link, CreatedAt: at.Add(time.Duration(i/2) * time.Second)}
		if i%2 == 1 {
			h.WorkingPath = dirs
		}
		tr, err := s.Create(h)
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
	}
	all := func(o sessions.ListOptions) (ids []string) {
		for {
			page, err := s.List(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range page.Sessions {
				ids = append(ids, string(info.ID))
			}
			if page.Next == "" {
				return ids
			}
			o.Cursor = page.Next
		}
	}
	want := "s-9 s-8 s-7 s-6 s-5 s-4 s-3 s-2 s-1 s-0"
	for _, limit := range []int{0, 1, 2, 3, 10} {
		if got := strings.Join(all(sessions.ListOptions{Limit: limit}), " "); got != want {
			t.Errorf("pages of %d: %s, want %s", limit, got, want)
		}
	}
	for _, cwd := range []string{real, link, link + "/"} {
		if got := strings.Join(all(sessions.ListOptions{CWD: cwd, Limit: 2}), " "); got != "s-8 s-6 s-4 s-2 s-0" {
			t.Errorf("of %s: %s", cwd, got)
		}
	}
	if got := all(sessions.ListOptions{CWD: "/elsewhere"}); got != nil {
		t.Errorf("of another directory: %v", got)
	}
	for _, bad := range []string{"x", "!", "MTIz"} {
		if _, err := s.List(t.Context(), sessions.ListOptions{Cursor: bad}); !errors.Is(err, sessions.ErrCursor) {
			t.Errorf("cursor %q: %v, want ErrCursor", bad, err)
		}
	}
}

func kinds(t *testing.T, s *sessions.Store, id acp.SessionID, limit int) (out []string) {
	t.Helper()
	for u, err := range s.Replay(t.Context(), id, limit) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, acp.UpdateKind(u))
	}
	return out
}

func TestReplay(t *testing.T) {
	s := openStore(t, t.TempDir(), nil)
	appendAll(t, create(t, s), append(aTurn(), sessions.Record{Body: sessions.Compaction{Summary: "all"}})...)
	want := []string{
		"user_message_chunk", "user_message_chunk", "agent_thought_chunk", "agent_message_chunk", "agent_message_chunk",
		"tool_call", "tool_call_update", "plan", "agent_message_chunk", "agent_thought_chunk",
	}
	if diff := cmp.Diff(want, kinds(t, s, id, 0)); diff != "" {
		t.Error(diff)
	}
	for limit, n := range map[int]int{1: 1, 2: 2, 3: 3, 4: 5, 5: 7, 6: 8, 7: 10, 100: 10} {
		if diff := cmp.Diff(want[len(want)-n:], kinds(t, s, id, limit)); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
	var diffs int
	for u := range s.Replay(t.Context(), id, 0) {
		diffs += strings.Count(string(u), `"type":"diff"`)
	}
	if diffs != 1 {
		t.Errorf("%d diffs, want the one that was sent", diffs)
	}
}

// A record of no turn, such as a notice, does not end the turn that runs.
func TestReplayOfATurnWithANotice(t *testing.T) {
	s := openStore(t, t.TempDir(), nil)
	appendAll(t, create(t, s), aCallWithANotice()...)
	for limit, want := range map[int][]string{
		1: {"tool_call", "tool_call_update"}, 2: {"user_message_chunk", "tool_call", "tool_call_update"},
	} {
		if diff := cmp.Diff(want, kinds(t, s, id, limit)); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
}

// aCallWithANotice are the records of a turn whose tool call ends after a notice.
func aCallWithANotice() []sessions.Record {
	call := func(raw string) sessions.Update { return sessions.Update{Update: json.RawMessage(raw)} }
	return []sessions.Record{
		{TurnID: "t", Body: sessions.Message{Role: sessions.RoleUser, Content: "look"}},
		{TurnID: "t", Body: call(`{"sessionUpdate":"tool_call","toolCallId":"c","title":"ls","kind":"execute","status":"pending"}`)},
		{Body: sessions.Notice{Level: "warning", Text: "by the way"}},
		{TurnID: "t", Body: call(`{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}`)},
	}
}

func TestForkTitleDelete(t *testing.T) {
	s := openStore(t, t.TempDir(), nil)
	tr := create(t, s)
	appendAll(t, tr, aTurn()...)
	if title, err := s.SetTitle(t.Context(), id, " a \x1b[2Jlong\n"+strings.Repeat("x", 200), sessions.TitleByPerson); err != nil || len([]rune(title)) != 120 || !strings.HasPrefix(title, "a [2Jlong xx") {
		t.Errorf("%q, %v", title, err)
	}
	if _, err := s.SetTitle(t.Context(), id, " \n", sessions.TitleByPerson); err == nil {
		t.Error("an empty title was taken")
	}
	if _, err := s.SetTitle(t.Context(), "nobody", "x", sessions.TitleByPerson); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("renaming nobody: %v", err)
	}
	fork, err := s.Fork(t.Context(), id, sessions.Header{SessionID: "s-2"})
	if err != nil || fork.ForkedFrom != id || fork.Turns != 1 || fork.AgentSessions != nil || fork.WorkingPath != "/project" || !strings.HasPrefix(fork.Title, "a [2J") {
		t.Errorf("%+v, %v", fork, err)
	}
	if diff := cmp.Diff(kinds(t, s, id, 0), kinds(t, s, "s-2", 0)); diff != "" {
		t.Error(diff)
	}
	if _, err := s.Fork(t.Context(), id, sessions.Header{SessionID: "s-2"}); !errors.Is(err, sessions.ErrExists) {
		t.Errorf("forking to a name that is taken: %v", err)
	}
	release, err := s.Claim("s-2")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "s-2"); !errors.Is(err, sessions.ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("deleting what is open: %v", err)
	}
	release()
	if err := s.Delete(t.Context(), "s-2"); err != nil {
		t.Error(err)
	}
	if err := s.Delete(t.Context(), "s-2"); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("deleting again: %v", err)
	}
	if _, err := s.Info(t.Context(), "s-2"); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("a deleted session: %v", err)
	}
	if page, err := s.List(t.Context(), sessions.ListOptions{}); err != nil || len(page.Sessions) != 1 {
		t.Errorf("%v, %v", page, err)
	}
}

func TestPrepare(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	now := time.Date(2026, 5, 5, 12, 0, 0, 0, time.Local)
	s := openStore(t, filepath.Join(t.TempDir(), "sessions"), &sessions.Options{Now: func() time.Time { return now }})
	ask := func(ref, in string, change func(*sessions.Request)) sessions.Prepared {
		t.Helper()
		q := sessions.Request{Ref: ref, Agent: "goose", WorkingDir: in, Origin: sessions.OriginCLI, Reset: sessions.Reset{Daily: true, AtHour: 4, Idle: 20 * time.Hour}}
		if change != nil {
			change(&q)
		}
		p, err := s.Prepare(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := ask("", dir, nil)
	if !first.New || first.Info.Key != "agent:goose:main" || first.Why != "" {
		t.Errorf("first = %+v", first)
	}
	for _, ref := range []string{"main", "AGENT:goose:main", string(first.Info.ID), string(first.Info.ID)[:13]} {
		if p := ask(ref, dir, nil); p.New || p.Info.ID != first.Info.ID {
			t.Errorf("%s: %+v", ref, p)
		}
	}
	if p := ask("My Task!", dir, nil); !p.New || p.Info.Key != "agent:goose:my-task" {
		t.Errorf("named: %+v", p)
	}
	rotated := ask("main", other, nil)
	if !rotated.New || rotated.Info.PreviousID != first.Info.ID || rotated.Info.Key != first.Info.Key || !strings.Contains(rotated.Why, dir) {
		t.Errorf("elsewhere: %+v", rotated)
	}
	if p := ask("main", other, nil); p.New || p.Info.ID != rotated.Info.ID {
		t.Errorf("the key does not stay with the new one: %+v", p)
	}
	if p := ask("main", other, func(q *sessions.Request) { q.ForceNew = true }); !p.New || p.Info.PreviousID != rotated.Info.ID {
		t.Errorf("forced: %+v", p)
	}
	if _, err := s.Prepare(t.Context(), sessions.Request{Ref: sessions.NewID(), Agent: "goose", WorkingDir: dir}); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("an id that nobody has: %v", err)
	}
	now = now.Add(15 * time.Hour) // 03:00: the same day
	if p := ask("my-task", dir, nil); p.New {
		t.Errorf("before 4: %+v", p)
	}
	now = now.Add(2 * time.Hour) // 05:00
	if p := ask("my-task", dir, nil); !p.New || !strings.Contains(p.Why, "new day") {
		t.Errorf("after 4: %+v", p)
	}
	now = now.Add(21 * time.Hour) // 02:00 of the next day
	idle := ask("my-task", dir, nil)
	if !idle.New || !strings.Contains(idle.Why, "nothing happened") {
		t.Errorf("idle: %+v", idle)
	}
	// Who names the one before by its id wants that one, and no other.
	before := string(idle.Info.PreviousID)
	for _, ref := range []string{before, strings.ToUpper(before)} {
		if p := ask(ref, dir, nil); p.New || string(p.Info.ID) != before {
			t.Errorf("by its id: %+v, want %s", p, before)
		}
	}
	q := sessions.Request{Ref: before, Agent: "goose", WorkingDir: other, Origin: sessions.OriginCLI}
	if p, err := s.Prepare(t.Context(), q); !errors.Is(err, sessions.ErrWorkingDir) {
		t.Errorf("by its id elsewhere: %+v, %v, want ErrWorkingDir", p, err)
	}
}

// An editor's thread is taken at any age, and in its own directory only, however that is named.
func TestPrepareEditorSession(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip("no links here: ", err)
	}
	now := time.Now()
	s := openStore(t, filepath.Join(t.TempDir(), "sessions"), &sessions.Options{Now: func() time.Time { return now }})
	tr, err := s.Create(sessions.Header{SessionID: "editors-1", SessionKey: "editors-1", AgentID: "goose", WorkingPath: link})
	if err != nil || tr.Close() != nil {
		t.Fatal(err)
	}
	now = now.Add(1000 * time.Hour)
	q := sessions.Request{Ref: "editors-1", Agent: "goose", WorkingDir: dir, Origin: sessions.OriginCLI, Reset: sessions.Reset{Daily: true, Idle: time.Minute}}
	if p, err := s.Prepare(t.Context(), q); err != nil || p.New || p.Info.ID != "editors-1" {
		t.Errorf("%+v, %v", p, err)
	}
	// The link now leads elsewhere: the session does not follow it.
	if err := errors.Join(os.Remove(link), os.Symlink(t.TempDir(), link)); err != nil {
		t.Fatal(err)
	}
	q.WorkingDir = link
	if _, err := s.Prepare(t.Context(), q); !errors.Is(err, sessions.ErrWorkingDir) || !strings.Contains(err.Error(), link) {
		t.Errorf("elsewhere: %v, want ErrWorkingDir", err)
	}
}

func TestTitleOf(t *testing.T) {
	for in, want := range map[string]string{
		"":                          "",
		"\n  \n# Hello *you*\nmore": "Hello *you*",
		"a\x1b]0;x\x07b\u202ec":     "a]0;xbc",
		strings.Repeat("word ", 30): strings.TrimSpace(strings.Repeat("word ", 14)) + "…",
		strings.Repeat("é", 100):    strings.Repeat("é", 71) + "…",
	} {
		if got := sessions.TitleOf(in); got != want {
			t.Errorf("TitleOf(%q) = %q, want %q", in, got, want)
		}
	}
}
