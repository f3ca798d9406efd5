package acpagent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gander.dev/gander/acp"
)

// TestScreens checks that the terminals of an agent become text of its tool calls, which grows, and all of it at their end.
func TestScreens(t *testing.T) {
	var s screens
	for i, tt := range []struct {
		session  acp.SessionID
		in, want string
	}{
		{"", `{"sessionUpdate":"tool_call","toolCallId":"a","content":[{"type":"terminal","terminalId":"a"}],"_meta":{"terminal_info":{"terminal_id":"a"}}}`, `{"sessionUpdate":"tool_call","toolCallId":"a"}`},
		{"", `{"sessionUpdate":"tool_call_update","toolCallId":"a","_meta":{"terminal_output":{"terminal_id":"a","data":"one "},"own":1}}`, `{"sessionUpdate":"tool_call_update","toolCallId":"a","content":["one "],"_meta":"one "}`},
		{"kid", `{"sessionUpdate":"tool_call_update","toolCallId":"a","_meta":{"terminal_output":{"terminal_id":"a","data":"else"}}}`, `{"sessionUpdate":"tool_call_update","toolCallId":"a","content":["else"],"_meta":"else"}`},
		{"", `{"sessionUpdate":"tool_call_update","toolCallId":"a","_meta":{"terminal_output_delta":{"terminal_id":"a","data":"two"}}}`, `{"sessionUpdate":"tool_call_update","toolCallId":"a","content":["one two"],"_meta":"two"}`},
		{"", `{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"failed","_meta":{"terminal_exit":{"terminal_id":"a","exit_code":3,"signal":null}}}`, `{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"failed","content":["one two"],"rawOutput":{"exit_code":3,"signal":null}}`},
		{"", `{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"completed","content":[{"type":"content","content":{"type":"text","text":"new"}},{"type":"terminal","terminalId":"a"}],"rawOutput":{"exit_code":0}}`, `{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"completed","content":["new"],"rawOutput":{"exit_code":0}}`},
		{"", `{"sessionUpdate":"tool_call_update","toolCallId":"b","title":"a \"terminal\""}`, `{"sessionUpdate":"tool_call_update","toolCallId":"b","title":"a \"terminal\""}`},
	} {
		if got := plain(t, s.mend(tt.session, json.RawMessage(tt.in))); got != tt.want {
			t.Errorf("%d: got  %s\n   want %s", i, got, tt.want)
		}
	}
	print := func(call int, text string) {
		s.mend("", json.RawMessage(fmt.Sprintf(`{"sessionUpdate":"tool_call_update","toolCallId":"%d","_meta":{"terminal_output":{"data":"%s"}}}`, call, text)))
	}
	for i := range 2 * maxScreens {
		print(i%(maxScreens+5), "x")
	}
	print(0, strings.Repeat("x", maxScreen))
	print(0, "y")
	if kept := len(s.shown); kept > maxScreens || len(s.shown[screen{"", "0"}]) != maxScreen {
		t.Errorf("%d screens are kept, of one %d bytes", kept, len(s.shown[screen{"", "0"}]))
	}
}

// plain returns an update with its texts alone in the place of contents and live output.
func plain(t *testing.T, update json.RawMessage) string {
	t.Helper()
	var u struct {
		Content []struct{ Content struct{ Text string } } `json:"content"`
		Meta    map[string]json.RawMessage                `json:"_meta"`
	}
	if err := json.Unmarshal(update, &u); err != nil {
		t.Fatal(err)
	}
	set := map[string]any{}
	var texts []string
	for _, c := range u.Content {
		texts = append(texts, c.Content.Text)
	}
	if texts != nil {
		set["content"] = texts
	}
	if live := acp.LiveOutput(u.Meta); live != "" {
		set["_meta"] = live
	}
	var members map[string]any
	if err := json.Unmarshal(acp.WithFields(update, set), &members); err != nil {
		t.Fatal(err)
	}
	parts := []string{}
	for _, key := range []string{"sessionUpdate", "toolCallId", "status", "title", "content", "rawOutput", "_meta"} {
		if v, ok := members[key]; ok {
			raw, _ := json.Marshal(v)
			parts = append(parts, fmt.Sprintf("%q:%s", key, raw))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}
