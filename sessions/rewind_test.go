package sessions_test

import (
	"fmt"
	"strings"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// said are the questions that count for agents, and those that a client is shown again.
func said(t *testing.T, s *sessions.Store, id acp.SessionID) (told, shown string) {
	t.Helper()
	h, err := s.History(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	var again strings.Builder
	for u, err := range s.Replay(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		again.Write(u)
	}
	for i := range 20 {
		question := fmt.Sprintf("question %d", i)
		if strings.Contains(h.String(), question) {
			told += fmt.Sprint(i)
		}
		if strings.Contains(again.String(), question) {
			shown += fmt.Sprint(i)
		}
	}
	return told, shown
}

// answered appends a turn of goose in a conversation of its own.
func answered(t *testing.T, tr *sessions.Transcript, i int, agent string) {
	t.Helper()
	turn := fmt.Sprint("t", i)
	appendAll(t, tr,
		sessions.Record{TurnID: turn, Body: sessions.TurnEvent{Event: sessions.TurnStart}},
		sessions.Record{TurnID: turn, Body: sessions.Message{Role: sessions.RoleUser, Content: fmt.Sprintf("question %d", i)}},
		sessions.Record{TurnID: turn, Body: sessions.TurnEvent{Event: sessions.TurnEnd, StopReason: acp.StopEndTurn, Agent: "goose", AgentSessionID: agent}})
}

// A conversation goes back to before any of its turns, also to before a rewind, and an agent's own
// conversation counts again where it has not gone on since.
func TestRewind(t *testing.T) {
	s := openStore(t, t.TempDir(), nil)
	tr := create(t, s)
	own := func(i int, agent string) { answered(t, tr, i, agent) }
	started := func(id string) {
		appendAll(t, tr, sessions.Record{Body: sessions.AgentEvent{Event: sessions.AgentStarted, Agent: "goose", AgentSessionID: id}})
	}
	commands := 0
	rewind := func(number int) {
		t.Helper()
		commands++
		turn := fmt.Sprint("r", commands)
		appendAll(t, tr,
			sessions.Record{TurnID: turn, Body: sessions.TurnEvent{Event: sessions.TurnStart, Command: sessions.RewindCommand}},
			sessions.Record{TurnID: turn, Body: sessions.Message{Role: sessions.RoleUser, Content: fmt.Sprintf("/rewind %d", number)}})
		thread, err := s.Thread(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		to, err := thread.To(number, turn)
		if err != nil {
			t.Fatal(err)
		}
		appendAll(t, tr,
			sessions.Record{TurnID: turn, Body: *to},
			sessions.Record{TurnID: turn, Body: sessions.TurnEvent{Event: sessions.TurnEnd, StopReason: acp.StopEndTurn}})
	}
	want := func(when, told, last, agent string) {
		t.Helper()
		gotTold, gotShown := said(t, s, id)
		info, err := s.Info(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if gotTold != told || gotShown != told || info.LastTurn != last || info.AgentSessions["goose"] != agent {
			t.Errorf("%s: agents are told %s, clients are shown %s, the last turn is %q and goose's session %q; want %s, %q, %q", when, gotTold, gotShown, info.LastTurn, info.AgentSessions["goose"], told, last, agent)
		}
	}
	started("a")
	for i := range 4 {
		own(i, "a")
	}
	want("before", "0123", "t3", "a")
	rewind(3) // is number 5
	want("two turns are taken back", "01", "t1", "")
	started("b")
	own(4, "b") // 6
	own(5, "b") // 7
	want("it goes on", "0145", "t5", "b")
	rewind(7) // is 8
	want("one more", "014", "t4", "")
	rewind(8) // is 9
	want("that is taken back, and b has not gone on", "0145", "t5", "b")
	rewind(5) // is 10
	want("so is the first", "0123", "t3", "a")
	rewind(10) // is 11
	want("and that", "0145", "t5", "b")
	rewind(1)
	want("all", "", "", "")
	thread, err := s.Thread(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, number := range []int{0, 3, 99} {
		if to, err := thread.To(number, ""); err == nil {
			t.Errorf("turn %d: %+v", number, to)
		}
	}
	fork, err := s.Fork(t.Context(), id, sessions.Header{SessionID: "fork"})
	if err != nil {
		t.Fatal(err)
	}
	if told, _ := said(t, s, fork.ID); told != "" {
		t.Errorf("a fork has %s", told)
	}
}

// A summary counts only as long as the conversation is behind it.
func TestRewindToBeforeASummary(t *testing.T) {
	s := openStore(t, t.TempDir(), nil)
	tr := create(t, s)
	for i := range 3 {
		answered(t, tr, i, "a")
	}
	if _, err := s.Compact(t.Context(), id, sessions.CompactOptions{Keep: -1}); err != nil {
		t.Fatal(err)
	}
	answered(t, tr, 3, "b")
	for number, want := range map[int]string{4: "Summary of", 3: "User: question 0\n"} {
		thread, err := s.Thread(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		to, err := thread.To(number, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Append(t.Context(), id, sessions.Record{Body: *to}); err != nil {
			t.Fatal(err)
		}
		if got := historyText(t, s); !strings.HasPrefix(got, want) {
			t.Errorf("before turn %d agents get %q", number, got)
		}
		if thread, err = s.Thread(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if to, err = thread.To(len(thread.Turns), ""); err != nil {
			t.Fatal(err)
		}
		if err := s.Append(t.Context(), id, sessions.Record{Body: *to}); err != nil {
			t.Fatal(err)
		}
	}
}
