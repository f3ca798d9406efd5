package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/coder/websocket"
)

// A cursor is how far a live client has come.
type cursor struct {
	run   *Run  // nil: all runs
	seq   int64 // the last it has of the run
	id    int64 // the last it has of all; of one run, only once known
	begin bool  // it named neither: it wants what happens from now on
}

// readCursor reads what a live client has: run= and after=, or since=, or the
// Last-Event-ID with which a browser comes back by itself.
func (p *Plane) readCursor(r *http.Request) (cursor, error) {
	var c cursor
	q := r.URL.Query()
	if id := q.Get("run"); id != "" {
		var err error
		if c.run, err = p.chosen(r); err != nil {
			return c, err
		}
	}
	if text := r.Header.Get("Last-Event-ID"); text != "" {
		q.Set("since", text)
		q.Del("after")
		r = r.Clone(r.Context())
		r.URL.RawQuery = q.Encode()
	}
	var err error
	switch {
	case q.Get("after") != "" && c.run == nil:
		return c, fail(http.StatusBadRequest, "after is a number within a run: name it with run=, or use since")
	case q.Get("after") != "":
		c.seq, err = number(r, "after", 0, 0, maxNumber)
	case q.Get("since") != "":
		c.id, err = number(r, "since", 0, 0, maxNumber)
		if err == nil && c.run != nil {
			c.seq, err = seqAt(r.Context(), p.db.read, c.run, c.id)
		}
	default:
		c.begin = true
	}
	return c, err
}

// replayPage is how many events are read at once for a replay.
const replayPage = 500

// stream sends a client what it has not got, and then what happens, until ctx ends or it
// is dropped; send returns when the messages are written.
func (p *Plane) stream(ctx context.Context, at cursor, send func([]*message) error) error {
	if !at.begin {
		if err := p.sendGap(ctx, at, send); err != nil {
			return err
		}
		// Without being registered as yet: nothing has to wait however long this takes.
		if err := p.replay(ctx, &at, 0, send); err != nil {
			return err
		}
	}
	run := ""
	if at.run != nil {
		run = at.run.RunID
	}
	c, newest, err := p.hub.follow(run)
	if err != nil {
		return err
	}
	defer p.hub.leave(c)
	if !at.begin {
		if err := p.replay(ctx, &at, newest, send); err != nil { // what came in between
			return err
		}
	}
	for {
		messages, err := c.take(ctx)
		if err != nil {
			return err
		}
		if err := send(at.unknown(messages)); err != nil {
			return err
		}
	}
}

// unknown drops the events that the client has: the database shows an event a moment
// before the hub gives it out, so a replay may have been faster.
func (at cursor) unknown(messages []*message) []*message {
	return slices.DeleteFunc(messages, func(m *message) bool {
		return m.id != 0 && (m.id <= at.id || at.run != nil && m.seq <= at.seq)
	})
}

// replay sends what is kept after the cursor, up to an id; 0 means all there is.
func (p *Plane) replay(ctx context.Context, at *cursor, upTo int64, send func([]*message) error) error {
	for {
		events, err := p.eventsAfter(ctx, *at, upTo)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return nil
		}
		messages := make([]*message, len(events))
		for i := range events {
			messages[i] = eventMessage(&events[i])
		}
		if err := send(messages); err != nil {
			return err
		}
		last := events[len(events)-1]
		at.seq, at.id = last.event.Seq, last.id
		if len(events) < replayPage {
			return nil
		}
	}
}

func (p *Plane) eventsAfter(ctx context.Context, at cursor, upTo int64) ([]stored, error) {
	switch {
	case at.run != nil && upTo == 0:
		return readEvents(ctx, p.db.read, eventsOfRun, at.run.key, at.seq, replayPage)
	case at.run != nil:
		return readEvents(ctx, p.db.read, eventsOfRunUpTo, at.run.key, at.seq, upTo, replayPage)
	case upTo == 0:
		return readEvents(ctx, p.db.read, eventsSince, at.id, replayPage)
	}
	return readEvents(ctx, p.db.read, eventsSinceUpTo, at.id, upTo, replayPage)
}

// sendGap says what a client can no longer get: what retention has removed, or what a
// database that is another one now has never had.
func (p *Plane) sendGap(ctx context.Context, at cursor, send func([]*message) error) error {
	from, to, err := p.gap(ctx, at)
	if err != nil || from > to {
		return err
	}
	run := ""
	if at.run != nil {
		run = at.run.RunID
	}
	return send([]*message{newMessage(run, "gap", map[string]int64{"from": from, "to": to}, p.now())})
}

