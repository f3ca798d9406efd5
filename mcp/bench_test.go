package mcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"gander.dev/gander/developer"
)

// BenchmarkCalls measures calls of a tool that does nothing, one after the other
// over pipes, beside mcp-go's own stdio server. The goal is 1.5 times its rate.
func BenchmarkCalls(b *testing.B) {
	for name, serve := range map[string]func(ctx context.Context, b *testing.B, rwc io.ReadWriteCloser) error{
		"gander": serveOurs, "mcp-go": serveTheirs,
	} {
		b.Run(name, func(b *testing.B) {
			c := dialPipes(b, func(ctx context.Context, rwc io.ReadWriteCloser) error { return serve(ctx, b, rwc) })
			c.exchange(b, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
			b.ReportAllocs()
			var took []time.Duration
			for i := 1; b.Loop(); i++ {
				started := time.Now()
				c.exchange(b, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"noop","arguments":{"command":"true"},"_meta":{"progressToken":%d}}}`, i, i))
				took = append(took, time.Since(started))
			}
			b.StopTimer()
			reportLatency(b, took)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

func reportLatency(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
}

func serveOurs(ctx context.Context, b *testing.B, rwc io.ReadWriteCloser) error {
	noop := developer.Tool{Name: "noop", Call: func(context.Context, developer.Call) (developer.Result, error) {
		return developer.Result{Content: []developer.Content{{Text: "done"}}}, nil
	}}
	return Serve(ctx, rwc, toolset(b, noop), Options{})
}

func serveTheirs(ctx context.Context, _ *testing.B, rwc io.ReadWriteCloser) error {
	s := mcpserver.NewMCPServer("bench", "1", mcpserver.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("noop"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("done"), nil
	})
	return mcpserver.NewStdioServer(s).Listen(ctx, rwc, rwc)
}

// pipeClient is a client on two pipes of the system, as a process would be.
type pipeClient struct {
	w     io.Writer
	lines *bufio.Reader
}

func dialPipes(b *testing.B, serve func(context.Context, io.ReadWriteCloser) error) *pipeClient {
	fromClient, toServer, err1 := os.Pipe()
	fromServer, toClient, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = serve(ctx, duplex{fromClient, toClient}) // ends with its input
	}()
	b.Cleanup(func() {
		_ = toServer.Close()
		cancel()
		<-served
		_, _, _ = fromClient.Close(), toClient.Close(), fromServer.Close()
	})
	return &pipeClient{toServer, bufio.NewReader(fromServer)}
}

func (c *pipeClient) exchange(b *testing.B, line string) {
	if _, err := io.WriteString(c.w, line+"\n"); err != nil {
		b.Fatal(err)
	}
	if _, err := c.lines.ReadBytes('\n'); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkStart measures from the start of the built program to its reply to
// initialize. The goal is 15 ms.
func BenchmarkStart(b *testing.B) {
	program := filepath.Join(b.TempDir(), "gander")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, "../cmd/gander")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("building gander: %v\n%s", err, out)
	}
	var took []time.Duration
	for b.Loop() {
		cmd := exec.Command(program, "mcp", "developer")
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		started := time.Now()
		if err := errors.Join(err1, err2, cmd.Start()); err != nil {
			b.Fatal(err)
		}
		c := &pipeClient{in, bufio.NewReader(out)}
		c.exchange(b, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
		took = append(took, time.Since(started))
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	reportLatency(b, took)
}
