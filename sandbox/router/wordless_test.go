package router

import (
	"encoding/json"
	"testing"
)

func TestWordlessTurns(t *testing.T) {
	const (
		word    = `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello"}}`
		blank   = `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":" "}}`
		thought = `{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`
		tool    = `{"sessionUpdate":"tool_call","toolCallId":"1"}`
		failed  = `{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"failed"}`
	)
	for _, tt := range []struct {
		updates []string
		want    heard
	}{
		{nil, heard{}},
		{[]string{blank}, heard{}},
		{[]string{thought}, heard{thought: true}},
		{[]string{thought, word}, heard{text: true, thought: true}},
		{[]string{word, tool}, heard{}},
		{[]string{word, tool, failed}, heard{failed: true}},
	} {
		var got heard
		for _, u := range tt.updates {
			var kind struct{ SessionUpdate string }
			if err := json.Unmarshal([]byte(u), &kind); err != nil {
				t.Fatal(err)
			}
			got.see(kind.SessionUpdate, json.RawMessage(u))
		}
		if got != tt.want {
			t.Errorf("of %v was heard %+v, want %+v", tt.updates, got, tt.want)
		}
	}
}
