package supervise

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"gander.dev/gander/sandbox"
)

// control is one end of the control stream: it writes messages whole.
type control struct {
	conn io.ReadWriteCloser
	dec  *json.Decoder

	// mu keeps messages whole; it guards writes to conn.
	mu sync.Mutex
}

func newControl(conn io.ReadWriteCloser) *control {
	return &control{conn: conn, dec: json.NewDecoder(bufio.NewReader(conn))}
}

func (c *control) send(m message) error {
	line, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", m.Method, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.conn.Write(append(line, '\n'))
	return err
}

// event sends an event; that the peer is gone is noticed by the reader.
func (c *control) event(method string, params any) {
	raw, err := json.Marshal(params)
	if err == nil {
		_ = c.send(message{Method: method, Params: raw})
	}
}

// answer sends the result of a request, or its error.
func (c *control) answer(id uint64, result any, err error) {
	m := message{ID: id}
	if err == nil {
		m.Result, err = json.Marshal(result)
	}
	if err != nil {
		m.Error = toWireError(err)
	}
	_ = c.send(m)
}

func (c *control) receive() (m message, err error) {
	err = c.dec.Decode(&m)
	return m, err
}

// caller is the requesting end of a control stream.
type caller struct {
	*control

	// pmu guards the fields below.
	pmu     sync.Mutex
	last    uint64
	pending map[uint64]chan message
	ended   bool
}

func newCaller(conn io.ReadWriteCloser) *caller {
	return &caller{control: newControl(conn), pending: map[uint64]chan message{}}
}

// run reads until the stream ends, handing events to handle in their order.
func (c *caller) run(handle func(message)) {
	for {
		m, err := c.receive()
		if err != nil {
			break
		}
		if m.Method != "" {
			handle(m)
			continue
		}
		if ch := c.take(m.ID); ch != nil {
			ch <- m
		}
	}
	c.pmu.Lock()
	defer c.pmu.Unlock()
	c.ended = true
	for id, ch := range c.pending {
		close(ch)
		delete(c.pending, id)
	}
}

func (c *caller) take(id uint64) chan message {
	c.pmu.Lock()
	defer c.pmu.Unlock()
	ch := c.pending[id]
	delete(c.pending, id)
	return ch
}

func (c *caller) register() (uint64, chan message, error) {
	c.pmu.Lock()
	defer c.pmu.Unlock()
	if c.ended {
		return 0, nil, sandbox.ErrGone
	}
	c.last++
	ch := make(chan message, 1)
	c.pending[c.last] = ch
	return c.last, ch, nil
}

// call makes a request and waits for its answer, which goes into result when
// that is not nil.
func (c *caller) call(ctx context.Context, method string, params, result any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", method, err)
	}
	id, ch, err := c.register()
	if err != nil {
		return err
	}
	if err := c.send(message{ID: id, Method: method, Params: raw}); err != nil {
		c.take(id)
		return sandbox.ErrGone
	}
	select {
	case <-ctx.Done():
		c.take(id)
		return context.Cause(ctx)
	case m, ok := <-ch:
		return decodeAnswer(m, ok, result)
	}
}

func decodeAnswer(m message, ok bool, result any) error {
	switch {
	case !ok:
		return sandbox.ErrGone
	case m.Error != nil:
		return m.Error
	case result == nil:
		return nil
	}
	return json.Unmarshal(m.Result, result)
}
