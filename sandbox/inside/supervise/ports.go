package supervise

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/yamux"

	"gander.dev/gander/sandbox"
)

// portStream is a connection to what listens inside at Port; the host opens it.
const portStream = "port"

var errNoPorts = errors.New("the sandbox has no network of its own, so its ports are this machine's")

// listeningResult are the ports at which something inside listens.
type listeningResult struct {
	Ports []int `json:"ports"`
}

// listening answers where programs inside listen, without what gander has there.
func (c *client) listening(struct{}) (r listeningResult, err error) {
	c.mu.Lock()
	own := c.ownPorts()
	c.mu.Unlock()
	if own == nil {
		return r, errNoPorts
	}
	for _, at := range listening() {
		port := int(at.Port())
		if (at.Addr().IsLoopback() || at.Addr().IsUnspecified()) && !slices.Contains(own, port) && !slices.Contains(r.Ports, port) {
			r.Ports = append(r.Ports, port)
		}
	}
	slices.Sort(r.Ports)
	return r, nil
}

// ownPorts are those of gander's doors, its road and its resolver inside; nil where the
// network is not the sandbox's own. mu is held.
func (c *client) ownPorts() []int {
	if c.road == nil {
		return nil
	}
	own := append(c.road.ports(), resolverNumber)
	for _, l := range c.doors {
		if at, ok := l.Addr().(*net.TCPAddr); ok {
			own = append(own, at.Port)
		}
	}
	return own
}

// servePort carries a connection of the host's to what listens at a port.
func (c *client) servePort(stream *yamux.Stream, port int) {
	defer func() { _ = stream.Close() }()
	c.mu.Lock()
	own := c.ownPorts()
	c.mu.Unlock()
	var conn net.Conn
	err := errNoPorts
	switch {
	case own == nil:
	case slices.Contains(own, port):
		err = fmt.Errorf("port %d is gander's own", port)
	default:
		if conn, err = net.Dial("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err != nil {
			conn, err = net.Dial("tcp6", net.JoinHostPort("::1", strconv.Itoa(port)))
		}
	}
	if err != nil {
		_ = writeHeader(stream, header{Error: err.Error()})
		return
	}
	if writeHeader(stream, header{}) == nil {
		bufs := buffers{size: roadBuffer}
		bufs.splice(stream, conn, func() {})
	}
}

// Listening implements sandbox.Ported.
func (h *Host) Listening(ctx context.Context) ([]int, error) {
	var r listeningResult
	if err := h.ctl.call(ctx, "listening", struct{}{}, &r); err != nil {
		return nil, fmt.Errorf("looking for ports inside: %w", err)
	}
	return r.Ports, nil
}

// CarryPort implements sandbox.Ported.
func (h *Host) CarryPort(ctx context.Context, port int, conn net.Conn) error {
	defer func() { _ = conn.Close() }()
	stream, err := h.stream(header{Stream: portStream, Port: port})
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	defer context.AfterFunc(ctx, func() {
		_ = stream.SetDeadline(time.Unix(1, 0)) // also for a program inside that keeps its end open
		_ = conn.Close()
	})()
	answer, err := readHeader(stream)
	switch {
	case err != nil:
		return sandbox.ErrGone
	case answer.Error != "":
		reset(conn)
		return errors.New(answer.Error)
	}
	bufs := buffers{size: roadBuffer}
	bufs.splice(stream, conn, func() {})
	return nil
}
