package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// Batches are as large as the control plane takes them.
const (
	BatchEvents = 500
	BatchBytes  = 1 << 20
)

// envelope is room in a batch for what is not events, in bytes.
const envelope = 4 << 10

// How long is waited after a failure, at first and at most, and for an answer.
const (
	firstPause  = 250 * time.Millisecond
	longPause   = 15 * time.Second
	refusedTime = 30 * time.Second // after a token was refused
	requestTime = 30 * time.Second
)

// Target is where a control plane listens. Token is the sandbox's; empty sends none.
type Target struct {
	URL   string // "http://127.0.0.1:3000"
	Token string
}

// UploaderOptions say what is sent where. Spool and Target are needed.
type UploaderOptions struct {
	Spool *Spool
	RunID string
	// Target is asked before every attempt: a control plane that was started again may
	// listen elsewhere. An error means that there is none.
	Target func() (Target, error)
	// Client sends; nil is one without a proxy that follows no redirects.
	Client *http.Client
	// Log takes what goes wrong, once until it is over; nil discards it.
	Log *slog.Logger
}

// Uploader sends what a Spool keeps to the control plane, in batches, until it has all:
// again after failures, and from where the control plane says that it is. It never
// gives an event up.
type Uploader struct {
	o       UploaderOptions
	log     *slog.Logger
	client  *http.Client
	reader  *Reader
	limit   int    // events in the next batch
	strange int64  // the number of an event that was refused as it is
	fails   int    // in a row
	trouble string // what was last complained of
}

// NewUploader makes an Uploader; Run it.
func NewUploader(o UploaderOptions) *Uploader {
	u := &Uploader{o: o, log: o.Log, client: o.Client, limit: BatchEvents, reader: o.Spool.Reader(o.Spool.Acked())}
	if u.log == nil {
		u.log = slog.New(slog.DiscardHandler)
	}
	if u.client == nil {
		u.client = NewClient()
	}
	return u
}

// NewClient is an HTTP client for talking to a control plane: it uses no proxy and
// follows no redirects, so that a token goes nowhere else.
func NewClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{MaxIdleConns: 2, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       requestTime,
	}
}

// Run sends until ctx ends. What has not been sent then stays in the Spool.
func (u *Uploader) Run(ctx context.Context) {
	defer func() {
		_ = u.reader.Close()
		u.client.CloseIdleConnections()
	}()
	for ctx.Err() == nil {
		changed := u.o.Spool.Changed()
		events, err := u.reader.Next(u.limit, BatchBytes-envelope)
		switch {
		case err != nil:
			u.pause(ctx, u.failed("events that are kept cannot be read", err))
		case len(events) == 0:
			select {
			case <-ctx.Done():
			case <-changed:
			}
		default:
			u.pause(ctx, u.send(ctx, events))
		}
	}
}

func (u *Uploader) pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// failed says once what is wrong and returns how long to wait: longer each time, half of
// it by chance.
func (u *Uploader) failed(what string, err error) time.Duration {
	if u.trouble != what {
		u.trouble = what
		u.log.Warn(what, "err", err, "waiting", u.o.Spool.Last()-u.o.Spool.Acked())
	}
	d := min(firstPause<<min(u.fails, 10), longPause)
	u.fails++
	return d/2 + rand.N(d/2+1)
}

// send sends a batch and returns how long to wait before the next one.
func (u *Uploader) send(ctx context.Context, events []Event) time.Duration {
	first := events[0].Seq
	if first == u.strange {
		events = []Event{u.stub(events[0])}
	}
	a, err := u.post(ctx, events)
	switch {
	case err != nil:
		u.rewind(first - 1)
		return u.failed("the control plane cannot be reached; events wait in the spool", err)
	case a.status == http.StatusOK:
		return u.accepted(a, events[len(events)-1].Seq)
	case a.status == http.StatusConflict && a.LastSeq != nil && *a.LastSeq != first-1:
		u.log.Info("the control plane goes on from another event", "after", *a.LastSeq, "sent", first)
		u.have(*a.LastSeq)
		u.rewind(*a.LastSeq)
		return u.failed("the control plane has other events than were sent", a.problem())
	}
	u.rewind(first - 1)
	return u.refused(a, first, len(events))
}

func (u *Uploader) rewind(after int64) {
	_ = u.reader.Close()
	u.reader = u.o.Spool.Reader(after)
}

// accepted goes on after what the control plane has.
func (u *Uploader) accepted(a answer, last int64) time.Duration {
	u.fails, u.strange = 0, 0
	u.limit = min(2*u.limit, BatchEvents)
	if u.trouble != "" {
		u.trouble = ""
		u.log.Info("the control plane takes events again")
	}
	if a.LastSeq != nil && *a.LastSeq != last { // it has more, or has not taken all
		u.rewind(*a.LastSeq)
		last = *a.LastSeq
	}
	u.have(last)
	return 0
}

func (u *Uploader) have(last int64) {
	if err := u.o.Spool.Ack(last); err != nil {
		u.log.Warn("what the control plane has stays in the spool", "err", err)
	}
}

// refused looks what can be done about an answer. Smaller batches find out which event
// it is about.
func (u *Uploader) refused(a answer, first int64, n int) time.Duration {
	switch a.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		u.failed("the control plane refuses the sandbox's token; events wait in the spool", a.problem())
		return refusedTime
	case http.StatusRequestEntityTooLarge, http.StatusBadRequest, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		if n > 1 {
			u.limit = max(1, n/2)
			return 0
		}
		if u.strange != first {
			u.strange = first
			u.log.Error("the control plane refuses an event; it is sent without what it says", "seq", first, "err", a.problem())
			return 0
		}
	}
	return u.failed("the control plane does not take events; they wait in the spool", a.problem())
}

// stub is what is left of an event that the control plane refuses.
func (u *Uploader) stub(e Event) Event {
	s := Problem("The control plane refused this event as it was.")
	s.RunID, s.Seq, s.Iteration, s.Time = e.RunID, e.Seq, e.Iteration, e.Time
	s.Truncated, s.Bytes = true, max(e.Bytes, len(e.Content))
	return s
}

// answer is what a control plane says to a batch.
type answer struct {
	status  int
	LastSeq *int64 `json:"lastSeq"`
	Error   string `json:"error"`
}

func (a answer) problem() error {
	if a.Error == "" {
		return fmt.Errorf("HTTP status %d", a.status)
	}
	return fmt.Errorf("%s (HTTP status %d)", Summarise(a.Error), a.status)
}

func (u *Uploader) post(ctx context.Context, events []Event) (a answer, err error) {
	to, err := u.o.Target()
	if err != nil {
		return a, err
	}
	body, err := json.Marshal(struct {
		RunID     string  `json:"runId"`
		Iteration int64   `json:"iterationId"`
		Events    []Event `json:"events"`
	}{u.o.RunID, events[0].Iteration, events})
	if err != nil {
		return a, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(to.URL, "/")+"/api/telemetry/stream", bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header.Set("Content-Type", "application/json")
	if to.Token != "" {
		req.Header.Set("Authorization", "Bearer "+to.Token)
	}
	resp, err := u.client.Do(req)
	if err != nil {
		return a, err
	}
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return a, err
	}
	if json.Unmarshal(said, &a) != nil && resp.StatusCode == http.StatusOK {
		return a, errors.New("what answers is not a control plane")
	}
	a.status = resp.StatusCode
	return a, nil
}
