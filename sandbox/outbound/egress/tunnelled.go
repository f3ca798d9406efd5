package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
)

// httpPort is where plain HTTP is spoken, also in a tunnel.
const httpPort = 80

// tunnelled is a client's end of a tunnel to a host in which plain HTTP is spoken. Its
// requests are forwarded one by one: a server of many hosts goes by the Host header.
type tunnelled struct {
	net.Conn
	door      *Door
	host      host
	made      chan net.Conn // the connection to the host, until it is used
	transport *http.Transport
	proxy     http.Handler

	// mu guards answered, which is closed when the last request has been; nil before one.
	mu       sync.Mutex
	answered chan struct{}
}

func (d *Door) newTunnelled(from, to net.Conn, name string) *tunnelled {
	t := &tunnelled{Conn: from, door: d, made: make(chan net.Conn, 1)}
	t.host, _ = parseHost(name) // it was decided about
	t.made <- to
	t.transport = &http.Transport{
		DialContext: t.dial, DisableCompression: true, MaxResponseHeaderBytes: maxAnswerHeader,
		ResponseHeaderTimeout: idleTime, IdleConnTimeout: idleTime,
	}
	t.proxy = d.proxyBy(t.transport)
	return t
}

// Read hides the end of what a client says while it waits for an answer, which a server
// would take for its end.
func (t *tunnelled) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.mu.Lock()
	answered := t.answered
	t.mu.Unlock()
	if errors.Is(err, io.EOF) && answered != nil {
		select {
		case <-answered:
		case <-t.door.ctx.Done():
		}
	}
	return n, err
}

// asked notes that a request has come, before anything more is read.
func asked(c net.Conn, s http.ConnState) {
	if t, ok := c.(*tunnelled); ok && s == http.StateActive {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.answered = make(chan struct{})
	}
}

// dial returns the connection of the tunnel, or, when the host has ended that, another one.
func (t *tunnelled) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	select {
	case c := <-t.made:
		return c, nil
	default:
	}
	ctx, done := t.door.scope(ctx)
	defer done()
	return t.door.reach(ctx, t.host.String(), httpPort)
}

// Close ends both ends.
func (t *tunnelled) Close() error {
	select {
	case c := <-t.made:
		_ = c.Close()
	default:
	}
	t.transport.CloseIdleConnections()
	return t.Conn.Close()
}

// tunnelledKey is where the context of a tunnel's requests has it.
type tunnelledKey struct{}

func withTunnelled(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tunnelled); ok {
		return context.WithValue(ctx, tunnelledKey{}, t)
	}
	return ctx
}

// serveTunnelled forwards a request of a tunnel.
func (d *Door) serveTunnelled(w http.ResponseWriter, r *http.Request, t *tunnelled) {
	done := sync.OnceFunc(func() { close(t.answered) })
	defer done()
	if r.Header.Get("Upgrade") != "" {
		done() // what comes then ends as it ends
	}
	if r.Host == "" { // of HTTP/1.0
		r.Host = t.host.String()
	}
	if r.Method == http.MethodConnect || !t.mayAsk(r.Host) {
		d.refuse(w, http.StatusForbidden, r.Host, fmt.Sprintf("plain HTTP asks for it in a tunnel to %s", t.host))
		return
	}
	to := *r.URL
	to.Scheme, to.Host, to.User = "http", net.JoinHostPort(t.host.String(), strconv.Itoa(httpPort)), nil
	r.URL = &to
	d.pass(w, r, t.proxy)
}

// mayAsk reports whether a Host header may be sent in the tunnel.
func (t *tunnelled) mayAsk(header string) bool {
	if t.host.addr.IsValid() {
		return true // an address is allowed whoever it serves
	}
	name, port, ok := splitPort(header)
	if ok && port != strconv.Itoa(httpPort) {
		return false
	}
	h, err := parseHost(name)
	return err == nil && (h == t.host || t.door.explain(name, httpPort).Allowed)
}
