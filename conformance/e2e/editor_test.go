package e2e

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// launch says what an editor starts.
type launch struct {
	command []string
	env     map[string]string // all of it
	uid     int
	gid     int
	dir     string
	serves  []string // further methods the client answers, besides permissions
	// unstable is the SDK's part for what the protocol has since it was released.
	unstable bool
}

// An editor is a Node process with the official SDK in it (editor.mjs), and the
// agent below that.
type editor struct {
	t     *testing.T
	node  *exec.Cmd
	stdin io.WriteCloser
	done  chan struct{} // closed when everything of node has been read

	// tolerant tests send what the SDK never would; its complaints about the
	// answers are no finding then.
	tolerant bool
	// expects is a finding that the test knows of: without it the test fails.
	expects string
	// allows is set by tests that are not about permissions: every request is
	// answered with its first allow_once.
	allows bool
	// answers, when set, gives the results of the agent's other requests.
	answers func(method string, params json.RawMessage) any
	// dies is set by tests that end the agent in the middle of a turn.
	dies bool

	// mu guards the fields below.
	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every event
	next    int           // request number
	events  []event
	rec     record
	replies map[int]event
	asked   map[int]event // requests of the agent
	sdk     []string      // what the SDK said on stderr
}

// An event is a line of editor.mjs.
type event struct {
	MS       float64 `json:"ms"`
	Ev       string  `json:"ev"`
	Dir      string  `json:"dir"`
	Line     string  `json:"line"`
	Problems []string
	N        int
	Method   string
	Params   json.RawMessage
	Result   json.RawMessage
	Error    json.RawMessage
	PID      int
	Code     *int
	Signal   string
}

func (e event) at() time.Duration { return time.Duration(e.MS * float64(time.Millisecond)) }

// An rpcError is an error response of the agent.
type rpcError struct {
	Code    int
	Message string
	Data    json.RawMessage
}

func (e *rpcError) Error() string { return fmt.Sprintf("%d %s %s", e.Code, e.Message, e.Data) }

// code returns the code of an error response, 0 for anything else.
func code(err error) int {
	if e, ok := errors.AsType[*rpcError](err); ok {
		return e.Code
	}
	return 0
}

// startEditor starts the agent. When the test ends the agent is ended, and all
// frames are checked.
func startEditor(t *testing.T, l launch) *editor {
	t.Helper()
	needClients(t)
	arg, err := json.Marshal(map[string]any{
		"command": l.command, "env": l.env, "uid": l.uid, "gid": l.gid, "cwd": l.dir, "serves": l.serves, "unstable": l.unstable,
	})
	if err != nil {
		t.Fatal(err)
	}
	e := &editor{
		t: t, done: make(chan struct{}), changed: make(chan struct{}),
		replies: map[int]event{}, asked: map[int]event{},
	}
	e.node = exec.Command("node", "editor.mjs", string(arg))
	if e.stdin, err = e.node.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := e.node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	complaints, err := e.node.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.node.Start(); err != nil {
		t.Fatal(err)
	}
	go e.read(out, complaints)
	t.Cleanup(e.finish)
	return e
}

func (e *editor) read(out, complaints io.Reader) {
	defer close(e.done)
	var both sync.WaitGroup
	both.Go(func() {
		eachLine(out, func(line string) {
			var ev event
			if err := json.Unmarshal([]byte(line), &ev); err != nil {
				e.note(func() { e.sdk = append(e.sdk, line) })
				return
			}
			e.note(func() { e.add(ev) })
		})
	})
	both.Go(func() {
		eachLine(complaints, func(line string) { e.note(func() { e.sdk = append(e.sdk, line) }) })
	})
	both.Wait()
}

func eachLine(r io.Reader, f func(string)) {
	b := bufio.NewReader(r)
	for {
		line, err := b.ReadString('\n')
		if line != "" {
			f(strings.TrimRight(line, "\n"))
		}
		if err != nil {
			return
		}
	}
}

func (e *editor) note(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
	close(e.changed)
	e.changed = make(chan struct{})
}

