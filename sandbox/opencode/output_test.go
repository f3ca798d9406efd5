package opencode

import (
	"encoding/json"
	"strings"
	"testing"

	"gander.dev/gander/sandbox"
)

// Every update of a call of the developer server has its kind: opencode says other.
func TestServerToolKind(t *testing.T) {
	m := newMender("/p")
	for _, update := range []string{
		`{"sessionUpdate":"tool_call","toolCallId":"a","title":"developer_shell","kind":"other","status":"pending"}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"a","title":"developer_shell","kind":"other","status":"completed"}`,
	} {
		if got := string(m.mend(json.RawMessage(update))); !strings.Contains(got, `"kind":"execute"`) {
			t.Errorf("got %s", got)
		}
	}
}

// Output reaches the call that prints it, also when it comes before opencode has
// told of the call; that of others, and of calls that have ended, reaches none.
func TestToolOutput(t *testing.T) {
	m := newMender("/p")
	out := func(command, text string) string {
		args, _ := json.Marshal(map[string]string{"command": command})
		return string(m.output(sandbox.ToolOutput{Tool: "shell", Arguments: args, Text: text}))
	}
	mend := func(update string) string { return string(m.mend(json.RawMessage(update))) }
	if got := out("make", "early\n"); got != "" {
		t.Errorf("output of a call that is not known makes the update %s", got)
	}
	mend(`{"sessionUpdate":"tool_call","toolCallId":"a","title":"developer_shell","status":"pending","rawInput":{}}`)
	got := mend(`{"sessionUpdate":"tool_call_update","toolCallId":"a","title":"developer_shell","status":"in_progress","rawInput":{"command":"make"}}`)
	if !strings.Contains(got, `"early\n"`) || !strings.Contains(got, "live_output") {
		t.Errorf("the first update with the command is %s", got)
	}
	if got := out("make", "late\n"); !strings.Contains(got, `"early\nlate\n"`) || !strings.Contains(got, `{"output":"late\n"}`) {
		t.Errorf("further output makes the update %s", got)
	}
	if got := out("other", "x\n"); got != "" {
		t.Errorf("output of another call makes the update %s", got)
	}
	mend(`{"sessionUpdate":"tool_call_update","toolCallId":"a","title":"developer_shell","status":"completed","rawInput":{"command":"make"}}`)
	if got := out("make", "too late\n"); got != "" {
		t.Errorf("output of a call that has ended makes the update %s", got)
	}
}
