package acp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"gander.dev/gander/acp"
)

// The benchmarks compare this package's proxy (DialAgent to ServeAgent) with one
// of two plain jsonrpc2 connections that decodes an update, swaps the session id
// and notifies, over the pipes of the operating system. Run them side by side:
//
//	go test -run - -bench Forward -count 5 ./acp
//
// Updates have message ids of their own, so that none are merged.

// pipes is a duplex stream to the proxy, from each side.
func pipes(b *testing.B) (near, far duplex) {
	b.Helper()
	r1, w1, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	r2, w2, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		for _, f := range []*os.File{r1, w1, r2, w2} {
			_ = f.Close()
		}
	})
	return duplex{r1, w2}, duplex{r2, w1}
}

// benchUpdate is a session/update of about 215 bytes.
func benchUpdate(i int) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"4a1c7a52-inner","update":{"sessionUpdate":"agent_message_chunk","messageId":"msg_%08d","content":{"type":"text","text":"some words of a model "}}}}`+"\n", i)
}

// startProxy is a proxy between the two streams, already initialized.
type startProxy func(b *testing.B, editor, agent io.ReadWriteCloser)

func ours(b *testing.B, editor, agent io.ReadWriteCloser) {
	p := newProxy(agent)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- acp.ServeAgent(ctx, editor, p.new, nil) }()
	b.Cleanup(func() {
		cancel()
		_ = p.inner.Close()
		<-served
	})
	<-p.ready
}

func plain(b *testing.B, editor, agent io.ReadWriteCloser) {
	outer := jsonrpc2.NewConn(context.Background(), jsonrpc2.NewPlainObjectStream(editor),
		jsonrpc2.HandlerWithError(func(context.Context, *jsonrpc2.Conn, *jsonrpc2.Request) (any, error) { return nil, nil }))
	inner := jsonrpc2.NewConn(context.Background(), jsonrpc2.NewPlainObjectStream(agent),
		jsonrpc2.HandlerWithError(func(ctx context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
			var n acp.SessionNotification
			if err := json.Unmarshal(*r.Params, &n); err != nil {
				return nil, err
			}
			n.SessionID = "outer"
			return nil, outer.Notify(ctx, r.Method, &n)
		}))
	b.Cleanup(func() {
		_ = inner.Close()
		_ = outer.Close()
	})
}

func BenchmarkForward(b *testing.B) {
	for _, proxy := range []struct {
		name  string
		start startProxy
	}{{"acp", ours}, {"jsonrpc2", plain}} {
		b.Run("throughput/"+proxy.name, func(b *testing.B) { benchThroughput(b, proxy.start) })
		b.Run("latency/"+proxy.name, func(b *testing.B) { benchLatency(b, proxy.start) })
	}
	b.Run("latency/pipes", func(b *testing.B) { benchLatency(b, threePipes) })
}

// benchThroughput streams updates as fast as the proxy takes them.
func benchThroughput(b *testing.B, start startProxy) {
	editorNear, editorFar := pipes(b)
	agentNear, agentFar := pipes(b)
	start(b, editorFar, agentFar)
	lines := make([][]byte, 1000)
	for i := range lines {
		lines[i] = benchUpdate(i)
	}
	b.SetBytes(int64(len(lines[0])))
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		w := bufio.NewWriterSize(agentNear, 32<<10)
		for i := range b.N {
			_, _ = w.Write(lines[i%len(lines)])
		}
		_ = w.Flush()
	}()
	r := bufio.NewReaderSize(editorNear, 64<<10)
	for range b.N {
		if _, err := r.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "updates/s")
}

// benchLatency sends one update at a time.
func benchLatency(b *testing.B, start startProxy) {
	editorNear, editorFar := pipes(b)
	agentNear, agentFar := pipes(b)
	start(b, editorFar, agentFar)
	line := benchUpdate(1)
	r := bufio.NewReader(editorNear)
	b.ResetTimer()
	for range b.N {
		if _, err := agentNear.Write(line); err != nil {
			b.Fatal(err)
		}
		if _, err := r.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(time.Microsecond), "us/update")
}

// threePipes only copies, through a third pipe in between.
func threePipes(b *testing.B, editor, agent io.ReadWriteCloser) {
	near, far := pipes(b)
	go func() { _, _ = io.Copy(near.w, struct{ io.Reader }{agent}) }()
	go func() { _, _ = io.Copy(struct{ io.Writer }{editor}, far.ReadCloser) }()
}
