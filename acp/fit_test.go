package acp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

const testRoom = 20_000

// fitted fits an update and checks what holds for all: valid JSON objects with a
// kind, none over the limit.
func fitted(t *testing.T, update any, notices bool) []json.RawMessage {
	t.Helper()
	var out []json.RawMessage
	for _, part := range fit(encode(update), testRoom, notices) {
		if len(part) > testRoom {
			t.Errorf("a part of %d bytes", len(part))
		}
		if !json.Valid(part) || UpdateKind(part) == "" {
			t.Fatalf("not an update: %.200s", part)
		}
		out = append(out, part)
	}
	return out
}

func chunkOf(t *testing.T, update json.RawMessage) (text string) {
	t.Helper()
	var c struct{ Content struct{ Text string } }
	if err := json.Unmarshal(update, &c); err != nil {
		t.Fatal(err)
	}
	if !utf8.ValidString(c.Content.Text) || strings.ContainsRune(c.Content.Text, utf8.RuneError) {
		t.Error("a rune was cut")
	}
	return c.Content.Text
}

func TestFitSplitsText(t *testing.T) {
	for _, unit := range []string{"x", "é", "😀", "\"\\\n", "\x01", "a😀\x00é\"", "\u2028"} {
		want := strings.Repeat(unit, 100_000/len(unit))
		parts := fitted(t, json.RawMessage(MessageChunk(AgentMessageChunk, "m1", want)), false)
		var got strings.Builder
		for _, part := range parts {
			if id, _ := text(member(part, "messageId")); id != "m1" || UpdateKind(part) != AgentMessageChunk {
				t.Errorf("%q: a part is of another message: %.100s", unit, part)
			}
			got.WriteString(chunkOf(t, part))
		}
		if got.String() != want {
			t.Errorf("%q: the text changed", unit)
		}
		if len(parts) < 5 {
			t.Errorf("%q: only %d parts", unit, len(parts))
		}
	}
}

// TestFitSplitsEscapes: escapes and surrogate pairs that a peer wrote stay whole.
func TestFitSplitsEscapes(t *testing.T) {
	inner := strings.Repeat(`\ud83d\ude00\u00e9\n`, 3000)
	var want string
	if err := json.Unmarshal([]byte(`"`+inner+`"`), &want); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, part := range fitted(t, json.RawMessage(`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"`+inner+`"},"_meta":{"a":1}}`), false) {
		got.WriteString(chunkOf(t, part))
		if string(member(part, "_meta")) != `{"a":1}` {
			t.Error("_meta was lost")
		}
	}
	if got.String() != want {
		t.Error("the text changed")
	}
}

func TestFitChunkWithLargeMeta(t *testing.T) {
	want := strings.Repeat("y", 30_000)
	var got strings.Builder
	for _, part := range fitted(t, map[string]any{
		"sessionUpdate": "agent_message_chunk", "messageId": "m",
		"content": json.RawMessage(TextBlock(want)), "_meta": map[string]string{"x": strings.Repeat("z", 30_000)},
	}, false) {
		got.WriteString(chunkOf(t, part))
	}
	if got.String() != want {
		t.Error("the text changed")
	}
}

// TestFitRepeatsLittle: what is in each piece of a text is not many times the text, whatever
// else an agent puts beside it.
func TestFitRepeatsLittle(t *testing.T) {
	long, content := strings.Repeat("z", testRoom-2000), json.RawMessage(TextBlock(strings.Repeat("y", 500_000)))
	for name, update := range map[string]map[string]any{
		"_meta":       {"sessionUpdate": "agent_message_chunk", "content": content, "_meta": map[string]string{"x": long}},
		"annotations": {"sessionUpdate": "agent_message_chunk", "content": map[string]any{"type": "text", "text": strings.Repeat("y", 500_000), "annotations": long}},
		"messageId":   {"sessionUpdate": "agent_message_chunk", "content": content, "messageId": long},
		"kind":        {"sessionUpdate": long, "content": content},
	} {
		size := 0
		for _, part := range fitted(t, update, false) {
			size += len(part)
		}
		if size > 2*len(encode(update)) {
			t.Errorf("%s: %d bytes became %d", name, len(encode(update)), size)
		}
	}
}

func TestFitReplacesImage(t *testing.T) {
	parts := fitted(t, map[string]any{"sessionUpdate": "agent_message_chunk", "content": map[string]string{
		"type": "image", "mimeType": "image/png", "uri": "file:///a.png", "data": strings.Repeat("A", 50_000),
	}}, false)
	if got := chunkOf(t, parts[0]); len(parts) != 1 || !strings.Contains(got, "image/png file:///a.png, 50") || !strings.Contains(got, "transcript") {
		t.Errorf("got %q", got)
	}
}

func TestFitAnythingElse(t *testing.T) {
	plan := map[string]any{"sessionUpdate": "plan", "entries": strings.Repeat("x", 50_000)}
	if got := fitted(t, plan, true); len(got) != 1 || UpdateKind(got[0]) != kindNotice {
		t.Errorf("got %s", got)
	}
	if got := fitted(t, plan, false); len(got) != 1 || UpdateKind(got[0]) != AgentThoughtChunk || !strings.Contains(chunkOf(t, got[0]), "plan, 50") {
		t.Errorf("got %s", got)
	}
}

type toolCall struct {
	ToolCallID string
	Title      string
	Status     string
	RawInput   json.RawMessage
	RawOutput  json.RawMessage
	Content    []struct {
		Type    string
		Path    string
		Content struct{ Type, Text string }
	}
}

