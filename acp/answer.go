package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime/debug"
	"sync"
	"time"
)

// maxInFlight is how many requests of a peer may be unanswered at a time. The others say how
// many lines of the largest size they may take together: of what an agent asks, which may be
// hostile, more copies are made, and held until a person answers. More are refused.
const (
	maxInFlight   = 4096
	linesOfClient = 4
	linesOfAgent  = 1
)

// method answers one kind of request.
type method func(ctx context.Context, params json.RawMessage) (any, error)

// bind makes a method of a typed function.
func bind[Req, Resp any](f func(context.Context, *Req) (*Resp, error)) method {
	return func(ctx context.Context, params json.RawMessage) (any, error) {
		req := new(Req)
		if err := decodeParams(params, req); err != nil {
			return nil, err
		}
		resp, err := f(ctx, req)
		if err != nil || resp == nil {
			return nil, err
		}
		return resp, nil
	}
}

// inbound is a request that is to be answered exactly once.
type inbound struct {
	message
	handler method
	session SessionID // empty for requests outside a session
	ctx     context.Context
	end     context.CancelFunc

	release func() // lets the next request of the session start; safe to repeat

	// mu guards what follows.
	mu        sync.Mutex
	cancelled bool // the peer sent $/cancel_request
	after     []func()
}

type inboundKey struct{}

// Release lets the next request of the session start while the one that ctx was
// made for goes on. It is safe to repeat, and does nothing for other contexts.
func Release(ctx context.Context) {
	if in, ok := ctx.Value(inboundKey{}).(*inbound); ok {
		in.release()
	}
}

// AfterReply has f called once the response to the request that ctx was made
// for has been queued, be it a result or an error: what f sends arrives after it. f
// is called before the connection ends, or not at all.
func AfterReply(ctx context.Context, f func()) {
	if in, ok := ctx.Value(inboundKey{}).(*inbound); ok {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.after = append(in.after, f)
	}
}

// answering keeps the requests of a peer that are unanswered.
type answering struct {
	link *link
	most int            // bytes that the lines may have
	work sync.WaitGroup // handlers

	fewer chan struct{} // holds a value when live has shrunk

	// mu guards what follows.
	mu    sync.Mutex
	live  map[*inbound]struct{}
	bytes int // of their lines
}

// newAnswering keeps requests of as many lines of the largest size.
func newAnswering(l *link, lines int) *answering {
	return &answering{link: l, most: lines * l.opts.MaxLine, live: map[*inbound]struct{}{}, fewer: make(chan struct{}, 1)}
}

// settle waits, for a limited time, until only prompts are unanswered. A script
// may close its end right behind its last request and still wants the answers.
func (a *answering) settle(limit time.Duration) {
	late := time.NewTimer(limit)
	defer late.Stop()
	for a.settling() {
		select {
		case <-a.fewer:
		case <-late.C:
			return
		}
	}
}

func (a *answering) settling() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for in := range a.live {
		if in.method != MethodPrompt {
			return true
		}
	}
	return false
}

// accept registers a request, so that a $/cancel_request right behind it finds
// it. It returns nil when it answered the request itself.
func (a *answering) accept(m message, h method) *inbound {
	in := &inbound{message: m, handler: h, release: func() {}}
	in.ctx, in.end = context.WithCancel(context.WithValue(a.link.ctx, inboundKey{}, in))
	if err := a.register(in); err != nil {
		in.end()
		a.link.send(a.link.errorReply(m.id, err))
		return nil
	}
	return in
}

func (a *answering) register(in *inbound) *Error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.live) >= maxInFlight || a.bytes+in.size > a.most {
		return Internal("Too many requests are unanswered", nil)
	}
	a.live[in] = struct{}{}
	a.bytes += in.size
	return nil
}

// run answers a request on a goroutine of its own and calls done afterwards.
func (a *answering) run(in *inbound, done func(err error)) {
	a.work.Go(func() {
		result, err := a.call(in)
		err = a.answer(in, result, err)
		done(err)
	})
}

// call runs the handler; a panic in it is an internal error.
func (a *answering) call(in *inbound) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			a.link.opts.Log.Error("panic while answering a request", "method", in.method, "panic", p, "stack", string(debug.Stack()))
			result, err = nil, Internal("Internal error", nil)
		}
	}()
	return in.handler(in.ctx, in.params)
}

// answer replies to a request that was accepted and forgets it. It returns err.
func (a *answering) answer(in *inbound, result any, err error) error {
	if result == nil {
		result = struct{}{}
	}
	var line []byte
	if err == nil {
		line, err = a.result(in, result)
	}
	if err != nil {
		line = a.link.errorReply(in.id, a.failure(in, err))
	}
	a.forget(in)
	a.link.send(line)
	in.end()
	in.replied(a)
	return err
}

func (a *answering) result(in *inbound, result any) ([]byte, error) {
	raw, err := marshal(result)
	if err != nil {
		return nil, Internal("The result is not JSON: "+err.Error(), nil)
	}
	line := reply(in.id, raw)
	for _, name := range []string{"_meta", "usage"} { // clients can do without
		if a.link.fits(line) {
			break
		}
		raw = WithFields(raw, map[string]any{name: Delete})
		line = reply(in.id, raw)
	}
	if !a.link.fits(line) {
		return nil, Internal("The result does not fit in a frame", map[string]int{"bytes": len(line), "limit": a.link.limit})
	}
	return line, nil
}

func (a *answering) failure(in *inbound, err error) *Error {
	in.mu.Lock()
	cancelled := in.cancelled
	in.mu.Unlock()
	if cancelled {
		return RequestCancelled()
	}
	return wireError(err, in.method)
}

func (a *answering) forget(in *inbound) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.live[in]; ok {
		delete(a.live, in)
		a.bytes -= in.size
	}
	select {
	case a.fewer <- struct{}{}:
	default:
	}
}

// replied runs what waits for the response to be queued.
func (in *inbound) replied(a *answering) {
	in.mu.Lock()
	after := in.after
	in.mu.Unlock()
	for _, f := range after {
		a.link.protect("a function after a reply", f)
	}
}

// cancel ends the contexts of the requests with a raw id and returns them.
func (a *answering) cancel(params []byte) []*inbound {
	id := member(params, "requestId")
	if id == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []*inbound
	for in := range a.live {
		if bytes.Equal(in.id, id) {
			in.cancelByPeer()
			found = append(found, in)
		}
	}
	return found
}

func (in *inbound) cancelByPeer() {
	in.mu.Lock()
	in.cancelled = true
	in.mu.Unlock()
	in.end()
}

// protect calls f and logs its panic.
func (l *link) protect(what string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			l.opts.Log.Error("panic in "+what, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	f()
}
