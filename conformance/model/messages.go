package model

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// messagesPath is that of Anthropic's Messages protocol.
const messagesPath = "/v1/messages"

// messagesRequest is the body of a request for a message.
type messagesRequest struct {
	Model    string          `json:"model"`
	Stream   bool            `json:"stream"`
	System   json.RawMessage `json:"system"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

// block is a part of a message.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
}

// blocks takes content as a string or as a list of blocks.
func blocks(raw json.RawMessage) []block {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []block{{Type: "text", Text: text}}
	}
	var list []block
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

// conversation returns the request as one for chat completions would be.
func (q *messagesRequest) conversation() (*completion, []Message) {
	c := &completion{Model: q.Model, Stream: q.Stream}
	for _, t := range q.Tools {
		c.Tools = append(c.Tools, wireTool{wireFunction{Name: t.Name}})
	}
	var out []Message
	if text := plainText(q.System); text != "" {
		out = append(out, Message{Role: "system", Content: text})
	}
	for _, w := range q.Messages {
		m := Message{Role: w.Role}
		var texts []string
		for _, b := range blocks(w.Content) {
			switch b.Type {
			case "text":
				texts = append(texts, b.Text)
			case "image":
				m.Images++
			case "tool_use":
				m.ToolCalls = append(m.ToolCalls, ToolCall{b.ID, b.Name, string(b.Input)})
			case "tool_result":
				out = append(out, Message{Role: "tool", ToolCallID: b.ToolUseID, Content: plainText(b.Content)})
			}
		}
		if m.Content = strings.Join(texts, "\n"); m.Content != "" || len(m.ToolCalls) > 0 || m.Images > 0 {
			out = append(out, m)
		}
	}
	return c, out
}

func plainText(raw json.RawMessage) string {
	var texts []string
	for _, b := range blocks(raw) {
		if b.Text != "" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// message answers a request for a message with a step of the script.
func (s *Server) message(ctx context.Context, w *recorder, r *http.Request, body []byte) error {
	var q messagesRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return writeBody(w, http.StatusBadRequest, errorBody("The body is not a request for a message: "+err.Error(), "invalid_request_error", ""))
	}
	c, messages := q.conversation()
	if r.URL.Path != messagesPath {
		return writeJSON(w, http.StatusOK, map[string]int{"input_tokens": max(1, len(body)/4)})
	}
	return s.reply(ctx, w, r, c, messages, len(body), func() answer {
		a := &messageAnswer{w: w, stream: q.Stream, id: "msg_" + nonce(), model: q.Model, prompt: max(1, len(body)/4)}
		return a
	})
}

// messageAnswer answers as Anthropic's endpoint does, as a stream of events or as a whole.
type messageAnswer struct {
	w         http.ResponseWriter
	stream    bool
	id, model string
	prompt    int // tokens
	said      []map[string]any
	open      string // the type of the block that is open
}

func (a *messageAnswer) begin() error {
	if !a.stream {
		return nil
	}
	a.w.Header().Set("Content-Type", "text/event-stream")
	a.w.WriteHeader(http.StatusOK)
	return a.event("message_start", map[string]any{"message": a.head([]any{}, nil, 1)})
}

func (a *messageAnswer) head(content any, reason any, output int) map[string]any {
	return map[string]any{
		"id": a.id, "type": "message", "role": "assistant", "model": a.model, "content": content, "stop_reason": reason, "stop_sequence": nil,
		"usage": map[string]int{"input_tokens": a.prompt, "output_tokens": output, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
	}
}

// block opens a block, unless one of its type that goes on is open.
func (a *messageAnswer) block(kind string, begin map[string]any) error {
	if a.open == kind && kind != "tool_use" {
		return nil
	}
	if err := a.close(); err != nil {
		return err
	}
	a.open = kind
	begin["type"] = kind
	a.said = append(a.said, begin)
	return a.event("content_block_start", map[string]any{"index": len(a.said) - 1, "content_block": begin})
}

func (a *messageAnswer) close() error {
	if a.open == "" {
		return nil
	}
	a.open = ""
	return a.event("content_block_stop", map[string]any{"index": len(a.said) - 1})
}

func (a *messageAnswer) delta(kind, key, text string) error {
	return a.event("content_block_delta", map[string]any{"index": len(a.said) - 1, "delta": map[string]string{"type": kind, key: text}})
}

func (a *messageAnswer) reasoning(text string) error {
	if err := a.block("thinking", map[string]any{"thinking": "", "signature": ""}); err != nil {
		return err
	}
	return a.grow("thinking", text, a.delta("thinking_delta", "thinking", text))
}

func (a *messageAnswer) text(text string) error {
	if err := a.block("text", map[string]any{"text": ""}); err != nil {
		return err
	}
	return a.grow("text", text, a.delta("text_delta", "text", text))
}

// grow keeps what was said for an answer as a whole.
func (a *messageAnswer) grow(key, text string, err error) error {
	if !a.stream {
		last := a.said[len(a.said)-1]
		last[key] = fmt.Sprint(last[key]) + text
	}
	return err
}

func (a *messageAnswer) call(_ int, id, name, arguments string) error {
	input := json.RawMessage("{}")
	if !a.stream {
		input = json.RawMessage(arguments)
	}
	if err := a.block("tool_use", map[string]any{"id": id, "name": name, "input": input}); err != nil {
		return err
	}
	for _, piece := range pieces(arguments, 20) {
		if err := a.delta("input_json_delta", "partial_json", piece); err != nil {
			return err
		}
	}
	return nil
}

func (a *messageAnswer) fail(err json.RawMessage) error {
	if !a.stream {
		return writeJSON(a.w, http.StatusInternalServerError, map[string]any{"type": "error", "error": err})
	}
	return a.event("error", map[string]any{"error": err})
}

func (a *messageAnswer) finish(reason string, u Usage) error {
	reason = map[string]string{"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}[reason]
	if !a.stream {
		return writeJSON(a.w, http.StatusOK, a.head(a.said, reason, u.CompletionTokens))
	}
	if err := a.close(); err != nil {
		return err
	}
	err := a.event("message_delta", map[string]any{"delta": map[string]any{"stop_reason": reason, "stop_sequence": nil}, "usage": map[string]int{"output_tokens": u.CompletionTokens}})
	if err != nil {
		return err
	}
	return a.event("message_stop", map[string]any{})
}

func (a *messageAnswer) event(kind string, v map[string]any) error {
	if !a.stream {
		return nil
	}
	v["type"] = kind
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding an event: %w", err)
	}
	if _, err := io.WriteString(a.w, "event: "+kind+"\ndata: "+string(data)+"\n\n"); err != nil {
		return err
	}
	return http.NewResponseController(a.w).Flush()
}
