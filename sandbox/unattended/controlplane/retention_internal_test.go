package controlplane

import (
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gander.dev/gander/sandbox/telemetry"
)

// Old events go, in their order; who had a place among them is told; what is new stays,
// and so do the numbers: a batch that comes again is still known.
func TestRetention(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	p := newPlane(t, func(o *Options) {
		o.KeepEvents = 48 * time.Hour
		o.Now = func() time.Time { return time.UnixMilli(now.Load()) }
	})
	old, young := addRun(t, p, "run-00001"), addRun(t, p, "run-00002")
	post := func(token string, events ...telemetry.Event) {
		t.Helper()
		if w := send(t, p, token, "POST", "/api/telemetry/stream", batchOf(t, "", events...)); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	for seq := int64(1); seq < 1200; seq += 100 {
		post(old, numbered(seq, seq+99)...)
	}
	post(old, telemetry.Event{Seq: 1201, Type: telemetry.StateChange, State: telemetry.Done})
	now.Add(72 * 3600 * 1000)
	post(young, numbered(1, 10)...)
	post(old, numbered(1, 10)...)
	if err := p.retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	var events, runs, iterations int
	err := p.db.read.QueryRowContext(t.Context(), "SELECT (SELECT COUNT(*) FROM events), (SELECT COUNT(*) FROM runs), (SELECT COUNT(*) FROM iterations)").
		Scan(&events, &runs, &iterations)
	if err != nil || events != 10 || runs != 1 || iterations != 1 {
		t.Errorf("%d events, %d runs, %d iterations are left, %v", events, runs, iterations, err)
	}
	if pruned, err := prunedThrough(t.Context(), p.db.read); err != nil || pruned != 1201 {
		t.Errorf("removed up to %d, %v", pruned, err)
	}
	if line := firstLive(t, p, "/api/events?since=100"); !strings.Contains(line, `"type":"gap","data":{"from":101,"to":1201}`) {
		t.Errorf("who comes back is told %s", line)
	}
	now.Add(72 * 3600 * 1000)
	if err := p.retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if line := firstLive(t, p, "/api/events?run=run-00002&after=4"); !strings.Contains(line, `"type":"gap","data":{"from":5,"to":10}`) {
		t.Errorf("who comes back is told %s", line)
	}
	post(young, numbered(9, 12)...)
	run, err := readRun(t.Context(), p.db.read, whereID, "run-00002")
	if err != nil || run.LastSeq != 12 {
		t.Errorf("the run that lives is %+v, %v", run, err)
	}
}

// By size the oldest go as well, and the file does not keep what is free.
func TestRetentionBySize(t *testing.T) {
	p := newPlane(t, func(o *Options) { o.KeepBytes = 1 << 20 })
	fill(t, p, 10_000)
	if err := p.retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	size, err := p.db.size(t.Context())
	if err != nil || size > 1<<20 {
		t.Errorf("the database holds %d bytes, %v", size, err)
	}
	newest, err := readEvents(t.Context(), p.db.read, eventsOfRun, 2, 4999, 10)
	if err != nil || len(newest) != 1 {
		t.Errorf("the newest event is gone: %v, %v", newest, err)
	}
}

// firstLive is the first message of a stream after connected.
func firstLive(t *testing.T, p *Plane, path string) string {
	t.Helper()
	s := httptest.NewServer(p.Handler())
	t.Cleanup(s.Close) // after the streams have ended
	return readLive(t, s, path)
}
