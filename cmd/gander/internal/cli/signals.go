package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Signals are those that ask gander to end. The first ends a context, on which
// everything is cleared away; the second ends gander at once, and the sandboxes
// then end because it is gone. A command may take them over and do with them what
// it likes.
type Signals struct {
	End  context.CancelFunc
	Exit func(code int)

	// mu guards the fields below.
	mu    sync.Mutex
	taker chan<- os.Signal // nil: nobody has taken over
	ended bool             // the context
}

// WatchSignals returns a context that ends with the first signal. It watches for
// as long as the process lives.
func WatchSignals(parent context.Context) (context.Context, *Signals) {
	ctx, end := context.WithCancel(parent)
	s := &Signals{End: end, Exit: os.Exit}
	ch := make(chan os.Signal, 8)
	signal.Notify(ch, endSignals()...)
	// A client that closes our stdout must not kill us before the sandboxes are
	// cleared away.
	signal.Ignore(syscall.SIGPIPE)
	go func() {
		for sig := range ch {
			s.Deliver(sig)
		}
	}()
	return ctx, s
}

func (s *Signals) Deliver(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.taker != nil:
		select {
		case s.taker <- sig:
		default: // the taker is behind by a whole queue of them
		}
	case s.ended:
		s.Exit(ExitInterrupted)
	default:
		s.ended = true
		s.End()
	}
}

// Take hands the signals that come from now on to the caller. One that came
// before has ended the context.
func (s *Signals) Take() <-chan os.Signal {
	ch := make(chan os.Signal, 8)
	if s == nil { // gander as a function
		return ch
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taker = ch
	return ch
}

// GiveBack ends take.
func (s *Signals) GiveBack() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taker = nil
}
