package acp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gander.dev/gander/acp"
)

// TestServeEnds: what ServeAgent returns, and that requests are answered at the end.
func TestServeEnds(t *testing.T) {
	t.Run("end of input", func(t *testing.T) {
		agent, begun := beginning()
		in, toAgent := io.Pipe()
		fromAgent, out := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- acp.ServeAgent(t.Context(), duplex{in, out}, agent.new, nil) }()
		r := newRaw(t, fromAgent)
		_, _ = io.WriteString(toAgent, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`+"\n")
		r.line()
		_, _ = io.WriteString(toAgent, `{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s1","prompt":[]}}`+"\n")
		recv(t, begun, "the prompt")
		_, _ = io.WriteString(toAgent, `{"jsonrpc":"2.0","id":3,"method":"x"}`) // no newline
		_ = toAgent.Close()
		got := r.line() + r.line()
		if !strings.Contains(got, `"id":2,"result":{"stopReason":"cancelled"}`) || !strings.Contains(got, `"id":3,"error"`) {
			t.Errorf("got %s", got)
		}
		if err := recv(t, served, "ServeAgent"); err != nil {
			t.Errorf("got %v", err)
		}
	})
	t.Run("context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		agent, begun := beginning()
		client, end := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- acp.ServeAgent(ctx, end, agent.new, nil) }()
		r := newRaw(t, client)
		r.open()
		r.prompt(1, "s1", "x")
		recv(t, begun, "the prompt")
		cancel()
		r.expect(`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}`)
		if err := recv(t, served, "ServeAgent"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := agent.say(t.Context(), "s1", "late"); err != acp.ErrClosed {
			t.Errorf("an update after the end: %v", err)
		}
		select {
		case <-agent.client.Done():
		default:
			t.Error("Done is open")
		}
	})
	t.Run("write error", func(t *testing.T) {
		broken := errors.New("broken pipe")
		in, toAgent := io.Pipe()
		served := make(chan error, 1)
		agent := &stubAgent{}
		go func() { served <- acp.ServeAgent(t.Context(), duplex{in, brokenWriter{broken}}, agent.new, nil) }()
		_, _ = io.WriteString(toAgent, "garbage\n")
		if err := recv(t, served, "ServeAgent"); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("hung up while written to", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			in, toAgent := io.Pipe()
			served := make(chan error, 1)
			go func() {
				served <- acp.ServeAgent(t.Context(), duplex{in, brokenWriter{io.ErrClosedPipe}}, (&stubAgent{}).new, nil)
			}()
			_, _ = io.WriteString(toAgent, "garbage\n")
			time.Sleep(100 * time.Millisecond) // the end of input is noticed after the writer's failure
			_ = toAgent.Close()
			if err := recv(t, served, "ServeAgent"); err != nil {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("read error", func(t *testing.T) {
		broken := errors.New("no such device")
		agent := &stubAgent{}
		err := acp.ServeAgent(t.Context(), duplex{brokenReader{broken}, brokenWriter{nil}}, agent.new, nil)
		if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	})
}

// beginning is an agent with turns that says when one has begun: a prompt that has not when
// the connection ends is answered as any request that is cancelled.
func beginning() (agent *turns, begun <-chan struct{}) {
	said := make(chan struct{}, 1)
	agent = newTurns()
	turn := agent.stubAgent.prompt
	agent.stubAgent.prompt = func(ctx context.Context, p *acp.PromptRequest) (*acp.PromptResponse, error) {
		said <- struct{}{}
		return turn(ctx, p)
	}
	return agent, said
}

type brokenWriter struct{ err error }

func (b brokenWriter) Write([]byte) (int, error) { return 0, b.err }
func (b brokenWriter) Close() error              { return nil }

type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }
func (b brokenReader) Close() error             { return nil }

// TestStalledClient: a client that stops reading blocks whoever produces
// updates, and nothing else.
func TestStalledClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, toAgent := io.Pipe()
		unread, out := net.Pipe() // nobody reads
		var sent atomic.Int64
		cancelled := make(chan struct{})
		agent := &stubAgent{}
		turn, end := context.WithCancel(t.Context())
		agent.cancel = func(*acp.CancelNotification) { end(); close(cancelled) }
		agent.prompt = func(ctx context.Context, _ *acp.PromptRequest) (*acp.PromptResponse, error) {
			acp.Release(ctx)
			text := strings.Repeat("x", 10_000)
			for turn.Err() == nil {
				if err := agent.say(turn, "s1", text); err != nil {
					return nil, err
				}
				sent.Add(1)
			}
			// The last updates of a cancelled turn do not wait.
			for range 10 {
				_ = agent.say(turn, "s1", "bye")
			}
			return &acp.PromptResponse{StopReason: acp.StopCancelled}, nil
		}
		served := make(chan error, 1)
		go func() { served <- acp.ServeAgent(t.Context(), duplex{in, out}, agent.new, nil) }()
		send := func(line string) { _, _ = io.WriteString(toAgent, line+"\n") }

		send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`)
		send(`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s1","prompt":[]}}`)
		synctest.Wait()
		if n := sent.Load(); n < 80 || n > 130 {
			t.Errorf("%d updates of 10 kB were taken before the producer had to wait", n)
		}
		for range 30_000 { // garbage is read, and its answers do not pile up
			send(`garbage`)
		}
		send(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}`)
		<-cancelled
		synctest.Wait() // the prompt has returned

		// The client comes back: everything is there, in order, the response last.
		var got []string
		read := make(chan struct{})
		go func() {
			defer close(read)
			r := newRaw(t, unread)
			for {
				line, err := r.lines.ReadString('\n')
				if err != nil {
					return
				}
				got = append(got, line)
			}
		}()
		synctest.Wait()
		_ = toAgent.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		<-read
		var texts, byes, errorReplies int
		for _, line := range got {
			texts += strings.Count(line, `x"`)
			byes += strings.Count(line, "bye")
			errorReplies += strings.Count(line, "-32700")
		}
		if byes != 10 || errorReplies > 15_000 || !strings.Contains(got[len(got)-1], `"id":2,"result":{"stopReason":"cancelled"}`) {
			t.Errorf("got %d texts, %d byes, %d error replies, last %.100s", texts, byes, errorReplies, got[len(got)-1])
		}
	})
}

