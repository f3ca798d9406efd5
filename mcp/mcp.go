// Package mcp serves a [developer.Toolset] to an MCP client on a byte stream.
//
// [Serve] owns the wire: lines of bounded length in, an ordered queue with one
// writer out, the life of every call in between. What the methods of the protocol
// answer is mcp-go's, whose dispatcher gets each request in a line of its own
// making; its transport is not used, because it reorders and drops messages. The
// tools are the developer package's, which knows nothing of MCP.
//
// What a client can rely on:
//   - A request gets exactly one answer, with its id as it was written.
//   - The notifications of a call come before its answer, in order, none left out
//     while the client reads.
//   - Calls run in parallel. notifications/cancelled ends the one whose id it
//     names, also when it comes right behind the call; other ids are ignored.
//   - Nothing that comes in ends the process: what is no message gets a JSON-RPC
//     error.
//   - What a command prints is sent as notifications/message (logger shell_tool)
//     without being asked for, whatever the level, because goose shows it and sets
//     no level. A client that sets a level above info gets none.
//   - A call with a progressToken sends notifications/progress while it runs, so
//     that clients that count silence do not give up.
//
// The revisions 2024-11-05 to 2025-11-25 are spoken. server/discover is answered
// as an unknown method: goose, once it has agreed on 2026-07-28, cancels nothing.
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"time"

	"gander.dev/gander/developer"
)

// Options say how to serve. The zero value is useful.
type Options struct {
	// Name and Version are the server's in initialize; Name defaults to
	// goose-developer, which is what the classic extension said.
	Name, Version string
	// WorkingDir is the directory that instructions name to clients that do not
	// fill in their own.
	WorkingDir string
	// Container says that the server runs in a container. goose, which starts it
	// there with docker exec, names directories of its own machine: one that is not
	// there then means the server's own.
	Container bool
	// HintFiles are the names of files with a project's hints, whose text
	// instructions bring to clients that do not read them on their own.
	HintFiles []string
	// MaxLine bounds what a client may send at once, in bytes; 0 means 16 MiB.
	MaxLine int
	// MaxCalls is how many calls run at once; further ones wait. 0 means 1000.
	MaxCalls int
	// Heartbeat is how often a call with a progressToken says that it runs; 0 means
	// every 10 s. opencode gives up after 60 s of silence.
	Heartbeat time.Duration
	// Settle is how long calls that run may take when the client has closed its
	// end; 0 means half a second.
	Settle time.Duration
	// Output also gets what commands print, with the tool and the arguments of the
	// call; it must not block. Nil means none. It is for clients that show nothing of
	// a call before its end.
	Output func(tool string, arguments json.RawMessage, o developer.Output)
	// Log gets what is wrong with the wire; nil means none.
	Log *slog.Logger
}

const (
	defaultMaxLine   = 16 << 20
	defaultMaxCalls  = 1000
	defaultHeartbeat = 10 * time.Second
	defaultSettle    = 500 * time.Millisecond

	// flushTime is how long a client that has been served may take to read the rest.
	flushTime = 2 * time.Second
)

func (o Options) withDefaults() Options {
	setDefault(&o.Name, "goose-developer")
	setDefault(&o.MaxLine, defaultMaxLine)
	setDefault(&o.MaxCalls, defaultMaxCalls)
	setDefault(&o.Heartbeat, defaultHeartbeat)
	setDefault(&o.Settle, defaultSettle)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Serve answers one client until it closes its end, when it returns nil, until
// ctx ends, when it returns ctx.Err(), or until reading or writing breaks.
//
// In every case calls that still run are cancelled and waited for, the answers are
// written as far as the client reads them within 2 s, and rwc is closed. Closing
// rwc must interrupt its Read and its Write. The toolset stays the caller's to close.
func Serve(ctx context.Context, rwc io.ReadWriteCloser, tools *developer.Toolset, o Options) error {
	return newServer(ctx, tools, o.withDefaults()).serve(ctx, rwc)
}

func (s *server) serve(ctx context.Context, rwc io.ReadWriteCloser) error {
	wrote := make(chan struct{})
	go func() { defer close(wrote); s.out.write(rwc) }()
	read := make(chan error, 1)
	go func() { read <- s.read(rwc) }()

	var err error
	var interrupted bool // the reader has not ended by itself
	select {
	case err = <-read:
		s.calls.settle(s.opts.Settle)
	case <-s.out.failed:
		// A client that hangs up while it is written to has closed its end, which may
		// be noticed a moment later.
		select {
		case err = <-read:
		case <-time.After(s.opts.Settle):
			err, interrupted = s.out.failure(), true
		}
	case <-ctx.Done():
		err, interrupted = ctx.Err(), true
	}
	s.calls.close()
	s.out.drain()
	select {
	case <-wrote:
	case <-time.After(flushTime):
	}
	closeErr := rwc.Close()
	s.out.fail(io.ErrClosedPipe)
	<-wrote
	var readErr error
	if interrupted {
		readErr = <-read // which closing ended
	}
	if rest := errors.Join(closeErr, readErr); rest != nil {
		s.opts.Log.Debug("the client's stream after its end", "err", rest)
	}
	return err
}
