//go:build !race

package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gander.dev/gander/sandbox/goose"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane/client"
	"gander.dev/gander/sandbox/unattended/controlplane/planetest"
	"gander.dev/gander/sandbox/unattended/loop"
)

// chatterer is a loop.Runner whose agent prints lines and ends.
type chatterer struct{ lines [][]byte }

func (c chatterer) Run(_ context.Context, _ string, line func([]byte)) (telemetry.Exit, error) {
	for _, l := range c.lines {
		line(l)
	}
	return telemetry.Exit{}, nil
}

// The words of a goose that prints a line for each token, on their whole way: read, joined
// and judged by the loop, kept in the spool, sent, and stored by the control plane. The
// processor time is of all of them together.
func TestTenThousandTokens(t *testing.T) {
	const tokens, most = 10_000, 3 * time.Second // three times what it may take: processors may be shared
	for name, tt := range map[string]struct {
		kind   func(n int) string // of what is said
		events int                // at least
	}{
		"one message":              {func(int) string { return `"type":"text","text"` }, 1},
		"each token its own event": {func(n int) string { return [2]string{`"type":"text","text"`, `"type":"thinking","thinking"`}[n%2] }, tokens},
	} {
		t.Run(name, func(t *testing.T) {
			var lines [][]byte
			for n := range tokens {
				lines = append(lines, fmt.Appendf(nil, `{"type":"message","message":{"id":"chatcmpl-1","role":"assistant","created":1795198942,"content":[{%s:"w%04d "}],"metadata":{"userVisible":true,"agentVisible":true,"inference":{"provider":"openai","requestedModel":"small"}}}}`, tt.kind(n), n))
			}
			lines = append(lines, []byte(`{"type":"complete","total_tokens":20000}`))
			s := planetest.Start(t, planetest.Options{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c, err := client.New(client.Options{URL: s.URL, Token: s.Token})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			spool, id := spoolOfRun(t, c, s)
			began := processorTime(t)
			l := loop.New(loop.Options{
				Start:  loop.Start{Agent: "goose", Workspace: t.TempDir(), Limits: loop.Limits{Iterations: 1}, Prompt: loop.Prompt{Content: "Talk.", Known: true}},
				Runner: chatterer{lines}, Parser: func() telemetry.Parser { return new(goose.Events) },
				Output: func(o loop.Output) {
					if o.Event == nil {
						return
					}
					if _, err := spool.Append(*o.Event); err != nil {
						t.Error(err)
					}
				},
			})
			if err := l.Run(ctx); err != nil {
				t.Fatal(err)
			}
			for spool.Acked() < spool.Last() {
				if ctx.Err() != nil {
					t.Fatalf("the control plane has %d of %d events", spool.Acked(), spool.Last())
				}
				time.Sleep(time.Millisecond)
			}
			took := processorTime(t) - began
			n, events := spoken(t, c, id)
			t.Logf("%d lines, %d events: %v of processor time", len(lines), events, took)
			if n != tokens || events < tt.events {
				t.Errorf("the control plane has %d tokens in %d events", n, events)
			}
			if took > most {
				t.Errorf("that took %v of processor time, more than %v", took, most)
			}
		})
	}
}

// spoolOfRun starts a run whose telemetry is the test's: what is in the spool is sent until
// the test ends.
func spoolOfRun(t *testing.T, c *client.Client, s *planetest.Server) (*telemetry.Spool, string) {
	t.Helper()
	run, err := c.Start(t.Context(), client.StartRequest{Agent: "goose"})
	if err == nil {
		err = s.Fleet.Sent(t.Context(), run.RunID)
	}
	if err != nil {
		t.Fatal(err)
	}
	id := run.RunID
	spool, err := telemetry.OpenSpool(telemetry.SpoolOptions{Dir: t.TempDir(), RunID: id, Last: int64(len(s.Fleet.Events(id)))})
	if err != nil {
		t.Fatal(err)
	}
	up := telemetry.NewUploader(telemetry.UploaderOptions{
		Spool: spool, RunID: id,
		Target: func() (telemetry.Target, error) {
			return telemetry.Target{URL: s.URL, Token: s.Fleet.RunToken(id)}, nil
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	sending.Go(func() { up.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		sending.Wait()
		if err := spool.Close(); err != nil {
			t.Error(err)
		}
	})
	return spool, id
}

// spoken is how many tokens the control plane has, and in how many events.
func spoken(t *testing.T, c *client.Client, id string) (tokens, events int) {
	t.Helper()
	for after := int64(0); ; {
		page, _, err := c.Events(t.Context(), id, after)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return tokens, events
		}
		for _, e := range page {
			events++
			if e.Type == telemetry.Text || e.Type == telemetry.Thought {
				tokens += strings.Count(e.Content, "w")
			}
			after = e.Seq
		}
	}
}

// processorTime is what this process has used of the processors.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
