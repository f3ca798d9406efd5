package router

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"gander.dev/gander/sandbox"
)

// maxLastWords bounds what is kept of a server's stderr, in bytes.
const maxLastWords = 2 << 10

// lastWords keeps the end of what is written to it.
type lastWords struct {
	// mu guards text.
	mu   sync.Mutex
	text []byte
}

func (l *lastWords) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if over := len(l.text) - maxLastWords; over > 0 {
		l.text = append(l.text[:0], l.text[over:]...)
	}
	return len(p), nil
}

func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(l.text), ""))
}

// run starts a server's program and returns its streams as a connection. done is
// called when nothing of the program is left.
func (m *servers) run(ctx context.Context, v *server, done func()) (net.Conn, error) {
	host, err := m.supervisor(ctx)
	if err != nil {
		return nil, err
	}
	env := append([]string(nil), m.s.r.opts.ServerEnv...)
	for _, e := range v.Env {
		env = append(env, e.Name+"="+e.Value)
	}
	proc, err := host.Start(ctx, sandbox.Command{Args: append([]string{v.Command}, v.Args...), Env: env, Dir: m.s.cwd})
	if err != nil {
		return nil, err
	}
	here, there := net.Pipe()
	words := new(lastWords)
	m.s.work.Go(func() { // the session's backend runs, so nobody waits for work yet
		defer done()
		m.carry(v, proc, here, words)
	})
	return there, nil
}

// carry passes the streams on until one side ends, and ends the other.
func (m *servers) carry(v *server, proc sandbox.Process, conn net.Conn, words *lastWords) {
	var streams sync.WaitGroup
	left := make(chan struct{}) // closed when the agent has closed its end
	streams.Go(func() {
		_, _ = io.Copy(io.MultiWriter(m.s.leaks.Writer(v.leak()), proc.Stdin()), conn)
		_ = proc.Stdin().Close()
		close(left)
	})
	streams.Go(func() { _, _ = io.Copy(words, proc.Stderr()) })
	streams.Go(func() {
		_, _ = io.Copy(conn, proc.Stdout())
		_ = conn.Close()
	})
	exited := make(chan string, 1)
	streams.Go(func() {
		status, err := proc.Wait(context.Background()) // ends with the supervisor at the latest
		if err != nil {
			exited <- err.Error()
			return
		}
		exited <- fmt.Sprintf("exit code %d", status.Code)
	})
	select {
	case <-left:
	case how := <-exited:
		select {
		case <-left:
		case <-m.s.ctx.Done():
		default:
			m.s.tell("warning", fmt.Sprintf("The MCP server %s has ended (%s); its tools are gone. Its last words: %s", v.Name, how, words))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), settingTime)
	defer cancel()
	if err := proc.Kill(ctx); err != nil {
		m.s.log.Debug("ending an MCP server", "server", v.Name, "err", err)
	}
	_ = conn.Close()
	streams.Wait()
}
