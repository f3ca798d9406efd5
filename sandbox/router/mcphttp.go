package router

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gander.dev/gander/sandbox/outbound/doorway"
)

// serverPath is the only path that a server has inside; what the editor's address
// says stays outside, as it may hold a token.
const serverPath = "/mcp"

// The bounds of what an agent sends the servers that have an address.
const (
	maxServerBody   = 32 << 20 // bytes of a request's body
	maxServerHeader = 64 << 10 // bytes of its header
	maxServerConns  = 32       // to each server; further ones are refused
	// largeToServers is how many bodies of more than doorway.Free are held at a time, of
	// all servers together. Further ones wait until others are answered.
	largeToServers = 4
	// idleToServers is how long a connection stays open that is not used.
	idleToServers = 5 * time.Minute
)

// passed are the headers that pass between an agent and a server; all others are
// the person's, or nobody's.
var passed = []string{"Accept", "Content-Type", "Last-Event-Id", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Mcp-Session-Id", "Cache-Control", "Retry-After", "Content-Encoding", "Accept-Encoding"}

// methods are those of the protocol.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodDelete}

// serverWay is the way to a server that has an address.
type serverWay struct {
	// listener's Dial is the door's.
	listener  *doorway.Listener
	server    *http.Server
	transport *http.Transport
	failed    atomic.Bool // the server is not asked any more
	wg        sync.WaitGroup
}

// newServerWay begins to pass requests on. complain takes what goes wrong: for good when the
// server does not answer what agents begin with, within patience. check says what must not
// leave, and large bodies need one of places.
func newServerWay(v *server, patience time.Duration, complain func(what string, forGood bool), check func(where string, data []byte) error, places *doorway.Places) (*serverWay, error) {
	target, err := url.Parse(v.URL)
	if err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Host == "" {
		return nil, fmt.Errorf("the MCP server %s is left out: its address is no URL that begins with http:// or https://", v.Name)
	}
	w := &serverWay{
		listener:  doorway.New("the MCP server "+v.Name, maxServerConns),
		transport: http.DefaultTransport.(*http.Transport).Clone(),
	}
	tell := complain
	complain = func(what string, forGood bool) {
		if forGood {
			w.failed.Store(true)
		}
		tell(what, forGood)
	}
	proxy := &httputil.ReverseProxy{
		Transport: w.transport, FlushInterval: -1, ErrorLog: log.New(discard{}, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL, r.Out.Host = target, target.Host
			keepHeaders(r.Out.Header)
			for _, h := range v.Headers {
				r.Out.Header.Set(h.Name, h.Value)
			}
		},
		ModifyResponse: func(resp *http.Response) error {
			keepHeaders(resp.Header)
			if resp.StatusCode >= 300 && resp.StatusCode < 400 {
				return fmt.Errorf("it sends its client to another address (%s), and gander follows none", resp.Status)
			}
			w, _ := resp.Request.Context().Value(waitKey{}).(*wait)
			if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden || resp.StatusCode >= 500 {
				complain(resp.Status, resp.StatusCode >= 500 && w != nil)
			}
			if w != nil {
				resp.Body = &answerBody{resp.Body, w}
			}
			return nil
		},
		ErrorHandler: func(rw http.ResponseWriter, r *http.Request, err error) {
			w, _ := r.Context().Value(waitKey{}).(*wait)
			if r.Context().Err() == nil {
				complain(err.Error(), w != nil)
			}
			rw.WriteHeader(http.StatusBadGateway)
		},
	}
	handle := func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != serverPath {
			http.NotFound(rw, r)
			return
		}
		if w.failed.Load() {
			rw.WriteHeader(http.StatusBadGateway)
			return
		}
		if !slices.Contains(methods, r.Method) {
			rw.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body, done, err := places.Read(r.Context(), http.MaxBytesReader(rw, r.Body, maxServerBody))
		defer done()
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		r.Trailer = nil
		keepHeaders(r.Header)
		for _, part := range [][]byte{fmt.Append(nil, r.Header), body} {
			if err := check(v.leak(), part); err != nil {
				http.Error(rw, err.Error(), http.StatusForbidden)
				return
			}
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if method, id := asked(body); id != "" {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			w := &wait{timer: time.AfterFunc(patience, func() {
				complain(unanswered(method, patience), true)
				cancel()
			})}
			defer w.timer.Stop()
			r = r.WithContext(context.WithValue(ctx, waitKey{}, w))
		}
		proxy.ServeHTTP(rw, r)
	}
	w.server = &http.Server{
		ReadHeaderTimeout: time.Minute, IdleTimeout: idleToServers, MaxHeaderBytes: maxServerHeader,
		ErrorLog: log.New(discard{}, "", 0), Handler: http.HandlerFunc(handle),
	}
	w.wg.Go(func() { _ = w.server.Serve(w.listener) })
	return w, nil
}

// wait ends when a server has begun to answer a request.
type wait struct{ timer *time.Timer }

// waitKey finds a wait in the context of its request.
type waitKey struct{}

// answerBody ends a wait when an answer begins: comments that keep a stream open are none.
type answerBody struct {
	io.ReadCloser
	w *wait
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF || bytes.IndexByte(p[:n], '{') >= 0 {
		b.w.timer.Stop()
	}
	return n, err
}

// discard takes what net/http logs: it is said in the session.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func keepHeaders(h http.Header) {
	for name := range h {
		if !slices.Contains(passed, http.CanonicalHeaderKey(name)) {
			h.Del(name)
		}
	}
}

// end ends everything that is under way.
func (w *serverWay) end() {
	_ = w.server.Close()
	w.listener.Drain()
	w.transport.CloseIdleConnections()
	w.wg.Wait()
}
