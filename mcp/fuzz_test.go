package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// converse sends input to a server, closes, and returns the lines that came back.
func converse(t *testing.T, input []byte) [][]byte {
	in, toServer := io.Pipe()
	fromServer, out := net.Pipe()
	_ = fromServer.SetDeadline(time.Now().Add(eternity))
	served := make(chan error, 1)
	tools := fakeTools(t)
	go func() {
		served <- Serve(context.Background(), duplex{in, out}, tools, Options{MaxLine: 4 << 10, Settle: time.Millisecond})
	}()
	go func() {
		_, _ = toServer.Write(input)
		_ = toServer.Close()
	}()
	var frames [][]byte
	for lines := bufio.NewReader(fromServer); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("the connection did not end: %v", err)
			}
			break
		}
		frames = append(frames, bytes.TrimSuffix(line, []byte("\n")))
	}
	if err := <-served; err != nil {
		t.Errorf("serving: %v", err)
	}
	return frames
}

// countAnswers checks what holds for every line and returns how often each id was answered.
func countAnswers(t *testing.T, frames [][]byte) map[string]int {
	answers := map[string]int{}
	count := func(frame json.RawMessage) {
		var m received
		if err := json.Unmarshal(frame, &m); err != nil || m.Version != "2.0" {
			t.Fatalf("not a message (%v): %.300s", err, frame)
		}
		if m.Method == "" {
			if (m.Result == nil) == (m.Error == nil) {
				t.Fatalf("not a response: %.300s", frame)
			}
			answers[string(m.ID)]++
		}
	}
	for _, frame := range frames {
		var batch []json.RawMessage
		if json.Unmarshal(frame, &batch) != nil {
			count(frame)
		}
		for _, m := range batch {
			count(m)
		}
	}
	return answers
}

// FuzzStream sends anything: the server lives on, and answers a line at most once.
func FuzzStream(f *testing.F) {
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}` + "\n"
	for _, seed := range []string{
		"", "\n", "hello", "\xff\xfe", "[]", "{}", "null\n1\n\"x\"\n", hello, "\ufeff" + hello + "\r\n", strings.TrimSpace(hello),
		hello + "[]\n[1,2]\n[[]]\n[{}]\n" + `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"}]`,
		`{"jsonrpc":"2.0","id":1.5,"method":"x"}` + "\n" + `{"jsonrpc":"2.0","id":null,"method":"x"}`,
		`{"jsonrpc":"2.0","id":{},"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","id":1,"error":7}`,
		callOf(1, "wait") + "\n" + cancelOf(1), callOf(`"\u0061"`, "wait") + "\n" + cancelOf(`"a"`),
		callOf(2, "shell"), `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"a":[1e400]},"_meta":{"progressToken":[]}}}`,
		`{"jsonrpc":"2.0","id":4,"method":"prompts/get","params":{"name":"greet","arguments":{"name":"{{"}}}`,
		`{"jsonrpc":"2.0","id":5,"method":"logging/setLevel","params":{"level":"emergency"}}`,
		strings.Repeat("x", 9<<10) + "\n" + hello, strings.Repeat("[", 3000),
		"{\"\\u006dethod\":\"ping\",\"id\":{},\"id\":\"\\\\\",\"jsonrpc\":\"2.0\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		const probe = `{"jsonrpc":"2.0","id":"the probe","method":"are/you/there"}`
		answers := countAnswers(t, converse(t, append(append([]byte(nil), input...), "\n"+probe...)))
		if n := answers[`"the probe"`]; n != 1 && !bytes.Contains(input, []byte("the probe")) {
			t.Errorf("the probe was answered %d times", n)
		}
		lines, total := 1, 0
		for line := range bytes.Lines(input) {
			if line = bytes.Trim(line, " \t\r\n"); len(line) > 0 {
				lines += 1 + bytes.Count(line, []byte(",")) // at most as many messages are in a batch
			}
		}
		for _, n := range answers {
			total += n
		}
		if total > lines {
			t.Errorf("%d answers to %d messages", total, lines)
		}
	})
}

// FuzzCalls sends sequences of sensible messages: every request gets exactly one
// answer, however they are ordered and cancelled.
func FuzzCalls(f *testing.F) {
	for _, seed := range []string{"", "i", "iwc", "wcwcwc", "wwwwcccc", "eswfcp", "ibscb", "sssscccc", "wzwzwz"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		input, requests := compose(script[:min(len(script), 300)])
		answers := countAnswers(t, converse(t, input))
		for id := range requests {
			if n := answers[fmt.Sprint(id)]; n != 1 {
				t.Errorf("%q: request %d was answered %d times", script, id, n)
			}
		}
		if len(answers) != requests {
			t.Errorf("%q: %d ids answered, %d asked", script, len(answers), requests)
		}
	})
}

// compose makes messages of a script, one per byte; requests are numbered from 0.
func compose(script []byte) (input []byte, requests int) {
	add := func(line string) { input = append(append(input, line...), '\n') }
	request := func(line string) {
		add(line)
		requests++
	}
	for i, op := range script {
		switch op {
		case 'i':
			request(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, requests))
		case 'w':
			request(callOf(requests, "wait"))
		case 'e':
			request(callOf(requests, "echo"))
		case 's':
			request(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"shell","arguments":{"command":"a b"},"_meta":{"progressToken":1}}}`, requests))
		case 'f':
			request(callOf(requests, "fail"))
		case 'p':
			request(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, requests))
		default:
			add(cancelOf(int(op) * i % max(1, requests)))
		}
	}
	return input, requests
}
