package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"gander.dev/gander/sandbox/outbound/doorway"
)

// A call is a request on its way.
type call struct {
	cancel context.CancelCauseFunc
	ctx    context.Context // ends with the client, AbortInFlight or Close
	start  time.Time
	event  Event    // what all its events share
	stream bool     // the agent wants the answer as a stream
	asks   bool     // it has said so, where it was looked at
	length int64    // of the request's body as announced; -1 unknown
	data   []byte   // the request's body, when it is held
	sent   []byte   // what goes out instead; data when nothing was changed
	undo   []func() // what is given back at the end
	left   bool     // it was sent to the endpoint, or is about to be

	// The fields below belong to the handler's goroutine until it ends.
	status int           // of the endpoint's answer
	target string        // where it redirected to
	err    error         // why there was no answer, or no complete one
	body   *observedBody // of the answer
	limit  limit         // that the endpoint has named
	answer *answerReader // of a call that isStream; nil where nothing was answered
}

type callKey struct{}

// isStream reports whether a call wants a chat completion as a stream, as the calls of
// agents do.
func (c *call) isStream() bool {
	return c.asks && c.event.Method == http.MethodPost && c.event.Path == chatPath
}

func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// ServeHTTP serves what comes out of the sandbox.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.enter() {
		panic(http.ErrAbortHandler)
	}
	defer g.running.Done()
	if reason := g.endpoint.Protocol.admit(r); reason != "" {
		g.refuse(w, r, http.StatusForbidden, "not_allowed", reason+": "+allowed[g.endpoint.Protocol])
		return
	}
	if r.ContentLength > g.opts.MaxBody {
		g.refuse(w, r, http.StatusRequestEntityTooLarge, "too_large", g.tooLarge())
		return
	}
	if !g.authentic(r.Header) {
		g.refuse(w, r, http.StatusUnauthorized, "invalid_api_key", "the call does not carry this session's own token, which stands where a key belongs")
		return
	}
	g.forward(w, r)
}

func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	g.observer.send(Event{
		Kind: Refused, Request: g.observer.number(), Method: short(r.Method), Path: short(r.URL.Path),
		Status: status, Message: refused(message),
	})
	w.Header().Set("Connection", "close")
	writeError(w, status, code, message)
}

func refused(message string) string { return "The gateway refused a request: " + message + "." }

func (g *Gateway) tooLarge() string {
	return fmt.Sprintf("the body is larger than the limit of %d bytes", g.opts.MaxBody)
}

// forward carries one call out and its answer back.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request) {
	c := g.begin(r)
	defer g.end(c) // also when the proxy panics to cut the connection
	// An endpoint may answer before it has read all (an error, mostly).
	_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/1.1 always can
	r.Body = http.MaxBytesReader(w, r.Body, g.opts.MaxBody)
	r = r.WithContext(c.ctx)
	err := g.pausedCall(c)
	if err == nil {
		err = c.read(r)
	}
	if err == nil {
		err = g.examine(c, r)
	}
	if err != nil {
		g.fail(w, r, err)
		return
	}
	c.left = true
	g.proxy.ServeHTTP(eventFirst{w, c}, r)
}

// eventFirst sends the event of a failed call before the end of its answer: it does not
// flush, so that the server sends what is left when the handler has returned.
type eventFirst struct {
	http.ResponseWriter
	c *call
}

