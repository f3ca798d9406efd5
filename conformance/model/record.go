package model

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A Request is what the server remembers of a request.
type Request struct {
	Time   time.Time
	Method string
	Path   string
	Header http.Header
	Body   []byte // as it came

	// Of chat completions only:
	Model    string
	Stream   bool
	Messages []Message
	Tools    []string // names of the offered tools
	Step     int      // that answered, or SideStep

	Status  int  // of the answer; 0 while there is none or when the connection was cut before
	Hanging bool // in a hang of its step right now
	Done    bool // the answer has ended, one way or another
	Aborted bool // the client (or Close) ended it
}

// Requests returns the remembered requests, oldest first. Their contents must
// not be changed.
func (s *Server) Requests() []Request { return s.history.list() }

// Wait returns when ok says so of the remembered requests; it is asked again at
// every change. An error is the end of ctx.
func (s *Server) Wait(ctx context.Context, ok func([]Request) bool) error {
	for {
		changed := s.history.watch()
		if ok(s.history.list()) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// WaitRequests waits until the server has got n requests for completions.
func (s *Server) WaitRequests(ctx context.Context, n int) error {
	return s.Wait(ctx, func(all []Request) bool { return count(all, isCompletion) >= n })
}

// WaitHanging waits until n requests hang at the same time.
func (s *Server) WaitHanging(ctx context.Context, n int) error {
	return s.Wait(ctx, func(all []Request) bool { return count(all, func(q Request) bool { return q.Hanging }) >= n })
}

// WaitIdle waits until no request is being answered.
func (s *Server) WaitIdle(ctx context.Context) error {
	return s.Wait(ctx, func(all []Request) bool { return count(all, func(q Request) bool { return !q.Done }) == 0 })
}

func isCompletion(q Request) bool { return q.Path == "/v1/chat/completions" || q.Path == messagesPath }

func count(all []Request, ok func(Request) bool) int {
	n := 0
	for _, q := range all {
		if ok(q) {
			n++
		}
	}
	return n
}

// history remembers the newest requests.
type history struct {
	keep int

	// mu guards the fields below.
	mu      sync.Mutex
	first   int // id of requests[0]
	all     []Request
	changed chan struct{} // closed and replaced at every change
}

// add remembers a request and returns its id.
func (h *history) add(r *http.Request) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) >= h.keep {
		h.all = slices.Delete(h.all, 0, 1)
		h.first++
	}
	h.all = append(h.all, Request{Time: time.Now(), Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone()})
	h.notify()
	return h.first + len(h.all) - 1
}

// update changes a request that may have been forgotten.
func (h *history) update(id int, change func(*Request)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := id - h.first; i >= 0 {
		change(&h.all[i])
		h.notify()
	}
}

func (h *history) notify() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *history) watch() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

func (h *history) list() []Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// recorder is a ResponseWriter that notes the status.
type recorder struct {
	http.ResponseWriter
	release <-chan struct{} // closed when the answer is not to hang any more
	id      int
	status  int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find Flush.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
