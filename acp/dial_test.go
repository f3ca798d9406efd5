package acp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/acp/acptest"
)

// dialRaw connects a client to an agent that is the test.
func dialRaw(t *testing.T, c acp.Client) (*acp.AgentConn, *raw) {
	client, agent := net.Pipe()
	conn := acp.DialAgent(client, c, nil)
	t.Cleanup(func() {
		_ = agent.Close()
		_ = conn.Close()
	})
	return conn, newRaw(t, agent)
}

// call runs a request of the client in the background.
func call[T any](f func() (T, error)) <-chan result[T] {
	c := make(chan result[T], 1)
	go func() {
		v, err := f()
		c <- result[T]{v, err}
	}()
	return c
}

type result[T any] struct {
	v   T
	err error
}

func TestClientRequests(t *testing.T) {
	conn, r := dialRaw(t, &acptest.Editor{})
	ctx := t.Context()
	tests := []struct {
		name         string
		call         func() (any, error)
		want, answer string
		result       string // JSON, or the error
	}{
		{
			"initialize", func() (any, error) {
				return conn.Initialize(ctx, &acp.InitializeRequest{ProtocolVersion: 1})
			},
			`{"id":1,"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false}}}}`,
			`{"id":1,"jsonrpc":"2.0","result":{"protocolVersion":"2","agentCapabilities":{"loadSession":true,"promptCapabilities":7},"authMethods":[{"id":"a","name":"A"},7]}}`,
			`{"protocolVersion":0,"agentCapabilities":{"loadSession":true,"promptCapabilities":{"image":false,"audio":false,"embeddedContext":false},"mcpCapabilities":{"http":false,"sse":false},"sessionCapabilities":{}},"authMethods":[{"id":"a","name":"A"}]}`,
		},
		{
			"null for nothing", func() (any, error) {
				return conn.Authenticate(ctx, &acp.AuthenticateRequest{MethodID: "a"})
			},
			`{"id":2,"jsonrpc":"2.0","method":"authenticate","params":{"methodId":"a"}}`,
			`{"jsonrpc":"2.0","id":2,"result":null}`, `{}`,
		},
		{
			"lists are never null", func() (any, error) { return conn.NewSession(ctx, &acp.NewSessionRequest{CWD: "/"}) },
			`{"id":3,"jsonrpc":"2.0","method":"session/new","params":{"cwd":"/","mcpServers":[]}}`,
			`{"jsonrpc":"2.0","id":3,"error":null,"result":{"sessionId":"x","modes":"none","configOptions":[{"id":1},{"id":"m","name":"M","type":"select","currentValue":"v"}]}}`,
			`{"sessionId":"x","configOptions":[{"id":"m","name":"M","type":"select","currentValue":"v"}]}`,
		},
		{
			"no session id", func() (any, error) { return conn.NewSession(ctx, &acp.NewSessionRequest{CWD: "/"}) },
			`{"id":4,"jsonrpc":"2.0","method":"session/new","params":{"cwd":"/","mcpServers":[]}}`,
			`{"jsonrpc":"2.0","id":4,"result":null}`, `reading the result of session/new: sessionId is missing`,
		},
		{
			"load", func() (any, error) {
				return conn.LoadSession(ctx, &acp.LoadSessionRequest{SessionID: "x", CWD: "/"})
			},
			`{"id":5,"jsonrpc":"2.0","method":"session/load","params":{"sessionId":"x","cwd":"/","mcpServers":[]}}`,
			`{"jsonrpc":"2.0","id":5,"error":{"code":-32002,"message":"Resource not found","data":{"a":1}}}`, `Resource not found (code -32002)`,
		},
		{
			"odd error", func() (any, error) {
				return conn.SetSessionMode(ctx, &acp.SetSessionModeRequest{SessionID: "x", ModeID: "m"})
			},
			`{"id":6,"jsonrpc":"2.0","method":"session/set_mode","params":{"sessionId":"x","modeId":"m"}}`,
			`{"jsonrpc":"2.0","id":6,"error":{"code":"E","message":7}}`, `{"code":"E","message":7} (code -32603)`,
		},
		{
			"config option", func() (any, error) {
				return conn.SetConfigOption(ctx, &acp.SetConfigOptionRequest{SessionID: "x", ConfigID: "c", Value: json.RawMessage(`"v"`)})
			},
			`{"id":7,"jsonrpc":"2.0","method":"session/set_config_option","params":{"sessionId":"x","configId":"c","value":"v"}}`,
			`{"id":7}`, `{"configOptions":null}`,
		},
		{
			"close", func() (any, error) { return conn.CloseSession(ctx, &acp.CloseSessionRequest{SessionID: "x"}) },
			`{"id":8,"jsonrpc":"2.0","method":"session/close","params":{"sessionId":"x"}}`,
			`{"id":8,"result":{}}`, `{}`,
		},
		{
			"any other", func() (any, error) { return conn.Request(ctx, "_vendor/x", nil) },
			`{"id":9,"jsonrpc":"2.0","method":"_vendor/x"}`,
			`{"jsonrpc":"2.0","id":9,"result":[1.50]}`, `[1.50]`,
		},
		{
			"list", func() (any, error) {
				return conn.ListSessions(ctx, &acp.ListSessionsRequest{CWD: "/p", Cursor: "c"})
			},
			`{"id":10,"jsonrpc":"2.0","method":"session/list","params":{"cwd":"/p","cursor":"c"}}`,
			`{"jsonrpc":"2.0","id":10,"result":{"sessions":[{"sessionId":"a","cwd":"/p","title":null,"updatedAt":7},{"cwd":"/"}],"nextCursor":null}}`,
			`{"sessions":[{"sessionId":"a","cwd":"/p"}]}`,
		},
		{
			"resume", func() (any, error) {
				return conn.ResumeSession(ctx, &acp.ResumeSessionRequest{SessionID: "x", CWD: "/"})
			},
			`{"id":11,"jsonrpc":"2.0","method":"session/resume","params":{"sessionId":"x","cwd":"/"}}`,
			`{"jsonrpc":"2.0","id":11,"result":null}`, `{}`,
		},
		{
			"fork", func() (any, error) {
				return conn.ForkSession(ctx, &acp.ForkSessionRequest{SessionID: "x", CWD: "/"})
			},
			`{"id":12,"jsonrpc":"2.0","method":"session/fork","params":{"sessionId":"x","cwd":"/"}}`,
			`{"jsonrpc":"2.0","id":12,"result":{"sessionId":"y"}}`, `{"sessionId":"y"}`,
		},
		{
			"set_title", func() (any, error) {
				return conn.SetSessionTitle(ctx, &acp.SetSessionTitleRequest{SessionID: "x", Title: "t"})
			},
			`{"id":13,"jsonrpc":"2.0","method":"session/set_title","params":{"sessionId":"x","title":"t"}}`,
			`{"jsonrpc":"2.0","id":13,"result":{"title":"T"}}`, `{"title":"T"}`,
		},
		{
			"delete", func() (any, error) { return conn.DeleteSession(ctx, &acp.DeleteSessionRequest{SessionID: "x"}) },
			`{"id":14,"jsonrpc":"2.0","method":"session/delete","params":{"sessionId":"x"}}`,
			`{"jsonrpc":"2.0","id":14,"result":{}}`, `{}`,
		},
		{
			"logout", func() (any, error) { return conn.Logout(ctx, &acp.LogoutRequest{}) },
			`{"id":15,"jsonrpc":"2.0","method":"logout","params":{}}`,
			`{"jsonrpc":"2.0","id":15,"result":{}}`, `{}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			done := call(tt.call)
			r.expect(tt.want)
			r.send("%s", tt.answer)
			got := recv(t, done, "the result")
			text, _ := json.Marshal(got.v)
			if got.err != nil {
				text = []byte(got.err.Error())
			}
			if string(text) != tt.result {
				t.Errorf("got  %s\nwant %s", text, tt.result)
			}
		})
	}
	if err := conn.Cancel("x"); err != nil {
		t.Fatal(err)
	}
	r.expect(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"x"}}`)
}

// TestClientAnswers: what a client says to an agent's requests, with the ids the
// agent chose, which may be live in the other direction too.
func TestClientAnswers(t *testing.T) {
	e := &acptest.Editor{Request: func(_ context.Context, method string, params json.RawMessage) (any, error) {
		if method != "fs/read_text_file" {
			return nil, acp.ErrMethodNotFound
		}
		return map[string]any{"content": string(params)}, nil
	}}
	conn, r := dialRaw(t, e)
	prompt := call(func() (*acp.PromptResponse, error) {
		return conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: "x"})
	})
	r.expect(`{"id":1,"jsonrpc":"2.0","method":"session/prompt","params":{"sessionId":"x","prompt":[]}}`)
	ask := `{"jsonrpc":"2.0","id":%s,"method":"session/request_permission","params":{"sessionId":"x","toolCall":{"toolCallId":"t"},"options":[{"optionId":"no","name":"No","kind":"reject_once"},7,{"optionId":"yes","name":"Yes","kind":"allow_once"}]}}`
	for _, id := range []string{"0", "1", `"1"`, "null"} {
		r.send(ask, id)
		r.expect(`{"jsonrpc":"2.0","id":` + id + `,"result":{"outcome":{"outcome":"selected","optionId":"yes"}}}`)
	}
	if asked := e.Asked(); len(asked) != 4 || len(asked[0].Options) != 2 {
		t.Errorf("asked %+v", asked)
	}
	r.send(`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"x","toolCall":{}}}`)
	r.expect(`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Invalid params: toolCall.toolCallId must be a string"}}`)
	r.send(`{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"b":1,"a":"<"}}`)
	r.expect(`{"jsonrpc":"2.0","id":1,"result":{"content":"{\"b\":1,\"a\":\"<\"}"}}`)
	r.send(`{"jsonrpc":"2.0","id":1,"method":"terminal/create","params":{}}`)
	r.expect(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found","data":{"method":"terminal/create"}}}`)
	r.send(`log line`)
	r.line()
	r.send(`{"jsonrpc":"2.0","method":"_vendor/x"}`)
	r.send(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`)
	r.send(`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}`)
	if got := recv(t, prompt, "the prompt"); got.err != nil || got.v.StopReason != acp.StopEndTurn {
		t.Errorf("got %+v", got)
	}
}

// TestMessagesOfManyValues: what takes many times its size in memory when it is taken apart is
// not taken apart, and whoever waits for it is told. A text may be as long.
func TestMessagesOfManyValues(t *testing.T) {
	e := &acptest.Editor{}
	conn, r := dialRaw(t, e)
	prompt := call(func() (*acp.PromptResponse, error) {
		return conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: "x"})
	})
	r.line()
	const refused = `"error":{"code":-32600,"message":"Invalid request: a message is made of at most 1048576 values"}}`
	many := strings.Repeat("0,", 1<<20) + "0"
	r.send(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"x","update":{"sessionUpdate":"plan","entries":[%s]}}}`, many)
	r.expect(`{"jsonrpc":"2.0","id":null,` + refused)
	r.send(`{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"x","toolCall":{"toolCallId":"t"},"options":[%s]}}`, many)
	r.expect(`{"jsonrpc":"2.0","id":7,` + refused)
	r.send(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"x","update":{"sessionUpdate":"plan","entries":"[%s\"]"}}}`, many)
	r.send(`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn","_meta":{"x":[%s]}}}`, many)
	if got := recv(t, prompt, "the prompt"); got.err == nil || !strings.Contains(got.err.Error(), "values") {
		t.Errorf("got %+v", got)
	}
	if got := len(e.Updates("x")); got != 1 {
		t.Errorf("%d updates have arrived, want that of the text", got)
	}
}

