package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gander.dev/gander/developer"
)

func toolset(t testing.TB, tools ...developer.Tool) *developer.Toolset {
	t.Helper()
	for i := range tools {
		tools[i].InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	set, err := developer.NewToolset(developer.Table{Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func callOf(id any, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"tools/call","params":{"name":%q}}`, id, tool)
}

func cancelOf(id any) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%v}}`, id)
}

// A cancellation right behind its call hits: 30 of 30, with both in one write.
func TestCancelRightBehind(t *testing.T) {
	p := connect(t, fakeTools(t), Options{})
	for i := range 30 {
		p.send(callOf(i, "wait") + "\n" + cancelOf(i))
		m := p.receive()
		if string(m.ID) != fmt.Sprint(i) || m.Error == nil || !strings.Contains(m.Error.Message, errCancelled.Error()) {
			t.Fatalf("call %d: %s", i, m.line)
		}
	}
	if err := p.hangUp(); err != nil {
		t.Error(err)
	}
}

// A call that waits for its turn is cancelled as well, and at once; what waits
// runs in order.
func TestCancelWaiting(t *testing.T) {
	p := connect(t, fakeTools(t), Options{MaxCalls: 1})
	p.send(callOf(1, "wait"), callOf(2, "wait"), callOf(3, "echo"), callOf(4, "echo"), cancelOf(2))
	if m := p.receive(); string(m.ID) != "2" || m.Error == nil {
		t.Errorf("first came %s", m.line)
	}
	p.send(cancelOf(1))
	for _, want := range []string{"1", "3", "4"} {
		if m := p.receive(); string(m.ID) != want {
			t.Errorf("%s came, want %s", m.line, want)
		}
	}
	if err := p.hangUp(); err != nil {
		t.Error(err)
	}
}

// What waits is bounded too.
func TestTooManyCalls(t *testing.T) {
	p := connect(t, fakeTools(t), Options{MaxCalls: 1, Settle: time.Nanosecond})
	for i := range 1 + maxWaiting + 1 {
		p.send(callOf(i, "wait"))
	}
	m := p.receive()
	if string(m.ID) != fmt.Sprint(1+maxWaiting) || m.Error == nil || m.Error.Code != developer.InternalError {
		t.Errorf("got %s", m.line)
	}
	if err := p.hangUp(); err != nil {
		t.Error(err)
	}
}

// A batch of many is refused as a whole: the answers to what is no message would be a hundred
// times as long.
func TestLargeBatches(t *testing.T) {
	p := connect(t, fakeTools(t), Options{})
	p.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	p.receive()
	for _, n := range []int{maxBatch + 1, 1 << 20} {
		p.send("[" + strings.Repeat("0,", n-1) + "0]")
		if m := p.receive(); string(m.ID) != "null" || m.Error == nil || m.Error.Code != codeInvalidRequest {
			t.Errorf("a batch of %d is answered with %.200s", n, m.line)
		}
	}
	if err := p.hangUp(); err != nil {
		t.Error(err)
	}
}

// What does not fit into the answer to a batch is answered with an error, and the rest as ever.
func TestLargeAnswersToABatch(t *testing.T) {
	picture := func(name string, bytes int) developer.Tool {
		return developer.Tool{Name: name, Call: func(context.Context, developer.Call) (developer.Result, error) {
			return developer.Result{Content: []developer.Content{{Data: make([]byte, bytes), MimeType: "image/png"}}}, nil
		}}
	}
	p := connect(t, toolset(t, picture("large", maxBatchAnswers/4), picture("small", 10)), Options{})
	p.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	p.receive()
	p.send("[" + strings.Join([]string{callOf(1, "large"), callOf(2, "large"), callOf(3, "large"), callOf(4, "small")}, ",") + "]")
	line, err := p.lines.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var answers []struct {
		ID     int
		Result json.RawMessage
		Error  *rpcError
	}
	if err := json.Unmarshal(line, &answers); err != nil || len(line) > maxBatchAnswers+1000 {
		t.Fatalf("%d bytes: %v", len(line), err)
	}
	answered, refused := map[int]bool{}, 0
	for _, a := range answers {
		answered[a.ID] = true
		if a.Error == nil {
			continue
		}
		if refused++; a.ID == 4 || a.Error.Code != developer.InternalError || !strings.Contains(a.Error.Message, "send the request alone") {
			t.Errorf("%d is answered with %+v", a.ID, a.Error)
		}
	}
	if len(answers) != 4 || len(answered) != 4 || refused != 1 {
		t.Errorf("%d answers to %v, of them %d errors", len(answers), answered, refused)
	}
	if err := p.hangUp(); err != nil {
		t.Error(err)
	}
}

// Every line of a call comes before its answer, in order, and none is lost.
func TestOutputBeforeAnswer(t *testing.T) {
	const lines, rounds = 5000, 2
	chatty := developer.Tool{Name: "chatty", Call: func(_ context.Context, c developer.Call) (developer.Result, error) {
		for i := range lines {
			c.Output(developer.Output{Stream: "stdout", Text: fmt.Sprint("line ", i)})
		}
		return developer.Result{}, nil
	}}
	p := connect(t, toolset(t, chatty), Options{})
	for round := range rounds {
		p.send(callOf(round, "chatty"))
		var got []string
		notifications := 0
		for {
			m := p.receive()
			if m.Method == "" {
				break
			}
			var params logParams
			if err := json.Unmarshal(m.Params, &params); err != nil {
				t.Fatal(err)
			}
			got = append(got, strings.Split(params.Data.Output, "\n")...)
			notifications++
		}
		for i, line := range got {
			if line != fmt.Sprint("line ", i) {
				t.Fatalf("round %d, line %d is %q", round, i, line)
			}
		}
		if len(got) != lines || notifications > lines/2 {
			t.Errorf("round %d: %d lines in %d notifications", round, len(got), notifications)
		}
	}
	if err := p.hangUp(); err != nil {
		t.Error(err)
	}
}

// What a tool says after it has returned is not sent.
func TestOutputAfterAnswer(t *testing.T) {
	late := make(chan func(developer.Output), 1)
	tool := developer.Tool{Name: "late", Call: func(_ context.Context, c developer.Call) (developer.Result, error) {
		late <- c.Output
		return developer.Result{}, nil
	}}
	p := connect(t, toolset(t, tool), Options{})
	p.send(callOf(1, "late"))
	if m := p.receive(); m.Result == nil {
		t.Fatal(m.line)
	}
	(<-late)(developer.Output{Stream: "stdout", Text: "too late"})
	p.send(callOf(2, "late"))
	if m := p.receive(); string(m.ID) != "2" {
		t.Errorf("after the answer came %s", m.line)
	}
	if err := p.hangUp(); err != nil {
		t.Error(err)
	}
}

// Calls do not wait for each other: a hundred that all wait for the last.
func TestParallelCalls(t *testing.T) {
	const n = 100
	gather := make(chan struct{}, n)
	all := make(chan struct{})
	tool := developer.Tool{Name: "meet", Call: func(ctx context.Context, _ developer.Call) (developer.Result, error) {
		gather <- struct{}{}
		if len(gather) == n {
			close(all)
		}
		<-all
		return developer.Result{}, nil
	}}
	p := connect(t, toolset(t, tool), Options{})
	for i := range n {
		p.send(callOf(i, "meet"))
	}
	for range n {
		if m := p.receive(); m.Error != nil {
			t.Fatal(m.line)
		}
	}
	if err := p.hangUp(); err != nil {
		t.Error(err)
	}
}

// When the client has gone, or the server is told to end, calls are cancelled and
// waited for: nothing of them runs on.
func TestEndWaitsForCalls(t *testing.T) {
	for name, end := range map[string]func(p *peer, cancel func()){
		"the client closes its end": func(p *peer, _ func()) { _ = p.in.Close() },
		"told to end":               func(_ *peer, cancel func()) { cancel() },
		"the client is gone":        func(p *peer, _ func()) { _ = p.in.Close(); _ = p.out.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			running, ended := make(chan struct{}), make(chan struct{})
			slow := developer.Tool{Name: "slow", Call: func(ctx context.Context, _ developer.Call) (developer.Result, error) {
				close(running)
				<-ctx.Done()
				time.Sleep(50 * time.Millisecond) // the tree takes its time to go
				close(ended)
				return developer.Result{}, nil
			}}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p := connectContext(ctx, t, toolset(t, slow), Options{})
			p.send(callOf(1, "slow"))
			<-running
			end(p, cancel)
			err := p.ended()
			select {
			case <-ended:
			default:
				t.Error("Serve returned before the call")
			}
			if told := name == "told to end"; told != errors.Is(err, context.Canceled) || !told && err != nil && name != "the client is gone" {
				t.Errorf("Serve returned %v", err)
			}
		})
	}
}

// While the server ends nothing starts any more; what is asked is still answered.
func TestCallsWhileEnding(t *testing.T) {
	ending, release := make(chan struct{}), make(chan struct{})
	slow := developer.Tool{Name: "slow", Call: func(ctx context.Context, _ developer.Call) (developer.Result, error) {
		<-ctx.Done()
		close(ending)
		<-release
		return developer.Result{}, nil
	}}
	ctx, cancel := context.WithCancel(t.Context())
	p := connectContext(ctx, t, toolset(t, slow), Options{})
	p.send(callOf(1, "slow"), `{"jsonrpc":"2.0","id":"barrier","method":"ping"}`)
	p.receive()
	cancel()
	<-ending
	p.send(callOf(2, "slow"))
	if m := p.receive(); string(m.ID) != "2" || m.Error == nil || m.Error.Message != "The server is ending" {
		t.Errorf("got %s", m.line)
	}
	close(release)
	if m := p.receive(); string(m.ID) != "1" {
		t.Errorf("got %s", m.line)
	}
	if err := p.ended(); !errors.Is(err, context.Canceled) {
		t.Errorf("Serve returned %v", err)
	}
}

// A client that reads nothing holds up neither the calls for long nor memory, and
// hears of what it missed.
func TestClientThatDoesNotRead(t *testing.T) {
	line := strings.Repeat("x", 64<<10)
	printed := make(chan struct{})
	flood := developer.Tool{Name: "flood", Call: func(ctx context.Context, c developer.Call) (developer.Result, error) {
		for range 200 { // 12 MiB
			c.Output(developer.Output{Stream: "stdout", Text: line})
		}
		close(printed)
		<-ctx.Done()
		return developer.Result{}, nil
	}}
	p := connect(t, toolset(t, flood), Options{})
	p.send(callOf(1, "flood"))
	<-printed // though nothing was read
	n, told := 0, false
	p.send(cancelOf(1))
	for {
		m := p.receive()
		if m.Method == "" {
			break
		}
		n += strings.Count(m.line, line)
		told = told || strings.Contains(m.line, "pieces of output are not shown here")
	}
	if n == 0 || n >= 200 || !told {
		t.Errorf("%d of 200 lines came, told %v", n, told)
	}
	if err := p.hangUp(); err != nil {
		t.Error(err)
	}
}

// A peer whose stream breaks is not served any longer.
func TestBrokenStreams(t *testing.T) {
	broken := errors.New("broken pipe")
	t.Run("reading", func(t *testing.T) {
		r, w := io.Pipe()
		_ = w.CloseWithError(broken)
		if err := Serve(t.Context(), duplex{r, discard{}}, fakeTools(t), Options{}); !errors.Is(err, broken) {
			t.Errorf("Serve returned %v", err)
		}
	})
	t.Run("writing", func(t *testing.T) {
		r, w := io.Pipe()
		out, outW := io.Pipe()
		_ = out.CloseWithError(broken)
		go func() { _, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n") }()
		if err := Serve(t.Context(), duplex{r, outW}, fakeTools(t), Options{}); !errors.Is(err, broken) {
			t.Errorf("Serve returned %v", err)
		}
	})
	t.Run("hung up while written to", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, w := io.Pipe()
			out, outW := io.Pipe()
			_ = out.Close()
			served := make(chan error, 1)
			go func() { served <- Serve(t.Context(), duplex{r, outW}, fakeTools(t), Options{}) }()
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n")
			time.Sleep(100 * time.Millisecond) // the end of input is noticed after the writer's failure
			_ = w.Close()
			if err := <-served; err != nil {
				t.Errorf("Serve returned %v", err)
			}
		})
	})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }

