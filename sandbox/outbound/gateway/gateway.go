// Package gateway is the only door out of a sandbox: an HTTP proxy on the host
// that reaches one model endpoint and nothing else, and adds the key there.
//
// A Gateway listens nowhere. [Gateway.Dial] makes a connection to it in memory;
// a sandbox's door uses it as its Dial, and the supervisor carries the bytes of
// the loopback listener inside. Of what an agent sends as headers a few that lead
// nowhere pass, the real credentials are added on the way out, and the key is
// masked wherever the endpoint's answer repeats it.
//
// # Paths
//
// Inside, the door is an OpenAI-compatible endpoint with these paths, spelled
// exactly so: POST /v1/chat/completions, /v1/completions, /v1/responses,
// /v1/embeddings and GET /v1/models; of an endpoint that speaks Anthropic's protocol they are POST
// /v1/messages, /v1/messages/count_tokens and GET /v1/models. Outside they are below [Endpoint.BaseURL]:
//
//	http://host             http://host/v1/chat/completions
//	http://host/llm/        http://host/llm/v1/chat/completions
//	http://host/v1          http://host/v1/chat/completions
//	http://host/api/v4      http://host/api/v4/chat/completions
//
// that is, a base that ends in a version already is the root of the API. All
// else (other paths and hosts, absolute URLs, CONNECT, Upgrade) is refused with
// 403 and an error that says what is allowed.
//
// # Events
//
// Options.Observe hears of every request twice: when it starts, and how it
// ended, with one sentence for people that names the fix where there is one. It
// is called for one event at a time, in order; it must not block for long and
// must not call Close.
//
// # Policy
//
// A call must carry [Gateway.Token]. Options.Models, Options.Remote and Options.Budget are
// kept before a call goes out: a model that is not allowed is answered with 403, and so is
// a call that has the endpoint reach other hosts, a budget that is used up with 402, each
// with an error that agents show. The
// budget is checked when a call begins; those that run then end by themselves,
// and a session with a budget has at most four at a time.
//
// Other hosts are the business of package egress.
//
// # Answers
//
// A chat completion whose answer is complete but ends in a way that agents do not know is
// closed for them; one that is no answer becomes an error. An agent that sends the same
// request again and again and gets nothing new is refused further calls until
// [Gateway.Proceed].
//
// All methods are safe for concurrent use.
package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"gander.dev/gander/sandbox/outbound/doorway"
)

// Options configure a Gateway. Only Endpoint.BaseURL is required.
type Options struct {
	Endpoint Endpoint
	// Log gets what is worth a record besides the events; nil discards. Nothing
	// secret is written to it.
	Log *slog.Logger
	// Observe hears the events; nil ignores them.
	Observe func(Event)
	// Proxy says which proxy to use for a request to the endpoint, as in
	// http.Transport; nil means none. The environment is not read.
	Proxy func(*http.Request) (*url.URL, error)
	// Redact are further secrets to mask in what comes back, besides the
	// endpoint's key and headers.
	Redact []string
	// MaxConns bounds the open connections from inside; further ones are refused.
	// 0 means 128.
	MaxConns int
	// MaxBody bounds the body of a request in bytes; longer ones get 413.
	// 0 means 64 MiB.
	MaxBody int64
	// Models are the names that calls may ask for, as MatchModel reads them; none
	// means any.
	Models []string
	// Remote lets calls have the endpoint itself reach further hosts: fetch what an address
	// in a message leads to, search the web, call servers of tools. What is known to do so
	// is refused else.
	Remote bool
	// Budget is refused to be overdrawn, Prices are by model as MatchModel reads
	// names, and Meter adds up what is used; nil means one of the gateway's own.
	Budget Budget
	Prices map[string]Price
	Meter  *Meter
	// Retries says that the agent is known to try again by itself after a failure that may
	// pass, so that events may say it.
	Retries bool
	// Inspect sees all of every call that the agent has written, before it goes out: the
	// parameters of the address with the headers, and the body. An error refuses it, and is
	// said to the agent. It is called concurrently.
	Inspect func(part []byte) error
}

