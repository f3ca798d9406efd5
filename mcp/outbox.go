package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	softBacklog = 1 << 20  // bytes unwritten beyond which output waits
	hardBacklog = 64 << 20 // bytes unwritten beyond which the client is given up
	keptBuffer  = 256 << 10
)

var errBacklog = errors.New("the client has not read its messages for a long time")

// outbox is the ordered, bounded queue in front of the one writer. Nothing but
// room ever waits.
type outbox struct {
	wake   chan struct{} // holds a token when there may be work for the writer
	failed chan struct{} // closed when err is set

	// mu guards what follows; it is held for moments, never during a write.
	mu       sync.Mutex
	waiting  []byte // lines with their ends
	spare    []byte // the buffer that was written last, to be used again
	writing  int    // bytes being written
	space    chan struct{}
	draining bool
	err      error
}

func newOutbox() *outbox {
	return &outbox{wake: make(chan struct{}, 1), failed: make(chan struct{})}
}

// send appends a line. A client that is too far behind is given up.
func (o *outbox) send(line []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.draining {
		return
	}
	if len(o.waiting)+o.writing > hardBacklog {
		o.failLocked(errBacklog)
		return
	}
	o.waiting = append(append(o.waiting, line...), '\n')
	o.notify()
}

// behind reports whether the client reads slower than it is written to.
func (o *outbox) behind() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waiting)+o.writing > softBacklog
}

// room waits until the client has caught up, at most so long, and reports whether it has.
func (o *outbox) room(ctx context.Context, patience time.Duration) bool {
	space := o.full()
	if space == nil {
		return true
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for space != nil {
		select {
		case <-space:
			space = o.full()
		case <-late.C:
			return false
		case <-ctx.Done():
			return false
		case <-o.failed:
			return false
		}
	}
	return true
}

// full returns nil when there is room, else a channel that closes when there may be.
func (o *outbox) full() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting)+o.writing <= softBacklog || o.err != nil {
		return nil
	}
	if o.space == nil {
		o.space = make(chan struct{})
	}
	return o.space
}

// drain makes the writer return once everything is written.
func (o *outbox) drain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.draining = true
	o.notify()
}

// fail drops what waits and makes the writer return; the first reason stays.
func (o *outbox) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failLocked(err)
}

func (o *outbox) failLocked(err error) {
	if o.err != nil {
		return
	}
	o.err, o.waiting = err, nil
	close(o.failed)
	o.notify()
}

func (o *outbox) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return fmt.Errorf("writing to the client: %w", o.err)
}

// notify wakes the writer. o.mu is held.
func (o *outbox) notify() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// write is the writer: it returns when the outbox is drained or has failed, and
// fails it when w does.
func (o *outbox) write(w io.Writer) {
	for {
		batch, ok := o.take()
		if !ok {
			return
		}
		if len(batch) == 0 {
			<-o.wake
			continue
		}
		_, err := w.Write(batch)
		o.written(batch)
		if err != nil {
			o.fail(err)
			return
		}
	}
}

func (o *outbox) take() (batch []byte, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.draining && len(o.waiting) == 0 {
		return nil, false
	}
	if len(o.waiting) == 0 {
		return nil, true
	}
	batch, o.waiting = o.waiting, o.spare[:0]
	o.spare, o.writing = nil, len(batch)
	return batch, true
}

func (o *outbox) written(batch []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing = 0
	if cap(batch) <= keptBuffer {
		o.spare = batch
	}
	if len(o.waiting) <= softBacklog && o.space != nil {
		close(o.space)
		o.space = nil
	}
}
