package acp

import (
	"context"
	"io"
	"sync"
)

const (
	softBacklog = 1 << 20  // bytes unwritten beyond which updates wait
	hardBacklog = 64 << 20 // bytes unwritten beyond which the peer is given up
	lastUpdates = 32 << 20 // bytes unwritten beyond which updates that do not wait are dropped: answers need room
	batchSize   = 64 << 10 // bytes written at once, when there are that many

	// The writer counts as behind, and merges chunks, from here on.
	behindFrames = 64
	behindBytes  = 16 << 10
)

// frame is one line to be written, without its newline.
type frame struct {
	line   []byte
	update int // where a chunk's update starts in line; 0 for frames that cannot be merged
}

// outbox is the ordered, bounded queue in front of a connection's writer.
// Nothing but room ever waits.
type outbox struct {
	wake  chan struct{} // holds one token when there may be work for the writer
	ended chan struct{} // closed when err is set

	// mu guards what follows; it is held for moments, never during a write.
	mu       sync.Mutex
	frames   []frame
	bytes    int           // waiting or being written
	space    chan struct{} // closed when bytes falls to softBacklog; nil when nobody waits
	draining bool          // the writer returns when frames is empty
	err      error         // why nothing is taken any more
}

func newOutbox() *outbox {
	return &outbox{wake: make(chan struct{}, 1), ended: make(chan struct{})}
}

// put appends a frame somebody waits for. A backlog over hardBacklog ends the
// connection: the peer has not read for a long time.
func (o *outbox) put(f frame) error {
	err := o.add(f, hardBacklog)
	if err == ErrBacklog {
		o.fail(ErrBacklog)
	}
	return err
}

// add appends a frame, or returns ErrBacklog when more than limit bytes wait already.
func (o *outbox) add(f frame, limit int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.err != nil || o.draining:
		return ErrClosed
	case o.bytes > limit:
		return ErrBacklog
	}
	o.frames = append(o.frames, f)
	o.bytes += len(f.line) + 1
	o.notify()
	return nil
}

// room waits until the backlog is small, ctx ends or the outbox does.
func (o *outbox) room(ctx context.Context) {
	for {
		space := o.full()
		if space == nil {
			return
		}
		select {
		case <-space:
		case <-ctx.Done():
			return
		case <-o.ended:
			return
		}
	}
}

// full returns nil when there is room, else a channel that closes when there may be.
func (o *outbox) full() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bytes <= softBacklog || o.err != nil {
		return nil
	}
	if o.space == nil {
		o.space = make(chan struct{})
	}
	return o.space
}

// drain makes the writer return once everything queued is written.
func (o *outbox) drain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.draining = true
	o.notify()
}

// fail drops what is queued and makes the writer return; the first reason stays.
func (o *outbox) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return
	}
	o.err = err
	o.frames = nil
	close(o.ended)
	o.notify()
}

func (o *outbox) reason() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
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
func (o *outbox) write(w io.Writer, maxFrame int, trace func(Direction, []byte)) {
	var buf []byte
	for {
		batch, size, ok := o.take(maxFrame)
		if !ok {
			return
		}
		if cap(buf) > 4*batchSize {
			buf = nil
		}
		buf = buf[:0]
		for _, f := range batch {
			if trace != nil {
				trace(Out, f.line)
			}
			buf = append(append(buf, f.line...), '\n')
		}
		if _, err := w.Write(buf); err != nil {
			o.fail(err)
			return
		}
		o.written(size)
	}
}

// take waits for frames and removes the next batch. size is what it counts for in bytes.
func (o *outbox) take(maxFrame int) (batch []frame, size int, ok bool) {
	for {
		batch, size, ok = o.tryTake(maxFrame)
		if len(batch) > 0 || !ok {
			return batch, size, ok
		}
		<-o.wake
	}
}

func (o *outbox) tryTake(maxFrame int) (batch []frame, size int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.draining && len(o.frames) == 0 {
		return nil, 0, false
	}
	behind := len(o.frames) >= behindFrames || o.bytes >= behindBytes
	n := 0
	for n < len(o.frames) && size < batchSize {
		f, run := o.frames[n], 1
		if behind {
			f, run = mergeRun(o.frames[n:], min(maxFrame, batchSize))
		}
		for _, merged := range o.frames[n : n+run] {
			size += len(merged.line) + 1
		}
		batch = append(batch, f)
		n += run
	}
	clear(o.frames[:n])
	if o.frames = o.frames[n:]; len(o.frames) == 0 {
		o.frames = nil
	}
	return batch, size, true
}

// written takes a batch off the backlog.
func (o *outbox) written(size int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes -= size
	if o.bytes <= softBacklog && o.space != nil {
		close(o.space)
		o.space = nil
	}
}
