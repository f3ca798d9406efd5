package model_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gander.dev/gander/conformance/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what should happen at once; the machine may be busy.
const patience = 30 * time.Second

// client talks to a started server like an agent does.
type client struct {
	t      *testing.T
	server *model.Server
	base   string
	http   *http.Client
}

func start(t *testing.T, o model.Options) *client {
	t.Helper()
	s := model.New(o)
	base, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
		transport.CloseIdleConnections()
	})
	return &client{t, s, base, &http.Client{Transport: transport, Timeout: 2 * patience}}
}

func script(t *testing.T, text string) *model.Script {
	t.Helper()
	s, err := model.ParseScript([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type object = map[string]any

func user(text string) object   { return object{"role": "user", "content": text} }
func system(text string) object { return object{"role": "system", "content": text} }
func calls(ids ...string) object {
	var all []object
	for _, id := range ids {
		all = append(all, object{"id": id, "type": "function", "function": object{"name": "shell", "arguments": "{}"}})
	}
	return object{"role": "assistant", "tool_calls": all}
}

func result(id, text string) object {
	return object{"role": "tool", "tool_call_id": id, "content": text}
}

func request(messages ...object) object {
	return object{
		"model": "m", "stream": true, "stream_options": object{"include_usage": true}, "messages": messages,
		"tools": []object{{"type": "function", "function": object{"name": "shell"}}},
	}
}

// reply is a completion put together from its chunks.
type reply struct {
	status    int
	header    http.Header
	body      string // when it is no stream
	text      []string
	reasoning []string
	calls     []call
	finish    string
	usage     *model.Usage
	streamErr string
	done      bool
	err       error // of reading
}

type call struct {
	id, name, args string
	pieces         int // chunks with arguments
}

func (r reply) said() string { return strings.Join(r.text, "") }

func (c *client) post(ctx context.Context, body object, header ...string) (*http.Response, error) {
	c.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/chat/completions", strings.NewReader(string(data)))
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return c.http.Do(req)
}

// ask sends a request and reads all of the answer.
func (c *client) ask(body object, header ...string) reply {
	c.t.Helper()
	res, err := c.post(c.t.Context(), body, header...)
	if err != nil {
		return reply{err: err}
	}
	defer res.Body.Close()
	r := reply{status: res.StatusCode, header: res.Header}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		data, err := io.ReadAll(res.Body)
		r.body, r.err = string(data), err
		return r
	}
	r.readStream(c.t, res.Body)
	return r
}

func (r *reply) readStream(t *testing.T, body io.Reader) {
	t.Helper()
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case lines.Text() == "":
		case !ok:
			t.Errorf("not an event: %q", lines.Text())
		case data == "[DONE]":
			r.done = true
		default:
			r.add(t, data)
		}
	}
	r.err = lines.Err()
}

