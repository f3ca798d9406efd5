package controlplane_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	_ "time/tzdata" // a machine may have none

	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/controlplane/planetest"
)

// A clock shows what a test says.
type clock struct{ at atomic.Pointer[time.Time] }

func (c *clock) set(t time.Time) { c.at.Store(&t) }

// scheduled are the schedules; the first one must be there.
func scheduled(t *testing.T, s *planetest.Server) map[string]any {
	t.Helper()
	all := want(t, s, 200, "GET", "/api/schedules", nil).body["schedules"].([]any)
	if len(all) != 1 {
		t.Fatalf("there are %d schedules", len(all))
	}
	return all[0].(map[string]any)
}

// TestSchedules checks with a clock of its own that a run begins at its times, once, over changes
// of clocks, restarts, and times that are missed.
func TestSchedules(t *testing.T) {
	york, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	at := func(month time.Month, day, hour, minute int) time.Time {
		return time.Date(2026, month, day, hour, minute, 0, 0, york)
	}
	var now clock
	now.set(at(3, 7, 12, 0))
	s := planetest.Start(t, planetest.Options{Change: func(o *controlplane.Options) {
		o.Now = func() time.Time { return *now.at.Load() }
	}})
	starts := func() (n int) {
		for _, o := range s.Fleet.Orders() {
			if strings.HasPrefix(o, "start ") {
				n++
			}
		}
		return n
	}
	made := want(t, s, 200, "POST", "/api/schedules", map[string]any{"agentType": "goose", "prompt": "tidy up", "cron": "30 2 * * *"}).body
	if next := made["nextAt"]; next != "2026-03-08T07:30:00.000Z" {
		t.Errorf("a night whose 02:30 is skipped begins at %v", next)
	}
	// tick moves the clock and waits until the schedule has had its time, with the run it started.
	last := any(nil)
	tick := func(to time.Time, runs int, said string) {
		t.Helper()
		now.set(to)
		s.Restart() // which looks at the clock at once
		for patience := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			row := scheduled(t, s)
			if row["lastAt"] != last && (row["lastRun"] != "" || row["said"] != "") || row["lastAt"] == last && runs == starts() && said == "" {
				if last = row["lastAt"]; starts() != runs || !strings.Contains(row["said"].(string), said) || said == "" && row["said"] != "" {
					t.Errorf("at %v there were %d starts, want %d, and it says %q, want %q", to, starts(), runs, row["said"], said)
				}
				if run := row["lastRun"].(string); run != "" {
					want(t, s, 200, "POST", "/api/sandbox/stop", map[string]any{"runId": run})
				}
				return
			}
			if time.Now().After(patience) {
				t.Fatalf("at %v nothing happened: %v", to, row)
			}
		}
	}
	tick(at(3, 8, 3, 0), 0, "")
	tick(at(3, 8, 3, 30), 1, "")
	tick(at(3, 8, 3, 31), 1, "") // not again after a restart
	tick(at(3, 9, 2, 30), 2, "")
	tick(at(3, 20, 9, 0), 3, "11 times from 2026-03-10 02:30:00 on were missed")
	tick(at(3, 21, 2, 45), 4, "2026-03-21 02:30:00 was missed")
	s.Fleet.Fail = func(order, _ string) error {
		if order == "start" {
			return fmt.Errorf("no processor is free: %w", controlplane.ErrUnavailable)
		}
		return nil
	}
	tick(at(3, 22, 2, 30), 4, "no processor is free")
	s.Fleet.Fail = nil
	other := begin(t, s, nil) // in its workspace
	tick(at(3, 23, 2, 30), 5, other)
	if row := scheduled(t, s); row["nextAt"] != "2026-03-24T06:30:00.000Z" {
		t.Errorf("then comes %v", row["nextAt"])
	}
	id := made["id"].(string)
	want(t, s, 200, "DELETE", "/api/schedules/"+id, nil)
	want(t, s, 404, "DELETE", "/api/schedules/"+id, nil)
}

// TestScheduleAtOnce checks that a new schedule needs no restart, that one moment has one run, and
// what is refused.
func TestScheduleAtOnce(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	for status, bad := range map[int]map[string]any{
		400: {"agentType": "goose"},
		422: {"agentType": "goose", "at": "2020-01-01 00:00"},
	} {
		want(t, s, status, "POST", "/api/schedules", bad)
	}
	want(t, s, 400, "POST", "/api/schedules", map[string]any{"agentType": "none", "every": "1h"})
	want(t, s, 400, "POST", "/api/schedules", map[string]any{"agentType": "goose", "every": "1h", "workspace": "relative"})
	if r := ask(t, s, "", "GET", "/api/schedules", nil); r.status != 401 {
		t.Errorf("without a token: %d", r.status)
	}
	want(t, s, 200, "POST", "/api/schedules", map[string]any{"agentType": "goose", "every": "1h"})
	want(t, s, 200, "POST", "/api/schedules", map[string]any{"agentType": "opencode", "at": time.Now().Add(50 * time.Millisecond).Format(time.RFC3339Nano)})
	for patience := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		all := want(t, s, 200, "GET", "/api/schedules", nil).body["schedules"].([]any)
		if !slices.ContainsFunc(all, func(row any) bool { return row.(map[string]any)["lastRun"] == "" }) {
			if spent := all[1].(map[string]any); spent["nextAt"] != nil || spent["start"].(map[string]any)["agentType"] != "opencode" {
				t.Errorf("the one moment is %v", spent)
			}
			return
		}
		if time.Now().After(patience) {
			t.Fatalf("the runs did not begin: %v", all)
		}
	}
}
