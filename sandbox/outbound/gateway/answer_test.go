package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/outbound/gateway"
)

// Answers that end in a way that agents do not know are closed for them, and what is no
// answer is an error.
func TestUnusualAnswers(t *testing.T) {
	const (
		hello = `data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}` + "\n\n"
		call  = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"shell","arguments":"{\"command\":"}}]}}]}` + "\n\n"
		rest  = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"ls\"}"}}]}}]}` + "\n\n"
		done  = "data: [DONE]\n\n"
	)
	end := func(reason string) string {
		return `data: {"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}` + "\n\n"
	}
	tests := []struct {
		name, kind, body string
		status           int
		want, finish     string
	}{
		{"usual", "", hello + end("stop") + done, 200, "hello", "stop"},
		{"no reason", "", hello + done, 200, "hello", "stop"},
		{"no reason and no end", "", hello, 200, "hello", "stop"},
		{"no blank line at the end", "", strings.TrimSuffix(hello, "\n\n"), 200, "hello", "stop"},
		{"line ends of another system", "", strings.ReplaceAll(hello, "\n", "\r\n"), 200, "hello", "stop"},
		{"reason unknown", "", hello + end("eos") + done, 200, "hello", "stop"},
		{"reason empty", "", hello + end("") + done, 200, "hello", "stop"},
		{"cut off in other words", "", hello + end("max_tokens") + done, 200, "hello", "length"},
		{"tool without a reason", "", call + rest + done, 200, "shell", "tool_calls"},
		{"tool that stops", "", call + rest + end("stop") + done, 200, "shell", "tool_calls"},
		{"tool in the middle", "", call + done, 200, "broke off in the middle of a call", ""},
		{"tools that are none, with text", "", hello + end("tool_calls") + done, 200, "hello", "stop"},
		{"tools that are none", "", end("tool_calls") + done, 400, "asks for a tool and names none", ""},
		{"no choices", "", `data: {"choices":[]}` + "\n\n" + done, 400, "answered with nothing", ""},
		{"only the end", "", done, 400, "answered with nothing", ""},
		{"only a remark", "", ": wait\n\n", 200, "answered with nothing", ""},
		{"nothing", "", "", 400, "answered with nothing", ""},
		{"no text", "", end("stop") + done, 200, "", "stop"},
		{"web page", "text/html", "<html><body>Sign in</body></html>", 400, "answers with a web page", ""},
		{"text", "text/plain", "It works!", 400, "something of the type text/plain", ""},
		{"events that are no JSON", "", "data: hello\n\n", 400, "no JSON", ""},
		{"JSON for a stream", "application/json", `{"choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`, 200, "hello", "stop"},
		{"JSON for a stream, a tool", "application/json", `{"choices":[{"index":0,"message":{"tool_calls":[{"id":"a","function":{"name":"shell","arguments":"{}"}}]},"finish_reason":"stop"}]}`, 200, `"index":0`, "tool_calls"},
		{"an error for a stream", "application/json", `{"error":{"message":"no such model"}}`, 400, "no such model", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
				if tt.kind != "" {
					w.Header().Set("Content-Type", tt.kind)
				} else {
					w.Header().Set("Content-Type", "text/event-stream")
				}
				for i := range tt.body { // in the smallest pieces
					_, _ = io.WriteString(w, tt.body[i:i+1])
					_ = http.NewResponseController(w).Flush()
				}
			})
			res, text := d.ask(`{"model":"m","stream":true}`)
			if res.StatusCode != tt.status || !strings.Contains(text, tt.want) {
				t.Errorf("the agent gets %d %q, want %d with %q", res.StatusCode, text, tt.status, tt.want)
			}
			if got := d.LastFinish(); got != tt.finish {
				t.Errorf("the answer ends with %q, want %q: %s", got, tt.finish, text)
			}
			if tt.finish != "" && strings.Count(text, "[DONE]") != 1 {
				t.Errorf("the stream has not one end: %q", text)
			}
			if e := d.events.last(t, 2); (e.Kind == gateway.Finished) != (tt.finish != "") {
				t.Errorf("the call ended as %s: %s", e.Kind, e.Message)
			}
		})
	}
}

// An agent that sends the same request again and again is paused until somebody asks it for
// something; one that learns something from each call is not, and the time in a request makes
// no difference.
func TestPausedWithoutProgress(t *testing.T) {
	calls, answer := 0, func(int) string { return "the same" }
	d := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		calls++
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q},\"finish_reason\":\"stop\"}]}\n\n", answer(calls))
	})
	ask := func(i int) int {
		res, _ := d.ask(fmt.Sprintf(`{"model":"m","stream":true,"messages":[{"content":"it is 10:%02d"}]}`, i))
		return res.StatusCode
	}
	first := 0
	for i := range 30 {
		if ask(i) != 200 {
			first = i
			break
		}
	}
	if first < 10 || first > 15 || calls != first {
		t.Fatalf("call %d was refused, and %d reached the model", first, calls)
	}
	if e := d.events.last(t, 2*first+2); e.Kind != gateway.Paused || !strings.Contains(e.Message, "Send another prompt") {
		t.Errorf("the call ended as %s: %s", e.Kind, e.Message)
	}
	d.Proceed()
	answer = func(n int) string { return fmt.Sprint("answer ", n) }
	for i := range 200 {
		if status := ask(i); status != 200 {
			t.Fatalf("call %d of an agent that comes further was answered with %d", i, status)
		}
	}
}
