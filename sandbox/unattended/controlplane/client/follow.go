package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane"
)

const (
	// pingEvery is how often a control plane says something on a stream at the least.
	pingEvery = 15 * time.Second
	// firstAgain and lastAgain are how long it takes until a stream that broke is opened again.
	firstAgain = 250 * time.Millisecond
	lastAgain  = 5 * time.Second
	// settle is how long something may be under way behind the last words of a run, and
	// lastWords how long those may be when the run has ended without.
	settle    = 500 * time.Millisecond
	lastWords = 5 * time.Second
	// maxLine bounds a message of a stream.
	maxLine = 4 << 20
)

// Followed is told what a run that is followed does. Its functions are called one at a
// time; nil ones are not.
type Followed struct {
	// Event gets every event once, in order. An error ends the following.
	Event func(telemetry.Event) error
	// Gap is told which events are not there any more, both included.
	Gap func(from, to int64)
	// Lost is told, once each time, that the control plane does not answer and is asked
	// again; Back that it answers again.
	Lost func(error)
	Back func()
}

// Follow gives the events of a run behind a number, those that there are and those to
// come, until the run has ended or ctx does. A control plane that goes away is waited
// for, however long: nothing is left out or given twice. It fails when the control plane
// refuses.
func (c *Client) Follow(ctx context.Context, runID string, after int64, f Followed) error {
	s := &following{c: c, run: runID, last: after, end: -1, f: f}
	wait := c.again
	for {
		answered, err := s.once(ctx)
		if answered {
			wait = c.again
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil, s.failed != nil:
			return s.failed
		case !again(err):
			return err
		}
		if !s.lost && f.Lost != nil {
			f.Lost(err)
		}
		s.lost = true
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, lastAgain)
	}
}

// again reports whether an error may be over soon.
func again(err error) bool {
	refused, ok := errors.AsType[*Error](err)
	return !ok || refused.Status == http.StatusServiceUnavailable || refused.Status == http.StatusInternalServerError
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// following is how far a Follow has come.
type following struct {
	c      *Client
	run    string
	last   int64 // the number of the last event that was given
	end    int64 // that of the last event of a run that has ended; -1 while it has not
	said   bool  // the run has said that it has ended
	f      Followed
	lost   bool  // the control plane does not answer
	failed error // of Event
}

// message is one of a live stream.
type message struct {
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
	Seq  int64           `json:"seq"`
}

var errBroken = errors.New("the stream of events ended")

// once reads one stream to its end. It returns nil when the run has ended, and whether
// the control plane answered.
func (s *following) once(ctx context.Context) (answered bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := s.c.send(ctx, http.MethodGet, fmt.Sprintf("/api/events?run=%s&after=%d", url.QueryEscape(s.run), s.last), nil)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if s.lost && s.f.Back != nil {
		s.f.Back()
	}
	s.lost = false
	run, err := s.c.Run(ctx, s.run) // behind the opening: its end is either here or in the stream
	if err != nil {
		return true, err
	}
	s.learn(&run)
	watch := time.AfterFunc(s.limit(), cancel)
	defer watch.Stop()
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, maxLine)
	for in.Scan() {
		data, ok := bytes.CutPrefix(in.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		if err := s.message(data); err != nil {
			return true, err
		}
		watch.Reset(s.limit())
	}
	if s.ended() {
		return true, nil
	}
	if err := in.Err(); err != nil {
		return true, fmt.Errorf("%w: %w", errBroken, err)
	}
	return true, errBroken
}

// learn notes whether the run has ended, and with which event.
func (s *following) learn(r *controlplane.Run) {
	if r.StoppedAt != nil && r.RunID == s.run {
		s.end = max(s.end, r.LastSeq)
	}
}

// ended reports whether the run has ended and all of it was given.
func (s *following) ended() bool { return s.end >= 0 && s.last >= s.end }

// limit is how long the stream may be silent.
func (s *following) limit() time.Duration {
	switch {
	case !s.ended():
		return s.c.quiet
	case !s.said:
		return lastWords
	}
	return settle
}

// message takes a message of the stream.
func (s *following) message(data []byte) error {
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("%w: what came is no message: %w", errBroken, err)
	}
	switch {
	case m.Seq > 0:
		return s.event(&m)
	case m.Type == "gap":
		var gap struct{ From, To int64 }
		if json.Unmarshal(m.Data, &gap) == nil && gap.To > s.last {
			s.skip(gap.From, gap.To)
		}
	case m.Type == "run":
		var run controlplane.Run
		if json.Unmarshal(m.Data, &run) == nil {
			s.learn(&run)
		}
	}
	return nil
}

func (s *following) skip(from, to int64) {
	if s.f.Gap != nil {
		s.f.Gap(max(from, s.last+1), to)
	}
	s.last = to
}

func (s *following) event(m *message) error {
	if m.Seq <= s.last {
		return nil
	}
	if m.Seq > s.last+1 {
		s.skip(s.last+1, m.Seq-1)
	}
	var e telemetry.Event
	if err := json.Unmarshal(m.Data, &e); err != nil {
		return fmt.Errorf("%w: event %d cannot be read: %w", errBroken, m.Seq, err)
	}
	e.RunID, e.Seq = s.run, m.Seq
	if err := s.f.Event(e); err != nil {
		s.failed = err
		return err
	}
	s.last = m.Seq
	if e.Type == telemetry.StateChange && (e.State == telemetry.Stopped || e.State == telemetry.Done || e.State == telemetry.Broken) {
		s.end, s.said = max(s.end, m.Seq), true
	}
	return nil
}