// TestStalledClientAtTheEnd: closing unblocks everything in bounded time.
func TestStalledClientAtTheEnd(t *testing.T) {
	for _, how := range []string{"end of input", "context"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, toAgent := io.Pipe()
				_, out := net.Pipe() // nobody reads
				agent := &stubAgent{}
				agent.prompt = func(ctx context.Context, _ *acp.PromptRequest) (*acp.PromptResponse, error) {
					for ctx.Err() == nil {
						_ = agent.say(ctx, "s1", strings.Repeat("x", 10_000))
					}
					return nil, ctx.Err()
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				served := make(chan error, 1)
				go func() { served <- acp.ServeAgent(ctx, duplex{in, out}, agent.new, nil) }()
				_, _ = io.WriteString(toAgent, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`+"\n"+
					`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s1","prompt":[]}}`+"\n")
				synctest.Wait()
				start := time.Now()
				if how == "context" {
					cancel()
				} else {
					_ = toAgent.Close()
				}
				<-served
				if took := time.Since(start); took > 5*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// TestOrderOfUpdatesAndResponses: a response follows the updates before it, also
// when many sessions talk at once.
func TestOrderOfUpdatesAndResponses(t *testing.T) {
	const sessions, updates = 20, 100
	agent := &stubAgent{}
	agent.prompt = func(ctx context.Context, req *acp.PromptRequest) (*acp.PromptResponse, error) {
		for i := range updates {
			_ = agent.say(ctx, req.SessionID, fmt.Sprintf("<%d>", i))
		}
		return endTurn(), nil
	}
	r, wait := serveRaw(t, agent.new, nil)
	r.open()
	for i := range sessions {
		r.prompt(i, fmt.Sprintf("session%02d", i), "x")
	}
	next := map[int]int{}
	for done := 0; done < sessions; {
		line := r.line()
		var id, n int
		if _, err := fmt.Sscanf(line, `{"jsonrpc":"2.0","id":%d,"result"`, &id); err == nil {
			if next[id] != updates {
				t.Fatalf("the response of session %d came after %d updates", id, next[id])
			}
			done++
			continue
		}
		_, rest, _ := strings.Cut(line, `"sessionId":"session`)
		if _, err := fmt.Sscanf(rest, `%d"`, &id); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		_, rest, _ = strings.Cut(rest, `"text":"`)
		rest, _, _ = strings.Cut(rest, `"`)
		for part := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(rest, "<"), ">"), "><") { // merged or not
			if _, err := fmt.Sscanf(part, "%d", &n); err != nil || n != next[id] {
				t.Fatalf("session %d: got update %s, want %d", id, part, next[id])
			}
			next[id]++
		}
	}
	_ = r.conn.Close()
	_ = wait()
}

// TestTrace: every frame as it is on the wire.
func TestTrace(t *testing.T) {
	var frames []string
	agent := &stubAgent{}
	agent.prompt = func(ctx context.Context, _ *acp.PromptRequest) (*acp.PromptResponse, error) {
		_ = agent.say(ctx, "s1", "<")
		return endTurn(), nil
	}
	r, wait := serveRaw(t, agent.new, &acp.Options{Trace: func(dir acp.Direction, line []byte) {
		frames = append(frames, string(dir)+" "+string(line))
	}})
	r.open()
	frames = nil
	r.send(" garbage\r")
	want := []string{"in  garbage\r", "out " + r.line()}
	r.prompt(1, "s1", "x")
	want = append(want, `in {"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"x"}]}}`,
		"out "+r.line(), "out "+r.line())
	_ = r.conn.Close()
	_ = wait()
	if got := strings.Join(frames, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// TestFrameLimit: no frame is over the limit, whatever the agent sends.
func TestFrameLimit(t *testing.T) {
	const limit = 50_000
	long := strings.Repeat("<é\n\"", 50_000)
	agent := &stubAgent{}
	agent.prompt = func(ctx context.Context, req *acp.PromptRequest) (*acp.PromptResponse, error) {
		switch promptText(req) {
		case "say":
			return endTurn(), agent.say(ctx, "s1", long)
		case "meta":
			return endTurn(), agent.client.SessionUpdate(ctx, &acp.SessionNotification{
				SessionID: "s1", Update: acp.MessageChunk(acp.AgentMessageChunk, "", "x"),
				Meta: []byte(`{"x":"` + strings.Repeat("z", 100_000) + `"}`),
			})
		case "ask":
			_, err := agent.client.RequestPermission(ctx, &acp.RequestPermissionRequest{
				SessionID: "s1", ToolCall: acp.ToolCallFinal("t1", "pending", long),
			})
			return endTurn(), err
		case "request":
			_, err := agent.client.Request(ctx, "fs/write_text_file", map[string]string{"content": long})
			if !errors.Is(err, acp.ErrTooLarge) {
				t.Errorf("got %v", err)
			}
			return endTurn(), nil
		case "spare":
			raw := []byte(`{"x":"` + strings.Repeat("z", 100_000) + `"}`)
			return &acp.PromptResponse{StopReason: acp.StopEndTurn, Usage: raw, Meta: raw}, nil
		case "error data":
			return nil, acp.Internal("no", long)
		case "error message":
			return nil, acp.Internal(long, nil)
		}
		return &acp.PromptResponse{StopReason: acp.StopReason(long)}, nil
	}
	longest := 0
	r, wait := serveRaw(t, agent.new, &acp.Options{MaxFrame: limit, Trace: func(dir acp.Direction, line []byte) {
		if dir == acp.Out {
			longest = max(longest, len(line))
		}
	}})
	r.open()
	r.prompt(1, "s1", "say")
	frames := 0
	for !strings.Contains(r.line(), `"id":1,`) {
		frames++
	}
	if frames < 5 {
		t.Errorf("the text came in %d frames", frames)
	}
	r.prompt(2, "s1", "meta")
	if got := r.line(); !strings.Contains(got, `"text":"x"`) {
		t.Errorf("got %.200s", got)
	}
	r.line()
	r.prompt(3, "s1", "ask")
	if got := r.line(); !strings.Contains(got, "session/request_permission") || !strings.Contains(got, "left out") || !strings.Contains(got, `"options":[]`) {
		t.Errorf("got %.200s", got)
	}
	r.send(`{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"cancelled"}}}`)
	r.line()
	r.prompt(4, "s1", "request")
	r.expect(`{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn"}}`)
	r.prompt(5, "s1", "answer")
	if got := r.line(); !strings.Contains(got, `"id":5,"error":{"code":-32603,"message":"The result does not fit in a frame"`) {
		t.Errorf("got %.200s", got)
	}
	r.prompt(6, "s1", "spare")
	r.expect(`{"jsonrpc":"2.0","id":6,"result":{"stopReason":"end_turn"}}`)
	r.prompt(7, "s1", "error data")
	r.expect(`{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"no"}}`)
	r.prompt(8, "s1", "error message")
	if got := r.line(); !strings.Contains(got, `"id":8,"error":{"code":-32603,"message":"<é`) || !strings.Contains(got, "bytes are left out here]") {
		t.Errorf("got %.200s", got)
	}
	r.send(`{"jsonrpc":"2.0","id":9,"method":"` + strings.Repeat("m", 100_000) + `"}`)
	r.expect(`{"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"Method not found"}}`)
	_ = r.conn.Close()
	_ = wait()
	if longest > limit {
		t.Errorf("a frame of %d bytes", longest)
	}
}
