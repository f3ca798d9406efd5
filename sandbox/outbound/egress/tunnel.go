package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// The first byte of what TLS says is one of these. A greeting begins with the second
// (handshake); some servers read on after others.
const tlsFirst, tlsLast = 0x14, 0x18

func isTLS(first byte) bool { return first >= tlsFirst && first <= tlsLast }

// greetingSize bounds a TLS greeting.
const greetingSize = 64 << 10

// tunnel carries bytes between a client and a host until the host has ended, or
// either cannot go on, and closes both. At the port of HTTP it leaves what is not TLS to
// the server, which reads it.
func (d *Door) tunnel(from, to net.Conn, name string, port int) {
	if port == httpPort {
		first := make([]byte, 1)
		_ = from.SetReadDeadline(time.Now().Add(idleTime))
		if _, err := io.ReadFull(from, first); err != nil {
			closeBoth(from, to)
			return
		}
		_ = from.SetReadDeadline(time.Time{})
		from = &early{Conn: from, first: first}
		if !isTLS(first[0]) {
			d.enqueue(d.newTunnelled(from, to, name))
			return
		}
	}
	alive := newIdle(from, to)
	defer alive.stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		defer closeBoth(from, to)
		_, _ = io.Copy(from, alive.reader(to))
	})
	if err := d.send(to, alive.reader(from), name, port); err != nil {
		d.log.Debug("a tunnel out of the sandbox ended early", "to", name, "error", err)
		closeBoth(from, to)
	}
	closeWrite(to)
	wg.Wait()
}

// send carries what a client says to the host, as far as it may go out.
func (d *Door) send(to io.Writer, in io.Reader, name string, port int) error {
	first := make([]byte, 32<<10)
	n, err := in.Read(first)
	if err != nil {
		return err
	}
	first = first[:n]
	if isTLS(first[0]) {
		if first, err = d.greeting(first, in, name, port); err != nil {
			return err
		}
		if err := d.inspect(first); err != nil {
			return err
		}
	} else if d.opts.Inspect != nil {
		w := d.opts.Inspect()
		if _, err := w.Write(first); err != nil {
			return err
		}
		in = &inspected{ReadCloser: io.NopCloser(in), w: w}
	}
	if _, err := to.Write(first); err != nil {
		return err
	}
	_, err = io.Copy(to, in)
	return err
}

func closeBoth(a, b net.Conn) {
	_ = a.Close()
	_ = b.Close()
}

// greeting reads a TLS greeting of which first has been read, and returns all that
// was read. An error means that it may not go out.
func (d *Door) greeting(first []byte, in io.Reader, name string, port int) ([]byte, error) {
	var read bytes.Buffer
	source := io.TeeReader(io.LimitReader(io.MultiReader(bytes.NewReader(first), in), greetingSize), &read)
	sni, err := serverName(source)
	if err != nil {
		d.tell(Decision{Host: name, Port: port, Reason: err.Error()}, "")
		return nil, err
	}
	// What was read of first and not yet by the parser goes out, too.
	if read.Len() < len(first) {
		read.Write(first[read.Len():])
	}
	asked, _ := parseHost(name) // it was decided about
	if sni == "" || asked.addr.IsValid() {
		return read.Bytes(), nil // an address is allowed whoever it serves
	}
	if h, err := parseHost(sni); err == nil && (h == asked || d.explain(sni, port).Allowed) {
		return read.Bytes(), nil
	}
	refused := Decision{Host: short(sni), Port: port, Reason: fmt.Sprintf("TLS asks for it in a tunnel to %s", name)}
	d.tell(refused, refused.remedy())
	return nil, &errRefused{refused}
}

// errSeen ends a handshake whose greeting has been read.
var errSeen = errors.New("seen")

// serverName is the name that a TLS greeting asks for; empty when it names none.
func serverName(r io.Reader) (string, error) {
	var hello *tls.ClientHelloInfo
	err := tls.Server(greeter{r}, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			hello = h
			return nil, errSeen
		},
	}).HandshakeContext(context.Background())
	if hello == nil {
		return "", fmt.Errorf("its TLS greeting cannot be read: %w", err)
	}
	return hello.ServerName, nil
}

// greeter is a connection that can be read only.
type greeter struct{ r io.Reader }

func (g greeter) Read(p []byte) (int, error)     { return g.r.Read(p) }
func (greeter) Write(p []byte) (int, error)      { return len(p), nil }
func (greeter) Close() error                     { return nil }
func (greeter) LocalAddr() net.Addr              { return memory{} }
func (greeter) RemoteAddr() net.Addr             { return memory{} }
func (greeter) SetDeadline(time.Time) error      { return nil }
func (greeter) SetReadDeadline(time.Time) error  { return nil }
func (greeter) SetWriteDeadline(time.Time) error { return nil }

// idle closes the two ends of a tunnel when nothing came from either for a long time.
type idle struct{ timer *time.Timer }

func newIdle(a, b net.Conn) *idle {
	return &idle{time.AfterFunc(idleTime, func() { closeBoth(a, b) })}
}

func (i *idle) stop() { i.timer.Stop() }

func (i *idle) reader(r io.Reader) io.Reader { return &busy{r, i} }

type busy struct {
	io.Reader
	idle *idle
}

func (b *busy) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.idle.timer.Reset(idleTime)
	return n, err
}