// TestUpdatesBeforeResponse: updates are handed over raw, one at a time, in wire
// order, and all before the response behind them returns.
func TestUpdatesBeforeResponse(t *testing.T) {
	e := &acptest.Editor{OnUpdate: func(n *acp.SessionNotification) {
		if strings.Contains(string(n.Update), `"boom"`) {
			panic("a client that breaks")
		}
		time.Sleep(time.Millisecond) // a slow client is waited for
	}}
	conn, r := dialRaw(t, e)
	prompt := call(func() (int, error) {
		_, err := conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: "x"})
		return len(e.Updates("x")), err
	})
	r.line()
	var want []string
	for i := range 50 {
		update := fmt.Sprintf(`{"sessionUpdate":"brand_new","z":%d.0,"a":"<\u00e9>","_meta":{"b":null}}`, i)
		want = append(want, update)
		r.send(`{"jsonrpc":"2.0","method":"session/update","params":{"update":%s,"sessionId":"\u0078"}}`, update)
	}
	for _, bad := range []string{`{}`, `[]`, `null`, `{"sessionId":"x"}`, `{"sessionId":"x","update":{}}`, `{"sessionId":7,"update":{"sessionUpdate":"plan"}}`, `{"sessionId":"x","update":{"sessionUpdate":"boom"}}`} {
		r.send(`{"jsonrpc":"2.0","method":"session/update","params":%s}`, bad)
	}
	r.send(`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}`)
	if got := recv(t, prompt, "the prompt"); got.err != nil || got.v != 50 {
		t.Errorf("%d updates had arrived; %v", got.v, got.err)
	}
	for i, update := range e.Updates("x") {
		if string(update) != want[i] {
			t.Errorf("got  %s\nwant %s", update, want[i])
		}
	}
}

