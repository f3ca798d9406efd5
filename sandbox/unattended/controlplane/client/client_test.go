package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/controlplane/client"
	"gander.dev/gander/sandbox/unattended/controlplane/planetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(int) { http.DefaultClient.CloseIdleConnections() })) // the fleet's
}

// patience is how long a test waits for what should come at once.
const patience = 50 * time.Second

// rig is a control plane with its client.
type rig struct {
	*planetest.Server
	c   *client.Client
	ctx context.Context
}

func newRig(t *testing.T, o planetest.Options) *rig {
	t.Helper()
	r := &rig{Server: planetest.Start(t, o)}
	var cancel context.CancelFunc
	r.ctx, cancel = context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	r.c = newClient(t, r.URL, r.Token)
	return r
}

func newClient(t *testing.T, url, token string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{URL: url, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (r *rig) start(t *testing.T, agent string) controlplane.Run {
	t.Helper()
	run, err := r.c.Start(r.ctx, client.StartRequest{Agent: agent, Prompt: "mend it"})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// follow follows a run and returns what it saw when it ends.
type seen struct {
	// mu guards what follows.
	mu     sync.Mutex
	seqs   []int64
	gaps   []string
	lost   int
	back   int
	change chan struct{}
}

func newSeen() *seen { return &seen{change: make(chan struct{}, 1)} }

func (s *seen) add(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
	select {
	case s.change <- struct{}{}:
	default:
	}
}

func (s *seen) followed() client.Followed {
	return client.Followed{
		Event: func(e telemetry.Event) error { s.add(func() { s.seqs = append(s.seqs, e.Seq) }); return nil },
		Gap:   func(from, to int64) { s.add(func() { s.gaps = append(s.gaps, fmt.Sprintf("%d-%d", from, to)) }) },
		Lost:  func(error) { s.add(func() { s.lost++ }) },
		Back:  func() { s.add(func() { s.back++ }) },
	}
}

func (s *seen) wait(t *testing.T, ctx context.Context, what string, done func() bool) {
	t.Helper()
	for {
		s.mu.Lock()
		ok := done()
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-s.change:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s; seen: %d events, gaps %q, lost %d times", what, len(s.seqs), s.gaps, s.lost)
		}
	}
}

// contiguous are the numbers from first to last.
func contiguous(first, last int64) []int64 {
	var out []int64
	for n := first; n <= last; n++ {
		out = append(out, n)
	}
	return out
}

func TestSteering(t *testing.T) {
	r := newRig(t, planetest.Options{})
	run := r.start(t, "goose")
	if run.Agent != "goose" || run.Prompt.Content != "mend it" || run.SessionID == "" {
		t.Errorf("started %+v", run)
	}
	for _, verb := range []string{"pause", "resume", "cancel"} {
		if err := r.c.Steer(r.ctx, verb, run.RunID); err != nil {
			t.Errorf("%s: %v", verb, err)
		}
	}
	if err := r.c.Say(r.ctx, run.RunID, "look at the tests"); err != nil {
		t.Error(err)
	}
	orders := r.Fleet.Orders()
	for _, want := range []string{"start ", "pause ", "resume ", "cancel ", "message "} {
		if !slices.ContainsFunc(orders, func(o string) bool { return strings.HasPrefix(o, want+run.RunID) }) {
			t.Errorf("the fleet was not told to %s: %q", want, orders)
		}
	}
	if err := r.c.Steer(r.ctx, "stop", run.RunID); err != nil {
		t.Error(err)
	}
	runs, err := r.c.Runs(r.ctx)
	if err != nil || len(runs) != 1 || runs[0].StoppedAt == nil {
		t.Errorf("the runs are %+v, %v", runs, err)
	}
}

// What goes wrong is said as what it is.
func TestRefusals(t *testing.T) {
	r := newRig(t, planetest.Options{})
	status := func(err error) int {
		if e, ok := errors.AsType[*client.Error](err); ok && e.Text != "" {
			return e.Status
		}
		t.Errorf("not a refusal in words: %v", err)
		return 0
	}
	_, err := r.c.Run(r.ctx, "nobody")
	if got := status(err); got != http.StatusNotFound {
		t.Errorf("a run that is not there: %d", got)
	}
	_, err = newClient(t, r.URL, "wrong-token-of-nobody").Runs(r.ctx)
	if got := status(err); got != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", got)
	}
	if _, err = r.c.Start(r.ctx, client.StartRequest{Agent: "cursor"}); status(err) != http.StatusBadRequest {
		t.Errorf("an agent that is not there: %v", err)
	}
	if err := r.c.Follow(r.ctx, "nobody", 0, client.Followed{}); status(err) != http.StatusNotFound {
		t.Errorf("following a run that is not there: %v", err)
	}
	r.Stop()
	if _, err = r.c.Runs(r.ctx); !errors.Is(err, client.ErrNobody) {
		t.Errorf("nobody listens: %v", err)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	lost := func(err error) {
		if cancel(); !errors.Is(err, client.ErrNobody) {
			t.Errorf("following where nobody listens: %v", err)
		}
	}
	if err = r.c.Follow(ctx, "x", 0, client.Followed{Lost: lost}); !errors.Is(err, context.Canceled) {
		t.Errorf("the following ended with %v", err)
	}
	for _, bad := range []string{"", "127.0.0.1:3000", "ftp://host", "http://", "::"} {
		if _, err := client.New(client.Options{URL: bad}); err == nil {
			t.Errorf("%q is taken for an address", bad)
		}
	}
}

// The token goes to the control plane and to nobody else: not where a redirect points.
func TestNoRedirect(t *testing.T) {
	var got string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") }))
	defer elsewhere.Close()
	here := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer here.Close()
	c := newClient(t, here.URL, "secret-token")
	if _, err := c.Runs(t.Context()); err == nil {
		t.Error("a redirect is taken for an answer")
	}
	if got != "" {
		t.Errorf("the token went elsewhere: %q", got)
	}
}

// Every event is given once, in order, also while the control plane is away, and the
// following ends with the run.
func TestFollow(t *testing.T) {
	r := newRig(t, planetest.Options{})
	run := r.start(t, "goose")
	r.Fleet.Play(run.RunID)
	s := newSeen()
	done := make(chan error, 1)
	go func() { done <- r.c.Follow(r.ctx, run.RunID, 0, s.followed()) }()
	s.wait(t, r.ctx, "the first iteration", func() bool { return len(s.seqs) == len(r.Fleet.Events(run.RunID)) })
	r.Server.Stop()
	s.wait(t, r.ctx, "the loss of the control plane", func() bool { return s.lost == 1 })
	r.Fleet.Play(run.RunID)
	r.Restart()
	s.wait(t, r.ctx, "its return", func() bool { return s.back == 1 })
	r.Fleet.Play(run.RunID)
	s.wait(t, r.ctx, "the third iteration", func() bool { return len(s.seqs) == len(r.Fleet.Events(run.RunID)) })
	if err := r.c.Steer(r.ctx, "stop", run.RunID); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatalf("the following ended with %v", err)
	}
	if want := contiguous(1, int64(len(r.Fleet.Events(run.RunID)))); !slices.Equal(s.seqs, want) {
		t.Errorf("seen %d, want %d", s.seqs, want)
	}
	if len(s.gaps) > 0 || s.lost != 1 {
		t.Errorf("gaps %q, lost %d times", s.gaps, s.lost)
	}
}

// From a number on, of a run that has ended, and to where the caller says.
func TestFollowPast(t *testing.T) {
	r := newRig(t, planetest.Options{})
	run := r.start(t, "goose")
	r.Fleet.Play(run.RunID)
	if err := r.c.Steer(r.ctx, "stop", run.RunID); err != nil {
		t.Fatal(err)
	}
	if err := r.Fleet.Sent(r.ctx, run.RunID); err != nil {
		t.Fatal(err)
	}
	s := newSeen()
	if err := r.c.Follow(r.ctx, run.RunID, 4, s.followed()); err != nil {
		t.Fatal(err)
	}
	if want := contiguous(5, int64(len(r.Fleet.Events(run.RunID)))); !slices.Equal(s.seqs, want) {
		t.Errorf("seen %d, want %d", s.seqs, want)
	}
	enough := errors.New("enough")
	err := r.c.Follow(r.ctx, run.RunID, 0, client.Followed{Event: func(telemetry.Event) error { return enough }})
	if !errors.Is(err, enough) {
		t.Errorf("the following ended with %v", err)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	if err := r.c.Follow(ctx, run.RunID, 0, client.Followed{}); !errors.Is(err, context.Canceled) {
		t.Errorf("the following ended with %v", err)
	}
}

// An iteration is found by its number.
func TestBefore(t *testing.T) {
	r := newRig(t, planetest.Options{})
	run := r.start(t, "goose")
	for range 3 {
		r.Fleet.Play(run.RunID)
	}
	if err := r.Fleet.Sent(r.ctx, run.RunID); err != nil {
		t.Fatal(err)
	}
	for n := int64(1); n <= 3; n++ {
		before, err := r.c.Before(r.ctx, run.RunID, n)
		if err != nil {
			t.Fatal(err)
		}
		events, last, err := r.c.Events(r.ctx, run.RunID, before)
		if err != nil || len(events) == 0 || events[0].Type != telemetry.IterationStart || events[0].Iteration != n || last != int64(len(r.Fleet.Events(run.RunID))) {
			t.Errorf("iteration %d begins behind %d, with %+v, %v", n, before, events, err)
		}
	}
	for _, n := range []int64{0, 4} {
		if _, err := r.c.Before(r.ctx, run.RunID, n); !errors.Is(err, client.ErrNoIteration) {
			t.Errorf("iteration %d: %v", n, err)
		}
	}
}
