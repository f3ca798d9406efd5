package supervise

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"time"

	"github.com/hashicorp/yamux"
)

const (
	// doorConnections bounds the connections that a door carries at once; further
	// ones wait in the listener's queue.
	doorConnections = 256
	doorDialTimeout = 30 * time.Second
)

// serveDoors takes the connections that S passes on, until the session ends.
func (h *Host) serveDoors(ctx context.Context) {
	for {
		stream, err := h.session.AcceptStream()
		if err != nil {
			return
		}
		h.wg.Go(func() { h.serveDoor(ctx, stream) })
	}
}

func (h *Host) serveDoor(ctx context.Context, stream *yamux.Stream) {
	defer func() { _ = stream.Close() }()
	hd, err := readHeader(stream)
	if err != nil {
		return
	}
	conn, err := h.dial(ctx, stream, hd)
	if err == nil && conn == nil {
		return
	}
	if err != nil {
		h.notConnected(cmp.Or(hd.Door, hd.Host), err)
		_ = writeHeader(stream, header{Error: err.Error()})
		return
	}
	id := stream.StreamID()
	if !h.keepBackend(id, conn) {
		return
	}
	defer h.abortBackend(id)
	if writeHeader(stream, header{}) == nil {
		h.bufs.splice(stream, conn, func() {})
	}
}

// notConnected logs a connection that was not made: each time that there have been ten times
// as many. A program inside can have as many as it likes.
func (h *Host) notConnected(door string, err error) {
	if errors.Is(err, fs.ErrPermission) {
		return // who refuses it says so
	}
	h.mu.Lock()
	h.undialed++
	n := h.undialed
	tell := n >= 10*h.undialedTold
	if tell {
		h.undialedTold = n
	}
	h.mu.Unlock()
	if tell {
		h.log.Warn("a connection from the sandbox could not be made", "door", door, "error", err, "times", n)
	}
}

// dial makes the connection that a stream asks for; nil for a question, which it answers.
func (h *Host) dial(ctx context.Context, stream *yamux.Stream, hd header) (net.Conn, error) {
	if hd.Stream == doorStream {
		return h.dialDoor(ctx, hd.Door)
	}
	return h.takeRoad(ctx, stream, hd)
}

func (h *Host) dialDoor(ctx context.Context, name string) (net.Conn, error) {
	d, ok := h.doors[name]
	if !ok {
		return nil, &net.AddrError{Err: "no such door", Addr: name}
	}
	ctx, cancel := context.WithTimeout(ctx, doorDialTimeout)
	defer cancel()
	return d.Dial(ctx)
}

// keepBackend remembers a connection so that it ends with the sandbox; false
// means that has ended already.
func (h *Host) keepBackend(id uint32, conn net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.done:
		_ = conn.Close()
		return false
	default:
		h.backends[id] = conn
		return true
	}
}

func (h *Host) abortBackend(id uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.backends[id]; c != nil {
		_ = c.Close()
		delete(h.backends, id)
	}
}