// TestCallerGivesUp: the request is cancelled at the agent, the caller returns at
// once, the late answer is dropped and the connection goes on.
func TestCallerGivesUp(t *testing.T) {
	conn, r := dialRaw(t, &acptest.Editor{})
	ctx, cancel := context.WithCancel(t.Context())
	prompt := call(func() (*acp.PromptResponse, error) { return conn.Prompt(ctx, &acp.PromptRequest{SessionID: "x"}) })
	r.line()
	cancel()
	if got := recv(t, prompt, "the prompt"); got.err != context.Canceled {
		t.Errorf("got %v", got.err)
	}
	r.expect(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}`)
	if _, err := conn.Prompt(ctx, &acp.PromptRequest{SessionID: "x"}); err != context.Canceled {
		t.Errorf("with an ended context: %v", err)
	}
	r.send(`{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"late"}}`)
	next := call(func() (*acp.PromptResponse, error) {
		return conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: "x"})
	})
	r.expect(`{"id":2,"jsonrpc":"2.0","method":"session/prompt","params":{"sessionId":"x","prompt":[]}}`)
	r.send(`{"jsonrpc":"2.0","id":2,"result":{"stopReason":"refusal"}}`)
	if got := recv(t, next, "the next prompt"); got.err != nil || got.v.StopReason != acp.StopRefusal {
		t.Errorf("got %+v", got)
	}
}

// TestPermissionIsCancelled: $/cancel_request and the end of the connection end
// the context of a permission request.
func TestPermissionIsCancelled(t *testing.T) {
	ended := make(chan struct{}, 2)
	e := &acptest.Editor{Permission: func(ctx context.Context, _ *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
		<-ctx.Done()
		ended <- struct{}{}
		return nil, ctx.Err()
	}}
	conn, r := dialRaw(t, e)
	ask := `{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"sessionId":"x","toolCall":{"toolCallId":"t"},"options":[]}}`
	r.send("%s", ask)
	r.send(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"p"}}`)
	r.expect(`{"jsonrpc":"2.0","id":"p","error":{"code":-32800,"message":"Request cancelled"}}`)
	r.send("%s", ask)
	e.Wait(t, "the question", func() bool { return len(e.Asked()) == 2 })
	_ = r.conn.Close()
	recv(t, conn.Done(), "the end")
	recv(t, ended, "the first handler")
	recv(t, ended, "the second handler")
}

