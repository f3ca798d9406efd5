package analyze

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxRunaways is how many parsers may be at work without anybody waiting.
	maxRunaways = 2
	// runawayGrace is what a parser gets to notice that its time is over.
	runawayGrace = time.Second
)

var (
	errTime = errors.New("it takes too long to parse")
	// errRunaway is wrapped when the parser itself does not stop.
	errRunaway = fmt.Errorf("%w, and does not stop", errTime)
)

// runaways keep the parsers that do not stop when they should. tree-sitter looks
// whether it is to stop every hundred steps, and a step of its error recovery can
// take as long as the file has tokens: the worst files make minutes of that.
type runaways struct {
	n  atomic.Int32
	wg sync.WaitGroup
}

func (r *runaways) count() int { return int(r.n.Load()) }

func (r *runaways) wait() { r.wg.Wait() }

// parse waits for the parser until ctx ends, and a little longer. A parser that is
// given up is closed when it comes back; the caller may not use it again.
func (r *runaways) parse(ctx context.Context, p fileParser, src []byte) (*facts, error) {
	type result struct {
		facts *facts
		err   error
	}
	const working, finished, givenUp = 0, 1, 2
	var state atomic.Int32
	done := make(chan result, 1)
	r.wg.Go(func() {
		f, err := parseSafely(ctx, p, src)
		if state.CompareAndSwap(working, finished) {
			done <- result{f, err}
			return
		}
		p.close()
		r.n.Add(-1)
	})
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(runawayGrace, func() { close(late) })
	})
	defer stop()
	select {
	case d := <-done:
		return d.facts, d.err
	case <-late:
	}
	r.n.Add(1)
	if state.CompareAndSwap(working, givenUp) {
		return nil, errRunaway
	}
	r.n.Add(-1) // it came back at the last moment
	d := <-done
	return d.facts, d.err
}

// parseSafely makes an error of a panic.
func parseSafely(ctx context.Context, p fileParser, src []byte) (f *facts, err error) {
	defer func() {
		if v := recover(); v != nil {
			f, err = nil, fmt.Errorf("the parser failed: %v", v)
		}
	}()
	return p.parse(ctx, src)
}
