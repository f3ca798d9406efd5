package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/developer"
)

// eternity is longer than anything here takes on the slowest machine.
const eternity = time.Minute

// fakeTools are tools that do at once what their arguments say.
func fakeTools(t testing.TB) *developer.Toolset {
	t.Helper()
	object := func(properties, required string) json.RawMessage {
		return json.RawMessage(`{"type":"object","properties":{` + properties + `},"required":[` + required + `]}`)
	}
	set, err := developer.NewToolset(developer.Table{
		Tools: []developer.Tool{
			{Name: "shell", Description: "prints lines", InputSchema: object(`"command":{"type":"string"}`, `"command"`), Call: fakeShell},
			{Name: "echo", Description: "says <what> it got", InputSchema: object(``, ``), Call: fakeEcho},
			{Name: "wait", Description: "waits until it is cancelled", InputSchema: object(``, ``), Call: fakeWait},
			{Name: "fail", Description: "fails", InputSchema: object(`"code":{"type":"integer"}`, `"code"`), Call: fakeFail},
			{
				Name: "image", Title: "Image", Description: "shows", InputSchema: object(``, ``),
				OutputSchema: object(``, ``), Hints: &developer.Hints{ReadOnly: true}, Call: fakeImage,
			},
		},
		Prompts: []developer.Prompt{{
			Name: "greet", Description: "greets {name}", Template: "Hello {name}!",
			Arguments: []developer.PromptArgument{{Name: "name", Description: "who", Required: true}},
		}},
		Instructions: func(r developer.Reader) string {
			return "Work in " + r.WorkingDir + " with " + strings.Join(r.HintFiles, ", ")
		},
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// fakeShell prints the words of its command as lines, and answers as the classic shell does.
func fakeShell(ctx context.Context, call developer.Call) (developer.Result, error) {
	var args struct{ Command string }
	if err := json.Unmarshal(call.Arguments, &args); err != nil {
		return developer.Result{}, err
	}
	var all strings.Builder
	for word := range strings.FieldsSeq(args.Command) {
		call.Output(developer.Output{Stream: "stdout", Text: word})
		all.WriteString(word + "\n")
	}
	if ctx.Err() != nil {
		return developer.Result{}, &developer.Error{Code: developer.InternalError, Message: "Shell command was cancelled by user"}
	}
	return developer.Result{Content: []developer.Content{
		{Text: all.String(), Audience: []string{"assistant"}},
		{Text: all.String(), Audience: []string{"user"}, Priority: new(0.0)},
	}}, nil
}

func fakeEcho(_ context.Context, call developer.Call) (developer.Result, error) {
	said, err := json.Marshal(map[string]any{
		"id": call.ID, "arguments": call.Arguments, "dir": call.WorkingDir, "session": call.SessionID,
	})
	return developer.Result{Content: []developer.Content{{Text: string(said)}}}, err
}

func fakeWait(ctx context.Context, _ developer.Call) (developer.Result, error) {
	<-ctx.Done()
	return developer.Result{}, &developer.Error{Code: developer.InternalError, Message: "cancelled: " + context.Cause(ctx).Error()}
}

func fakeFail(_ context.Context, call developer.Call) (developer.Result, error) {
	var args struct{ Code int }
	if err := json.Unmarshal(call.Arguments, &args); err != nil {
		return developer.Result{}, err
	}
	switch args.Code {
	case 0:
		return developer.Result{}, errors.New("it <failed>")
	case 1:
		return developer.Result{Content: []developer.Content{{Text: "no"}}, IsError: true}, nil
	case 2:
		panic("on purpose")
	}
	return developer.Result{}, &developer.Error{Code: args.Code, Message: "as asked"}
}

func fakeImage(context.Context, developer.Call) (developer.Result, error) {
	return developer.Result{
		Content:    []developer.Content{{Text: "an image"}, {Data: []byte("pixels"), MimeType: "image/png", Priority: new(0.0)}},
		Structured: json.RawMessage(`{"width":1}`),
	}, nil
}

// duplex is a stream of two.
type duplex struct {
	io.ReadCloser
	w io.WriteCloser
}

func (d duplex) Write(p []byte) (int, error) { return d.w.Write(p) }
func (d duplex) Close() error                { return errors.Join(d.ReadCloser.Close(), d.w.Close()) }

// peer is the client of a server under test.
type peer struct {
	t      testing.TB
	in     io.WriteCloser
	out    net.Conn
	lines  *bufio.Reader
	served chan error
}

// connect starts a server with tools. The test ends it with stop.
func connect(t testing.TB, tools *developer.Toolset, o Options) *peer {
	t.Helper()
	return connectContext(context.Background(), t, tools, o)
}

func connectContext(ctx context.Context, t testing.TB, tools *developer.Toolset, o Options) *peer {
	t.Helper()
	p, stream := newPeer(t)
	go func() { p.served <- Serve(ctx, stream, tools, o) }()
	return p
}

// connectTracked is connect with the server's inside, for tests that look there.
func connectTracked(ctx context.Context, t testing.TB) (*peer, *server) {
	t.Helper()
	p, stream := newPeer(t)
	s := newServer(ctx, fakeTools(t), Options{}.withDefaults())
	go func() { p.served <- s.serve(ctx, stream) }()
	return p, s
}

func newPeer(t testing.TB) (*peer, duplex) {
	in, toServer := io.Pipe()
	fromServer, out := net.Pipe()
	lines := bufio.NewReaderSize(fromServer, 1<<20)
	return &peer{t: t, in: toServer, out: fromServer, lines: lines, served: make(chan error, 1)}, duplex{in, out}
}

func (p *peer) send(lines ...string) {
	p.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(p.in, line+"\n"); err != nil {
			p.t.Fatalf("sending %.100s: %v", line, err)
		}
	}
}

// receive reads one message.
func (p *peer) receive() received {
	p.t.Helper()
	_ = p.out.SetReadDeadline(time.Now().Add(eternity))
	line, err := p.lines.ReadBytes('\n')
	if err != nil {
		p.t.Fatalf("reading from the server: %v", err)
	}
	var m received
	if err := json.Unmarshal(line, &m); err != nil || m.Version != "2.0" {
		p.t.Fatalf("not a message (%v): %.300s", err, line)
	}
	m.line = string(line)
	return m
}

type received struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *rpcError       `json:"error"`
	line    string
}

// hangUp closes the client's end and returns what Serve returned; whatever comes
// until then is read and thrown away.
func (p *peer) hangUp() error {
	_ = p.in.Close()
	return p.ended()
}

func (p *peer) ended() error {
	_ = p.out.SetReadDeadline(time.Time{})
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(io.Discard, p.lines) })
	err := <-p.served
	reading.Wait()
	_ = p.out.Close()
	return err
}
