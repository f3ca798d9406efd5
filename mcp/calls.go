package mcp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gander.dev/gander/developer"
)

// Why the context of a call ended, for context.Cause.
var (
	errCancelled = errors.New("the client cancelled the call")
	errClosing   = errors.New("the client has gone, or the server is ending")
)

// calls are the calls that run and those that wait for their turn. A call is known
// by its id from the moment its line was read, so that a cancellation that comes
// right behind it finds it.
type calls struct {
	idle   chan *call // to a goroutine that has run a call and waits for another
	base   context.Context
	end    context.CancelCauseFunc
	limit  int
	active sync.WaitGroup // calls that are known

	lingering atomic.Int32

	// mu guards what follows.
	mu      sync.Mutex
	byID    map[string]*call
	running int
	waiting []*call
	closed  bool
}

func newCalls(ctx context.Context, limit int) *calls {
	base, end := context.WithCancelCause(ctx)
	return &calls{idle: make(chan *call), base: base, end: end, limit: limit, byID: map[string]*call{}}
}

// maxWaiting bounds the calls that wait for their turn.
const maxWaiting = 10_000

// start starts a call or has it wait, or says why it does neither.
func (s *calls) start(c *call) *rpcError {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.key = key(c.id)
	switch {
	case s.closed, s.base.Err() != nil:
		return &rpcError{Code: developer.InternalError, Message: "The server is ending"}
	case s.byID[c.key] != nil:
		return invalidRequest("a request with this id is still running")
	case len(s.waiting) >= maxWaiting:
		return &rpcError{Code: developer.InternalError, Message: fmt.Sprintf("%d calls run and %d wait; wait for some of them", s.running, len(s.waiting))}
	}
	s.byID[c.key] = c
	s.active.Add(1)
	c.ctx, c.cancel = context.WithCancelCause(s.base)
	if s.running >= s.limit {
		s.waiting = append(s.waiting, c)
		return nil
	}
	s.running++
	s.begin(c)
	return nil
}

// begin runs a call on a goroutine that waits for one, whose stack has grown
// already, or on a new one. s.mu is held.
func (s *calls) begin(c *call) {
	select {
	case s.idle <- c:
	default:
		go s.run(c)
	}
}

// run runs a call and then those that wait, or that come soon.
func (s *calls) run(c *call) {
	for c != nil {
		answer := c.run()
		s.forget(c)
		c.finish(answer)
		s.active.Done()
		if c = s.next(); c == nil {
			c = s.linger()
		}
	}
}

// maxIdle is how many goroutines wait for another call.
const maxIdle = 4

// linger waits for another call; nil is none.
func (s *calls) linger() *call {
	if s.lingering.Add(1) > maxIdle {
		s.lingering.Add(-1)
		return nil
	}
	defer s.lingering.Add(-1)
	select {
	case c := <-s.idle:
		return c
	case <-s.base.Done():
		return nil
	}
}

// forget makes the id of a call one that may be used again. It comes before the
// answer, for after that the client may do so.
func (s *calls) forget(c *call) {
	c.cancel(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, c.key)
}

func (s *calls) next() *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 || s.running > s.limit { // more than that when a waiting one was cancelled
		s.running--
		return nil
	}
	c := s.waiting[0]
	s.waiting[0] = nil
	s.waiting = s.waiting[1:]
	return c
}

// cancel ends the call with this id, if there is one. A call that waits does not
// wait any longer: its tool sees at once that it was cancelled and says so.
func (s *calls) cancel(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byID[id]
	if c == nil {
		return // it has ended: opencode cancels each of its calls after its answer
	}
	c.cancel(errCancelled)
	for i, w := range s.waiting {
		if w == c {
			s.waiting = append(s.waiting[:i:i], s.waiting[i+1:]...)
			s.running++
			s.begin(c)
			return
		}
	}
}

// settle waits until no call runs, at most so long.
func (s *calls) settle(patience time.Duration) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.active.Wait()
	}()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
	case <-s.base.Done():
	}
}

// close cancels what runs or waits, and waits for it. Nothing starts any more.
func (s *calls) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end(errClosing)
	s.active.Wait()
}

// tracked is how many calls are known.
func (s *calls) tracked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID)
}
