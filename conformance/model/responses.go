package model

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// responsesPath is that of OpenAI's Responses protocol.
const responsesPath = "/v1/responses"

// responsesRequest is the body of a request for a response.
type responsesRequest struct {
	Model        string          `json:"model"`
	Stream       bool            `json:"stream"`
	Instructions string          `json:"instructions"`
	Input        json.RawMessage `json:"input"`
	Tools        []responsesTool `json:"tools"`
}

// responsesTool is a function, or a namespace of functions.
type responsesTool struct {
	Name  string          `json:"name"`
	Type  string          `json:"type"`
	Tools []responsesTool `json:"tools"`
}

// item is a part of a conversation: a message, a call of a function, its result, or thoughts.
type item struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

// conversation returns the request as one for chat completions would be.
func (q *responsesRequest) conversation() (*completion, []Message) {
	c := &completion{Model: q.Model, Stream: q.Stream}
	for _, t := range q.Tools {
		for _, inner := range t.Tools {
			c.Tools = append(c.Tools, wireTool{wireFunction{Name: inner.Name}})
		}
		if t.Name != "" && t.Type != "namespace" {
			c.Tools = append(c.Tools, wireTool{wireFunction{Name: t.Name}})
		}
	}
	var out []Message
	if q.Instructions != "" {
		out = append(out, Message{Role: "system", Content: q.Instructions})
	}
	var items []item
	if json.Unmarshal(q.Input, &items) != nil {
		return c, append(out, Message{Role: "user", Content: plainText(q.Input)})
	}
	for _, i := range items {
		switch i.Type {
		case "", "message":
			m := Message{Role: i.Role, Content: plainText(i.Content)}
			for _, b := range blocks(i.Content) {
				if b.Type == "input_image" {
					m.Images++
				}
			}
			out = append(out, m)
		case "function_call":
			out = append(out, Message{Role: "assistant", ToolCalls: []ToolCall{{i.CallID, i.Name, i.Arguments}}})
		case "function_call_output":
			out = append(out, Message{Role: "tool", ToolCallID: i.CallID, Content: plainText(i.Output)})
		}
	}
	return c, out
}

// namespaces returns those of the functions that have one, by their names.
func (q *responsesRequest) namespaces() map[string]string {
	of := map[string]string{}
	for _, t := range q.Tools {
		for _, inner := range t.Tools {
			of[inner.Name] = t.Name
		}
	}
	return of
}

// response answers a request for a response with a step of the script.
func (s *Server) response(ctx context.Context, w *recorder, r *http.Request, body []byte) error {
	var q responsesRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return writeBody(w, http.StatusBadRequest, errorBody("The body is not a request for a response: "+err.Error(), "invalid_request_error", ""))
	}
	c, messages := q.conversation()
	return s.reply(ctx, w, r, c, messages, len(body), func() answer {
		return &responseAnswer{w: w, stream: q.Stream, id: "resp_" + nonce(), model: q.Model, namespaces: q.namespaces()}
	})
}

// responseAnswer answers as OpenAI's endpoint does, as a stream of events or as a whole.
type responseAnswer struct {
	w          http.ResponseWriter
	stream     bool
	id, model  string
	namespaces map[string]string // of functions
	events     int
	output     []map[string]any // the items; the last one is open when open is set
	open       string           // the type of the item that is open
	said       string           // the text of the item that is open
}

func (a *responseAnswer) begin() error {
	if !a.stream {
		return nil
	}
	a.w.Header().Set("Content-Type", "text/event-stream")
	a.w.WriteHeader(http.StatusOK)
	return a.event("response.created", map[string]any{"response": a.whole("in_progress", nil)})
}

func (a *responseAnswer) whole(status string, usage any) map[string]any {
	output := a.output
	if output == nil {
		output = []map[string]any{}
	}
	return map[string]any{
		"id": a.id, "object": "response", "created_at": time.Now().Unix(), "model": a.model, "status": status,
		"output": output, "usage": usage, "error": nil, "incomplete_details": nil,
	}
}

// item opens an item, unless one of its type that goes on is open.
func (a *responseAnswer) item(kind string, begin map[string]any) error {
	if a.open == kind && kind != "function_call" {
		return nil
	}
	if err := a.close(); err != nil {
		return err
	}
	a.open, a.said = kind, ""
	begin["type"], begin["id"] = kind, fmt.Sprintf("item_%s_%d", a.id, len(a.output))
	a.output = append(a.output, begin)
	return a.event("response.output_item.added", map[string]any{"item": begin})
}