func fittedToolCall(t *testing.T, update map[string]any) (c toolCall) {
	t.Helper()
	update["sessionUpdate"], update["toolCallId"], update["status"] = "tool_call_update", "t1", "completed"
	parts := fitted(t, update, false)
	if err := json.Unmarshal(parts[0], &c); err != nil || len(parts) != 1 {
		t.Fatalf("got %d parts, %v", len(parts), err)
	}
	if c.ToolCallID != "t1" || c.Status != "completed" {
		t.Fatalf("not the tool call any more: %.300s", parts[0])
	}
	return c
}

func TestFitToolCallText(t *testing.T) {
	for _, unit := range []string{"é", "\x01", "x"} {
		whole := "BEGIN" + strings.Repeat(unit, 100_000/len(unit)) + "END"
		c := fittedToolCall(t, map[string]any{"content": []any{ToolContent("small"), ToolContent(whole)}})
		if len(c.Content) != 2 || c.Content[0].Content.Text != "small" {
			t.Fatalf("got %+v", c.Content)
		}
		cut := c.Content[1].Content.Text
		if !strings.HasPrefix(cut, "BEGIN"+unit) || !strings.HasSuffix(cut, unit+"END") || len(cut) < len(unit)*1500 {
			t.Errorf("%q: kept %d bytes: %.50q", unit, len(cut), cut)
		}
		head, rest, _ := strings.Cut(cut, "\n[... ")
		var missing int
		_, err := fmt.Sscanf(rest, "%d bytes are left out here; the whole is in the transcript ...]", &missing)
		_, tail, _ := strings.Cut(rest, "...]\n")
		if err != nil || len(head)+missing+len(tail) != len(whole) {
			t.Errorf("%q: %d + %d + %d bytes are not %d (%v)", unit, len(head), missing, len(tail), len(whole), err)
		}
	}
}

func TestFitToolCallParts(t *testing.T) {
	long := strings.Repeat("z", 50_000)
	c := fittedToolCall(t, map[string]any{
		"title": long, "rawInput": map[string]string{"command": long}, "rawOutput": long, "_meta": map[string]string{"x": long},
		"content": []any{
			map[string]string{"type": "diff", "path": "/p/main.go", "oldText": long, "newText": long},
			map[string]any{"type": "content", "content": map[string]string{"type": "image", "mimeType": "image/png", "data": long}},
			map[string]string{"type": "hologram", "data": long},
			map[string]string{"type": "terminal", "terminalId": "x"},
		},
	})
	if len(c.Title) > maxToolTitle+200 || !strings.Contains(c.Title, "left out") {
		t.Errorf("title of %d bytes", len(c.Title))
	}
	for name, raw := range map[string]json.RawMessage{"rawInput": c.RawInput, "rawOutput": c.RawOutput} {
		if !strings.Contains(string(raw), "bytes are left out") {
			t.Errorf("%s: %.100s", name, raw)
		}
	}
	for i, want := range []string{"the diff of /p/main.go, 100", "image/png, 50", "content of type hologram, 50"} {
		if got := c.Content[i].Content.Text; !strings.Contains(got, want) || !strings.Contains(got, "transcript") {
			t.Errorf("item %d: %q does not say %q", i, got, want)
		}
	}
	if c.Content[3].Type != "terminal" {
		t.Error("a small item was changed")
	}
}

// TestFitToolCallKeeps: what does not need to go stays.
func TestFitToolCallKeeps(t *testing.T) {
	c := fittedToolCall(t, map[string]any{
		"rawInput": map[string]string{"command": "ls"}, "rawOutput": strings.Repeat("z", 50_000),
		"content": []any{ToolContent(strings.Repeat("y", 15_000))},
	})
	if string(c.RawInput) != `{"command":"ls"}` || len(c.Content[0].Content.Text) != 15_000 {
		t.Errorf("got rawInput %s, content of %d bytes", c.RawInput, len(c.Content[0].Content.Text))
	}
}

func TestFitToolCallManyItems(t *testing.T) {
	items := make([]any, 5000)
	for i := range items {
		items[i] = ToolContent(strings.Repeat("w", 100))
	}
	c := fittedToolCall(t, map[string]any{"content": items})
	if last := c.Content[len(c.Content)-1].Content.Text; !strings.Contains(last, "further items") {
		t.Errorf("the last of %d items: %q", len(c.Content), last)
	}
}

// TestFitAwful: hostile shapes become something small too.
func TestFitAwful(t *testing.T) {
	long := strings.Repeat("z", 50_000)
	for _, update := range []map[string]any{
		{"sessionUpdate": "tool_call", "toolCallId": long},
		{"sessionUpdate": "tool_call", "toolCallId": "x", "content": long},
		{"sessionUpdate": "tool_call", "toolCallId": "x", "content": []any{long, 7, nil, []any{}}},
		{"sessionUpdate": "tool_call", "toolCallId": "x", "unknown": long},
		{"sessionUpdate": "agent_message_chunk", "content": long},
		{"sessionUpdate": "agent_message_chunk", "messageId": long, "content": map[string]string{"type": "text", "text": long}},
		{"sessionUpdate": "agent_message_chunk", "content": map[string]any{"type": long, "text": long}},
		{"sessionUpdate": "agent_message_chunk", "content": map[string]any{"type": "text", "text": []string{long}}},
		{"sessionUpdate": "agent_message_chunk", "content": map[string]string{"type": "resource_link", "uri": long, "name": long}},
		{"sessionUpdate": long},
	} {
		fitted(t, update, false)
		fitted(t, update, true)
	}
}
