package model

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options say how a Server behaves. The zero value answers "ok" to everything.
type Options struct {
	// Script decides the answers; nil is an empty script.
	Script *Script
	// Log gets a record per request at debug level; nil discards.
	Log *slog.Logger
	// Models are the ids that /v1/models lists. When there are any, a request for
	// another model is answered 404 as real endpoints do.
	Models []string
	// Key, when set, is the bearer token every request needs; others get 401.
	Key string
	// Keep is how many requests are remembered; older ones are forgotten. 0 means 1000.
	Keep int
}

// errClosed ends the answers that run when the server is closed.
var errClosed = errors.New("the scripted model has been closed")

// A Server is a scripted model.
type Server struct {
	opts    Options
	log     *slog.Logger
	history history
	stop    context.CancelCauseFunc
	stopped context.Context // ends at Close; watched by every answer
	conns   sync.WaitGroup  // of http

	// mu guards the fields below.
	mu       sync.Mutex
	closed   bool
	http     *http.Server   // after Start
	served   chan struct{}  // closed when http has ended
	attempts map[string]int // per conversation and step with times
	release  chan struct{}  // closed and replaced by Release
	running  sync.WaitGroup // answers; Add only while not closed
}

// New returns a server. Use it as an http.Handler, or Start it; Close it in the end.
func New(o Options) *Server {
	if o.Script == nil {
		o.Script = &Script{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Keep == 0 {
		o.Keep = 1000
	}
	stopped, stop := context.WithCancelCause(context.Background())
	return &Server{
		opts: o, log: o.Log, stop: stop, stopped: stopped,
		history:  history{keep: o.Keep, changed: make(chan struct{})},
		attempts: map[string]int{}, release: make(chan struct{}),
	}
}

// Start listens on a free port of 127.0.0.1 and returns the address without /v1
// ("http://127.0.0.1:40123").
func (s *Server) Start() (baseURL string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.http != nil {
		return "", errors.New("starting the scripted model: it was started or closed before")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("starting the scripted model: %w", err)
	}
	srv := &http.Server{
		Handler: s, ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:  slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ConnState: s.count,
	}
	served := make(chan struct{})
	s.http, s.served = srv, served
	go func() {
		defer close(served)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the scripted model stopped", "error", err)
		}
	}()
	return "http://" + l.Addr().String(), nil
}

// Close ends all answers, cutting their connections, and returns when nothing of
// the server runs any more. It may be repeated.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	srv, served := s.http, s.served
	s.mu.Unlock()
	s.stop(errClosed)
	var err error
	if srv != nil {
		err = srv.Close()
		<-served
		s.conns.Wait()
	}
	s.running.Wait()
	return err
}

// count follows the connections of http, so that Close can wait for them.
func (s *Server) count(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.conns.Add(1)
		if s.stopped.Err() != nil {
			_ = c.Close() // accepted while http was closing, which does not know of it
		}
	case http.StateClosed, http.StateHijacked:
		s.conns.Done()
	}
}

// Release lets go every answer in a step with "hang": "release" whose request has come, also
// one that is about to hang.
func (s *Server) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.release)
	s.release = make(chan struct{})
}

// enter counts a running answer, unless the server is closed. The answer is let go by the
// next Release, which closes release.
func (s *Server) enter() (release <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	s.running.Add(1)
	return s.release, true
}

// ServeHTTP answers /v1/chat/completions, /v1/responses, /v1/messages and /v1/models.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	release, ok := s.enter()
	if !ok {
		panic(http.ErrAbortHandler)
	}
	defer s.running.Done()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.stopped, func() { cancel(errClosed) })()

	rec := &recorder{ResponseWriter: w, release: release, id: s.history.add(r)}
	err := s.route(ctx, rec, r)
	aborted := err != nil && !errors.Is(err, errDrop)
	s.history.update(rec.id, func(q *Request) { q.Status, q.Aborted, q.Done = rec.status, aborted, true })
	s.log.Debug("scripted model", "method", r.Method, "path", r.URL.Path, "status", rec.status, "aborted", aborted)
	if err != nil {
		panic(http.ErrAbortHandler) // the way to cut the connection; net/http takes it silently
	}
}

func (s *Server) route(ctx context.Context, w *recorder, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	s.history.update(w.id, func(q *Request) { q.Body = body })
	if !s.authorized(r) {
		return writeBody(w, http.StatusUnauthorized, errorBody("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"))
	}
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/v1/models":
		return s.listModels(w)
	case r.Method == http.MethodPost && r.URL.Path == "/v1/chat/completions":
		return s.complete(ctx, w, r, body)
	case r.Method == http.MethodPost && (r.URL.Path == messagesPath || r.URL.Path == messagesPath+"/count_tokens"):
		return s.message(ctx, w, r, body)
	case r.Method == http.MethodPost && r.URL.Path == responsesPath:
		return s.response(ctx, w, r, body)
	}
	return writeBody(w, http.StatusNotFound, errorBody("No such path: "+r.Method+" "+r.URL.Path, "invalid_request_error", "not_found"))
}