// Unwrap is for http.ResponseController.
func (w eventFirst) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// FlushError sends what has been written, of an answer that is no failure.
func (w eventFirst) FlushError() error {
	if w.c.status >= 300 {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (g *Gateway) begin(r *http.Request) *call {
	ctx, cancel := context.WithCancelCause(r.Context())
	c := &call{cancel: cancel, start: time.Now(), length: r.ContentLength}
	c.ctx = context.WithValue(ctx, callKey{}, c)
	c.event = Event{Kind: Started, Request: g.observer.number(), Method: r.Method, Path: r.URL.Path}
	c.event.Message = "Calling the model at " + g.endpoint.root.Host + "."
	g.mu.Lock()
	g.calls[c] = struct{}{}
	closed := g.closed
	g.mu.Unlock()
	if closed {
		cancel(errAborted)
	}
	g.observer.send(c.event)
	return c
}

func (g *Gateway) end(c *call) {
	g.mu.Lock()
	delete(g.calls, c)
	g.mu.Unlock()
	e := g.outcome(c)
	if c.left && c.isStream() && e.Kind != Cancelled && e.Kind != Aborted {
		said := ""
		if c.answer != nil && e.Kind == Finished {
			said = c.answer.said.sum.sum()
		}
		g.progress.ended(sumOf(c.data), said, time.Now())
	}
	if e.Usage != nil {
		price, ok := g.price(e.Model)
		e.Spent = g.meter.add(*e.Usage, price, ok)
	}
	for _, undo := range c.undo {
		undo()
	}
	g.observer.send(e)
	c.cancel(nil)
}

// replayLimit is the size up to which a body is read before it is sent.
const replayLimit = doorway.Free

// read reads a body of moderate size, so that the transport can send it again
// when the connection it reused turns out to be closed by the endpoint, and sees
// what kind of answer it asks for.
func (c *call) read(r *http.Request) error {
	c.stream = true // as agents do; a body too large to look into is one of theirs
	if r.ContentLength <= 0 || r.ContentLength > replayLimit {
		return nil
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var body struct {
		Stream bool `json:"stream"`
	}
	c.stream = json.Unmarshal(data, &body) != nil || body.Stream
	c.asks = body.Stream
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	r.Body = io.NopCloser(bytes.NewReader(data))
	return nil
}

func (g *Gateway) newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:        g.rewrite,
		Transport:      usageless{quiet{g.transport}, g},
		FlushInterval:  -1,
		ModifyResponse: g.receive,
		ErrorHandler:   g.fail,
		ErrorLog:       slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
}

// rewrite makes the request that goes out.
func (g *Gateway) rewrite(pr *httputil.ProxyRequest) {
	query := pr.Out.URL.RawQuery
	pr.Out.URL = g.endpoint.url(pr.In.URL.Path)
	pr.Out.URL.RawQuery = query
	pr.Out.Host = ""
	pr.Out.Trailer = nil // nobody has looked at it, and HTTP/2 would carry any header there
	maps.DeleteFunc(pr.Out.Header, func(name string, _ []string) bool { return !g.endpoint.passes(name) })
	g.endpoint.authorize(pr.Out.Header)
	// Answers must be readable for the mask, and a stream is not to be delayed
	// by a compressor.
	pr.Out.Header.Set("Accept-Encoding", "identity")
}

// errUpgrade, errRedirect and errEncoding are answers that cannot be passed on.
var (
	errUpgrade  = errors.New("the endpoint switches protocols")
	errRedirect = errors.New("the endpoint redirects")
	errEncoding = errors.New("the endpoint answers in an encoding that was not asked for")
)

// receive prepares the endpoint's answer for the sandbox.
func (g *Gateway) receive(res *http.Response) error {
	c := callOf(res.Request.Context())
	c.status = res.StatusCode
	if res.StatusCode < 200 { // 101, which nobody asked for
		return errUpgrade
	}
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		if target, err := res.Location(); err == nil {
			c.target = g.mask.text(target.Scheme + "://" + target.Host)
		}
		return errRedirect
	}
	if err := decode(res); err != nil {
		return err
	}
	for _, name := range private {
		res.Header.Del(name)
	}
	g.mask.header(res.Header)
	res.Trailer = nil
	if res.StatusCode < 300 {
		g.finish.reason.Store(nil)
	} else { // in chunks, whose end is sent after the event
		res.Header.Del("Content-Length")
		res.ContentLength = -1
	}
	c.body = &observedBody{res: res, finish: &g.finish, closer: res.Body}
	c.body.r = countedReader{g.mask.body(res.Body, res.StatusCode < 300), &c.body.usage}
	if c.isStream() && res.StatusCode < 300 {
		var err error
		if c.answer, err = c.answered(res, c.body.r); err != nil {
			c.body.err = err
			return err
		}
		c.body.r = c.answer
	}
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
		if err := c.peekLimit(res, c.body); err != nil {
			return err
		}
	}
	res.Body = c.body
	return nil
}

// private are the response headers that are the host's business.
var private = []string{"Set-Cookie", "Location", "Alt-Svc", "Www-Authenticate", "Proxy-Authenticate", "Strict-Transport-Security", "Trailer"}

// decode undoes the compression of endpoints that compress unasked.
func decode(res *http.Response) error {
	switch strings.ToLower(strings.Join(res.Header.Values("Content-Encoding"), ", ")) {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
	default:
		return errEncoding
	}
	z := &gunzip{body: res.Body}
	res.Body = z
	res.Header.Del("Content-Encoding")
	res.Header.Del("Content-Length")
	res.ContentLength = -1
	return nil
}

// gunzip starts to read at the first Read: the header may be long in coming.
type gunzip struct {
	body io.ReadCloser
	z    *gzip.Reader
}

func (g *gunzip) Read(p []byte) (int, error) {
	if g.z == nil {
		z, err := gzip.NewReader(g.body)
		if err != nil {
			return 0, err
		}
		g.z = z
	}
	return g.z.Read(p)
}

func (g *gunzip) Close() error { return g.body.Close() }

// fail answers a request that got no answer from the endpoint.
func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, err error) {
	c := callOf(r.Context())
	c.err = err
	if no, ok := errors.AsType[*refusal](err); ok {
		w.Header().Set("Connection", "close")
		writeError(w, no.status, no.code, no.message)
		return
	}
	if _, ok := errors.AsType[*limited](err); ok && c.ctx.Err() == nil {
		writeError(w, http.StatusPaymentRequired, "stopped", limitedText)
		return
	}
	if no, ok := errors.AsType[*noAnswer](err); ok && c.ctx.Err() == nil {
		writeError(w, noAnswerStatus, "no_answer", no.why)
		return
	}
	if errors.Is(context.Cause(c.ctx), errAborted) && r.URL.Path == chatPath && !g.isClosed() {
		writeNothing(w, c.stream)
		return
	}
	if c.ctx.Err() != nil {
		panic(http.ErrAbortHandler) // aborted: the client is to see its connection drop
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		writeError(w, http.StatusRequestEntityTooLarge, "too_large", g.tooLarge())
		return
	}
	writeError(w, http.StatusBadGateway, "model_unreachable", g.outcome(c).Message)
}

// quiet is a RoundTripper that hides the request's context values, among them
// the proxy's hook that would pass on 1xx answers unmasked.
type quiet struct{ http.RoundTripper }

func (q quiet) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := q.RoundTripper.RoundTrip(r.WithContext(valueless{r.Context()}))
	if res != nil {
		res.Request = r
	}
	return res, err
}

type valueless struct{ context.Context }

func (valueless) Value(any) any { return nil }