// part opens the one part of the item that is open, with the events of its kind.
func (a *responseAnswer) part(event string, part map[string]any) error {
	return a.event(event, map[string]any{"item_id": a.last()["id"], "part": part})
}

func (a *responseAnswer) last() map[string]any { return a.output[len(a.output)-1] }

func (a *responseAnswer) close() error {
	if a.open == "" {
		return nil
	}
	last := a.last()
	switch a.open {
	case "reasoning":
		last["summary"] = []map[string]any{{"type": "summary_text", "text": a.said}}
	case "message":
		last["status"] = "completed"
		last["content"] = []map[string]any{{"type": "output_text", "text": a.said, "annotations": []any{}}}
	case "function_call":
		last["status"], last["arguments"] = "completed", a.said
	}
	a.open = ""
	return a.event("response.output_item.done", map[string]any{"item": last})
}

// grow adds to the text of the item that is open.
func (a *responseAnswer) grow(event, text string) error {
	a.said += text
	return a.event(event, map[string]any{"item_id": a.last()["id"], "content_index": 0, "summary_index": 0, "delta": text})
}

func (a *responseAnswer) reasoning(text string) error {
	if a.open != "reasoning" {
		if err := a.item("reasoning", map[string]any{"summary": []any{}}); err != nil {
			return err
		}
		if err := a.part("response.reasoning_summary_part.added", map[string]any{"type": "summary_text", "text": ""}); err != nil {
			return err
		}
	}
	return a.grow("response.reasoning_summary_text.delta", text)
}

func (a *responseAnswer) text(text string) error {
	if a.open != "message" {
		if err := a.item("message", map[string]any{"role": "assistant", "status": "in_progress", "content": []any{}}); err != nil {
			return err
		}
		if err := a.part("response.content_part.added", map[string]any{"type": "output_text", "text": "", "annotations": []any{}}); err != nil {
			return err
		}
	}
	return a.grow("response.output_text.delta", text)
}

func (a *responseAnswer) call(_ int, id, name, arguments string) error {
	begin := map[string]any{"call_id": id, "name": name, "arguments": "", "status": "in_progress"}
	if namespace := a.namespaces[name]; namespace != "" {
		begin["namespace"] = namespace
	}
	if err := a.item("function_call", begin); err != nil {
		return err
	}
	for _, piece := range pieces(arguments, 20) {
		if err := a.grow("response.function_call_arguments.delta", piece); err != nil {
			return err
		}
	}
	return nil
}

func (a *responseAnswer) fail(err json.RawMessage) error {
	if !a.stream {
		return writeJSON(a.w, http.StatusInternalServerError, map[string]any{"error": err})
	}
	failed := a.whole("failed", nil)
	failed["error"] = err
	return a.event("response.failed", map[string]any{"response": failed})
}

func (a *responseAnswer) finish(reason string, u Usage) error {
	if err := a.close(); err != nil {
		return err
	}
	status := "completed"
	if reason == "length" {
		status = "incomplete"
	}
	done := a.whole(status, map[string]any{
		"input_tokens": u.PromptTokens, "output_tokens": u.CompletionTokens, "total_tokens": u.TotalTokens,
		"input_tokens_details": map[string]int{"cached_tokens": 0}, "output_tokens_details": map[string]int{"reasoning_tokens": 0},
	})
	if status == "incomplete" {
		done["incomplete_details"] = map[string]string{"reason": "max_output_tokens"}
	}
	if !a.stream {
		return writeJSON(a.w, http.StatusOK, done)
	}
	return a.event("response."+status, map[string]any{"response": done})
}

// event sends an event of the stream, with its number and that of its item.
func (a *responseAnswer) event(kind string, v map[string]any) error {
	if !a.stream {
		return nil
	}
	v["type"], v["sequence_number"] = kind, a.events
	a.events++
	if len(a.output) > 0 {
		v["output_index"] = len(a.output) - 1
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding an event: %w", err)
	}
	if _, err := io.WriteString(a.w, "event: "+kind+"\ndata: "+string(data)+"\n\n"); err != nil {
		return err
	}
	return http.NewResponseController(a.w).Flush()
}
