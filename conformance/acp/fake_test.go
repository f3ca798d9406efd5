package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"gander.dev/gander/conformance/harness"
)

// A fake is an agent that is just good enough to pass every check, in one process
// with as little as possible. With a defect it is good but for that.
type fake struct {
	defect string
	owner  string // in the environment of its commands
	writes chan string

	// mu guards what follows.
	mu       sync.Mutex
	out      *bufio.Writer
	sessions map[string]*fakeSession
	running  map[string]context.CancelFunc // prompts, by id
	answers  map[string]chan json.RawMessage
	number   int
	saved    []func() // what is saved at the end only
	offered  bool     // the client offers everything
}

func (f *fake) broken(defect string) bool { return f.defect == defect }

// rewriting is the prefix of defects that change what is sent: rewrite:old=>new.
const rewriting = "rewrite:"

const ownerVariable = "FAKE_OWNER"

// TestMain makes this program the fake agent, and what helps it, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "fake-agent":
			runFake(os.Args[2])
			return
		case "fake-watch":
			watch(os.Args[2])
			return
		case "fake-mcp":
			mcpServer()
			return
		}
	}
	os.Exit(m.Run())
}

// runFake is the program of the fake agent.
func runFake(defect string) {
	f := &fake{
		defect: defect, owner: fmt.Sprintf("fake_%d_%d_", os.Getpid(), time.Now().UnixNano()), out: bufio.NewWriter(os.Stdout), writes: make(chan string, 32),
		sessions: map[string]*fakeSession{}, running: map[string]context.CancelFunc{}, answers: map[string]chan json.RawMessage{},
	}
	signal.Ignore(syscall.SIGPIPE)
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		<-term
		f.end(f.broken("leaves commands at SIGTERM"), 0)
	}()
	if !f.broken("nobody watches") && !strings.HasPrefix(defect, "leaves commands at") {
		startWatch(f.owner)
	}
	if f.broken("drops when slow") {
		go f.pump()
	}
	f.serve()
	code := 0
	if f.broken("fails at EOF") {
		code = 1
	}
	f.end(f.broken("leaves commands at EOF"), code)
}

func (f *fake) end(leave bool, code int) {
	f.mu.Lock()
	for _, save := range f.saved {
		save()
	}
	if !leave {
		harness.KillMarked(f.owner)
	}
	os.Exit(code)
}

func (f *fake) serve() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	n := 0
	for {
		line, err := lines.ReadBytes('\n')
		blank := len(bytes.TrimSpace(line)) == 0
		n++
		switch {
		case f.broken("dies of long lines") && len(line) > 1<<20, f.broken("dies of blank lines") && blank && err == nil,
			f.broken("dies of a batch") && bytes.HasPrefix(line, []byte("[")), f.broken("dies of depth") && bytes.Count(line, []byte("[")) > 1000:
			os.Exit(1)
		case f.broken("drops requests") && n%500 == 0:
		case !blank:
			f.handle(bytes.TrimSpace(line))
		}
		if err != nil {
			return
		}
	}
}

// A message is what a client sends.
type message struct {
	JSONRPC string
	ID      json.RawMessage
	Method  any
	Params  json.RawMessage
	Result  json.RawMessage
	Error   json.RawMessage
}

func (f *fake) handle(line []byte) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil || !utf8.Valid(line) {
		if f.broken("dies of garbage") {
			os.Exit(1)
		}
		if !f.broken("ignores garbage") {
			f.fail(json.RawMessage("null"), -32700, "no message")
		}
		return
	}
	method, ok := m.Method.(string)
	switch {
	case m.Result != nil || m.Error != nil:
		f.answered(m)
	case string(m.ID) == "null" && f.broken("dies of null ids"):
		os.Exit(1)
	case m.ID == nil && bytes.Contains(line, []byte(`"id":null`)):
	case m.ID == nil:
		f.notified(method, m.Params)
	case !ok && f.broken("answers invalid messages"):
		f.reply(m.ID, map[string]any{})
	case !ok:
		f.fail(m.ID, -32600, "no method")
	default:
		f.request(m.ID, method, m.Params)
	}
}

// answered takes an answer of the client.
func (f *fake) answered(m message) {
	f.mu.Lock()
	waiting := f.answers[string(m.ID)]
	delete(f.answers, string(m.ID))
	f.mu.Unlock()
	if waiting != nil {
		waiting <- m.Result
	} else if f.broken("answers responses") {
		f.fail(json.RawMessage("null"), -32600, "nobody asked")
	}
}

func (f *fake) notified(method string, params json.RawMessage) {
	var p struct {
		SessionID string
		RequestID json.RawMessage
	}
	if json.Unmarshal(params, &p) != nil && f.broken("answers notifications") {
		f.fail(json.RawMessage("null"), -32602, "no params")
	}
	switch method {
	case "session/cancel":
		f.cancelSession(p.SessionID)
	case "$/cancel_request":
		if f.broken("ignores $/cancel_request") {
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		for id, cancel := range f.running {
			if id == string(p.RequestID) || f.broken("takes any $/cancel_request") {
				cancel()
			}
		}
	}
}

// reply and fail send the answer to a request.
func (f *fake) reply(id json.RawMessage, result any) {
	if f.broken("rounds ids") && len(id) > 15 && id[0] != '"' {
		id = json.RawMessage(`9007199254740992`)
	}
	line := map[string]any{"jsonrpc": "2.0", "id": id, "result": result}
	f.send(line)
	if f.broken("answers twice") {
		f.send(line)
	}
}

func (f *fake) fail(id json.RawMessage, code int, text string) {
	if f.broken("rounds ids") && len(id) > 15 && id[0] != '"' {
		id = json.RawMessage(`9007199254740992`)
	}
	f.send(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": text}})
}

func (f *fake) tell(method string, params any) {
	f.send(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
}

func (f *fake) send(v any) {
	text := harness.Marshal(v)
	if change, ok := strings.CutPrefix(f.defect, rewriting); ok {
		from, to, _ := strings.Cut(change, "=>")
		text = strings.ReplaceAll(text, from, to)
	}
	if f.broken("drops when slow") {
		if strings.Contains(text, "session/update") {
			select {
			case f.writes <- text:
			default:
			}
			return
		}
		f.writes <- text
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.line(text)
}

// line writes a line; mu is held, or there is one writer only.
func (f *fake) line(text string) {
	if f.broken("logs to stdout") && strings.Contains(text, "stopReason") {
		fmt.Fprintln(f.out, "INFO a turn has ended")
	}
	fmt.Fprintln(f.out, text)
	_ = f.out.Flush()
}

func (f *fake) pump() {
	for text := range f.writes {
		f.line(text)
	}
}

// ask asks the client and waits for the answer, or the end of ctx.
func (f *fake) ask(ctx context.Context, method string, params any) json.RawMessage {
	f.mu.Lock()
	f.number++
	id := fmt.Sprintf(`"ask-%d"`, f.number)
	answer := make(chan json.RawMessage, 1)
	f.answers[id] = answer
	f.mu.Unlock()
	f.send(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": method, "params": params})
	if f.broken("waits for answers") {
		return <-answer
	}
	select {
	case result := <-answer:
		return result
	case <-ctx.Done():
		return nil
	}
}