func (s *Server) authorized(r *http.Request) bool {
	if s.opts.Key == "" {
		return true
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if r.Header.Get("Anthropic-Version") != "" {
		token = r.Header.Get("X-Api-Key")
	}
	return subtle.ConstantTimeCompare([]byte(token), []byte(s.opts.Key)) == 1
}

func (s *Server) listModels(w http.ResponseWriter) error {
	type entry struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		OwnedBy string `json:"owned_by"`
	}
	names := s.opts.Models
	if len(names) == 0 {
		names = []string{"scripted"}
	}
	data := []entry{}
	for _, name := range names {
		data = append(data, entry{name, "model", "script"})
	}
	return writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": data})
}

// complete answers a chat completions request with a step of the script.
func (s *Server) complete(ctx context.Context, w *recorder, r *http.Request, body []byte) error {
	var c completion
	if err := json.Unmarshal(body, &c); err != nil {
		return writeBody(w, http.StatusBadRequest, errorBody("The body is not a completion request: "+err.Error(), "invalid_request_error", ""))
	}
	return s.reply(ctx, w, r, &c, c.messages(), len(body), func() answer { return newAnswer(w, &c) })
}

// reply answers a conversation with a step of the script.
func (s *Server) reply(ctx context.Context, w *recorder, r *http.Request, c *completion, messages []Message, size int, begin func() answer) error {
	if len(s.opts.Models) > 0 && !slices.Contains(s.opts.Models, c.Model) {
		return writeBody(w, http.StatusNotFound, errorBody("The model "+c.Model+" does not exist.", "invalid_request_error", "model_not_found"))
	}
	step, index := s.choose(r, c, messages)
	s.history.update(w.id, func(q *Request) {
		q.Model, q.Stream, q.Messages, q.Tools, q.Step = c.Model, c.Stream, messages, c.toolNames(), index
	})
	if step.Status != 0 {
		if err := s.hang(ctx, w, step.Hang); err != nil {
			return err
		}
		return step.status(w)
	}
	p := &player{
		step: step, index: index, nonce: nonce(), templates: newTemplates(c, messages),
		answer: begin(), prompt: max(1, size/4), offered: c.toolNames(),
		hang: func(ctx context.Context, h Hang) error { return s.hang(ctx, w, h) },
	}
	if err := p.play(ctx); !errors.Is(err, errFailed) {
		return err
	}
	return nil
}

// SideStep is the Step of a Request that was not answered from the script.
const SideStep = -1

// choose returns the step that answers and its index.
func (s *Server) choose(r *http.Request, c *completion, messages []Message) (Step, int) {
	if text, ok := c.sideAnswer(messages); ok {
		return Step{Text: text}, SideStep
	}
	t := s.opts.Script.locate(messages)
	if t.err != nil {
		return Step{Text: "Broken script: " + t.err.Error()}, SideStep
	}
	for t.position < len(t.steps) && s.usedUp(conversation(r), t) {
		t.position++
	}
	if t.position >= len(t.steps) {
		return Step{Text: "Done."}, t.position
	}
	return t.steps[t.position], t.position
}

// usedUp counts a request towards the times of its step.
func (s *Server) usedUp(conversation string, t turn) bool {
	times := t.steps[t.position].Times
	if times == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := fmt.Sprintf("%s\x00%d\x00%d\x00%s", conversation, t.message, t.position, t.prompt)
	s.attempts[key]++
	return s.attempts[key] > times
}

// conversation is the session a request belongs to, as far as the agents tell.
func conversation(r *http.Request) string {
	for _, name := range []string{"Agent-Session-Id", "X-Session-Id"} {
		if id := r.Header.Get(name); id != "" {
			return id
		}
	}
	return ""
}

// hang waits as h says, or until the client or the server goes away.
func (s *Server) hang(ctx context.Context, w *recorder, h Hang) error {
	if h.zero() {
		return nil
	}
	s.history.update(w.id, func(q *Request) { q.Hanging = true })
	defer s.history.update(w.id, func(q *Request) { q.Hanging = false })
	if h.For > 0 {
		return pause(ctx, h.For)
	}
	release := w.release
	if !h.Release {
		release = nil
	}
	select {
	case <-release:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("hanging: %w", context.Cause(ctx))
	}
}

func newAnswer(w http.ResponseWriter, c *completion) answer {
	head := chunk{ID: "chatcmpl-" + nonce(), Object: "chat.completion", Created: time.Now().Unix(), Model: c.Model}
	if !c.Stream {
		return &whole{w: w, head: head}
	}
	head.Object = "chat.completion.chunk"
	return &stream{w: w, head: head, usage: c.StreamOptions.IncludeUsage}
}

func nonce() string {
	var b [6]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
