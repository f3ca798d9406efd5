package supervise

import (
	"fmt"
	"net"
)

// openDoor listens on a free loopback port and carries what connects to the host.
func (c *client) openDoor(name string) (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("opening the door %s: %w", name, err)
	}
	c.mu.Lock()
	c.doors = append(c.doors, l)
	c.mu.Unlock()
	c.wg.Go(func() { c.acceptDoor(name, l) })
	return l.Addr().String(), nil
}

func (c *client) closeDoors() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.doors {
		_ = l.Close()
	}
	if c.road != nil {
		_ = c.road.Close()
	}
}

func (c *client) acceptDoor(name string, l net.Listener) {
	slots := make(chan struct{}, doorConnections)
	for {
		slots <- struct{}{}
		conn, err := l.Accept()
		if err != nil {
			return
		}
		c.wg.Go(func() {
			c.carry(header{Stream: doorStream, Door: name}, conn, &c.bufs)
			<-slots
		})
	}
}

// carry passes one connection to the host and ends it when the host refuses.
func (c *client) carry(to header, conn net.Conn, bufs *buffers) {
	defer func() { _ = conn.Close() }()
	stream, err := c.session.OpenStream()
	if err != nil {
		return
	}
	defer func() { _ = stream.Close() }()
	if writeHeader(stream, to) != nil {
		return
	}
	if hd, err := readHeader(stream); err != nil || hd.Error != "" {
		reset(conn)
		return
	}
	bufs.splice(stream, conn, func() {
		c.ctl.event("doorAborted", abortParams{stream.StreamID()})
	})
}

// reset makes closing a connection visible as a failure rather than an end.
func reset(conn net.Conn) {
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
}
