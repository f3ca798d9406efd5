package router

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"time"
)

// serverPath is the only path that a server has inside; what the editor's address
// says stays outside, as it may hold a token.
const serverPath = "/mcp"

// maxServerBody bounds what an agent sends a server at a time, in bytes.
const maxServerBody = 32 << 20

// passed are the headers that pass between an agent and a server; all others are
// the person's, or nobody's.
var passed = []string{"Accept", "Content-Type", "Last-Event-Id", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Mcp-Session-Id", "Cache-Control", "Retry-After", "Content-Encoding", "Accept-Encoding"}

// methods are those of the protocol.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodDelete}

// serverWay is the way to a server that has an address.
type serverWay struct {
	conns     chan net.Conn
	ended     chan struct{}
	once      sync.Once
	server    *http.Server
	transport *http.Transport
	wg        sync.WaitGroup
}

// newServerWay begins to pass requests on. tell takes what goes wrong, and check says
// what must not leave.
func newServerWay(v *server, tell func(severity, text string), check func(where string, data []byte) error) (*serverWay, error) {
	target, err := url.Parse(v.URL)
	if err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Host == "" {
		return nil, fmt.Errorf("the MCP server %s is left out: its address is no URL that begins with http:// or https://", v.Name)
	}
	w := &serverWay{conns: make(chan net.Conn), ended: make(chan struct{}), transport: http.DefaultTransport.(*http.Transport).Clone()}
	var once sync.Once
	complain := func(what string) {
		once.Do(func() {
			tell("warning", fmt.Sprintf("The MCP server %s (%s) does not work: %s", v.Name, v.where(), what))
		})
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
			if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden || resp.StatusCode >= 500 {
				complain(resp.Status)
			}
			return nil
		},
		ErrorHandler: func(rw http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				complain(err.Error())
			}
			rw.WriteHeader(http.StatusBadGateway)
		},
	}
	w.server = &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: log.New(discard{}, "", 0), Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != serverPath {
			http.NotFound(rw, r)
			return
		}
		if !slices.Contains(methods, r.Method) {
			rw.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxServerBody))
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		r.Trailer = nil
		keepHeaders(r.Header)
		if err := check(v.leak(), fmt.Appendf(nil, "%v\n%s", r.Header, body)); err != nil {
			http.Error(rw, err.Error(), http.StatusForbidden)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(rw, r)
	})}
	w.wg.Go(func() { _ = w.server.Serve(w) })
	return w, nil
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

// dial is the door's.
func (w *serverWay) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case w.conns <- here:
		return there, nil
	case <-w.ended:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (w *serverWay) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (w *serverWay) Close() error {
	w.once.Do(func() { close(w.ended) })
	return nil
}

// Addr implements net.Listener.
func (w *serverWay) Addr() net.Addr { return &net.UnixAddr{Name: "mcp", Net: "unix"} }

// end ends everything that is under way.
func (w *serverWay) end() {
	_ = w.server.Close()
	_ = w.Close()
	w.transport.CloseIdleConnections()
	w.wg.Wait()
}
