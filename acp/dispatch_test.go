package acp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"gander.dev/gander/acp"
)

// TestInitializeFirst: what is sent behind initialize starts when that is done.
func TestInitializeFirst(t *testing.T) {
	release := make(chan struct{})
	var order []string
	agent := &stubAgent{
		init: func(context.Context) error { <-release; order = append(order, "initialize"); return nil },
		open: func(context.Context) error { order = append(order, "session/new"); return nil },
	}
	r, wait := serveRaw(t, agent.new, nil)
	r.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`)
	r.send(`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}`)
	r.send(`garbage`) // answered meanwhile: reading goes on
	r.line()
	close(release)
	r.line()
	r.expect(`{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}`)
	_ = r.conn.Close()
	_ = wait()
	if got := strings.Join(order, " "); got != "initialize session/new" {
		t.Errorf("started %s", got)
	}
}

// TestSessionOrder: requests of one session start in arrival order, each when
// the one before has returned or called Release; another session is not held up.
func TestSessionOrder(t *testing.T) {
	started := make(chan string, 10)
	gates := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{}), "c": make(chan struct{}), "other": make(chan struct{})}
	agent := &stubAgent{}
	agent.prompt = func(ctx context.Context, req *acp.PromptRequest) (*acp.PromptResponse, error) {
		name := promptText(req)
		started <- name
		if name == "b" {
			acp.Release(ctx)
			acp.Release(ctx) // harmless
		}
		<-gates[name]
		return endTurn(), nil
	}
	r, wait := serveRaw(t, agent.new, nil)
	r.open()
	for i, name := range []string{"a", "b", "c"} {
		r.prompt(i, "s1", name)
	}
	r.prompt(9, "s2", "other")
	first, second := recv(t, started, "a start"), recv(t, started, "a start")
	if first+second != "aother" && first+second != "othera" {
		t.Fatalf("started %s and %s", first, second)
	}
	select {
	case name := <-started:
		t.Fatalf("%s started before a had returned", name)
	default:
	}
	close(gates["a"])
	r.expect(`{"jsonrpc":"2.0","id":0,"result":{"stopReason":"end_turn"}}`)
	if b, c := recv(t, started, "b"), recv(t, started, "c"); b != "b" || c != "c" {
		t.Fatalf("started %s, %s", b, c)
	}
	close(gates["c"])
	r.expect(`{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}`)
	close(gates["b"])
	r.expect(`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}`)
	close(gates["other"])
	r.line()
	_ = r.conn.Close()
	_ = wait()
}

// TestCancelRequest: $/cancel_request ends the context of exactly the request
// it names, also right behind it, and one that has not started.
func TestCancelRequest(t *testing.T) {
	agent := &stubAgent{}
	agent.prompt = func(ctx context.Context, _ *acp.PromptRequest) (*acp.PromptResponse, error) {
		<-ctx.Done()
		return nil, fmt.Errorf("stopping the model: %w", errors.New("signal: killed"))
	}
	r, wait := serveRaw(t, agent.new, nil)
	r.open()
	for i := range 200 {
		r.prompt(i, "s1", "x")
		r.send(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"%d"}}`, i) // another id
		r.send(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%d}}`, i)
		r.expect(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32800,"message":"Request cancelled"}}`, i))
	}
	r.prompt(1000, "s1", "x")
	r.prompt(1001, "s1", "waits for the first")
	r.send(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1001}}`)
	r.expect(`{"jsonrpc":"2.0","id":1001,"error":{"code":-32800,"message":"Request cancelled"}}`)
	r.send(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1000}}`)
	r.expect(`{"jsonrpc":"2.0","id":1000,"error":{"code":-32800,"message":"Request cancelled"}}`)
	_ = r.conn.Close()
	_ = wait()
}

// turns is an agent that knows its turns only from Release on, as a real one.
type turns struct {
	stubAgent
	// mu guards what follows.
	mu      sync.Mutex
	cancels []context.CancelFunc
}

func newTurns() *turns {
	a := &turns{}
	a.stubAgent.prompt = func(ctx context.Context, _ *acp.PromptRequest) (*acp.PromptResponse, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		a.mu.Lock()
		a.cancels = append(a.cancels, cancel)
		a.mu.Unlock()
		acp.Release(ctx)
		<-ctx.Done()
		return &acp.PromptResponse{StopReason: acp.StopCancelled}, nil
	}
	a.stubAgent.cancel = func(*acp.CancelNotification) {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, c := range a.cancels {
			c()
		}
		a.cancels = nil
	}
	return a
}

