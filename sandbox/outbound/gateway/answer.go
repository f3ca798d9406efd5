package gateway

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// noAnswer says in a sentence why an answer with a status of success is none. Numbers are not
// in it, as that of a port: opencode takes 429 or 500 in an error for a reason to try again.
type noAnswer struct{ why string }

func (n *noAnswer) Error() string { return n.why }

// noAnswerStatus takes the place of an answer that is none. Agents stop at it.
const noAnswerStatus = http.StatusBadRequest

// An answerReader passes the answer of a chat completion on as agents need it. Some call the
// model again at once, without an end, after an answer that ends without a reason that they
// know. What is complete is closed with one; what says nothing becomes an error.
type answerReader struct {
	r      *bufio.Reader
	ready  []byte // to be delivered
	err    error  // after ready
	passed bool   // something was delivered already, so that it cannot be answered with a status
	said   said
}

// said holds what was read of an answer.
type said struct {
	text, thought, finished, failed, done bool
	unknown                               bool // it has events that say nothing, or nothing that is known here

	calls map[int]*saidCall
	// sum digests what the answer says, to tell it from another one.
	sum digest
}

type saidCall struct {
	name      string
	arguments []byte
	unread    bool // there is more than is kept
}

const (
	longestEvent  = 16 << 20 // of a stream, in bytes; longer ones pass as they are
	longestAnswer = 32 << 20 // of one that is no stream
	keptArguments = 4 << 20
)

// answered makes the answer to a call that asks for a stream one that agents can take, or fails
// with a *noAnswer. It returns when the answer has begun to say something.
func (c *call) answered(res *http.Response, body io.Reader) (*answerReader, error) {
	a := &answerReader{r: bufio.NewReaderSize(body, 64<<10), said: said{calls: map[int]*saidCall{}}}
	first, err := a.first()
	switch {
	case err != nil:
		return a, err
	case first == '{':
		err = a.whole()
	case isField(a.peek()):
		err = a.begin()
	default:
		err = &noAnswer{fmt.Sprintf("the endpoint answers with %s where the model's answer should be; check LLM_HOST and the model's name", kindOf(res, a.peek()))}
	}
	if err != nil {
		return a, err
	}
	res.Header.Set("Content-Type", "text/event-stream")
	res.Header.Del("Content-Length")
	res.ContentLength = -1
	a.passed = true
	return a, nil
}

// first returns the first byte of the answer that is no blank.
func (a *answerReader) first() (byte, error) {
	if mark, _ := a.r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = a.r.Discard(len(mark))
	}
	for {
		b, err := a.r.ReadByte()
		if errors.Is(err, io.EOF) {
			return 0, a.nothing()
		}
		if err != nil {
			return 0, err
		}
		if b > ' ' {
			return b, a.r.UnreadByte()
		}
	}
}

func (a *answerReader) peek() []byte {
	_, _ = a.r.Peek(1) // fills the buffer
	begin, _ := a.r.Peek(max(1, min(a.r.Buffered(), 64)))
	return begin
}

func (a *answerReader) nothing() error {
	return &noAnswer{"the model answered with nothing: no text, no tool call"}
}

// isField reports whether a body begins as a stream of events does.
func isField(begin []byte) bool {
	return slices.ContainsFunc([]string{":", "data:", "event:", "id:", "retry:"}, func(field string) bool {
		n := min(len(begin), len(field))
		return n > 0 && string(begin[:n]) == field[:n]
	})
}

// kindOf names the kind of a body that is no answer.
func kindOf(res *http.Response, begin []byte) string {
	if kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";"); bytes.HasPrefix(begin, []byte("<")) || kind == "text/html" {
		return "a web page"
	} else if kind != "" && kind != "text/event-stream" {
		return "something of the type " + short(kind)
	}
	return "something else"
}

func (a *answerReader) Read(p []byte) (int, error) {
	for len(a.ready) == 0 {
		if a.err != nil {
			return 0, a.err
		}
		a.step()
	}
	n := copy(p, a.ready)
	a.ready = a.ready[n:]
	return n, nil
}

// begin reads until the answer says something.
func (a *answerReader) begin() error {
	for !a.said.any() && !a.said.unknown && !a.said.failed && !a.said.finished && a.err == nil {
		a.step()
	}
	if _, ok := errors.AsType[*noAnswer](a.err); ok || a.err != nil && !errors.Is(a.err, io.EOF) {
		return a.err
	}
	return nil
}

