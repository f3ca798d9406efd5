package sessions_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
	"github.com/google/go-cmp/cmp"
)

func inTurn(turn string, bodies ...sessions.Body) []sessions.Record {
	var records []sessions.Record
	for _, b := range bodies {
		records = append(records, sessions.Record{TurnID: turn, Body: b})
	}
	return records
}

func update(format string, args ...any) sessions.Update {
	return sessions.Update{Update: json.RawMessage(fmt.Sprintf(format, args...))}
}

func chunk(text string) sessions.Update {
	return update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%q}}`, text)
}

func asked(text string) sessions.Message { return sessions.Message{Role: "user", Content: text} }

func history(t *testing.T, maxBytes int, records ...sessions.Record) *sessions.History {
	t.Helper()
	s := openStore(t, t.TempDir(), nil)
	appendAll(t, create(t, s), records...)
	h, err := s.History(t.Context(), id, maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHistory(t *testing.T) {
	mended := update(`{"sessionUpdate":"tool_call","toolCallId":"c2","title":"raw"}`)
	mended.Sent = []json.RawMessage{[]byte(`{"sessionUpdate":"tool_call","toolCallId":"c2","title":"make\ntest","kind":"execute"}`)}
	withheld := chunk("never shown")
	withheld.Sent = []json.RawMessage{}
	records := inTurn("t1",
		sessions.TurnEvent{Event: sessions.TurnStart},
		asked("fix it"),
		update(`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`),
		chunk("I will "), chunk("look."),
		update(`{"sessionUpdate":"tool_call","toolCallId":"c1","title":"read a.go","kind":"read","status":"pending"}`),
		mended,
		update(`{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed"}`),
		withheld,
		chunk("Done."),
		sessions.TurnEvent{Event: sessions.TurnEnd, StopReason: acp.StopEndTurn})
	records = append(records, inTurn("t2",
		sessions.TurnEvent{Event: sessions.TurnStart},
		asked("more"),
		sessions.TurnEvent{Event: sessions.TurnEnd, StopReason: acp.StopCancelled})...)
	records = append(records, inTurn("t3", asked("and?"), sessions.TurnEvent{Event: sessions.TurnEnd, Error: "the agent\ndied"})...)
	want := `User: fix it
Assistant: I will look.
Tool: [read] read a.go (completed)
Tool: [execute] make test
Assistant: Done.

User: more
(The person cancelled this turn.)

User: and?
(The turn failed: the agent died)`
	if diff := cmp.Diff(want, history(t, 0, records...).String()); diff != "" {
		t.Error(diff)
	}
}

// What tools printed and changed is told, shortened, also of one that became a terminal.
func TestHistoryOfResults(t *testing.T) {
	long := strings.Repeat("é", 3000)
	terminal := update(`{"sessionUpdate":"tool_call_update","toolCallId":"c2","status":"completed","content":[{"type":"content","content":{"type":"text","text":"from the agent"}}]}`)
	terminal.Sent = []json.RawMessage{[]byte(`{"sessionUpdate":"tool_call_update","toolCallId":"c2","status":"completed","content":[{"type":"terminal","terminalId":"c2"}],"_meta":{"terminal_output":{"data":"rest"}}}`)}
	records := inTurn("t1", asked("do it"),
		update(`{"sessionUpdate":"tool_call","toolCallId":"c1","title":"edit"}`),
		update(`{"sessionUpdate":"tool_call_update","toolCallId":"c1","content":[{"type":"diff","path":"/a","oldText":"1\n2\n","newText":"1"},{"type":"diff","path":"/b","newText":"x\n"}]}`),
		update(`{"sessionUpdate":"tool_call","toolCallId":"c2","title":"run"}`), terminal,
		update(`{"sessionUpdate":"tool_call","toolCallId":"c3","title":"live"}`),
		sessions.Update{Sent: []json.RawMessage{[]byte(`{"sessionUpdate":"tool_call_update","toolCallId":"c3","_meta":{"terminal_output":{"data":"one\n"}}}`)}},
		sessions.Update{Sent: []json.RawMessage{[]byte(`{"sessionUpdate":"tool_call_update","toolCallId":"c3","_meta":{"terminal_output":{"data":"two\n"}}}`)}},
		update(`{"sessionUpdate":"tool_call","toolCallId":"c4","title":"long","content":[{"type":"content","content":{"type":"text","text":%q}}]}`, long))
	text := history(t, 0, records...).String()
	want := `User: do it
Tool: edit
  /a was changed, from 2 lines to 1 line
  /b is new, with 1 line
Tool: run (completed)
  from the agent
Tool: live
  one
  two
Tool: long
  ` + strings.Repeat("é", 500) + "\n  (… left out …)\n  " + strings.Repeat("é", 500)
	if diff := cmp.Diff(want, text); diff != "" {
		t.Error(diff)
	}
}

// Transcripts of other tools have no turns.
func TestHistoryWithoutTurns(t *testing.T) {
	h := history(t, 0, inTurn("",
		asked("one"), sessions.Message{Role: "assistant", Content: "1"},
		sessions.Compaction{Summary: "it was short"},
		asked("two"), sessions.Message{Role: "assistant", Content: "2"})...)
	want := "Summary of what came before: it was short\n\nUser: two\nAssistant: 2" // the summary stands for the rest
	if diff := cmp.Diff(want, h.String()); diff != "" {
		t.Error(diff)
	}
	if len(h.Turns) != 1 {
		t.Errorf("%d turns, want 1", len(h.Turns))
	}
}

func TestHistoryBound(t *testing.T) {
	var records []sessions.Record
	for i := range 200 {
		records = append(records, inTurn(fmt.Sprint("t", i), asked(fmt.Sprintf("question %d", i)), chunk(strings.Repeat("é", 50)))...)
	}
	h := history(t, 1000, records...)
	if text := h.String(); len(text) > 1300 ||
		!strings.HasPrefix(text, fmt.Sprintf("(%d earlier turns of this conversation are left out", h.OmittedTurns)) ||
		!strings.Contains(text, "question 199") {
		t.Errorf("history of %d bytes:\n%s", len(text), text)
	}
	if h.OmittedTurns+len(h.Turns) != 200 || len(h.Turns) < 5 {
		t.Errorf("%d turns omitted and %d kept, want 200 in all", h.OmittedTurns, len(h.Turns))
	}
}

func TestHistoryOfOneLongTurn(t *testing.T) {
	records := inTurn("t", asked("what was asked"))
	for i := range 1000 {
		records = append(records, inTurn("t",
			update(`{"sessionUpdate":"tool_call","toolCallId":"c%d","title":"call %d","kind":"execute"}`, i, i),
			update(`{"sessionUpdate":"tool_call_update","toolCallId":"c%d","status":"completed"}`, i))...)
	}
	records = append(records, inTurn("t", chunk(strings.Repeat("é", 400)+"the end"))...)
	h := history(t, 1000, records...)
	text := h.String()
	for _, want := range []string{"User: what was asked\n(", "entries of this turn are left out here.)", "[execute] call 999 (completed)", "éthe end"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if len(text) > 1500 || strings.Contains(text, "call 500") {
		t.Errorf("%d bytes:\n%s", len(text), text)
	}
	long := history(t, 1000, inTurn("t", asked(strings.Repeat("long ", 1000)+"question?"))...).String()
	if len(long) > 1200 || !strings.HasSuffix(long, "question?") || !strings.Contains(long, "left out") {
		t.Errorf("%d bytes:\n%s", len(long), long)
	}
}