func (a *turns) new(c *acp.ClientConn) acp.Agent {
	a.client = c
	return a
}

// TestSessionCancelHits: session/cancel ends every prompt that was sent before
// it, wherever that is on its way, and none that is sent after it.
func TestSessionCancelHits(t *testing.T) {
	agent := newTurns()
	r, wait := serveRaw(t, agent.new, nil)
	r.open()
	for i := range 300 {
		n := i%4 + 1
		for k := range n {
			r.prompt(10*i+k, "s1", "x")
		}
		r.send(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}`)
		for range n {
			if got := r.line(); !strings.HasSuffix(got, `"result":{"stopReason":"cancelled"}}`) {
				t.Fatalf("round %d: %s", i, got)
			}
		}
	}
	_ = r.conn.Close()
	_ = wait()
}

// TestCancelIsInline: Cancel is called while a prompt that never releases runs.
func TestCancelIsInline(t *testing.T) {
	cancelled := make(chan struct{})
	var once sync.Once
	agent := &stubAgent{cancel: func(*acp.CancelNotification) { once.Do(func() { close(cancelled) }) }}
	agent.prompt = func(context.Context, *acp.PromptRequest) (*acp.PromptResponse, error) {
		<-cancelled
		return &acp.PromptResponse{StopReason: acp.StopCancelled}, nil
	}
	r, wait := serveRaw(t, agent.new, nil)
	r.open()
	r.prompt(1, "s1", "x")
	r.send(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}`)
	r.expect(`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}`)
	_ = r.conn.Close()
	_ = wait()
}

// TestAfterReply: what is sent from there follows the response, whatever that is.
func TestAfterReply(t *testing.T) {
	agent := &stubAgent{}
	agent.prompt = func(ctx context.Context, r *acp.PromptRequest) (*acp.PromptResponse, error) {
		acp.AfterReply(ctx, func() { _ = agent.say(t.Context(), "s1", "after "+promptText(r)) })
		switch promptText(r) {
		case "an error":
			return nil, errors.New("no")
		case "a panic":
			panic("no")
		}
		return &acp.PromptResponse{StopReason: acp.StopReason(strings.Repeat("x", 2_000_000))}, nil
	}
	agent.open = func(ctx context.Context) error {
		acp.AfterReply(ctx, func() { _ = agent.say(t.Context(), "s1", "hello") })
		return nil
	}
	r, wait := serveRaw(t, agent.new, nil)
	r.open() // expects the response first
	if got := r.line(); !strings.Contains(got, `"text":"hello"`) {
		t.Errorf("got %s", got)
	}
	for i, how := range []string{"an error", "a panic", "a result that does not fit"} {
		r.prompt(i, "s1", how)
		if got := r.line(); !strings.Contains(got, fmt.Sprintf(`"id":%d,"error"`, i)) {
			t.Errorf("got %.200s", got)
		}
		if got := r.line(); !strings.Contains(got, `"text":"after `+how) {
			t.Errorf("got %.200s", got)
		}
	}
	_ = r.conn.Close()
	_ = wait()
}

// TestUnsoundUpdates: what is not JSON is never sent.
func TestUnsoundUpdates(t *testing.T) {
	agent := &stubAgent{}
	agent.prompt = func(ctx context.Context, _ *acp.PromptRequest) (*acp.PromptResponse, error) {
		for _, bad := range []string{``, `x`, `{"sessionUpdate":"plan",}`, `[]`, `"x"`, `{"sessionUpdate":"plan"}{}`, "{\"sessionUpdate\":\"a\nb\"}"} {
			for _, n := range []acp.SessionNotification{{Update: []byte(bad)}, {Update: []byte(`{"sessionUpdate":"plan"}`), Meta: []byte(bad + " ")}} {
				if err := agent.client.SessionUpdate(ctx, &n); err == nil {
					t.Errorf("%q was sent", bad)
				}
			}
		}
		return endTurn(), nil
	}
	r, wait := serveRaw(t, agent.new, nil)
	r.open()
	r.prompt(1, "s1", "x")
	r.expect(`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}`)
	_ = r.conn.Close()
	_ = wait()
}

