package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// plane is a control plane as far as an Uploader sees it. It answers without a network.
type plane struct {
	t *testing.T

	// mu guards the fields below.
	mu       sync.Mutex
	events   []Event
	calls    int
	answer   func(batch []Event, size int) (status int, body string) // nil, or no status: as a real one
	lose     bool                                                    // answers are lost on their way
	changed  chan struct{}
	lastAuth string
}

func newPlane(t *testing.T) *plane { return &plane{t: t, changed: make(chan struct{})} }

func (p *plane) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var in struct {
		RunID  string  `json:"runId"`
		Events []Event `json:"events"`
	}
	if err := json.Unmarshal(body, &in); err != nil || in.RunID != "r" || r.URL.Path != "/api/telemetry/stream" {
		p.t.Errorf("%s: %v in %s", r.URL, err, body)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	p.lastAuth = r.Header.Get("Authorization")
	status, text := 0, ""
	if p.answer != nil {
		status, text = p.answer(in.Events, len(body))
	}
	if status == 0 {
		status, text = p.ingest(in.Events)
	}
	if p.lose {
		return nil, errors.New("connection reset")
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text)), Header: http.Header{}, Request: r}, nil
}

// ingest is what the contract says of POST /api/telemetry/stream.
func (p *plane) ingest(batch []Event) (int, string) {
	last := int64(len(p.events))
	for _, e := range batch {
		if e.Seq > last+1 {
			return http.StatusConflict, `{"error":"there is a gap","lastSeq":` + jsonInt(last) + `}`
		}
		if e.Seq == last+1 {
			p.events = append(p.events, e)
			last++
		}
	}
	close(p.changed)
	p.changed = make(chan struct{})
	return http.StatusOK, `{"received":` + jsonInt(int64(len(batch))) + `,"lastSeq":` + jsonInt(last) + `}`
}

func jsonInt(n int64) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// has waits until the control plane has n events.
func (p *plane) has(n int) {
	p.t.Helper()
	late := time.After(3 * time.Hour) // of the bubble's clock
	for {
		p.mu.Lock()
		have, changed := len(p.events), p.changed
		p.mu.Unlock()
		if have >= n {
			break
		}
		select {
		case <-changed:
		case <-late:
			p.t.Fatalf("the control plane has %d events of %d", have, n)
		}
	}
	for i, e := range p.events {
		if e.Seq != int64(i+1) {
			p.t.Fatalf("event %d has number %d", i+1, e.Seq)
		}
	}
}