func (s *said) any() bool { return s.text || s.thought || len(s.calls) > 0 }

// step takes in the next event of the stream, or its end.
func (a *answerReader) step() {
	event, err := a.event()
	if len(event) > 0 {
		if e := a.take(event); e != nil {
			a.fail(e)
			return
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		if e := a.close(); e != nil {
			a.fail(e)
			return
		}
		a.err = io.EOF
	case err != nil:
		a.err = err
	}
}

// fail ends the answer with an error.
func (a *answerReader) fail(err error) {
	if !a.passed {
		a.err = err
		return
	}
	data, _ := json.Marshal(err.Error()) // strings always marshal
	a.ready = append(a.ready, fmt.Sprintf("data: {\"error\":{\"message\":%s,\"type\":\"gateway_error\",\"code\":\"no_answer\"}}\n\ndata: [DONE]\n\n", data)...)
	a.err = io.EOF
}

// event reads the lines of an event with the blank line after it.
func (a *answerReader) event() ([]byte, error) {
	var event []byte
	for {
		line, err := a.r.ReadSlice('\n')
		event = append(event, line...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return event, err
		case len(bytes.TrimRight(line, "\r\n")) == 0:
			return event, nil
		}
		if len(event) > longestEvent {
			return event, nil
		}
	}
}

// take passes an event on, changed where it ends the answer in a way that agents do not know.
func (a *answerReader) take(event []byte) error {
	data := dataOf(event)
	text := bytes.TrimSpace(data)
	switch {
	case len(event) > longestEvent:
		a.said.text = true
	case len(text) == 0:
		a.said.unknown = true // a sign of life, which agents wait for
	case string(text) == "[DONE]":
		return a.close()
	default:
		changed, err := a.said.chunk(text)
		if err != nil {
			return &noAnswer{"the model " + err.Error()}
		}
		if changed != nil {
			event = slices.Concat([]byte("data: "), changed, []byte("\n\n"))
		}
	}
	if a.said.done {
		return nil // what comes after the end
	}
	if !bytes.HasSuffix(event, []byte("\n")) {
		event = append(event, "\n\n"...)
	}
	a.ready = append(a.ready, event...)
	return nil
}

// dataOf returns the data of an event.
func dataOf(event []byte) []byte {
	var data []byte
	for line := range bytes.Lines(event) {
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(data, rest...)
		}
	}
	return data
}

// close ends the stream, with a reason when none was given.
func (a *answerReader) close() error {
	s := &a.said
	if s.done {
		return nil
	}
	if !s.finished && !s.failed {
		reason, err := s.reason("")
		switch {
		case err != nil:
			return &noAnswer{"the model " + err.Error()}
		case !s.any():
			return a.nothing()
		}
		a.ready = append(a.ready, fmt.Sprintf("data: {\"id\":\"end\",\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":\"\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\n", reason)...)
	}
	s.done = true
	a.ready = append(a.ready, "data: [DONE]\n\n"...)
	return nil
}

// wireChoice holds a choice of an answer, in a stream or as a whole.
type wireChoice struct {
	Delta, Message *wireSaid
	FinishReason   *string `json:"finish_reason"`
}

type wireSaid struct {
	Content   json.RawMessage `json:"content"`
	Refusal   json.RawMessage `json:"refusal"`
	Thought   json.RawMessage `json:"reasoning_content"`
	Reasoning json.RawMessage `json:"reasoning"`
	ToolCalls []struct {
		Index    *int
		Function struct {
			Name      string
			Arguments json.RawMessage
		}
	} `json:"tool_calls"`
}

// chunk takes in a chunk, or a whole completion, and returns it changed where it must be.
func (s *said) chunk(data []byte) (changed []byte, err error) {
	var head struct {
		Error   json.RawMessage
		Choices json.RawMessage
	}
	if json.Unmarshal(data, &head) != nil {
		return nil, errors.New("answers with something that is no JSON")
	}
	if len(head.Error) > 0 && string(head.Error) != "null" {
		s.failed = true
		return nil, nil
	}
	var choices []wireChoice
	if json.Unmarshal(head.Choices, &choices) != nil || len(choices) == 0 {
		s.unknown = s.unknown || head.Choices == nil
		return nil, nil // or the usage
	}
	first := choices[0]
	for _, part := range []*wireSaid{first.Delta, first.Message} {
		if part != nil {
			s.part(part)
		}
	}
	if first.FinishReason == nil || *first.FinishReason == "" {
		return nil, nil
	}
	reason, err := s.reason(*first.FinishReason)
	if err != nil {
		return nil, err
	}
	s.finished = true
	if reason == *first.FinishReason {
		return nil, nil
	}
	return withReason(data, reason), nil
}