// add is called with mu held.
func (e *editor) add(ev event) {
	e.events = append(e.events, ev)
	switch ev.Ev {
	case "frame":
		e.rec.add(parseFrame(ev))
	case "reply":
		e.replies[ev.N] = ev
	case "asked":
		e.asked[ev.N] = ev
		if e.answers != nil && ev.Method != "session/request_permission" {
			e.write(map[string]any{"op": "answer", "n": ev.N, "result": e.answers(ev.Method, ev.Params)})
			return
		}
		if e.allows {
			e.allow(ev)
		}
	}
}

// allow is called with mu held.
func (e *editor) allow(ev event) {
	var p permission
	_ = json.Unmarshal(ev.Params, &p) // without an option the answer is none
	for _, o := range p.Options {
		if o.Kind == "allow_once" {
			result := map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": o.OptionID}}
			e.write(map[string]any{"op": "answer", "n": ev.N, "result": result})
			return
		}
	}
}

// do sends an operation to editor.mjs.
func (e *editor) do(op string, fields map[string]any) {
	e.t.Helper()
	if fields == nil {
		fields = map[string]any{}
	}
	fields["op"] = op
	e.mu.Lock()
	defer e.mu.Unlock()
	e.write(fields)
}

// write is called with mu held.
func (e *editor) write(fields map[string]any) {
	e.t.Helper()
	line, err := json.Marshal(fields)
	if err == nil {
		_, err = e.stdin.Write(append(line, '\n'))
	}
	if err != nil {
		e.t.Errorf("the editor is gone: %v", err)
	}
}

// wait waits until find, which is asked with mu held, has what it looks for.
func (e *editor) wait(what string, find func() bool) {
	e.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		e.mu.Lock()
		found, changed := find(), e.changed
		e.mu.Unlock()
		if found {
			return
		}
		select {
		case <-changed:
		case <-e.done:
			e.mu.Lock()
			found = find()
			e.mu.Unlock()
			if !found {
				e.t.Fatalf("the editor ended before: %s", what)
			}
			return
		case <-timeout.C:
			e.t.Fatalf("waited %v for: %s", patience, what)
		}
	}
}

// event waits for an event that fits and returns it.
func (e *editor) event(what string, fits func(event) bool) event {
	e.t.Helper()
	var got event
	e.wait(what, func() bool {
		for _, ev := range e.events {
			if fits(ev) {
				got = ev
				return true
			}
		}
		return false
	})
	return got
}

// begin sends a request and returns its number, for reply.
func (e *editor) begin(method string, params any) int {
	e.t.Helper()
	e.mu.Lock()
	e.next++
	n := e.next
	e.mu.Unlock()
	e.do("request", map[string]any{"n": n, "method": method, "params": params})
	return n
}

// reply waits for the answer of a request, as the SDK delivers it.
func (e *editor) reply(n int, result any) error {
	e.t.Helper()
	var ev event
	e.wait(fmt.Sprintf("the answer of request %d", n), func() (ok bool) { ev, ok = e.replies[n]; return ok })
	if ev.Error != nil {
		re := new(rpcError)
		if err := json.Unmarshal(ev.Error, re); err != nil {
			return fmt.Errorf("%s", ev.Error)
		}
		return re
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(ev.Result, result); err != nil {
		e.t.Fatalf("the result %s: %v", ev.Result, err)
	}
	return nil
}

// request sends a request and waits for its answer.
func (e *editor) request(method string, params, result any) error {
	e.t.Helper()
	return e.reply(e.begin(method, params), result)
}

func (e *editor) notify(method string, params any) {
	e.t.Helper()
	e.do("notify", map[string]any{"method": method, "params": params})
}

// raw sends a line past the SDK.
func (e *editor) raw(line string) {
	e.t.Helper()
	e.do("raw", map[string]any{"line": base64.StdEncoding.EncodeToString([]byte(line))})
}

// initialize greets the agent and returns its whole answer.
func (e *editor) initialize() initialized {
	e.t.Helper()
	return e.initializeWith(map[string]any{})
}

// initializeWith is initialize with what the editor can do.
func (e *editor) initializeWith(capabilities map[string]any) initialized {
	e.t.Helper()
	var got initialized
	err := e.request("initialize", map[string]any{
		"protocolVersion": 1, "clientCapabilities": capabilities,
		"clientInfo": map[string]any{"name": "gander-e2e", "version": "1"},
	}, &got)
	if err != nil {
		e.t.Fatalf("initialize: %v", err)
	}
	if got.ProtocolVersion != 1 {
		e.t.Errorf("initialize answers protocol version %d, want 1", got.ProtocolVersion)
	}
	return got
}

type initialized struct {
	ProtocolVersion   int
	AgentCapabilities map[string]any
	AgentInfo         struct{ Name, Version string }
	AuthMethods       []any
}

// pid waits for the process id of the agent.
func (e *editor) pid() int {
	e.t.Helper()
	return e.event("the agent's process id", func(ev event) bool { return ev.Ev == "spawned" }).PID
}

// exit waits until the agent has ended and its streams are closed.
func (e *editor) exit() event {
	e.t.Helper()
	return e.event("the end of the agent", func(ev event) bool { return ev.Ev == "exit" })
}

// stderr returns what the agent has written there.
func (e *editor) stderr() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	for _, ev := range e.events {
		if ev.Ev == "stderr" {
			b.WriteString(ev.Line + "\n")
		}
	}
	return b.String()
}