// uploading runs an Uploader for the time of a test, with a clock of its own.
func uploading(t *testing.T, setup func(*plane, *Spool), check func(*plane, *Spool)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t)
		s, err := OpenSpool(SpoolOptions{Dir: dir, RunID: "r", Segment: 100_000})
		if err != nil {
			t.Fatal(err)
		}
		setup(p, s)
		u := NewUploader(UploaderOptions{
			Spool: s, RunID: "r", Client: &http.Client{Transport: p},
			Target: func() (Target, error) { return Target{URL: "http://plane/", Token: "secret"}, nil },
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { u.Run(ctx); close(done) }()
		check(p, s)
		stop()
		<-done
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func fill(t *testing.T, s *Spool, n int) {
	t.Helper()
	batch := make([]Event, n)
	for i := range batch {
		batch[i] = text("%d %s", i, strings.Repeat("x", 100))
	}
	add(t, s, batch...)
}

func TestUploader(t *testing.T) {
	uploading(t, func(_ *plane, s *Spool) { fill(t, s, 1234) }, func(p *plane, s *Spool) {
		p.has(1234)
		add(t, s, text("later"))
		p.has(1235)
		if p.lastAuth != "Bearer secret" || p.calls > 5 {
			t.Errorf("%d calls, authorised by %q", p.calls, p.lastAuth)
		}
		synctest.Wait()
		if s.Acked() != 1235 {
			t.Errorf("%d events are known to be had", s.Acked())
		}
	})
}

// An hour without a control plane costs calls now and then, and no event.
func TestUploaderControlPlaneAway(t *testing.T) {
	uploading(t, func(p *plane, s *Spool) {
		p.lose = true
		p.answer = func([]Event, int) (int, string) { return http.StatusServiceUnavailable, "" }
	}, func(p *plane, s *Spool) {
		for range 60 {
			fill(t, s, 10)
			time.Sleep(time.Minute)
		}
		p.mu.Lock()
		calls := p.calls
		p.lose, p.answer = false, nil
		p.mu.Unlock()
		if calls < 60 || calls > 60*60/5 {
			t.Errorf("%d calls in an hour", calls)
		}
		back := time.Now()
		p.has(600)
		if late := time.Since(back); late > longPause {
			t.Errorf("it took %v to go on", late)
		}
	})
}

// An answer that was lost, a control plane that has forgotten, one that knows more.
func TestUploaderGoesOnWhereTheControlPlaneIs(t *testing.T) {
	uploading(t, func(p *plane, s *Spool) { fill(t, s, 1000); p.lose = true }, func(p *plane, s *Spool) {
		time.Sleep(time.Second) // the first batch was taken, nobody knows
		p.mu.Lock()
		if len(p.events) == 0 {
			t.Error("nothing was sent")
		}
		p.lose = false
		p.mu.Unlock()
		p.has(1000)
		synctest.Wait() // until that is known here: what another has may be removed when a file is full
		p.mu.Lock()
		p.events = p.events[:100] // restored from a backup
		p.mu.Unlock()
		fill(t, s, 1)
		p.has(1001)
		for _, e := range p.events[100:] {
			if e.Type != Text {
				t.Fatalf("event %d is %+v", e.Seq, e)
			}
		}
	})
}

func TestUploaderMakesBatchesSmaller(t *testing.T) {
	uploading(t, func(p *plane, s *Spool) {
		fill(t, s, 300)
		add(t, s, text("poison"))
		fill(t, s, 300)
		p.answer = func(batch []Event, size int) (int, string) {
			for _, e := range batch {
				if e.Content == "poison" {
					return http.StatusBadRequest, `{"error":"no"}`
				}
			}
			if size > 20_000 {
				return http.StatusRequestEntityTooLarge, `{"error":"too large"}`
			}
			return 0, ""
		}
	}, func(p *plane, s *Spool) {
		p.has(601)
		if e := p.events[300]; e.Type != Error || !e.Truncated || e.Bytes != len("poison") {
			t.Errorf("instead of the refused event there is %+v", e)
		}
		if p.events[299].Type != Text || p.events[301].Type != Text {
			t.Error("its neighbours are gone, too")
		}
	})
}

func TestUploaderTokenRefused(t *testing.T) {
	uploading(t, func(p *plane, s *Spool) {
		fill(t, s, 10)
		p.answer = func([]Event, int) (int, string) { return http.StatusUnauthorized, `{"error":"unknown token"}` }
	}, func(p *plane, s *Spool) {
		time.Sleep(10 * time.Minute)
		p.mu.Lock()
		if p.calls < 10 || p.calls > 25 {
			t.Errorf("%d calls in ten minutes", p.calls)
		}
		p.answer = nil
		p.mu.Unlock()
		p.has(10)
	})
}

// What else may listen there does not get events acknowledged.
func TestUploaderOtherServer(t *testing.T) {
	uploading(t, func(p *plane, s *Spool) {
		fill(t, s, 10)
		p.answer = func([]Event, int) (int, string) { return http.StatusOK, "<html>" }
	}, func(p *plane, s *Spool) {
		time.Sleep(time.Minute)
		if s.Acked() != 0 {
			t.Errorf("%d events count as had", s.Acked())
		}
		p.mu.Lock()
		p.answer = nil
		p.mu.Unlock()
		p.has(10)
	})
}
