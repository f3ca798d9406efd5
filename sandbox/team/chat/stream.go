package chat

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// reader puts a reply together.
type reader struct {
	each      func(Delta)
	text      strings.Builder
	reasoning strings.Builder
	calls     []Call
	args      [][]byte
	finish    string
	usage     Usage
	size      int
	chosen    bool // something of a message came
	messages  bool // by Anthropic's protocol
}

// chunk is a chat.completion.chunk, or a chat.completion.
type chunk struct {
	Choices []choice        `json:"choices"`
	Usage   *Usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Delta   piece  `json:"delta"`
	Message piece  `json:"message"`
	Finish  string `json:"finish_reason"`
}

type piece struct {
	Content   string `json:"content"`
	Reasoning string `json:"reasoning_content"`
	Thoughts  string `json:"reasoning"` // as other endpoints call it
	Calls     []struct {
		Index    *int     `json:"index"`
		ID       string   `json:"id"`
		Function Function `json:"function"`
	} `json:"tool_calls"`
}

var errTooLong = fmt.Errorf("its answer has more than %d MiB or %d tool calls", maxReply>>20, maxCalls)

// stream reads server-sent events.
func (r *reader) stream(body io.Reader) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxReply)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue // a comment, a name of an event, or the end of one
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			return r.complete()
		}
		last, err := r.take(data)
		if err != nil {
			return err
		}
		if last {
			return r.complete()
		}
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return errTooLong
		}
		return err
	}
	if r.finish == "" {
		return errors.New("the answer ended before its end")
	}
	return r.complete()
}

// whole reads an answer that is not streamed.
func (r *reader) whole(body io.Reader) error {
	raw, err := io.ReadAll(io.LimitReader(body, maxReply+1))
	if err != nil {
		return err
	}
	if len(raw) > maxReply {
		return errTooLong
	}
	if _, err := r.take(raw); err != nil {
		return err
	}
	return r.complete()
}

// take takes a piece of an answer, or all of it; last says that nothing comes behind it.
func (r *reader) take(data []byte) (last bool, err error) {
	if r.messages {
		return r.addEvent(data)
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return false, fmt.Errorf("its answer cannot be read: %w", err)
	}
	return false, r.add(&c)
}

func (r *reader) complete() error {
	if !r.chosen {
		return errors.New("it gave no answer")
	}
	return nil
}

func (r *reader) add(c *chunk) error {
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return &Error{Status: 200, Message: messageOf([]byte(`{"error":` + string(c.Error) + `}`))}
	}
	if c.Usage != nil {
		r.usage = *c.Usage
	}
	if len(c.Choices) == 0 {
		return nil
	}
	r.chosen = true
	choice := &c.Choices[0]
	if choice.Finish != "" {
		r.finish = choice.Finish
	}
	for _, p := range []*piece{&choice.Delta, &choice.Message} {
		if err := r.piece(p); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) piece(p *piece) error {
	r.size += len(p.Content) + len(p.Reasoning) + len(p.Thoughts)
	for _, c := range p.Calls {
		r.size += len(c.Function.Name) + len(c.Function.Arguments)
	}
	if r.size > maxReply {
		return errTooLong
	}
	d := Delta{Text: p.Content, Reasoning: p.Reasoning + p.Thoughts}
	r.text.WriteString(d.Text)
	r.reasoning.WriteString(d.Reasoning)
	if d != (Delta{}) {
		r.each(d)
	}
	for n, c := range p.Calls {
		i := n // of an answer as a whole
		switch {
		case c.Index != nil:
			i = *c.Index
		case c.ID == "" && len(r.calls) > 0: // more of the last one
			i = len(r.calls) - 1
		case c.ID != "":
			i = len(r.calls)
		}
		if i < 0 || i >= maxCalls {
			return errTooLong
		}
		for len(r.calls) <= i {
			r.calls, r.args = append(r.calls, Call{Type: "function"}), append(r.args, nil)
		}
		if c.ID != "" {
			r.calls[i].ID = c.ID
		}
		r.calls[i].Function.Name += c.Function.Name
		r.args[i] = append(r.args[i], c.Function.Arguments...)
	}
	return nil
}

// reply is all of it. A call without an id gets one, by which its result is told.
func (r *reader) reply() *Reply {
	for i := range r.calls {
		r.calls[i].Function.Arguments = string(r.args[i])
		if r.calls[i].ID == "" {
			r.calls[i].ID = fmt.Sprintf("call-%d", i)
		}
	}
	return &Reply{
		Message:   Message{Role: "assistant", Content: r.text.String(), Calls: r.calls},
		Reasoning: r.reasoning.String(), Finish: r.finish, Usage: r.usage,
	}
}