func (p *Plane) gap(ctx context.Context, at cursor) (from, to int64, err error) {
	if at.run == nil {
		if newest := p.hub.newest(); at.id > newest {
			return newest + 1, at.id, nil
		}
		pruned, err := prunedThrough(ctx, p.db.read)
		return at.id + 1, pruned, err
	}
	first, some, err := firstSeq(ctx, p.db.read, at.run.key)
	if !some {
		first = at.run.LastSeq + 1
	}
	return at.seq + 1, first - 1, err
}

// webSocket is /ws/live. batch=1 has each frame be a list.
func (p *Plane) webSocket(w http.ResponseWriter, r *http.Request) error {
	at, err := p.readCursor(r)
	if err != nil {
		return err
	}
	// The guard has checked the Origin, by a list that the library does not know.
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		p.log.Debug("a WebSocket was not opened", "error", err) // Accept has answered
		return nil
	}
	defer conn.CloseNow()
	defer p.counts.joined()()
	ctx, cancel := context.WithCancel(conn.CloseRead(r.Context())) // clients send nothing
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	write := func(text []byte) error {
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		return conn.Write(ctx, websocket.MessageText, text)
	}
	send := sendEach(write)
	if r.URL.Query().Get("batch") == "1" {
		send = sendBatches(ctx, write)
	}
	if p.streamWithHeartbeat(ctx, at, send) == errSlow {
		_ = conn.Close(websocket.StatusTryAgainLater, errSlow.Error()) // it may be gone: then nobody reads it
	} else {
		_ = conn.Close(websocket.StatusGoingAway, errEnding.Error())
	}
	return nil
}

// sendEach writes one frame a message.
func sendEach(write func([]byte) error) func([]*message) error {
	return func(messages []*message) error {
		for _, m := range messages {
			if err := write(m.text); err != nil {
				return err
			}
		}
		return nil
	}
}

// frameBytes is about how large a frame gets.
const frameBytes = 256 << 10

// sendBatches writes lists, and waits a little between two of them, so that many small
// messages become few frames.
func sendBatches(ctx context.Context, write func([]byte) error) func([]*message) error {
	var next time.Time
	return func(messages []*message) error {
		if wait := time.Until(next); wait > 0 && len(messages) < replayPage {
			if err := pause(ctx, wait); err != nil {
				return err
			}
		}
		for len(messages) > 0 {
			frame := []byte{'['}
			n := 0
			for ; n < len(messages) && len(frame) < frameBytes; n++ {
				if n > 0 {
					frame = append(frame, ',')
				}
				frame = append(frame, messages[n].text...)
			}
			if err := write(append(frame, ']')); err != nil {
				return err
			}
			messages = messages[n:]
		}
		next = time.Now().Add(gather)
		return nil
	}
}

// pause waits, or returns when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// streamWithHeartbeat streams, with a ping in between at times. Both end together, and
// only one writes at a time.
func (p *Plane) streamWithHeartbeat(ctx context.Context, at cursor, send func([]*message) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	turn := make(chan struct{}, 1)
	guarded := func(messages []*message) error {
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-turn }()
		return send(messages)
	}
	if err := guarded([]*message{newMessage("", "connected", nil, p.now())}); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		tick := time.NewTicker(heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if guarded([]*message{newMessage("", "ping", nil, p.now())}) != nil {
				return
			}
		}
	}()
	err := p.stream(ctx, at, guarded)
	if err == errSlow || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		p.counts.dropped.Add(1)
	}
	cancel()
	<-done
	return err
}

// serverSentEvents is /api/events: the same messages, each event with its id, so that a
// browser that comes back says by itself what it has.
func (p *Plane) serverSentEvents(w http.ResponseWriter, r *http.Request) error {
	at, err := p.readCursor(r)
	if err != nil {
		return err
	}
	defer p.counts.joined()()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }() // for what else comes over this connection
	send := func(messages []*message) error {
		if err := control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		for _, m := range messages {
			if err := writeEvent(w, m); err != nil {
				return err
			}
		}
		return control.Flush()
	}
	if err := p.streamWithHeartbeat(ctx, at, send); err == errSlow {
		_ = send([]*message{newMessage("", "dropped", map[string]string{"reason": err.Error()}, p.now())})
	}
	return nil
}

// writeEvent writes a message as an event of the stream. JSON has no line breaks.
func writeEvent(w http.ResponseWriter, m *message) error {
	if m.id != 0 {
		if _, err := fmt.Fprintf(w, "id: %d\n", m.id); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "data: %s\n\n", m.text)
	return err
}
