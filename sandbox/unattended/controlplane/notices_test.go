package controlplane_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/sandbox/outbound/notify"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/controlplane/planetest"
)

// TestNotices checks what a person who is away is told of a run: once each that it waits, pauses,
// ends or fails, with its names and a link without a token.
func TestNotices(t *testing.T) {
	var mu sync.Mutex
	var told []notify.Note
	s := planetest.Start(t, planetest.Options{Change: func(o *controlplane.Options) {
		o.PageURL = "http://" + o.Listen
		o.Notify = func(n notify.Note) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, n)
		}
	}})
	said := func(run string) (states []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, n := range told {
			if n.Run == run {
				states = append(states, n.State)
			}
			if (n.Run != "" && n.Link != s.URL+"/#run="+n.Run) || strings.Contains(n.Link, s.Token) {
				t.Errorf("the link is %q", n.Link)
			}
		}
		return states
	}
	run := begin(t, s, nil)
	for _, e := range []telemetry.Event{
		{State: telemetry.Running},
		{State: telemetry.Waiting}, // the pace
		{State: telemetry.Running},
		{State: telemetry.Unready, Reason: "the model answered 503"},
		{State: telemetry.Running},
		{State: telemetry.Unready, Reason: "the model answered 503"}, // told a moment ago
		{State: telemetry.Waiting, Reason: "5 failures in a row"},
		{State: telemetry.Paused, Reason: "the agent failed"},
		{State: telemetry.Done},
	} {
		e.Type = telemetry.StateChange
		s.Fleet.Emit(run, e)
		sent(t, s, run)
	}
	want(t, s, 200, "POST", "/api/sandbox/stop", map[string]any{"runId": run})
	if got := said(run); !slices.Equal(got, []string{"waiting for the model", "waiting", "paused", "done"}) {
		t.Errorf("told was %q", got)
	}
	other := begin(t, s, nil)
	s.Fleet.Emit(other, telemetry.Event{Type: telemetry.StateChange, State: telemetry.Broken, Reason: "the workspace is gone"})
	sent(t, s, other)
	if got := said(other); !slices.Equal(got, []string{"failed"}) {
		t.Errorf("of the run that failed was told %q", got)
	}
	mu.Lock()
	if n := told[len(told)-1]; n.Kind != "run" || n.Agent != "goose" || n.Project != "goose" || n.Words != "the workspace is gone" || !strings.HasSuffix(n.Dir, "/workspaces/goose") {
		t.Errorf("told was %+v", n)
	}
	mu.Unlock()
	s.Fleet.Fail = func(string, string) error { return controlplane.ErrUnavailable }
	want(t, s, 200, "POST", "/api/schedules", map[string]any{"agentType": "opencode", "every": "1h"})
	for patience := time.Now().Add(time.Minute); len(said("")) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(patience) {
			t.Fatal("nothing was told of the schedule")
		}
	}
}
