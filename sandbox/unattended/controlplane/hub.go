package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
)

// jsonText is a value that is JSON already.
type jsonText = json.RawMessage

// A message is one for live clients, encoded once for all of them.
type message struct {
	id   int64  // of the event; 0 for a message that is none
	seq  int64  // of the event
	run  string // empty: of no run in particular
	text []byte
}

// eventMessage is an event as live clients get it.
func eventMessage(s *stored) *message {
	b := make([]byte, 0, len(s.body)+160)
	b = append(b, `{"type":`...)
	b = appendString(b, string(s.event.Type))
	b = append(b, `,"data":`...)
	b = append(b, s.body...)
	b = append(b, `,"timestamp":"`...)
	b = append(b, iso(s.event.Time)...)
	b = append(b, `","runId":`...)
	b = appendString(b, s.run)
	b = append(b, `,"seq":`...)
	b = strconv.AppendInt(b, s.event.Seq, 10)
	b = append(b, `,"id":`...)
	b = strconv.AppendInt(b, s.id, 10)
	b = append(b, '}')
	return &message{id: s.id, seq: s.event.Seq, run: s.run, text: b}
}

// withID is an event as its JSON, with its id.
func withID(s *stored) jsonText {
	b := append(make([]byte, 0, len(s.body)+24), s.body[:len(s.body)-1]...)
	b = append(b, `,"id":`...)
	b = strconv.AppendInt(b, s.id, 10)
	return append(b, '}')
}

func appendString(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		return append(b, `""`...) // a string always can be
	}
	return append(b, text...)
}

// newMessage is a message that is no event.
func newMessage(run, kind string, data any, now int64) *message {
	m := struct {
		Type      string `json:"type"`
		Data      any    `json:"data,omitempty"`
		Timestamp string `json:"timestamp"`
		RunID     string `json:"runId,omitempty"`
	}{kind, data, iso(now), run}
	text, err := json.Marshal(m)
	if err != nil {
		text = []byte(`{"type":"error"}`) // a value of ours that cannot be encoded: a programmer's error
	}
	return &message{run: run, text: text}
}

// errSlow ends a client that does not read as fast as things happen.
var errSlow = errors.New("too slow: come back with the last id you have")

// errEnding ends the clients when the control plane does.
var errEnding = errors.New("the control plane is ending: come back")

// A hub gives what happens to the live clients. It waits for none of them.
type hub struct {
	most int // bytes that may wait for a client

	mu      sync.Mutex // guards the following
	clients map[*client]bool
	last    int64 // the newest event that the clients have been given
	closed  bool
}

// A client is one that follows. What it has not taken yet waits in its queue, up to
// clientMessages and most bytes; beyond that it is dropped.
type client struct {
	run  string // empty: all
	most int

	ready chan struct{} // there is something, or it was dropped
	mu    sync.Mutex    // guards the following
	queue []*message
	bytes int
	err   error
}

func newHub(newest int64) *hub {
	return &hub{most: clientBytes, clients: map[*client]bool{}, last: newest}
}

// follow adds a client. What happens after the event newest comes to it.
func (h *hub) follow(run string) (c *client, newest int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, 0, errEnding
	}
	c = &client{run: run, most: h.most, ready: make(chan struct{}, 1)}
	h.clients[c] = true
	return c, h.last, nil
}

func (h *hub) leave(c *client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.clients, c)
}

func (h *hub) newest() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// events gives events to the clients. The writer calls it after each change, so the
// order of the ids is the order of the calls.
func (h *hub) events(taken []stored) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(taken) == 0 {
		return
	}
	h.last = taken[len(taken)-1].id
	if len(h.clients) == 0 {
		return
	}
	messages := make([]*message, len(taken))
	for i := range taken {
		messages[i] = eventMessage(&taken[i])
	}
	h.give(messages)
}

// tell gives the clients something that is no event.
func (h *hub) tell(run, kind string, data any, now int64) {
	m := newMessage(run, kind, data, now) // outside of the lock
	h.mu.Lock()
	defer h.mu.Unlock()
	h.give([]*message{m})
}

func (h *hub) give(messages []*message) {
	for c := range h.clients {
		c.add(messages)
	}
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for c := range h.clients {
		c.drop(errEnding)
	}
}

// add queues messages, or drops the client when this is too much.
func (c *client) add(messages []*message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	for _, m := range messages {
		if c.run != "" && m.run != "" && m.run != c.run {
			continue
		}
		c.queue = append(c.queue, m)
		c.bytes += len(m.text)
	}
	if len(c.queue) > clientMessages || c.bytes > c.most {
		c.err, c.queue, c.bytes = errSlow, nil, 0
	}
	c.signal()
}

func (c *client) drop(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.signal()
}

func (c *client) signal() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// take waits for messages and takes all there are.
func (c *client) take(ctx context.Context) ([]*message, error) {
	for {
		c.mu.Lock()
		messages, err := c.queue, c.err
		c.queue, c.bytes = nil, 0
		c.mu.Unlock()
		if len(messages) > 0 || err != nil {
			return messages, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.ready:
		}
	}
}
