// Package egress is the door of a sandbox to hosts other than the model: a proxy
// (HTTP with CONNECT, and SOCKS5, on one port) that is reached on loopback inside
// and runs on the host. What it may reach is a list of rules; everything else is
// refused, or asked for where somebody can be asked.
//
// A [Door] listens nowhere: [Door.Dial] makes a connection to it in memory, as the
// gateway's does. Nothing leaves a sandbox without it, so a program that does not
// use the proxy reaches nothing.
//
// # What is decided, and when
//
// The name comes first: a host that no rule names is refused before anything is
// looked up, so that questions to name servers carry nothing out. What is
// allowed is resolved once, here, and the connection is made to one of the
// addresses found; a name that turns into another address later is of no use.
// Addresses that are not public (private, loopback, link-local, the metadata
// services, shared, multicast, documentation, those that carry another
// address inside, and every network that this machine is part of) are refused,
// also behind an allowed name, unless a rule names the literal address and its port.
// Hosts are names in ASCII or addresses in their ordinary form: numbers in
// hexadecimal, octal or one piece are refused.
//
// A redirect is the client's business: its next request is decided anew.
//
// # What can be seen of a connection
//
// Plain HTTP is read: the host of the address counts, whatever the Host header
// says. In a tunnel the name in a TLS greeting (SNI) must be the host that was
// asked for or another that is allowed, and at port 80 that in each request: a server of
// many hosts is not a way to the others. What is inside TLS is not seen: a host that stores what strangers
// send (a git host, a package registry) is a way out for data, and allowing it is
// the person's decision.
//
// All methods are safe for concurrent use.
package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"
)

// Options configure a Door.
type Options struct {
	// Rules are the hosts that are allowed.
	Rules []Rule
	// Remembered returns what a person has allowed and denied for good, each time that
	// something is decided: a denial wins over every rule. Nil means nothing.
	Remembered func() (allowed, denied []Rule)
	// Book remembers what the person answered; nil means a new one.
	Book *Book
	// Ask has the person decide about a host that no rule names. It may take as long
	// as ctx; nil refuses.
	Ask func(ctx context.Context, host string, port int) Answer
	// Observe hears every decision, from several goroutines, before the program does: a
	// new one at once, others with their number when they have been taken ten times as
	// often, and in the end. Of more than a thousand different ones of either outcome the
	// rest is counted together.
	Observe func(Tally)
	// Notice shows the person a refusal: each host once, and no more than a few.
	Notice func(text string)
	// Inspect returns a writer that sees what a connection sends out, as far as it is
	// not encrypted; an error of it ends the connection before that part leaves.
	Inspect func() io.Writer
	// Lookup resolves names; nil is the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Connect makes connections; nil is TCP.
	Connect func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	// Proxy returns the proxy of this machine that carries the connections to a host; nil
	// is that of the environment, unless Connect is set.
	Proxy func(*http.Request) (*url.URL, error)
	// MaxConns bounds the open connections from inside; 0 means 2048.
	MaxConns int
	// Log gets what goes wrong; decisions are Observe's. Nil discards.
	Log *slog.Logger
}

const (
	maxConns        = 2048
	connectTime     = 15 * time.Second // for one address
	greetingTime    = 30 * time.Second // for a client to say what it wants
	idleTime        = 10 * time.Minute // without a byte in either direction
	maxHeader       = 64 << 10         // bytes of a request's header
	maxAnswerHeader = 256 << 10        // the same of an answer
	maxConnections  = 6                // addresses that are tried
)

// ErrClosed is returned by Dial after Close.
var ErrClosed = errors.New("the proxy is closed")

// A Door is the way to other hosts for one sandbox.
type Door struct {
	opts   Options
	log    *slog.Logger
	ctx    context.Context // ends with Close
	stop   context.CancelFunc
	server *http.Server
	queue  chan net.Conn // for server
	plain  http.Handler  // forwards requests that are no CONNECT
	work   sync.WaitGroup
	idle   func() // closes the idle connections of plain

	// mu guards open, all connections of either side.
	mu    sync.Mutex
	open  map[net.Conn]struct{}
	conns int // from inside
}

