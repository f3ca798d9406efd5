package supervise

import (
	"context"
	"os"
	"os/signal"
	"time"
)

// proc is a process as the operating system lists it.
type proc struct {
	procID
	parent  int
	group   int
	dead    bool // a zombie, or on its way out
	stopped bool
	waiting bool // in the kernel, as one that waits for its vforked child
}

// pause waits between two looks at what is still dying: the kernel gives no
// single event for the end of a set of processes that still grows.
func pause(ctx context.Context, pass int) error {
	t := time.NewTimer(min(time.Duration(pass+1)*200*time.Microsecond, 5*time.Millisecond))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// takeSignals makes signals harmless: none named are all that can be caught. They are caught
// rather than ignored because commands would inherit that.
func takeSignals(signals ...os.Signal) { signal.Notify(make(chan os.Signal, 1), signals...) }