func (r *reply) add(t *testing.T, data string) {
	t.Helper()
	var c struct {
		Choices []struct {
			Delta struct {
				Content          string
				ReasoningContent string `json:"reasoning_content"`
				ToolCalls        []struct {
					Index    int
					ID       string
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
			FinishReason string `json:"finish_reason"`
		}
		Usage *model.Usage
		Error *struct{ Message string }
	}
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		t.Errorf("bad chunk %s: %v", data, err)
		return
	}
	if c.Error != nil {
		r.streamErr = c.Error.Message
	}
	if c.Usage != nil {
		r.usage = c.Usage
	}
	for _, ch := range c.Choices {
		if d := ch.Delta; d.Content != "" {
			r.text = append(r.text, d.Content)
		} else if d.ReasoningContent != "" {
			r.reasoning = append(r.reasoning, d.ReasoningContent)
		}
		for _, tc := range ch.Delta.ToolCalls {
			if tc.ID != "" {
				r.calls = append(r.calls, call{id: tc.ID, name: tc.Function.Name})
			}
			r.calls[tc.Index].args += tc.Function.Arguments
			r.calls[tc.Index].pieces++
		}
		if ch.FinishReason != "" {
			r.finish = ch.FinishReason
		}
	}
}

func TestSteps(t *testing.T) {
	for _, tt := range []struct {
		name, step string
		check      func(t *testing.T, r reply)
	}{
		{"text is streamed by words", `{"text":"one two  three"}`, func(t *testing.T, r reply) {
			if len(r.text) != 3 || r.said() != "one two  three" || r.finish != "stop" || !r.done {
				t.Errorf("got %+v", r)
			}
		}},
		{"tokens", `{"tokens":5}`, func(t *testing.T, r reply) {
			if len(r.text) != 5 || r.text[4] != "t4 " || r.usage.CompletionTokens != 5 {
				t.Errorf("got %+v", r)
			}
		}},
		{"reasoning", `{"reasoning":"think hard","text":"so"}`, func(t *testing.T, r reply) {
			if len(r.reasoning) != 2 || r.said() != "so" {
				t.Errorf("got %+v", r)
			}
		}},
		{"tool call", `{"text":"look","tool":"shell","args":{"command":"echo \"ü\" a long enough command"}}`, func(t *testing.T, r reply) {
			if len(r.calls) != 1 || r.calls[0].name != "shell" || r.finish != "tool_calls" || r.said() != "look" {
				t.Fatalf("got %+v", r)
			}
			if want := `{"command":"echo \"ü\" a long enough command"}`; r.calls[0].args != want {
				t.Errorf("args %s, want %s", r.calls[0].args, want)
			}
			if r.calls[0].pieces < 3 {
				t.Errorf("the arguments came in %d pieces", r.calls[0].pieces)
			}
		}},
		{"parallel tool calls", `{"tools":[{"tool":"a","args":{"x":1}},{"tool":"b"}]}`, func(t *testing.T, r reply) {
			if len(r.calls) != 2 || r.calls[0].args != `{"x":1}` || r.calls[1].args != "{}" || r.calls[0].id == r.calls[1].id {
				t.Errorf("got %+v", r)
			}
		}},
		{"malformed arguments", `{"tool":"shell","raw":"{\"command\": \"ec"}`, func(t *testing.T, r reply) {
			if len(r.calls) != 1 || r.calls[0].args != `{"command": "ec` {
				t.Errorf("got %+v", r)
			}
		}},
		{"status", `{"status":429,"headers":{"retry-after":"1"}}`, func(t *testing.T, r reply) {
			if r.status != 429 || r.header.Get("Retry-After") != "1" || !strings.Contains(r.body, `"message":"scripted 429 Too Many Requests"`) {
				t.Errorf("got %+v", r)
			}
		}},
		{"status with code", `{"status":400,"code":"context_length_exceeded","text":"maximum context length"}`, func(t *testing.T, r reply) {
			if r.status != 400 || r.body != `{"error":{"message":"maximum context length","type":"scripted","code":"context_length_exceeded"}}` {
				t.Errorf("got %+v", r)
			}
		}},
		{"status with JSON body", `{"status":500,"body":{"a":1}}`, func(t *testing.T, r reply) {
			if r.status != 500 || r.body != `{"a":1}` {
				t.Errorf("got %+v", r)
			}
		}},
		{"status with raw body", `{"status":502,"body":"<html>","headers":{"content-type":"text/html"}}`, func(t *testing.T, r reply) {
			if r.status != 502 || r.body != `<html>` || r.header.Get("Content-Type") != "text/html" {
				t.Errorf("got %+v", r)
			}
		}},
		{"drop before the headers", `{"drop":true,"text":"a"}`, func(t *testing.T, r reply) {
			if !errors.Is(r.err, io.EOF) || r.status != 0 {
				t.Errorf("got %+v", r)
			}
		}},
		{"drop after words", `{"drop":true,"text":"a b c","after":2}`, func(t *testing.T, r reply) {
			if !errors.Is(r.err, io.ErrUnexpectedEOF) || r.said() != "a b " || r.done {
				t.Errorf("got %+v", r)
			}
		}},
		{"drop after the headers", `{"drop":true,"text":"a","after":0}`, func(t *testing.T, r reply) {
			if !errors.Is(r.err, io.ErrUnexpectedEOF) || r.status != 200 || r.said() != "" {
				t.Errorf("got %+v", r)
			}
		}},
		{"error in the stream", `{"text":"a b c","error":{"message":"boom"},"after":1}`, func(t *testing.T, r reply) {
			if r.streamErr != "boom" || r.said() != "a " || r.done || r.err != nil || r.finish != "" {
				t.Errorf("got %+v", r)
			}
		}},
		{"error after all words", `{"text":"a b","error":{"message":"boom"}}`, func(t *testing.T, r reply) {
			if r.streamErr != "boom" || r.said() != "a b" || r.finish != "" {
				t.Errorf("got %+v", r)
			}
		}},
		{"finish and usage", `{"text":"a","finish":"length","usage":{"prompt_tokens":7,"completion_tokens":8}}`, func(t *testing.T, r reply) {
			if r.finish != "length" || *r.usage != (model.Usage{PromptTokens: 7, CompletionTokens: 8, TotalTokens: 15}) {
				t.Errorf("got %+v, usage %+v", r, r.usage)
			}
		}},
		{"hang for a while", `{"hang":1,"text":"a"}`, func(t *testing.T, r reply) {
			if r.said() != "a" || r.err != nil {
				t.Errorf("got %+v", r)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := start(t, model.Options{Script: script(t, `{"default":[`+tt.step+`]}`)})
			tt.check(t, c.ask(request(user("hello"))))
		})
	}
}

func TestWithoutStream(t *testing.T) {
	c := start(t, model.Options{Script: script(t, `{"default":[{"reasoning":"hm","text":"a b","tool":"shell","args":{"x":1}}]}`)})
	body := request(user("hello"))
	body["stream"] = false
	r := c.ask(body)
	var got struct {
		Object  string
		Choices []struct {
			Message struct {
				Role, Content string
				Reasoning     string `json:"reasoning_content"`
				ToolCalls     []struct {
					Type     string
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
			FinishReason string `json:"finish_reason"`
		}
		Usage model.Usage
	}
	if err := json.Unmarshal([]byte(r.body), &got); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
	m := got.Choices[0].Message
	if got.Object != "chat.completion" || m.Content != "a b" || m.Reasoning != "hm" || m.ToolCalls[0].Function.Arguments != `{"x":1}` ||
		got.Choices[0].FinishReason != "tool_calls" || got.Usage.TotalTokens == 0 {
		t.Errorf("got %s", r.body)
	}
}

func TestUsageOnlyWhenAsked(t *testing.T) {
	c := start(t, model.Options{})
	body := request(user("hello"))
	delete(body, "stream_options")
	if r := c.ask(body); r.usage != nil || r.said() != "ok" || !r.done {
		t.Errorf("got %+v", r)
	}
}

func TestKeyAndModels(t *testing.T) {
	c := start(t, model.Options{Key: "sesame", Models: []string{"m", "n"}})
	if r := c.ask(request(user("x"))); r.status != 401 || !strings.Contains(r.body, "invalid_api_key") {
		t.Errorf("without a key: %+v", r)
	}
	if r := c.ask(request(user("x")), "Authorization", "Bearer wrong"); r.status != 401 {
		t.Errorf("with a wrong key: %+v", r)
	}
	if r := c.ask(request(user("x")), "Authorization", "Bearer sesame"); r.said() != "ok" {
		t.Errorf("with the key: %+v", r)
	}
	body := request(user("x"))
	body["model"] = "other"
	if r := c.ask(body, "Authorization", "Bearer sesame"); r.status != 404 || !strings.Contains(r.body, "model_not_found") {
		t.Errorf("unknown model: %+v", r)
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+"/v1/models", nil)
	req.Header.Set("Authorization", "Bearer sesame")
	res, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, _ := io.ReadAll(res.Body)
	if !strings.Contains(string(data), `"id":"n"`) {
		t.Errorf("models: %s", data)
	}
}
