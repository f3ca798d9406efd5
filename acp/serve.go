package acp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// settleTime is how long requests may take after the client has closed its end.
const settleTime = time.Second

// ServeAgent is the agent's end of a connection: it makes an agent, with the
// client it may ask, and answers what comes in on rwc.
//
// It returns nil when the client closes its end, after requests other than prompts
// had a second to be answered; ctx.Err() when ctx ends, and
// otherwise why reading or writing broke. A client that hangs up while it is written to
// has closed its end, whichever of the two is noticed first. In every case the contexts of running
// requests end, their handlers are waited for, their responses are written as
// far as the client reads them within 2 s, and rwc is closed. Closing rwc must
// interrupt its Read and Write; one that goes on is left behind after 1 s.
func ServeAgent(ctx context.Context, rwc io.ReadWriteCloser, newAgent func(*ClientConn) Agent, o *Options) error {
	l := newLink(ctx, rwc, o)
	l.limit = l.opts.MaxFrame
	conn := &ClientConn{link: l}
	d := newDispatcher(l, conn, newAgent(conn))
	l.start(d)
	var err error
	select {
	case <-l.readDone:
		if err = l.readFailure(); err == nil {
			d.answers.settle(settleTime)
		}
	case <-l.out.ended:
		if err = fmt.Errorf("writing to the client: %w", l.out.reason()); l.hungUp() {
			err = nil
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.cancel()
	_ = l.rpc.Close() // frees handlers that wait for the client
	d.close()
	l.flush()
	_ = l.close() // rwc may be closed already
	return err
}

// hungUp reports whether the peer, which cannot be written to, has closed its end as
// well. That may be noticed a moment later.
func (l *link) hungUp() bool {
	select {
	case <-l.readDone:
		return l.readFailure() == nil
	case <-time.After(settleTime):
		return false
	}
}

// readFailure is why reading ended, nil for the end of input. It is valid once readDone is closed.
func (l *link) readFailure() error {
	if errors.Is(l.readErr, io.EOF) {
		return nil
	}
	return fmt.Errorf("reading from the peer: %w", l.readErr)
}