// A message beyond the limit is refused with its id, and one that is as long as
// allowed is served; deep ones are refused, and the server lives on.
func TestHugeAndDeepMessages(t *testing.T) {
	p := connect(t, fakeTools(t), Options{MaxLine: 1 << 20})
	big := func(n int) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"x":"` + strings.Repeat("x", n) + `"}}}`
	}
	p.send(big(2 << 20))
	if m := p.receive(); string(m.ID) != "1" || m.Error == nil || m.Error.Code != codeInvalidRequest {
		t.Errorf("too long: %.200s", m.line)
	}
	p.send(big(1<<20 - 200))
	if m := p.receive(); string(m.ID) != "1" || m.Result == nil {
		t.Errorf("as long as allowed: %.200s", m.line)
	}
	for _, depth := range []int{9000, 100_000} {
		nested := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		p.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"x":` + nested + `}}}`)
		if m := p.receive(); depth > 10_000 && (m.Error == nil || m.Error.Code != codeParseError) || depth < 10_000 && m.Result == nil {
			t.Errorf("depth %d: %.200s", depth, m.line)
		}
	}
	p.send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	if m := p.receive(); string(m.ID) != "3" {
		t.Errorf("afterwards: %s", m.line)
	}
	if err := p.hangUp(); err != nil {
		t.Error(err)
	}
}

