package orchestrator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/acp"
)

// TestChildSessions checks that a task is a child session where the editor shows such: announced
// with what it was given, seen and asked about there, cancelled alone, and ended.
func TestChildSessions(t *testing.T) {
	working := make(chan acp.SessionID, 2)
	r := newRig(t, func(r *rig) {
		r.children = true
		r.answer = func(*acp.RequestPermissionRequest) string { return "yes" }
		r.team.work = func(ctx context.Context, m *member, text string) (*acp.PromptResponse, error) {
			m.say("I am at it.")
			if strings.HasSuffix(text, "hang") {
				working <- m.id
				<-m.cancelled
				return &acp.PromptResponse{StopReason: acp.StopCancelled}, nil
			}
			answer, err := m.team.client.RequestPermission(ctx, &acp.RequestPermissionRequest{
				SessionID: m.id, ToolCall: json.RawMessage(`{"toolCallId":"1","title":"look"}`), Options: []acp.PermissionOption{{OptionID: "yes", Name: "Yes", Kind: "allow_once"}},
			})
			if err != nil || answer.Outcome.OptionID != "yes" {
				t.Errorf("it was answered %+v, %v", answer, err)
			}
			return ended()
		}
	})
	go func() {
		if err := r.conv.(interface{ CancelChild(acp.SessionID) error }).CancelChild(<-working); err != nil {
			t.Errorf("cancelling the task: %v", err)
		}
	}()
	r.want(acp.StopEndTurn, calls(delegate("owl", "stuck", "hang"), delegate("owl", "well", "look")), finish("All is well."))
	if err := r.conv.(interface{ CancelChild(acp.SessionID) error }).CancelChild("child-1"); err == nil {
		t.Error("a task that has ended was cancelled")
	}
	states := map[string][]string{}
	for _, u := range r.shown() {
		switch kind := acp.UpdateKind(json.RawMessage(u)); kind {
		case acp.KindChild:
			var c struct {
				SessionID, Title string
				State            struct{ State, StopReason string }
			}
			if err := json.Unmarshal([]byte(u), &c); err != nil {
				t.Fatal(err)
			}
			states[c.Title] = append(states[c.Title], strings.TrimSpace(c.State.State+" "+c.State.StopReason))
		case "tool_call", "tool_call_update":
			t.Errorf("shown besides: %s", u)
		}
	}
	if got, want := fmt.Sprint(states), "map[owl · stuck:[running idle cancelled] owl · well:[running idle end_turn]]"; got != want {
		t.Errorf("the children are said to be %s, want %s", got, want)
	}
	if all := strings.Join(r.shown(), "\n"); !strings.Contains(all, `# Task\n\nhang"}],"messageId":"delegate-turn-1-1"`) || r.said() != "All is well." {
		t.Errorf("shown: %s", all)
	}
	if len(r.asked) != 1 || !strings.HasPrefix(string(r.asked[0].SessionID), "child-") || string(r.asked[0].ToolCall) != `{"toolCallId":"1","title":"look"}` {
		t.Errorf("asked: %+v", r.asked)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range []acp.SessionID{"child-1", "child-2"} {
		if !slices.ContainsFunc(r.within[id], func(u string) bool { return strings.Contains(u, "I am at it.") }) {
			t.Errorf("in %s was shown %q", id, r.within[id])
		}
	}
	if told := strings.Join(r.results(), "\n"); !strings.Contains(told, "cancelled by the person") || !strings.Contains(told, "ended: done") {
		t.Errorf("the planner was told %s", told)
	}
}
