package controlplane

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"gander.dev/gander/sandbox/telemetry"
)

// fill has two runs tell n events together, by the way all events come.
func fill(t testing.TB, p *Plane, n int) {
	t.Helper()
	tokens := []string{addRun(t, p, "run-00001"), addRun(t, p, "run-00002")}
	const perIteration = 200
	seq := make([]int64, len(tokens))
	for done := 0; done < n; {
		for i, token := range tokens {
			events := make([]telemetry.Event, 0, maxBatch)
			for range maxBatch {
				seq[i]++
				e := telemetry.Event{
					Seq: seq[i], Iteration: 1 + seq[i]/perIteration, Type: telemetry.Text, Summary: fmt.Sprintf("event %d of a run that is long", seq[i]),
					Content: fmt.Sprintf("event %d of a run that is long, with some more words so that it is as long as they are", seq[i]), Time: 1000 * seq[i],
				}
				switch seq[i] % perIteration {
				case perIteration - 1:
					e.Type, e.Status, e.Vitals, e.Content = telemetry.IterationEnd, "ok", &telemetry.Vitals{CPU: 1, Memory: 2, Disk: 3}, ""
				case 0:
					e.Type, e.Content = telemetry.IterationStart, ""
				}
				events = append(events, e)
			}
			data, err := json.Marshal(map[string]any{"events": events})
			if err != nil {
				t.Fatal(err)
			}
			if w := send(t, p, token, "POST", "/api/telemetry/stream", string(data)); w.Code != 200 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			done += maxBatch
		}
	}
}

// Pages and replays of a large database take no longer than those of a small one: a
// query without an index would take hundreds of times as long. GANDER_LOOP_EVENTS says how
// many events; from a million on, each page must take less than 100 ms.
func TestLargeDatabase(t *testing.T) {
	n := 10_000
	if text := os.Getenv("GANDER_LOOP_EVENTS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	p := newPlane(t)
	begun := time.Now()
	fill(t, p, n)
	t.Logf("%d events taken in %v, %.0f a second", n, time.Since(begun), float64(n)/time.Since(begun).Seconds())
	size, err := p.db.size(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the database holds %d MB, %d bytes an event", size>>20, size/int64(n))
	last := n / 2
	for _, path := range []string{
		"/api/sandbox/status", "/api/runs", "/api/runs/run-00001", "/api/telemetry/iterations?limit=50", "/api/telemetry/iterations?run=run-00001&limit=50&offset=0",
		"/api/telemetry/iteration/1", "/api/telemetry/vitals?run=run-00001", "/api/telemetry/events/recent?run=run-00001",
		"/api/telemetry/events?run=run-00001&after=0&limit=500", fmt.Sprintf("/api/telemetry/events?run=run-00002&after=%d&limit=500", last/2),
		fmt.Sprintf("/api/telemetry/events?run=run-00001&after=%d&limit=500", last-500), fmt.Sprintf("/api/telemetry/events?since=%d&limit=500", n-500),
		"/api/telemetry/events?since=0&limit=500", "/metrics", "/api/prompt", "/api/mailbox",
	} {
		took := median(t, p, path)
		t.Logf("%-70s %v", path, took)
		if n >= 1_000_000 && took > 100*time.Millisecond {
			t.Errorf("%s took %v", path, took)
		}
	}
	noScans(t, p)
}

func median(t testing.TB, p *Plane, path string) time.Duration {
	t.Helper()
	var all []time.Duration
	for range 9 {
		begun := time.Now()
		if w := send(t, p, tokenOfPerson, "GET", path, ""); w.Code != 200 {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		all = append(all, time.Since(begun))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// noScans asks SQLite how it answers what is asked of the table that grows: never by
// reading it all.
func noScans(t testing.TB, p *Plane) {
	t.Helper()
	queries := map[string][]any{
		"SELECT e.id FROM events e JOIN runs r ON r.key = e.run " + eventsOfRun:       {1, 2, 3},
		"SELECT e.id FROM events e JOIN runs r ON r.key = e.run " + eventsOfRunUpTo:   {1, 2, 3, 4},
		"SELECT e.id FROM events e JOIN runs r ON r.key = e.run " + eventsSince:       {1, 2},
		"SELECT e.id FROM events e JOIN runs r ON r.key = e.run " + eventsSinceUpTo:   {1, 2, 3},
		"SELECT e.id FROM events e JOIN runs r ON r.key = e.run " + eventsOfIteration: {1, 2, 3},
		"SELECT e.id FROM events e JOIN runs r ON r.key = e.run " + newestOfRun:       {1, 2},
		"SELECT MAX(id) FROM events": {}, "SELECT MIN(seq) FROM events WHERE run = ?": {1},
		"SELECT id FROM events WHERE run = ? AND seq = ?": {1, 2},
	}
	for query, args := range queries {
		rows, err := p.db.read.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			if detail == "SCAN e" || detail == "SCAN events" || slices.Contains([]string{"USE TEMP B-TREE FOR ORDER BY"}, detail) {
				t.Errorf("%s\n%s", query, detail)
			}
		}
		rows.Close()
	}
}

// BenchmarkIngest takes batches of a hundred.
func BenchmarkIngest(b *testing.B) {
	p := newPlane(b)
	token := addRun(b, p, "run-00001")
	var seq int64
	for b.Loop() {
		events := numbered(seq+1, seq+100)
		seq += 100
		if w := send(b, p, token, "POST", "/api/telemetry/stream", batchOf(b, "", events...)); w.Code != 200 {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	b.ReportMetric(float64(seq)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkReplay reads pages of 500 anywhere in a large run, as a client that comes back.
func BenchmarkReplay(b *testing.B) {
	p := newPlane(b)
	fill(b, p, 100_000)
	var at int64
	for b.Loop() {
		at = (at + 7919) % 49_000
		if w := send(b, p, tokenOfPerson, "GET", fmt.Sprintf("/api/telemetry/events?run=run-00001&after=%d&limit=500", at), ""); w.Code != 200 {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
}
