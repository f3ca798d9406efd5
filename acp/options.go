package acp

import (
	"log/slog"
	"sync"
)

// Options tune a connection. The zero value, and nil, are useful.
type Options struct {
	// Log takes what a person debugging the connection wants to know; nil discards.
	Log *slog.Logger
	// Trace is called with every frame as it is on the wire, without its line
	// end, in order and one call at a time; nil is off. It must not keep line.
	// Inbound lines that were skipped for their length are not traced.
	Trace func(dir Direction, line []byte)
	// MaxLine limits an inbound line in bytes; 0 means 64 MiB. A longer one is
	// skipped and answered with a parse error.
	MaxLine int
	// MaxFrame limits a frame sent to a client in bytes; 0 means 1,000,000.
	// Frames sent to an agent are not limited.
	MaxFrame int
}

// Direction says which way a frame went.
type Direction string

// The directions, as seen from this end of the connection.
const (
	In  Direction = "in"
	Out Direction = "out"
)

const (
	defaultMaxLine  = 64 << 20
	defaultMaxFrame = 1_000_000
)

// withDefaults returns a copy of o that is complete and whose Trace may be
// called concurrently.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.MaxLine <= 0 {
		c.MaxLine = defaultMaxLine
	}
	if c.MaxFrame <= 0 {
		c.MaxFrame = defaultMaxFrame
	}
	if trace := c.Trace; trace != nil {
		var mu sync.Mutex // one call at a time
		c.Trace = func(dir Direction, line []byte) {
			mu.Lock()
			defer mu.Unlock()
			trace(dir, line)
		}
	}
	return c
}
