// Package planetest runs a real control plane for tests, with a fleet that plays what
// loops would tell: no sandbox, no agent and no model is needed.
//
// [Start] starts one and ends it with the test. [Fleet.Emit] has a run tell something and
// [Fleet.Play] has it go through an iteration; both are sent as a keeper sends them,
// numbered, with the run's token, again and again until they are taken. So
// [Server.Stop] and [Server.Restart] show what a client makes of a control plane that
// goes and comes back.
package planetest

import (
	"context"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"gander.dev/gander/sandbox/unattended/controlplane"
)

// Token is the person's.
const Token = "the-token-of-the-person-in-tests"

// Options of a [Server]; the zero value is one that has all it needs.
type Options struct {
	// Dir is where it keeps its state; empty is a directory of the test.
	Dir string
	// Page is the dashboard.
	Page fs.FS
	// Iterations is how many a run plays by itself after its start, and Pace the time
	// between two of its events.
	Iterations int
	Pace       time.Duration
	// Change changes what the control plane is made with.
	Change func(*controlplane.Options)
}

// Server is a control plane that listens on loopback.
type Server struct {
	URL   string // without a slash at its end
	Token string
	Dir   string
	Fleet *Fleet
	// Plane is the present one; nil after Stop.
	Plane *controlplane.Plane

	tb   testing.TB
	o    Options
	addr string
	http *http.Server
	done chan struct{}
}

// Start starts a control plane, which ends with the test.
func Start(tb testing.TB, o Options) *Server {
	tb.Helper()
	if o.Dir == "" {
		o.Dir = tb.TempDir()
	}
	s := &Server{Token: Token, Dir: o.Dir, tb: tb, o: o, addr: "127.0.0.1:0"}
	s.Fleet = newFleet(o.Iterations, o.Pace)
	s.Restart()
	tb.Cleanup(func() {
		s.Fleet.close()
		s.Stop()
	})
	return s
}

// Restart starts the control plane anew, with the same state at the same address.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Stop()
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		s.tb.Fatal(err)
	}
	s.addr = l.Addr().String()
	s.URL = "http://" + s.addr
	s.Fleet.at(s.URL)
	o := controlplane.Options{
		Sandboxes: []string{"local", "docker"},
		Dir:       s.Dir, Fleet: s.Fleet, Listen: s.addr, Token: s.Token, Page: s.o.Page, Log: slog.New(slog.DiscardHandler),
	}
	if s.o.Change != nil {
		s.o.Change(&o)
	}
	if s.Plane, err = controlplane.New(o); err != nil {
		l.Close()
		s.tb.Fatal(err)
	}
	s.http = &http.Server{Handler: s.Plane.Handler(), ReadHeaderTimeout: 10 * time.Second}
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		_ = s.http.Serve(l) // it ends with Stop
	}()
	if err := s.Plane.Adopt(s.tb.Context()); err != nil && s.Fleet.Fail == nil {
		s.tb.Fatal(err)
	}
}

// Stop ends the control plane as a kill does, as far as clients can see; the fleet and
// its runs go on.
func (s *Server) Stop() {
	s.tb.Helper()
	if s.Plane == nil {
		return
	}
	_ = s.http.Close() // whoever was connected is cut off
	<-s.done
	if err := s.Plane.Close(); err != nil {
		s.tb.Error(err)
	}
	s.Plane = nil
}

// Request makes a request as the person.
func (s *Server) Request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	return request(ctx, s.URL, s.Token, method, path, body)
}