// TestPanic: a panic is an internal error, with its stack in the log, and the
// session goes on.
func TestPanic(t *testing.T) {
	var log bytes.Buffer
	agent := &stubAgent{cancel: func(*acp.CancelNotification) { panic("cancel bang") }}
	agent.prompt = func(_ context.Context, r *acp.PromptRequest) (*acp.PromptResponse, error) {
		if promptText(r) == "panic" {
			panic("prompt bang")
		}
		return endTurn(), nil
	}
	r, wait := serveRaw(t, agent.new, &acp.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	r.open()
	r.send(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}`)
	r.prompt(1, "s1", "panic")
	r.expect(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error"}}`)
	r.prompt(2, "s1", "x")
	r.expect(`{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}`)
	_ = r.conn.Close()
	_ = wait()
	for _, want := range []string{"cancel bang", "prompt bang", "dispatch_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q", want)
		}
	}
}

func TestErrorsOnTheWire(t *testing.T) {
	tests := []struct {
		err  error
		want string
	}{
		{acp.SessionNotFound("s1"), `{"code":-32002,"message":"Session not found","data":{"sessionId":"s1"}}`},
		{fmt.Errorf("looking: %w", acp.InvalidParams("no", map[string]int{"a": 1})), `{"code":-32602,"message":"no","data":{"a":1}}`},
		{acp.AuthRequired("log in"), `{"code":-32000,"message":"log in"}`},
		{fmt.Errorf("x: %w", context.Canceled), `{"code":-32800,"message":"Request cancelled"}`},
		{context.DeadlineExceeded, `{"code":-32603,"message":"context deadline exceeded"}`},
		{fmt.Errorf("x: %w", acp.ErrMethodNotFound), `{"code":-32601,"message":"Method not found","data":{"method":"session/prompt"}}`},
		{acp.Internal("bad data", func() {}), `{"code":-32603,"message":"bad data"}`},
	}
	agent := &stubAgent{}
	i := 0
	agent.prompt = func(context.Context, *acp.PromptRequest) (*acp.PromptResponse, error) { return nil, tests[i].err }
	r, wait := serveRaw(t, agent.new, nil)
	r.open()
	for i = range tests {
		r.prompt(i, "s1", "x")
		r.expect(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":%s}`, i, tests[i].want))
	}
	_ = r.conn.Close()
	_ = wait()
}

// TestOptionalMethods: an agent without an ability says so.
func TestOptionalMethods(t *testing.T) {
	agent := &stubAgent{}
	r, wait := serveRaw(t, agent.new, nil)
	r.open()
	for _, method := range []string{"authenticate", "session/load", "session/close", "session/set_mode", "session/set_model", "session/set_config_option"} {
		r.send(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{}}`, method)
		r.expect(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found","data":{"method":%q}}}`, method))
	}
	_ = r.conn.Close()
	_ = wait()
}

// TestTooManyRequests: what a client may leave unanswered is bounded.
func TestTooManyRequests(t *testing.T) {
	agent := newTurns()
	r, wait := serveRaw(t, agent.new, nil)
	r.open()
	go func() {
		for i := range 5000 {
			_, _ = fmt.Fprintf(r.conn, `{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":"s1","prompt":[]}}`+"\n", i)
		}
	}()
	r.expect(`{"jsonrpc":"2.0","id":4096,"error":{"code":-32603,"message":"Too many requests are unanswered"}}`)
	go func() { _, _ = io.Copy(io.Discard, r.lines) }()
	_ = r.conn.Close()
	_ = wait()
}

// TestLongLine: one error reply, bounded memory, and life goes on.
func TestLongLine(t *testing.T) {
	agent := &stubAgent{}
	r, wait := serveRaw(t, agent.new, &acp.Options{MaxLine: 1000})
	r.open()
	r.send("%s", strings.Repeat("x", 100_000))
	r.expect(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error","data":{"detail":"the line is longer than 1000 bytes"}}}`)
	r.send(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
	r.line()
	_ = r.conn.Close()
	_ = wait()
}

// TestDeepNesting: far too deep is a parse error, deep is carried.
func TestDeepNesting(t *testing.T) {
	agent := &stubAgent{prompt: func(context.Context, *acp.PromptRequest) (*acp.PromptResponse, error) { return endTurn(), nil }}
	r, wait := serveRaw(t, agent.new, nil)
	r.open()
	nest := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
	r.send(`{"jsonrpc":"2.0","id":1,"method":"x","params":%s}`, nest(1_000_000))
	if got := r.line(); !strings.Contains(got, `"id":null,"error":{"code":-32700`) {
		t.Errorf("got %.200s", got)
	}
	r.send(`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s1","prompt":[],"_meta":{"x":%s}}}`, nest(5000))
	r.expect(`{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}`)
	_ = r.conn.Close()
	_ = wait()
}