// New returns a running door; Close it in the end.
func New(o Options) *Door {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Book == nil {
		o.Book = NewBook(nil)
	}
	if o.MaxConns == 0 {
		o.MaxConns = maxConns
	}
	if o.Lookup == nil {
		o.Lookup = lookup
	}
	if o.Connect == nil && o.Proxy == nil {
		o.Proxy = http.ProxyFromEnvironment
	}
	if o.Connect == nil {
		o.Connect = connect
	}
	d := &Door{opts: o, log: o.Log, queue: make(chan net.Conn), open: map[net.Conn]struct{}{}}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.plain, d.idle = d.forwarder()
	d.server = &http.Server{
		Handler: http.HandlerFunc(d.serveHTTP), DisableGeneralOptionsHandler: true,
		ConnContext: withTunnelled, ConnState: asked,
		ReadHeaderTimeout: greetingTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	d.work.Go(func() {
		if err := d.server.Serve((*queue)(d)); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			d.log.Error("the proxy stopped", "error", err)
		}
	})
	return d
}

// lookup asks the system for a name as it is, without the domains it would add.
func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", absolute(host))
}

func connect(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	dialer := net.Dialer{Timeout: connectTime, KeepAlive: 30 * time.Second}
	return dialer.DialContext(ctx, "tcp", to.String())
}

// Dial returns a connection to the proxy.
func (d *Door) Dial(ctx context.Context) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	inside, outside := newPipe()
	c := &client{early: early{Conn: outside}, door: d}
	if err := d.admit(c, func() { d.serve(c) }); err != nil {
		return nil, err
	}
	return inside, nil
}

// admit begins to serve a connection from inside.
func (d *Door) admit(c *client, serve func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.ctx.Err() != nil:
		return ErrClosed
	case d.conns >= d.opts.MaxConns:
		return fmt.Errorf("connecting to the proxy: %d connections are open, which is the limit", d.conns)
	}
	d.open[c] = struct{}{}
	d.conns++
	d.work.Go(serve)
	return nil
}

// keep remembers a connection to a host, so that it ends with the door.
func (d *Door) keep(c net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		_ = c.Close()
		return false
	}
	d.open[c] = struct{}{}
	return true
}

func (d *Door) forget(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.open[c]; !ok {
		return
	}
	delete(d.open, c)
	if _, ok := c.(*client); ok {
		d.conns--
	}
}

// Close ends all connections and returns when nothing of the door runs any more.
// It may be repeated.
func (d *Door) Close() error {
	d.mu.Lock()
	d.stop()
	all := make([]net.Conn, 0, len(d.open))
	for c := range d.open {
		all = append(all, c)
	}
	d.mu.Unlock()
	err := d.server.Close()
	for _, c := range all {
		_ = c.Close()
	}
	d.work.Wait()
	d.idle()
	if d.opts.Observe != nil {
		for _, t := range d.opts.Book.untold() {
			d.opts.Observe(t)
		}
	}
	if err != nil {
		return fmt.Errorf("closing the proxy: %w", err)
	}
	return nil
}

// pipe is an end of a connection in memory whose two directions end one by one, as
// those of TCP do.
type pipe struct {
	net.Conn          // what is read
	out      net.Conn // what is written
}

func newPipe() (a, b *pipe) {
	there, here := net.Pipe()
	back, forth := net.Pipe()
	return &pipe{here, back}, &pipe{forth, there}
}

func (p *pipe) Write(b []byte) (int, error) { return p.out.Write(b) }
func (p *pipe) CloseWrite() error           { return p.out.Close() }

func (p *pipe) Close() error {
	_ = p.out.Close() // never fails
	return p.Conn.Close()
}

func (p *pipe) SetWriteDeadline(t time.Time) error { return p.out.SetWriteDeadline(t) }

func (p *pipe) SetDeadline(t time.Time) error {
	_ = p.out.SetDeadline(t) // fails as the other does
	return p.Conn.SetDeadline(t)
}

// closeWrite ends one direction of a connection, where it can.
func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = c.Close()
}

// client is a connection from inside.
type client struct {
	early
	door *Door
}

func (c *client) Close() error {
	c.door.forget(c)
	return c.Conn.Close()
}

// serve finds out which protocol a client speaks.
func (d *Door) serve(c *client) {
	_ = c.SetReadDeadline(time.Now().Add(greetingTime))
	first := make([]byte, 1)
	if _, err := io.ReadFull(c.Conn, first); err != nil {
		_ = c.Close()
		return
	}
	c.first = first
	if first[0] == socksVersion {
		d.serveSocks(c)
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	d.enqueue(c)
}

// enqueue leaves a connection to the server.
func (d *Door) enqueue(c net.Conn) {
	select {
	case d.queue <- c:
	case <-d.ctx.Done():
		_ = c.Close()
	}
}

// queue is the door as the listener of its server.
type queue Door

func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.queue:
		return c, nil
	case <-q.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (q *queue) Close() error   { return nil }
func (q *queue) Addr() net.Addr { return memory{} }

type memory struct{}

func (memory) Network() string { return "memory" }
func (memory) String() string  { return "proxy" }
