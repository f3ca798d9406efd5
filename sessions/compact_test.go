package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// talk appends n turns of two messages each.
func talk(t *testing.T, tr *sessions.Transcript, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		turn := fmt.Sprint("t", i)
		appendAll(t, tr,
			sessions.Record{TurnID: turn, Body: sessions.TurnEvent{Event: sessions.TurnStart}},
			sessions.Record{TurnID: turn, Body: sessions.Message{Role: sessions.RoleUser, Content: fmt.Sprintf("question %d\nplease", i)}},
			sessions.Record{TurnID: turn, Body: sessions.Update{Update: acp.MessageChunk(acp.AgentMessageChunk, "", fmt.Sprintf("answer %d", i))}},
			sessions.Record{TurnID: turn, Body: sessions.TurnEvent{Event: sessions.TurnEnd, StopReason: acp.StopEndTurn}})
	}
}

func historyText(t *testing.T, s *sessions.Store) string {
	t.Helper()
	h, err := s.History(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}

func TestCompact(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, nil)
	tr := create(t, s)
	appendAll(t, tr, sessions.Record{Body: sessions.AgentEvent{Event: sessions.AgentStarted, Agent: "goose", AgentSessionID: "g"}})
	talk(t, tr, 0, 5)
	before, err := os.ReadFile(filepath.Join(dir, "s-1.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	replayed := kinds(t, s, id, 0)
	if c, err := s.Compact(t.Context(), id, sessions.CompactOptions{Keep: 10}); err != nil || c.Applied || c.Kept != 10 {
		t.Errorf("nothing is old: %+v, %v", c, err)
	}
	c, err := s.Compact(t.Context(), id, sessions.CompactOptions{Keep: 3}) // two turns
	if err != nil || !c.Applied || c.Messages != 6 || c.Kept != 4 {
		t.Fatalf("%+v, %v", c, err)
	}
	want := "Summary of what came before: What was said and done so far, in short:\n" +
		"- user: question 0 please\n- assistant: answer 0\n- user: question 1 please\n- assistant: answer 1\n- user: question 2 please\n- assistant: answer 2\n\n" +
		"User: question 3\nplease\nAssistant: answer 3\n\nUser: question 4\nplease\nAssistant: answer 4"
	if got := historyText(t, s); got != want {
		t.Errorf("agents get %q, want %q", got, want)
	}
	after, err := os.ReadFile(filepath.Join(dir, "s-1.jsonl"))
	if err != nil || !strings.HasPrefix(string(after), string(before)) {
		t.Error("the originals have changed")
	}
	if got := kinds(t, s, id, 0); len(got) != len(replayed)+1 {
		t.Errorf("clients are shown %d updates, want %d and the summary", len(got), len(replayed))
	}
	if info, err := s.Info(t.Context(), id); err != nil || info.AgentSessions["goose"] != "g" || info.Compactions != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	// Again: what was summed up is part of the next summary.
	talk(t, tr, 5, 2)
	c, err = s.Compact(t.Context(), id, sessions.CompactOptions{Keep: -1, FreshAgent: true, Summarize: func(_ context.Context, old *sessions.History, _ int) (string, error) {
		return fmt.Sprintf("%d turns, and %t", len(old.Turns), strings.Contains(old.Summary, "question 2")), nil
	}})
	if err != nil || c.Messages != 8 || c.Kept != 0 {
		t.Errorf("again: %+v, %v", c, err)
	}
	if got := historyText(t, s); got != "Summary of what came before: 4 turns, and true" {
		t.Errorf("again: %q", got)
	}
	if info, err := s.Info(t.Context(), id); err != nil || len(info.AgentSessions) != 0 {
		t.Errorf("an agent goes on with its own conversation: %+v, %v", info, err)
	}
	talk(t, tr, 7, 1)
	if got := historyText(t, s); !strings.HasSuffix(got, "4 turns, and true\n\nUser: question 7\nplease\nAssistant: answer 7") {
		t.Errorf("after: %q", got)
	}
	failed := errors.New("no model")
	if _, err := s.Compact(t.Context(), id, sessions.CompactOptions{Keep: -1, Summarize: func(context.Context, *sessions.History, int) (string, error) { return "", failed }}); !errors.Is(err, failed) {
		t.Errorf("a summarizer that fails: %v", err)
	}
}

func TestPrune(t *testing.T) {
	s := openStore(t, t.TempDir(), nil)
	tr := create(t, s)
	talk(t, tr, 0, 30)
	c, err := s.Prune(t.Context(), id, 0)
	if err != nil || !c.Applied || c.Messages != 40 || c.Kept != 20 {
		t.Fatalf("%+v, %v", c, err)
	}
	if got := historyText(t, s); !strings.HasPrefix(got, "User: question 20\n") {
		t.Errorf("agents get %.60q", got)
	}
	if c, err := s.Prune(t.Context(), id, 0); err != nil || c.Applied {
		t.Errorf("again: %+v, %v", c, err)
	}
	if n := len(kinds(t, s, id, 0)); n != 60 {
		t.Errorf("clients are shown %d updates, want 60", n)
	}
	if _, err := s.Prune(t.Context(), "nobody", 0); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
}

func TestSummaryIsBounded(t *testing.T) {
	s := openStore(t, t.TempDir(), nil)
	tr := create(t, s)
	talk(t, tr, 0, 200)
	c, err := s.Compact(t.Context(), id, sessions.CompactOptions{MaxChars: 500})
	if err != nil || len(c.Summary) > 520 || !strings.Contains(c.Summary, "question 0") || !strings.Contains(c.Summary, "answer 189") || !strings.Contains(c.Summary, "lines left out") {
		t.Errorf("%d: %s, %v", len(c.Summary), c.Summary, err)
	}
}
