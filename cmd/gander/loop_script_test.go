package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/controlplane/planetest"
	"gander.dev/gander/sandbox/unattended/controlplane/transcript"
	"gander.dev/gander/sessions"
)

// planes are the control planes of scripts: real ones whose fleet plays what loops
// would tell.
type planes struct {
	t *testing.T

	// mu guards of.
	mu sync.Mutex
	of map[string]*planetest.Server // by the script's directory
}

func newPlanes(t *testing.T) *planes { return &planes{t: t, of: map[string]*planetest.Server{}} }

// command is plane, of scripts:
//
//	plane start     a control plane for the home; its runs play nothing by themselves
//	plane stop, plane restart
//	plane play N    N iterations of every run that is going on, until they are told
//	plane fail      the model of every run does not answer any more
//	plane told      waits until the transcripts have what the runs told
//	plane followed  waits until somebody follows a run
//	plane orders    what the fleet was told to do, into the file orders
func (p *planes) command(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: plane start|stop|restart|play N|fail|orders")
	}
	dir := ts.Getenv("WORK")
	p.mu.Lock()
	s := p.of[dir]
	p.mu.Unlock()
	if s == nil && args[0] != "start" {
		ts.Fatalf("no control plane was started")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch args[0] {
	case "start":
		s = startPlane(p.t, ts.Getenv("GANDER_HOME"))
		p.mu.Lock()
		p.of[dir] = s
		p.mu.Unlock()
		ts.Setenv("PLANE", s.URL)
	case "stop":
		s.Stop()
	case "restart":
		s.Restart()
	case "play":
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		ts.Check(each(ctx, s, func(run string) {
			for range n {
				s.Fleet.Play(run)
			}
		}))
	case "fail":
		ts.Check(each(ctx, s, func(run string) { s.Fleet.Emit(run, failing()...) }))
	case "told":
		ts.Check(told(ctx, s, ts.Getenv("GANDER_HOME")))
	case "followed":
		ts.Check(followed(ctx, s))
	case "orders":
		var text strings.Builder
		for _, o := range s.Fleet.Orders() {
			text.WriteString(o + "\n")
		}
		ts.Check(os.WriteFile(ts.MkAbs("orders"), []byte(text.String()), 0o600))
	}
}

// startPlane starts a control plane for a home, with the transcripts of its runs among
// the sessions there. It ends with the test.
func startPlane(t *testing.T, home string) *planetest.Server {
	t.Helper()
	store, err := sessions.Open(filepath.Join(home, "sessions"), nil)
	if err != nil {
		t.Fatal(err)
	}
	w := transcript.New(store, nil)
	t.Cleanup(func() { // behind the control plane
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	s := planetest.Start(t, planetest.Options{
		Dir: filepath.Join(home, "loop"), Change: func(o *controlplane.Options) { o.Transcripts = w },
	})
	raw, err := json.Marshal(map[string]any{"url": s.URL, "pid": os.Getpid(), "startedAt": time.Now()}) // as gander serve
	if err == nil {
		err = os.WriteFile(filepath.Join(home, "loop", "serve.json"), raw, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(home, "serve.token"), []byte(s.Token+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// failing is what a run tells whose model does not answer.
func failing() []telemetry.Event {
	return []telemetry.Event{
		{Type: telemetry.IterationStart, Iteration: 9},
		{Type: telemetry.Error, Iteration: 9, Content: "500 from \x1b[31mthe model"},
		{Type: telemetry.IterationEnd, Iteration: 9, Status: string(telemetry.LLMUnavailable), Reason: "the model does not answer: 500", Errors: 1},
		{Type: telemetry.StateChange, State: telemetry.Unready, Reason: "the model does not answer: 500", Until: time.Now().Add(time.Hour).UnixMilli()},
	}
}

var nobodyLive = regexp.MustCompile(`(?m)^\w*live_clients 0$`)

// followed waits until a live client is there.
func followed(ctx context.Context, s *planetest.Server) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		raw, err := get(ctx, s, "/metrics")
		if err != nil {
			return fmt.Errorf("waiting for somebody who follows a run: %w", err)
		}
		if !nobodyLive.Match(raw) {
			return nil
		}
		<-again.C
	}
}

// get asks the control plane as the person.
func get(ctx context.Context, s *planetest.Server, path string) ([]byte, error) {
	req, err := s.Request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// each does something with every run that is going on, and waits until it is told.
func each(ctx context.Context, s *planetest.Server, do func(run string)) error {
	runs, err := runsOf(ctx, s)
	if err != nil {
		return err
	}
	for i := range runs {
		if r := &runs[i]; r.StoppedAt == nil {
			do(r.RunID)
			if err := s.Fleet.Sent(ctx, r.RunID); err != nil {
				return fmt.Errorf("run %s: %w", r.RunID, err)
			}
		}
	}
	return nil
}

func runsOf(ctx context.Context, s *planetest.Server) ([]controlplane.Run, error) {
	raw, err := get(ctx, s, "/api/runs?limit=100")
	if err != nil {
		return nil, err
	}
	var list struct {
		Runs []controlplane.Run `json:"runs"`
	}
	return list.Runs, json.Unmarshal(raw, &list)
}

// told waits until the transcripts of a home have the last that each run told of
// what belongs there.
func told(ctx context.Context, s *planetest.Server, home string) error {
	runs, err := runsOf(ctx, s)
	if err != nil {
		return err
	}
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for i := range runs {
		var last int64
		for _, e := range s.Fleet.Events(runs[i].RunID) {
			if e.Type == telemetry.IterationEnd || e.State == telemetry.Stopped {
				last = e.Seq
			}
		}
		want := fmt.Appendf(nil, `"id":"loop-%d-0"`, last)
		for last > 0 {
			raw, err := os.ReadFile(filepath.Join(home, "sessions", runs[i].SessionID+".jsonl"))
			if err == nil && bytes.Contains(raw, want) {
				break
			}
			select {
			case <-again.C:
			case <-ctx.Done():
				return fmt.Errorf("waiting for %s in the transcript of run %s: %w", want, runs[i].RunID, ctx.Err())
			}
		}
	}
	return nil
}
