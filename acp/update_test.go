package acp_test

import (
	"encoding/json"
	"testing"
	"time"

	"gander.dev/gander/acp"
)

func TestUpdates(t *testing.T) {
	tests := []struct {
		got  json.RawMessage
		want string
	}{
		{acp.MessageChunk(acp.UserMessageChunk, "", "<\"é"), `{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"<\"é"}}`},
		{acp.MessageChunk(acp.AgentThoughtChunk, "m", "x"), `{"sessionUpdate":"agent_thought_chunk","messageId":"m","content":{"type":"text","text":"x"}}`},
		{acp.NoticeUpdate("info", "t", ""), `{"sessionUpdate":"notice","severity":"info","title":"t"}`},
		{acp.NoticeUpdate("error", "t", "d"), `{"sessionUpdate":"notice","severity":"error","title":"t","description":"d"}`},
		{acp.ToolCallFinal("t1", "failed", ""), `{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"failed"}`},
		{acp.ToolCallFinal("t1", "completed", "ok"), `{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"ok"}}]}`},
		{acp.ToolCallProgress("t1", "", nil), `{"sessionUpdate":"tool_call_update","toolCallId":"t1"}`},
		{acp.CurrentModeUpdate("ask"), `{"sessionUpdate":"current_mode_update","currentModeId":"ask"}`},
		{acp.ConfigOptionUpdate(nil), `{"sessionUpdate":"config_option_update","configOptions":[]}`},
		{acp.AvailableCommandsUpdate(nil), `{"sessionUpdate":"available_commands_update","availableCommands":[]}`},
		{acp.AvailableCommandsUpdate([]acp.AvailableCommand{{Name: "a", Description: "d"}, {Name: "b", Hint: "h"}}), `{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"a","description":"d"},{"name":"b","description":"","input":{"hint":"h"}}]}`},
		{acp.SessionInfoUpdate("t", time.Time{}), `{"sessionUpdate":"session_info_update","title":"t"}`},
		{acp.SessionInfoUpdate("", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), `{"sessionUpdate":"session_info_update","updatedAt":"2026-01-02T03:04:05Z"}`},
		{acp.CompactionUpdate("c", acp.CompactionInProgress, "", ""), `{"sessionUpdate":"compaction_update","compactionId":"c","status":"in_progress"}`},
		{acp.CompactionUpdate("c", acp.CompactionCompleted, "s", ""), `{"sessionUpdate":"compaction_update","compactionId":"c","status":"completed","summary":[{"type":"text","text":"s"}]}`},
		{acp.CompactionUpdate("c", acp.CompactionFailed, "", "e"), `{"sessionUpdate":"compaction_update","compactionId":"c","status":"failed","error":"e"}`},
		{acp.WithFields(json.RawMessage(`{"a":1.0,"b":2}`), map[string]any{"b": acp.Delete, "c": "<"}), `{"a":1.0,"c":"<"}`},
		{acp.WithFields(json.RawMessage(`[1]`), map[string]any{"c": 1}), `[1]`},
	}
	for _, tt := range tests {
		if string(tt.got) != tt.want {
			t.Errorf("got  %s\nwant %s", tt.got, tt.want)
		}
	}
}

func TestUpdateKind(t *testing.T) {
	for in, want := range map[string]string{
		`{"sessionUpdate":"agent_message_chunk"}`:          acp.AgentMessageChunk,
		`{"x":{"sessionUpdate":"no"},"sessionUpdate":"a"}`: "a",
		`{"sessionUpdate":"\u0061"}`:                       "a",
		`{"sessionUpdate":7}`:                              "",
		`{}`:                                               "",
		`[]`:                                               "",
	} {
		if got := acp.UpdateKind(json.RawMessage(in)); got != want {
			t.Errorf("UpdateKind(%s) = %q", in, got)
		}
	}
}

func TestLiveOutput(t *testing.T) {
	for in, want := range map[string]string{
		`{"toolNotification":{"type":"live_output","params":{"chunks":[{"stream":"stdout","output":"a\n"},{"output":"b"}]}}}`: "a\nb",
		`{"toolNotification":{"type":"message","params":{"chunks":[{"output":"b"}]}}}`:                                        "",
		`{"toolNotification":7}`: "",
		`{}`:                     "",
	} {
		var meta map[string]json.RawMessage
		_ = json.Unmarshal([]byte(in), &meta) // valid by construction
		if got := acp.LiveOutput(meta); got != want {
			t.Errorf("LiveOutput(%s) = %q", in, got)
		}
	}
}

func TestParseContentBlock(t *testing.T) {
	c := acp.ParseContentBlock(json.RawMessage(`{"type":"resource","resource":{"uri":"file:///a","text":"t","mimeType":7}}`))
	if c.URI != "file:///a" || c.Resource == nil || c.Resource.Text != "t" || c.MimeType != "" {
		t.Errorf("got %+v", c)
	}
	c = acp.ParseContentBlock(json.RawMessage(`{"type":"resource_link","uri":"u","name":"n","text":7,"resource":{"uri":"x"}}`))
	if c.URI != "u" || c.Name != "n" || c.Text != "" || c.Resource != nil {
		t.Errorf("got %+v", c)
	}
	if c := acp.ParseContentBlock(json.RawMessage(`"text"`)); c.Type != "" {
		t.Errorf("got %+v", c)
	}
}
