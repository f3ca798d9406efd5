package acp_test

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

	"gander.dev/gander/acp"
	"gander.dev/gander/acp/acptest"
)

const (
	fuzzLine  = 4 << 10
	fuzzFrame = 8 << 10
)

// converse sends input to an agent, closes, and returns the frames that came back.
func converse(t *testing.T, input []byte, agent *acptest.Agent) [][]byte {
	in, toAgent := io.Pipe()
	fromAgent, out := net.Pipe()
	_ = fromAgent.SetDeadline(time.Now().Add(patience))
	served := make(chan error, 1)
	go func() {
		served <- acp.ServeAgent(context.Background(), duplex{in, out}, agent.New, &acp.Options{MaxLine: fuzzLine, MaxFrame: fuzzFrame})
	}()
	go func() {
		_, _ = toAgent.Write(input)
		_ = toAgent.Close()
	}()
	var frames [][]byte
	lines := bufio.NewReader(fromAgent)
	for {
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

// checkFrames checks what holds for every frame and returns how often each id was answered.
func checkFrames(t *testing.T, frames [][]byte) map[string]int {
	answers := map[string]int{}
	for _, frame := range frames {
		var m struct {
			JSONRPC string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Method  string          `json:"method"`
			Result  json.RawMessage `json:"result"`
			Error   json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(frame, &m); err != nil || m.JSONRPC != "2.0" || len(frame) > fuzzFrame {
			t.Fatalf("a bad frame of %d bytes (%v): %.300s", len(frame), err, frame)
		}
		if m.Method == "" {
			if (m.Result == nil) == (m.Error == nil) {
				t.Fatalf("not a response: %.300s", frame)
			}
			answers[string(m.ID)]++
		}
	}
	return answers
}

// FuzzStream sends anything: the agent lives on, and answers a line at most once.
func FuzzStream(f *testing.F) {
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}` + "\n"
	for _, seed := range []string{
		"", "\n", "hello", "\xff\xfe", "[]", "{}", "null\n1\n\"x\"\n",
		hello, "\ufeff" + hello + "\r\n", strings.TrimSpace(hello),
		`{"jsonrpc":"2.0","id":1.5,"method":"x"}` + "\n" + `{"jsonrpc":"2.0","id":null,"method":"x"}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}` + "\n" + `{"jsonrpc":"2.0","id":1,"error":7}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{}}}`,
		hello + `{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"\ud83d"}]}}`,
		hello + `{"jsonrpc":"2.0","id":3,"method":"session/new","params":{"cwd":"/","mcpServers":null}}` + "\n" + `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":3}}`,
		strings.Repeat("x", 2*fuzzLine) + "\n" + hello,
		strings.Repeat("[", 3000),
		"{\"\\u006dethod\":\"x\",\"id\":{},\"id\":\"\\\\\",\"jsonrpc\":\"2.0\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		const probe = `{"jsonrpc":"2.0","id":"the probe","method":"are/you/there"}`
		answers := checkFrames(t, converse(t, append(append([]byte(nil), input...), "\n"+probe...), &acptest.Agent{}))
		if n := answers[`"the probe"`]; n != 1 && !bytes.Contains(input, []byte("the probe")) {
			t.Errorf("the probe was answered %d times", n)
		}
		lines, total := 1, 0
		for line := range bytes.Lines(input) {
			if len(bytes.Trim(line, " \t\r\n")) > 0 {
				lines++
			}
		}
		for _, n := range answers {
			total += n
		}
		if total > lines {
			t.Errorf("%d answers to %d lines", total, lines)
		}
	})
}

// FuzzDispatch sends sequences of sensible messages: every request gets exactly
// one response, however they are ordered and cancelled.
func FuzzDispatch(f *testing.F) {
	for _, seed := range []string{"", "i", "in", "inpw", "inwwwcx", "inwpwpcinwx", "aiwwxxsmuk", "iiwiwc", "inkkkx", "wwwi", "inwWcCpP", "ifbfb"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		input, requests := compose(script[:min(len(script), 500)])
		answers := checkFrames(t, converse(t, input, &acptest.Agent{OnPrompt: scripted}))
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
	request := func(method, params string) {
		input = fmt.Appendf(input, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", requests, method, params)
		requests++
	}
	prompt := func(session, text string) {
		request("session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":%q}]}`, session, text))
	}
	notify := func(method, params string) {
		input = fmt.Appendf(input, `{"jsonrpc":"2.0","method":%q,"params":%s}`+"\n", method, params)
	}
	for i, op := range script {
		switch op {
		case 'i':
			request("initialize", `{"protocolVersion":1}`)
		case 'n':
			request("session/new", `{"cwd":"/","mcpServers":[]}`)
		case 'p':
			prompt("s1", "say a b")
		case 'P':
			prompt("s2", "say a b")
		case 'w':
			prompt("s1", "wait")
		case 'W':
			prompt("s2", "wait")
		case 'k':
			prompt("s1", "ask")
		case 'f':
			prompt("s1", "fail")
		case 'b':
			prompt("s1", "panic")
		case 's':
			request("session/set_mode", `{"sessionId":"s1","modeId":"m"}`)
		case 'm':
			request("session/close", `{"sessionId":"s1"}`)
		case 'a':
			request("authenticate", `{"methodId":"m"}`)
		case 'u':
			request("no/such", `{}`)
		case 'c':
			notify("session/cancel", `{"sessionId":"s1"}`)
		case 'C':
			notify("session/cancel", `{"sessionId":"s2"}`)
		default:
			notify("$/cancel_request", fmt.Sprintf(`{"requestId":%d}`, int(op)*i%max(1, requests)))
		}
	}
	return input, requests
}