// opencode keeps the beginning of a long result and throws away a long line
// altogether: it gets less, with the end, and is told.
func TestResultsThatFitOpencode(t *testing.T) {
	for name, text := range map[string]string{
		"one line":     strings.Repeat("é", 100_000),
		"many lines":   strings.Repeat("a\n", 5000),
		"long lines":   strings.Repeat(strings.Repeat("b", 999)+"\n", 500),
		"broken ahead": "x" + strings.Repeat("é", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			tool := developer.Tool{Name: "long", Call: func(context.Context, developer.Call) (developer.Result, error) {
				return developer.Result{Content: []developer.Content{
					{Text: "begin" + text + "end", Audience: []string{"assistant"}}, {Text: text, Audience: []string{"user"}},
				}}, nil
			}}
			p := connect(t, toolset(t, tool), Options{})
			p.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"clientInfo":{"name":"opencode"}}}`, callOf(1, "long"))
			p.receive()
			var result struct{ Content []struct{ Text string } }
			m := p.receive()
			if err := json.Unmarshal(m.Result, &result); err != nil || len(result.Content) != 1 {
				t.Fatalf("%v: %.300s", err, m.line)
			}
			got := result.Content[0].Text
			if len(got) > 50_000 || strings.Count(got, "\n") > 1990 {
				t.Errorf("%d bytes, %d lines", len(got), strings.Count(got, "\n"))
			}
			if !strings.HasPrefix(got, "begin") || !strings.HasSuffix(got, "end") || !strings.Contains(got, "are left out here") {
				t.Errorf("%.100q … %q", got, got[len(got)-50:])
			}
			if strings.ContainsRune(got, '\uFFFD') {
				t.Error("a rune was cut")
			}
			if err := p.hangUp(); err != nil {
				t.Error(err)
			}
		})
	}
}

// goose acp bears the editor's name; its metadata tell, and it gets both copies
// even if the editor were opencode.
func TestGooseUnderAnotherName(t *testing.T) {
	p := connect(t, fakeTools(t), Options{})
	p.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"clientInfo":{"name":"opencode"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"agent-session-id":"s"}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"shell","arguments":{"command":""}}}`)
	p.receive()
	p.receive()
	if m := p.receive(); strings.Count(m.line, `"audience"`) != 2 {
		t.Errorf("got %s", m.line)
	}
	if err := p.hangUp(); err != nil {
		t.Error(err)
	}
}

