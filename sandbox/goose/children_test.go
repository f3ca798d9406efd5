package goose

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/acp"
)

// seen is an acp.Client that notes what it gets, a line each.
type seen struct {
	lines []string
	raw   []json.RawMessage
}

func (s *seen) SessionUpdate(_ context.Context, n *acp.SessionNotification) error {
	var u struct {
		SessionUpdate, SessionID, Title, ToolCallID, Status string
		SenderSessionID, RecipientSessionID                 string
		State                                               acp.ChildState
		Content                                             json.RawMessage
	}
	_ = json.Unmarshal(n.Update, &u)
	text := acp.ParseContentBlock(u.Content).Text
	s.lines = append(s.lines, strings.Join(strings.Fields(fmt.Sprint(n.SessionID, " ", u.SessionUpdate, " ", u.SessionID, u.ToolCallID, " ", u.Title, " ", u.Status, u.State.State, " ", u.State.StopReason, " ", text)), " "))
	s.raw = append(s.raw, n.Update)
	return nil
}

func (s *seen) RequestPermission(_ context.Context, r *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	s.lines = append(s.lines, "asked "+string(acp.Member(r.ToolCall, "toolCallId")))
	return acp.CancelledOutcome(), nil
}

// These are updates as goose 1.52 sends them.
const (
	delegated = `{"sessionUpdate":"tool_call","toolCallId":"c1","title":"delegate","rawInput":{"instructions":"look around"},"_meta":{"goose":{"toolCall":{"toolName":"delegate","extensionName":"summon"}}}}`
	requested = `{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"in_progress","_meta":{"toolNotification":{"type":"message","params":{"level":"info","logger":"subagent:20261128_2","data":{"type":"subagent_tool_request","subagent_id":"20261128_2","tool_call":{"name":"shell","arguments":{"command":"echo insub"}}}}}}}`
	completed = `{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"sub done"}}]}`
	failed    = `{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"failed","content":[{"type":"content","content":{"type":"text","text":"no such thing"}}]}`
)

// TestDelegateIsAChild tests that a call of delegate is shown as a child session in its place,
// and that other calls stay as they are.
func TestDelegateIsAChild(t *testing.T) {
	const child = "delegate-c1"
	begun := []string{"subagent_update " + child + " delegate running", "session_message"}
	for _, tt := range []struct {
		name    string
		updates []string
		want    []string
	}{
		{"one that works", []string{delegated, requested, completed}, append(slices.Clone(begun),
			child+" tool_call c1-1 shell · echo insub in_progress", child+" agent_message_chunk sub done", "session_message", "subagent_update "+child+" idle end_turn")},
		{"one that fails", []string{delegated, failed}, append(slices.Clone(begun), "subagent_update "+child+" idle error")},
		{"in the background", []string{strings.Replace(delegated, `"instructions"`, `"async":true,"instructions"`, 1), completed}, []string{"tool_call c1 delegate", "tool_call_update c1 completed"}},
		{"another's tool of that name", []string{strings.Replace(delegated, "summon", "mine", 1), completed}, []string{"tool_call c1 delegate", "tool_call_update c1 completed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := new(seen)
			c := &client{Client: s, calls: map[string]*delegate{}}
			for _, raw := range tt.updates {
				if err := c.SessionUpdate(t.Context(), &acp.SessionNotification{Update: json.RawMessage(raw)}); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(s.lines, tt.want) {
				t.Errorf("shown are\n%s\nwant\n%s", strings.Join(s.lines, "\n"), strings.Join(tt.want, "\n"))
			}
			if len(c.calls) > 0 {
				t.Error("a call that has ended is kept")
			}
		})
	}
}

// TestDelegateThatIsAskedAbout tests that the call is shown before its question, and ends when
// its sub-agent begins or it is refused.
func TestDelegateThatIsAskedAbout(t *testing.T) {
	for after, want := range map[string][]string{
		requested: {
			"tool_call c1 delegate", `asked "c1"`, "subagent_update delegate-c1 delegate running", "session_message",
			"tool_call_update c1 completed", "delegate-c1 tool_call c1-1 shell · echo insub in_progress",
		},
		failed: {"tool_call c1 delegate", `asked "c1"`, "tool_call_update c1 failed"},
	} {
		s := new(seen)
		c := &client{Client: s, calls: map[string]*delegate{"c1": {first: json.RawMessage(delegated)}}}
		if _, err := c.RequestPermission(t.Context(), &acp.RequestPermissionRequest{ToolCall: json.RawMessage(`{"toolCallId":"c1"}`)}); err != nil {
			t.Fatal(err)
		}
		if err := c.SessionUpdate(t.Context(), &acp.SessionNotification{Update: json.RawMessage(after)}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.lines, want) {
			t.Errorf("shown are\n%s\nwant\n%s", strings.Join(s.lines, "\n"), strings.Join(want, "\n"))
		}
	}
}
