package model

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// An answer is how the parts of a completion reach the client. Every method
// returns an error when the client is gone.
type answer interface {
	begin() error
	reasoning(text string) error
	text(text string) error
	call(index int, id, name, arguments string) error
	fail(err json.RawMessage) error // ends the answer
	finish(reason string, u Usage) error
}

// chunk is a chat.completion.chunk; with Message instead of Delta, a chat.completion.
type chunk struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *Usage   `json:"usage,omitempty"`
}

type choice struct {
	Index        int     `json:"index"`
	Delta        *delta  `json:"delta,omitempty"`
	Message      *delta  `json:"message,omitempty"`
	FinishReason *string `json:"finish_reason"`
}

type delta struct {
	Role      string      `json:"role,omitempty"`
	Content   *string     `json:"content,omitempty"`
	Reasoning string      `json:"reasoning_content,omitempty"`
	ToolCalls []deltaCall `json:"tool_calls,omitempty"`
}

type deltaCall struct {
	Index    *int          `json:"index,omitempty"` // in chunks only
	ID       string        `json:"id,omitempty"`
	Type     string        `json:"type,omitempty"`
	Function deltaFunction `json:"function"`
}

type deltaFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// stream sends chunks as server-sent events.
type stream struct {
	w     http.ResponseWriter
	head  chunk // what all chunks share
	usage bool  // the client wants a usage chunk
}

func (s *stream) begin() error {
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.Header().Set("Cache-Control", "no-cache")
	s.w.WriteHeader(http.StatusOK)
	empty := ""
	return s.delta(delta{Role: "assistant", Content: &empty})
}

func (s *stream) reasoning(text string) error { return s.delta(delta{Reasoning: text}) }
func (s *stream) text(text string) error      { return s.delta(delta{Content: &text}) }

// call sends the name first and then the arguments in pieces, as models do.
func (s *stream) call(index int, id, name, arguments string) error {
	c := deltaCall{Index: &index, ID: id, Type: "function", Function: deltaFunction{Name: name}}
	if err := s.delta(delta{ToolCalls: []deltaCall{c}}); err != nil {
		return err
	}
	for _, piece := range pieces(arguments, 20) {
		c := deltaCall{Index: &index, Function: deltaFunction{Arguments: piece}}
		if err := s.delta(delta{ToolCalls: []deltaCall{c}}); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) fail(err json.RawMessage) error {
	return s.event(map[string]json.RawMessage{"error": err})
}

func (s *stream) finish(reason string, u Usage) error {
	c := s.head
	c.Choices = []choice{{Delta: &delta{}, FinishReason: &reason}}
	if err := s.event(c); err != nil {
		return err
	}
	if s.usage {
		c.Choices, c.Usage = []choice{}, &u
		if err := s.event(c); err != nil {
			return err
		}
	}
	return s.send("[DONE]")
}

func (s *stream) delta(d delta) error {
	c := s.head
	c.Choices = []choice{{Delta: &d}}
	return s.event(c)
}

func (s *stream) event(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding an event: %w", err)
	}
	return s.send(string(data))
}

func (s *stream) send(data string) error {
	if _, err := io.WriteString(s.w, "data: "+data+"\n\n"); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

// whole collects the answer and sends it at the end.
type whole struct {
	w    http.ResponseWriter
	head chunk
	said delta
}

func (a *whole) begin() error {
	a.said.Role = "assistant"
	return nil
}

func (a *whole) reasoning(text string) error {
	a.said.Reasoning += text
	return nil
}

func (a *whole) text(text string) error {
	if a.said.Content != nil {
		text = *a.said.Content + text
	}
	a.said.Content = &text
	return nil
}

func (a *whole) call(_ int, id, name, arguments string) error {
	a.said.ToolCalls = append(a.said.ToolCalls, deltaCall{ID: id, Type: "function", Function: deltaFunction{name, arguments}})
	return nil
}

// fail answers 500: without a stream there is no middle to fail in.
func (a *whole) fail(err json.RawMessage) error {
	return writeJSON(a.w, http.StatusInternalServerError, map[string]json.RawMessage{"error": err})
}

func (a *whole) finish(reason string, u Usage) error {
	c := a.head
	c.Choices, c.Usage = []choice{{Message: &a.said, FinishReason: &reason}}, &u
	return writeJSON(a.w, http.StatusOK, c)
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding an answer: %w", err)
	}
	return writeBody(w, status, data)
}

func writeBody(w http.ResponseWriter, status int, data []byte) error {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_, err := w.Write(data)
	return err
}

// pieces cuts text into pieces of n runes, so that no character is torn.
func pieces(text string, n int) []string {
	var out []string
	for r := []rune(text); len(r) > 0; {
		k := min(n, len(r))
		out, r = append(out, string(r[:k])), r[k:]
	}
	return out
}
