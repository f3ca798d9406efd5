package controlplane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane/planetest"
)

// Many live clients get every event in order, and memory stays bounded. GANDER_LIVE_SECONDS
// says for how long; the rate is what the feeder tries, how fast it goes is not judged.
func TestManyLiveClients(t *testing.T) {
	const clients, rate = 50, 1000
	seconds, size := 1, 200
	if text := os.Getenv("GANDER_LIVE_SECONDS"); text != "" {
		var err error
		if seconds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	total := int64(rate * seconds)
	s := planetest.Start(t, planetest.Options{})
	run := begin(t, s, nil)
	sent(t, s, run)
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second+4*time.Minute)
	defer cancel()

	var all sync.WaitGroup
	var ready sync.WaitGroup
	var received atomic.Int64
	errs := make(chan error, clients)
	for range clients {
		ready.Add(1)
		all.Go(func() { errs <- followAll(ctx, s, run, total+1, &ready, &received) })
	}
	ready.Wait()
	before := heap()
	begun := time.Now()
	text := make([]byte, size)
	for i := range text {
		text[i] = 'x'
	}
	for n := int64(0); n < total; n += rate / 20 {
		var batch []telemetry.Event
		for range rate / 20 {
			batch = append(batch, telemetry.Event{Type: telemetry.Text, Iteration: 1, Summary: "token", Content: string(text)})
		}
		s.Fleet.Emit(run, batch...)
		time.Sleep(time.Until(begun.Add(time.Duration(n+rate/20) * time.Second / rate))) // the rate itself
	}
	fed := time.Since(begun)
	all.Wait()
	took := time.Since(begun)
	for range clients {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	kept := int64(size+300) * total // what the feeder itself keeps
	grown := heap() - before - kept
	t.Logf("%d events, fed in %v, with all %d clients after %v: %d messages, heap grown by %d MB beside the feeder's", total, fed, clients, took, received.Load(), grown>>20)
	if grown > 256<<20 {
		t.Errorf("the heap has grown by %d MB", grown>>20)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// followAll reads the events of a run up to a number; each must follow the one before.
func followAll(ctx context.Context, s *planetest.Server, run string, upTo int64, ready *sync.WaitGroup, received *atomic.Int64) error {
	conn, _, err := websocket.Dial(ctx, fmt.Sprintf("%s/ws/live?token=%s&run=%s&after=0&batch=1", s.URL, s.Token, run), nil)
	ready.Done()
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	conn.SetReadLimit(64 << 20)
	for last := int64(0); last < upTo; {
		_, data, err := conn.Read(ctx)
		if err != nil {
			return fmt.Errorf("after event %d: %w", last, err)
		}
		if data[0] != '[' {
			continue
		}
		var messages []struct {
			Seq int64 `json:"seq"`
		}
		if err := json.Unmarshal(data, &messages); err != nil {
			return err
		}
		for _, m := range messages {
			if m.Seq == 0 {
				continue
			}
			if m.Seq != last+1 {
				return fmt.Errorf("event %d came after %d", m.Seq, last)
			}
			last = m.Seq
			received.Add(1)
		}
	}
	return nil
}