// goose names a directory of its own machine when it has started the server in a
// container; others mean what they say.
func TestWorkingDirOfAnotherMachine(t *testing.T) {
	here := t.TempDir()
	missing := filepath.Join(here, "missing")
	for _, tt := range []struct {
		client    string
		container bool
		dir, want string
	}{
		{"goose-cli", true, missing, ""},
		{"goose-cli", true, here, here},
		{"goose-cli", false, missing, missing},
		{"probe", true, missing, missing},
	} {
		t.Run(fmt.Sprint(tt.client, " ", tt.container, " ", filepath.Base(tt.dir)), func(t *testing.T) {
			got := make(chan string, 1)
			where := developer.Tool{Name: "where", Call: func(_ context.Context, c developer.Call) (developer.Result, error) {
				got <- c.WorkingDir
				return developer.Result{}, nil
			}}
			p := connect(t, toolset(t, where), Options{Container: tt.container})
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"clientInfo":{"name":%q}}}`, tt.client),
				fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"where","_meta":{"agent-working-dir":%q}}}`, tt.dir))
			p.receive()
			p.receive()
			if dir := <-got; dir != tt.want {
				t.Errorf("the tool is told %q, want %q", dir, tt.want)
			}
			if err := p.hangUp(); err != nil {
				t.Error(err)
			}
		})
	}
}
