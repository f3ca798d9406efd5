package local_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/probe"
	"gander.dev/gander/sandbox/sandboxtest"
)

// TestProbe runs every attempt to get out that we know.
func TestProbe(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for whose, owner := range owners() {
		t.Run(whose, func(t *testing.T) { sandboxtest.TestProbe(t, newLocal, self, owner) })
	}
}

// ending is a sandbox that ends when an attempt is to be started in it.
type ending struct {
	sandbox.Sandbox
	end func()
}

func (e ending) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	if slices.ContainsFunc(c.Env, func(v string) bool { return strings.HasPrefix(v, "GANDER_PROBE_TAG=") }) {
		e.end()
		_ = e.Close()
	}
	return e.Sandbox.Start(ctx, c)
}

// TestProbeEnds: a probe whose sandbox has ended goes on in another one, says why there is
// none, and says nothing of an attempt that was interrupted.
func TestProbeEnds(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	errFull := errors.New("the machine is full")
	for _, tt := range []struct {
		name          string
		fails, cancel bool
		want          error
		made, results int
	}{
		{"another one", false, false, nil, 2, 1},
		{"no other", true, false, errFull, 1, 0},
		{"cancelled", false, true, context.Canceled, 1, 0},
		{"cancelled, and no other", true, true, context.Canceled, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var made []sandbox.Sandbox
			report, err := probe.Run(ctx, probe.Options{
				Executable: self, Owner: -1, Only: []string{"files/by name"},
				Create: func(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
					if len(made) > 0 && tt.fails {
						return nil, errFull
					}
					sb, err := newLocal(t).Create(ctx, spec)
					if err != nil {
						return nil, err
					}
					made = append(made, sb)
					if len(made) > 1 {
						return sb, nil
					}
					return ending{sb, func() {
						if tt.cancel {
							cancel()
						}
					}}, nil
				},
			})
			if !errors.Is(err, tt.want) || tt.want == errFull && !strings.Contains(err.Error(), "files/by name") {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if len(report.Results) != tt.results || report.Count(probe.Blocked) != tt.results {
				t.Errorf("results %+v", report.Results)
			}
			if len(made) != tt.made {
				t.Errorf("%d sandboxes were made, want %d", len(made), tt.made)
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
