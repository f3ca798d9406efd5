package local_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/trials/probe"
	"gander.dev/gander/sandbox/trials/sandboxtest"
)

// TestProbe runs every attempt to get out that we know; as root in check those that root
// could succeed with where an ordinary user could not.
func TestProbe(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if !inFull() {
		sandboxtest.TestProbe(t, newLocal, self, -1, sandboxtest.OfPlace()...)
		return
	}
	for whose, owner := range owners() {
		t.Run(whose, func(t *testing.T) { sandboxtest.TestProbe(t, newLocal, self, owner) })
	}
}

// ending is a sandbox that ends when an attempt is started in it.
type ending struct {
	sandbox.Sandbox
	how string
}

func (e ending) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	if !slices.ContainsFunc(c.Env, func(v string) bool { return strings.HasPrefix(v, "GANDER_PROBE_TAG=") }) {
		return e.Sandbox.Start(ctx, c)
	}
	switch e.how {
	case "before":
		_ = e.Close()
	case "at the start":
		e.endSoon()
		return nil, errors.New("broken pipe")
	case "at work":
		c.Args = []string{"sleep", "1000"}
		p, err := e.Sandbox.Start(ctx, c)
		return atWork{p, e}, err
	}
	return e.Sandbox.Start(ctx, c)
}

func (e ending) endSoon() { time.AfterFunc(200*time.Millisecond, func() { _ = e.Close() }) }

// atWork is a process that goes on while its sandbox begins to end.
type atWork struct {
	sandbox.Process
	in ending
}

func (p atWork) Wait(context.Context) (sandbox.ExitStatus, error) {
	p.in.endSoon()
	return sandbox.ExitStatus{}, sandbox.ErrGone
}

func (p atWork) Kill(context.Context) error { return sandbox.ErrGone }

// TestProbeEnds: a probe whose sandbox has ended, or is about to, goes on in another one,
// says why there is none, and says nothing of an attempt that was interrupted.
func TestProbeEnds(t *testing.T) {
	needFull(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	errFull := errors.New("the machine is full")
	for _, tt := range []struct {
		name    string
		ends    []string // how each sandbox does, after which there is none
		cancel  bool
		want    error
		results int
	}{
		{"another one", []string{"before", ""}, false, nil, 1},
		{"another one, at the start", []string{"at the start", ""}, false, nil, 1},
		{"again", []string{"at work", "at work", ""}, false, nil, 1},
		{"no other", []string{"before"}, false, errFull, 0},
		{"cancelled", []string{"before", ""}, true, context.Canceled, 0},
		{"cancelled, and no other", []string{"before"}, true, context.Canceled, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var made []sandbox.Sandbox
			report, err := probe.Run(ctx, probe.Options{
				Executable: self, Owner: -1, Only: []string{"files/by name"},
				Create: func(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
					if len(made) > 0 && tt.cancel {
						cancel()
					}
					if len(made) == len(tt.ends) {
						return nil, errFull
					}
					sb, err := newLocal(t).Create(context.WithoutCancel(ctx), spec)
					if err != nil {
						return nil, err
					}
					made = append(made, sb)
					return ending{sb, tt.ends[len(made)-1]}, nil
				},
			})
			if !errors.Is(err, tt.want) || tt.want == errFull && !strings.Contains(err.Error(), "files/by name") {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if len(report.Results) != tt.results || report.Count(probe.Blocked) != tt.results {
				t.Errorf("results %+v", report.Results)
			}
			if len(made) != len(tt.ends) {
				t.Errorf("%d sandboxes were made, want %d", len(made), len(tt.ends))
			}
			for i, sb := range made {
				select {
				case <-sb.Done():
				default:
					t.Errorf("sandbox %d is left", i)
				}
			}
		})
	}
}
