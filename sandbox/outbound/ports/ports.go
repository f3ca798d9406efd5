// Package ports opens ports of sandboxes on this machine: a listener on loopback, whose
// connections lead to the program that listens inside.
package ports

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"

	"gander.dev/gander/sandbox"
)

// maxConns bounds the open connections of one port.
const maxConns = 512

// A Spec names a port inside, and the one of this machine that leads to it.
type Spec struct{ Port, At int }

// Check fails for what Parse cannot read.
func Check(text string) error {
	_, err := Parse(text)
	return err
}

// Parse reads PORT, or AT:PORT for another port of this machine.
func Parse(text string) (Spec, error) {
	at, port, two := strings.Cut(text, ":")
	if !two {
		port = at
	}
	s := Spec{}
	for to, digits := range map[*int]string{&s.Port: port, &s.At: at} {
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || n == 0 {
			return Spec{}, fmt.Errorf("%q is not a port: write it like 5173, or 8080:5173 for port 8080 of this machine", text)
		}
		*to = int(n)
	}
	return s, nil
}

// An Opened port leads from this machine into a sandbox until Close.
type Opened struct {
	Spec
	listener net.Listener
	ctx      context.Context
	cancel   context.CancelFunc
	conns    sync.WaitGroup
}

// Open listens on loopback, for everybody on this machine.
func Open(sb sandbox.Ported, s Spec, log *slog.Logger) (*Opened, error) {
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.At)))
	if err != nil {
		return nil, fmt.Errorf("opening port %d on this machine: %w; take another one, as in %d:%d", s.At, err, s.other(), s.Port)
	}
	o := &Opened{Spec: s, listener: l}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	o.conns.Go(func() { o.accept(sb, log) })
	return o, nil
}

// other returns a port of this machine that an ordinary user may try in the place of At.
func (s Spec) other() int {
	if s.At < 10000 {
		return s.At + 10000
	}
	return s.At - 1000
}

func (o *Opened) accept(sb sandbox.Ported, log *slog.Logger) {
	slots := make(chan struct{}, maxConns)
	for {
		select {
		case slots <- struct{}{}:
		case <-o.ctx.Done():
			return
		}
		c, err := o.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				log.Warn("an open port takes no more connections", "port", o.At, "err", err)
			}
			return
		}
		o.conns.Go(func() {
			defer func() { <-slots }()
			if err := sb.CarryPort(o.ctx, o.Port, c); err != nil {
				log.Debug("a connection to an open port was not made", "port", o.Port, "err", err)
			}
		})
	}
}

// URL returns the address for a browser. Pages of a sandbox have a name of their own, and
// share no cookies with other servers of this machine.
func (s Spec) URL(id string) string {
	return fmt.Sprintf("http://%s.localhost:%d", strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(id)), s.At)
}

// Close ends the listener and its connections.
func (o *Opened) Close() error {
	err := o.listener.Close()
	o.cancel()
	o.conns.Wait()
	return err
}