// permission waits for the n-th permission request (from 1) and returns it.
func (e *editor) permission(n int) permission {
	e.t.Helper()
	var ev event
	e.wait(fmt.Sprintf("permission request %d", n), func() (ok bool) { ev, ok = e.asked[n]; return ok })
	var p permission
	if err := json.Unmarshal(ev.Params, &p); err != nil {
		e.t.Fatal(err)
	}
	p.n = n
	return p
}

type permission struct {
	n         int
	SessionID string `json:"sessionId"`
	ToolCall  update
	Options   []permissionOption
}

type permissionOption struct{ OptionID, Name, Kind string }

// choose answers a permission request with the first option of a kind, or, for
// "cancelled", without one.
func (e *editor) choose(p permission, kind string) {
	e.t.Helper()
	outcome := map[string]any{"outcome": "cancelled"}
	if kind != "cancelled" {
		for _, o := range p.Options {
			if o.Kind == kind {
				outcome = map[string]any{"outcome": "selected", "optionId": o.OptionID}
				break
			}
		}
		if outcome["optionId"] == nil {
			e.t.Fatalf("no option of kind %s in %+v", kind, p.Options)
		}
	}
	e.do("answer", map[string]any{"n": p.n, "result": map[string]any{"outcome": outcome}})
}

// end closes the agent's stdin and waits until it has ended.
func (e *editor) end() event {
	e.t.Helper()
	e.do("closeStdin", nil)
	return e.exit()
}

// finish ends everything and checks what was recorded.
func (e *editor) finish() {
	e.mu.Lock()
	exited := len(e.events) > 0 && e.events[len(e.events)-1].Ev == "exit"
	e.mu.Unlock()
	if !exited {
		e.do("closeStdin", nil)
	}
	e.awaitExit()
	_ = e.stdin.Close()
	<-e.done
	if err := e.node.Wait(); err != nil {
		e.t.Errorf("the editor: %v", err)
	}
	e.checkFrames()
	if e.t.Failed() {
		e.dump()
	}
}

// awaitExit waits for the agent's end without ending the test: it runs in cleanup.
func (e *editor) awaitExit() {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		e.mu.Lock()
		changed := e.changed
		exited := false
		for _, ev := range e.events {
			exited = exited || ev.Ev == "exit"
		}
		e.mu.Unlock()
		if exited {
			return
		}
		select {
		case <-changed:
		case <-e.done:
			return
		case <-deadline.C:
			e.t.Errorf("the agent did not end within %v of its stdin being closed", patience)
			return
		}
	}
}

// dump logs the end of the story of a failed test.
func (e *editor) dump() {
	e.mu.Lock()
	defer e.mu.Unlock()
	const tail, width = 40, 300
	events := e.events
	if len(events) > tail {
		events = events[len(events)-tail:]
	}
	for _, ev := range events {
		text := ev.Line
		switch ev.Ev {
		case "notified", "asked", "reply":
			continue // the frame is there as well
		case "exit":
			text = "signal " + ev.Signal
			if ev.Code != nil {
				text = fmt.Sprintf("code %d", *ev.Code)
			}
		}
		if len(text) > width {
			text = text[:width] + "…"
		}
		e.t.Logf("%8.0f ms %s %s %s", ev.MS, ev.Ev, ev.Dir, text)
	}
	for _, line := range e.sdk {
		if e.tolerant {
			break
		}
		e.t.Logf("sdk: %s", line)
	}
}