// part takes in what a choice says.
func (s *said) part(p *wireSaid) {
	s.text = s.sum.add('t', p.Content, p.Refusal) || s.text
	s.thought = s.sum.add('r', p.Thought, p.Reasoning) || s.thought
	for i, call := range p.ToolCalls {
		index := i
		if call.Index != nil {
			index = *call.Index
		}
		known := s.calls[index]
		if known == nil {
			known = &saidCall{}
			s.calls[index] = known
		}
		known.name = cmp.Or(known.name, call.Function.Name)
		s.sum.add('c', call.Function.Arguments)
		s.sum.text('n', call.Function.Name)
		var text string
		if json.Unmarshal(call.Function.Arguments, &text) != nil {
			text = string(call.Function.Arguments) // an object, as some write it
		}
		if len(known.arguments)+len(text) > keptArguments {
			known.unread = true
			continue
		}
		known.arguments = append(known.arguments, text...)
	}
}

// reason returns the finish_reason that agents know for one that the endpoint has given; empty
// is none.
func (s *said) reason(given string) (string, error) {
	switch strings.ToLower(given) {
	case "length", "max_tokens", "max_length":
		return "length", nil
	case "content_filter":
		return "content_filter", nil
	case "error":
		return "", errors.New("ended its answer with an error that it does not name")
	}
	if len(s.calls) == 0 {
		if (given == "tool_calls" || given == "function_call") && !s.text {
			return "", errors.New("asks for a tool and names none")
		}
		return "stop", nil
	}
	for _, call := range s.calls {
		if given == "" && !call.unread && len(bytes.TrimSpace(call.arguments)) > 0 && !json.Valid(call.arguments) {
			return "", fmt.Errorf("broke off in the middle of a call of the tool %q", short(call.name))
		}
	}
	return "tool_calls", nil
}

// withReason returns a chunk with another finish_reason in its first choice.
func withReason(data []byte, reason string) []byte {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var chunk map[string]any
	if d.Decode(&chunk) != nil {
		return nil
	}
	choices, _ := chunk["choices"].([]any)
	if len(choices) == 0 {
		return nil
	}
	choice, _ := choices[0].(map[string]any)
	choice["finish_reason"] = reason
	changed, err := json.Marshal(chunk)
	if err != nil {
		return nil
	}
	return changed
}

// whole makes a stream of an answer that is none.
func (a *answerReader) whole() error {
	data, err := io.ReadAll(io.LimitReader(a.r, longestAnswer))
	if err != nil {
		return err
	}
	changed, err := a.said.chunk(data)
	switch {
	case err != nil:
		return &noAnswer{"the model " + err.Error()}
	case a.said.failed:
		b := observedBody{tail: data}
		return &noAnswer{"the model failed: " + cmp.Or(b.message(), "it says no reason")}
	case !a.said.any() && !a.said.finished:
		return a.nothing()
	}
	if changed != nil {
		data = changed
	}
	a.ready = slices.Concat([]byte("data: "), bytes.ReplaceAll(asChunk(data), []byte("\n"), nil), []byte("\n\n"))
	a.err = io.EOF
	return a.close()
}

// asChunk returns a completion as the chunk of a stream.
func asChunk(data []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var whole map[string]any
	if d.Decode(&whole) != nil {
		return data
	}
	whole["object"] = "chat.completion.chunk"
	choices, _ := whole["choices"].([]any)
	for _, c := range choices {
		choice, _ := c.(map[string]any)
		message, ok := choice["message"].(map[string]any)
		if !ok {
			continue
		}
		calls, _ := message["tool_calls"].([]any)
		for i, c := range calls {
			if call, ok := c.(map[string]any); ok {
				call["index"] = i
			}
		}
		choice["delta"] = message
		delete(choice, "message")
	}
	chunk, err := json.Marshal(whole)
	if err != nil {
		return data
	}
	return chunk
}
