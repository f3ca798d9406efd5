// Package doorway is a listener whose connections are made in memory: what a sandbox's
// door dials on the host, and an HTTP server there accepts from. Places bound what that
// server holds of what it is sent.
package doorway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// ErrClosed is wrapped by what Dial returns after Close.
var ErrClosed = errors.New("it is closed")

// A Listener hands connections made by Dial to a server; it implements net.Listener.
// Its methods are safe for concurrent use.
type Listener struct {
	name   string
	max    int
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	// mu guards open, the server's ends of the open connections.
	mu   sync.Mutex
	open map[*conn]struct{}
}

// New returns a listener for a server that errors call by a name ("the gateway"). At most
// limit connections are open at a time.
func New(name string, limit int) *Listener {
	return &Listener{name: name, max: limit, conns: make(chan net.Conn), closed: make(chan struct{}), open: map[*conn]struct{}{}}
}

// Dial makes a connection, when the server takes it. ctx bounds the waiting.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	inside, outside := net.Pipe()
	c := &conn{Conn: outside, listener: l}
	if err := l.admit(c); err != nil {
		return nil, err
	}
	select {
	case l.conns <- c:
		return inside, nil
	case <-l.closed:
		_ = c.Close()
		return nil, fmt.Errorf("connecting to %s: %w", l.name, ErrClosed)
	case <-ctx.Done():
		_ = c.Close()
		return nil, fmt.Errorf("connecting to %s: %w", l.name, context.Cause(ctx))
	}
}

func (l *Listener) admit(c *conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.max {
		return fmt.Errorf("connecting to %s: %d connections are open, which is the limit", l.name, l.max)
	}
	l.open[c] = struct{}{}
	return nil
}

// Drain closes what the server has left open.
func (l *Listener) Drain() {
	l.mu.Lock()
	left := make([]*conn, 0, len(l.open))
	for c := range l.open {
		left = append(left, c)
	}
	l.mu.Unlock()
	for _, c := range left {
		_ = c.Close()
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Connections stay open; see Drain.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return addr(l.name) }

type addr string

func (addr) Network() string  { return "memory" }
func (a addr) String() string { return string(a) }

// conn is the server's end of a connection; closing it makes room for another.
type conn struct {
	net.Conn
	listener *Listener
}

func (c *conn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.open, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