const (
	maxConns      = 128
	maxBody       = 64 << 20
	maxHeader     = 64 << 10 // bytes of a request's header
	idleTimeout   = 5 * time.Minute
	headerTimeout = 30 * time.Second // for a request's header to arrive
)

// ErrClosed is wrapped by what Dial returns after Close.
var ErrClosed = doorway.ErrClosed

// errAborted is why a call ends that AbortInFlight ended.
var errAborted = errors.New("the model call was cancelled")

// A Gateway carries model calls out of one sandbox.
type Gateway struct {
	opts      Options
	log       *slog.Logger
	endpoint  *endpoint
	mask      *mask
	transport *http.Transport
	proxy     *httputil.ReverseProxy
	server    *http.Server
	listener  *doorway.Listener
	served    chan struct{}  // closed when server has ended
	conns     sync.WaitGroup // the server's connections
	observer  observer
	finish    finish
	progress  progress
	token     string
	meter     *Meter
	large     *doorway.Places // for bodies that are held
	noUsage   atomic.Bool     // the endpoint objects to being asked for usage

	// mu guards the fields below.
	mu      sync.Mutex
	closed  bool
	calls   map[*call]struct{} // running now
	running sync.WaitGroup     // handlers; Add only while not closed
}

// New returns a running gateway; Close it in the end. An error is a sentence
// about the endpoint's address or key.
func New(o Options) (*Gateway, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxConns == 0 {
		o.MaxConns = maxConns
	}
	if o.MaxBody == 0 {
		o.MaxBody = maxBody
	}
	if o.Meter == nil {
		o.Meter = NewMeter()
	}
	e, err := newEndpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	g := &Gateway{
		opts: o, log: o.Log, endpoint: e, mask: newMask(append(e.secrets(), o.Redact...)),
		transport: newTransport(o), listener: doorway.New("the gateway", o.MaxConns), served: make(chan struct{}),
		observer: observer{observe: o.Observe}, calls: map[*call]struct{}{},
		token: rand.Text(), meter: o.Meter, large: doorway.NewPlaces(largeCalls),
	}
	g.proxy = g.newProxy()
	g.server = &http.Server{
		Handler: g, DisableGeneralOptionsHandler: true, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog:  slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		ConnState: g.count,
	}
	go g.serve()
	return g, nil
}

func (g *Gateway) serve() {
	defer close(g.served)
	if err := g.server.Serve(g.listener); !errors.Is(err, http.ErrServerClosed) {
		g.log.Error("the gateway stopped", "error", err)
	}
}

// count follows the server's connections, so that Close can wait for them.
func (g *Gateway) count(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		g.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		g.conns.Done()
	}
}

// Dial returns a connection to the gateway. An error is ErrClosed, the end of
// ctx, or too many open connections.
func (g *Gateway) Dial(ctx context.Context) (net.Conn, error) { return g.listener.Dial(ctx) }

// AbortInFlight ends the model calls that run now. One that the endpoint has not
// begun to answer is answered with an empty completion: agents notice that they
// were cancelled when an answer comes, and take a dropped connection for a
// network error that they try again for seconds. Others drop. It does not wait.
func (g *Gateway) AbortInFlight() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.calls {
		c.cancel(errAborted)
	}
}

// Close ends all calls and connections and returns when nothing of the gateway
// runs any more. It may be repeated.
func (g *Gateway) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.AbortInFlight()
	err := g.server.Close()
	<-g.served
	g.running.Wait()
	g.listener.Drain() // the server knows nothing of one it accepted while it closed
	g.conns.Wait()
	g.transport.CloseIdleConnections()
	if err != nil {
		return fmt.Errorf("closing the gateway: %w", err)
	}
	return nil
}

// enter counts a running handler, unless the gateway is closed.
func (g *Gateway) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.running.Add(1)
	}
	return !g.closed
}