// TestAgentGoes: pending requests fail, Done and Err say so, Close is harmless.
func TestAgentGoes(t *testing.T) {
	conn, r := dialRaw(t, &acptest.Editor{})
	if conn.Err() != nil {
		t.Error("Err before the end")
	}
	prompt := call(func() (*acp.PromptResponse, error) {
		return conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: "x"})
	})
	r.line()
	_ = r.conn.Close()
	if got := recv(t, prompt, "the prompt"); got.err != acp.ErrClosed {
		t.Errorf("got %v", got.err)
	}
	recv(t, conn.Done(), "Done")
	if !errors.Is(conn.Err(), io.EOF) {
		t.Errorf("Err is %v", conn.Err())
	}
	if err := conn.Cancel("x"); err != acp.ErrClosed {
		t.Errorf("Cancel after the end: %v", err)
	}
	if _, err := conn.Request(t.Context(), "x", nil); err != acp.ErrClosed {
		t.Errorf("Request after the end: %v", err)
	}
	_ = conn.Close()
	_ = conn.Close()
}

// TestLastWords: what an agent wrote before it went is delivered.
func TestLastWords(t *testing.T) {
	e := &acptest.Editor{}
	conn, r := dialRaw(t, e)
	prompt := call(func() (*acp.PromptResponse, error) {
		return conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: "x"})
	})
	r.line()
	for range 100 {
		r.send(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"x","update":{"sessionUpdate":"plan"}}}`)
	}
	_, _ = io.WriteString(r.conn, `{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}`) // no newline
	_ = r.conn.Close()
	if got := recv(t, prompt, "the prompt"); got.err != nil {
		t.Errorf("got %v", got.err)
	}
	recv(t, conn.Done(), "Done")
	if n := len(e.Updates("x")); n != 100 {
		t.Errorf("%d updates arrived", n)
	}
}

// TestClose ends what is pending, handlers included, and waits for them.
func TestClose(t *testing.T) {
	var ended atomic.Bool
	e := &acptest.Editor{Permission: func(ctx context.Context, _ *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
		<-ctx.Done()
		time.Sleep(10 * time.Millisecond) // what a handler still has to do
		ended.Store(true)
		return nil, ctx.Err()
	}}
	conn, r := dialRaw(t, e)
	prompt := call(func() (*acp.PromptResponse, error) {
		return conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: "x"})
	})
	r.line()
	r.send(`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"x","toolCall":{"toolCallId":"t"},"options":[]}}`)
	e.Wait(t, "the question", func() bool { return len(e.Asked()) == 1 })
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if !ended.Load() {
		t.Error("a handler outlived Close")
	}
	if got := recv(t, prompt, "the prompt"); got.err != acp.ErrClosed {
		t.Errorf("got %v", got.err)
	}
	recv(t, conn.Done(), "Done")
	if conn.Err() != acp.ErrClosed {
		t.Errorf("Err is %v", conn.Err())
	}
}

// TestAgentStopsReading: a write error ends the connection and frees its callers.
func TestAgentStopsReading(t *testing.T) {
	broken := errors.New("broken pipe")
	stuck := make(chan struct{})
	conn := acp.DialAgent(duplex{stuckStream{stuck}, brokenWriter{broken}}, &acptest.Editor{}, nil)
	prompt := call(func() (*acp.PromptResponse, error) {
		return conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: "x"})
	})
	if got := recv(t, prompt, "the prompt"); got.err != acp.ErrClosed {
		t.Errorf("got %v", got.err)
	}
	recv(t, conn.Done(), "Done")
	if !errors.Is(conn.Err(), broken) {
		t.Errorf("Err is %v", conn.Err())
	}
	close(stuck)
	_ = conn.Close()
}

// TestCloseWithStuckRead: a stream whose Close does not interrupt Read holds up
// Close only for a moment.
func TestCloseWithStuckRead(t *testing.T) {
	stuck := make(chan struct{})
	conn := acp.DialAgent(stuckStream{stuck}, &acptest.Editor{}, nil)
	start := time.Now()
	_ = conn.Close()
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	close(stuck)
}

type stuckStream struct{ until chan struct{} }

func (s stuckStream) Read([]byte) (int, error)    { <-s.until; return 0, io.EOF }
func (s stuckStream) Write(p []byte) (int, error) { return len(p), nil }
func (s stuckStream) Close() error                { return nil }

// TestProxy: an agent made of a connection to another agent keeps the order of
// everything, and every byte of the updates.
func TestProxy(t *testing.T) {
	inner := &acptest.Agent{OnPrompt: func(ctx context.Context, c *acp.ClientConn, req *acp.PromptRequest) (*acp.PromptResponse, error) {
		for i := range 500 {
			update := fmt.Sprintf(`{"sessionUpdate":"agent_message_chunk","messageId":"%d","content":{"type":"text","text":"<\u00e9>"},"_meta":{"n":%d.0}}`, i, i)
			if err := c.SessionUpdate(ctx, &acp.SessionNotification{SessionID: req.SessionID, Update: json.RawMessage(update)}); err != nil {
				return nil, err
			}
		}
		return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
	}}
	client, agent := acptest.Pipe(t)
	inner.Serve(t, agent)
	p := newProxy(client)
	t.Cleanup(func() { _ = p.inner.Close() })
	e := acptest.NewEditor(t, p.new, acp.ClientCapabilities{}, nil)
	s := e.NewSession(t, "/")
	resp, err := e.Prompt(t.Context(), s.SessionID, "go")
	if err != nil || resp.StopReason != acp.StopEndTurn {
		t.Fatalf("got %v, %v", resp, err)
	}
	got := e.Updates("outer")
	if len(got) != 500 {
		t.Fatalf("%d updates arrived before the response", len(got))
	}
	for i, update := range got {
		if want := fmt.Sprintf(`{"sessionUpdate":"agent_message_chunk","messageId":"%d","content":{"type":"text","text":"<\u00e9>"},"_meta":{"n":%d.0}}`, i, i); string(update) != want {
			t.Fatalf("got  %s\nwant %s", update, want)
		}
	}
}

// proxy is an acp.Agent that answers with another agent; it names the session outer.
type proxy struct {
	inner  *acp.AgentConn
	outer  *acp.ClientConn
	ready  chan struct{} // closed when outer is set
	once   sync.Once
	opened acp.SessionID
}

func newProxy(rwc io.ReadWriteCloser) *proxy {
	p := &proxy{ready: make(chan struct{})}
	p.inner = acp.DialAgent(rwc, p, nil)
	return p
}

func (p *proxy) new(c *acp.ClientConn) acp.Agent {
	p.once.Do(func() { p.outer = c; close(p.ready) })
	return p
}

func (p *proxy) Initialize(ctx context.Context, r *acp.InitializeRequest) (*acp.InitializeResponse, error) {
	return p.inner.Initialize(ctx, r)
}

func (p *proxy) NewSession(ctx context.Context, r *acp.NewSessionRequest) (*acp.NewSessionResponse, error) {
	resp, err := p.inner.NewSession(ctx, r)
	if err != nil {
		return nil, err
	}
	p.opened, resp.SessionID = resp.SessionID, "outer"
	return resp, nil
}

func (p *proxy) Prompt(ctx context.Context, r *acp.PromptRequest) (*acp.PromptResponse, error) {
	return p.inner.Prompt(ctx, &acp.PromptRequest{SessionID: p.opened, Prompt: r.Prompt})
}

func (p *proxy) Cancel(context.Context, *acp.CancelNotification) { _ = p.inner.Cancel(p.opened) }

func (p *proxy) SessionUpdate(ctx context.Context, n *acp.SessionNotification) error {
	<-p.ready
	return p.outer.SessionUpdate(ctx, &acp.SessionNotification{SessionID: "outer", Update: n.Update, Meta: n.Meta})
}

func (p *proxy) RequestPermission(ctx context.Context, r *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	ask := *r
	ask.SessionID = "outer"
	return p.outer.RequestPermission(ctx, &ask)
}
