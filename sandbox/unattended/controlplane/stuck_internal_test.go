package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"gander.dev/gander/sandbox/telemetry"
)

// A client that does not read is dropped; the others get everything, and so does it when
// it comes back with its cursor.
func TestStuckClient(t *testing.T) {
	const total = 300 // 18 MB: more than the system holds for a connection
	p := newPlane(t)
	p.hub.most = 1 << 20
	token := addRun(t, p, "run-00001")
	s := httptest.NewServer(p.Handler())
	t.Cleanup(s.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute) // for all of it; with the race detector it is slow
	defer cancel()
	dial := func(after int64) *websocket.Conn {
		conn, _, err := websocket.Dial(ctx, fmt.Sprintf("%s/ws/live?token=%s&run=run-00001&after=%d", s.URL, "a+token+of+a+person", after),
			&websocket.DialOptions{Host: "127.0.0.1:3000"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.CloseNow() })
		conn.SetReadLimit(1 << 20)
		return conn
	}
	// read reads events that follow one another from last on, until the stream ends or
	// upTo is there.
	read := func(conn *websocket.Conn, last, upTo int64) (int64, error) {
		for last < upTo {
			_, data, err := conn.Read(ctx)
			if err != nil {
				return last, err
			}
			var m struct{ Seq int64 }
			if err := json.Unmarshal(data, &m); err != nil {
				return last, err
			}
			if m.Seq != 0 && m.Seq != last+1 {
				return last, fmt.Errorf("event %d came after %d", m.Seq, last)
			}
			last = max(last, m.Seq)
		}
		return last, nil
	}
	post := func(seq int64) {
		e := telemetry.Event{Seq: seq, Iteration: 1, Type: telemetry.Text, Content: strings.Repeat("x", 60<<10)}
		if w := send(t, p, token, "POST", "/api/telemetry/stream", batchOf(t, "", e)); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	post(1)
	stuck, well := dial(0), dial(0)
	for _, conn := range []*websocket.Conn{stuck, well} { // both are there now
		if last, err := read(conn, 0, 1); last != 1 || err != nil {
			t.Fatal(last, err)
		}
	}
	for seq := int64(2); seq <= total; seq++ {
		post(seq)
		if last, err := read(well, seq-1, seq); last != seq || err != nil {
			t.Fatalf("the one that reads has %d of %d: %v", last, seq, err)
		}
	}
	last, err := read(stuck, 1, total)
	if err == nil || ctx.Err() != nil || strings.Contains(err.Error(), "came after") {
		t.Fatalf("the stuck client got %d of %d events: %v", last, total, err)
	}
	for p.counts.dropped.Load() != 1 { // it is told before it is counted
		if ctx.Err() != nil {
			t.Fatalf("%d clients were dropped", p.counts.dropped.Load())
		}
		time.Sleep(time.Millisecond)
	}
	if last, err := read(dial(last), last, total); err != nil {
		t.Errorf("the one that came back has %d of %d: %v", last, total, err)
	}
}
