package developer

import (
	"encoding/json"
	"maps"
	"sync"
	"time"
)

// latencyBounds are the upper ends of the histogram's buckets; what took longer is
// in one more.
var latencyBounds = [...]time.Duration{
	time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond,
	300 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute,
}

// Stats counts the calls of each tool. It holds numbers and names of tools only.
type Stats struct {
	started time.Time

	// mu guards what follows.
	mu    sync.Mutex
	tools map[string]*ToolStats
}

// ToolStats are the calls of one tool.
type ToolStats struct {
	Calls   int64 `json:"calls"`
	Running int64 `json:"running,omitempty"`
	// Errors counts failures of both kinds, protocol errors and results that say
	// so; cancelled calls are not among them.
	Errors  int64 `json:"errors"`
	Cancels int64 `json:"cancels"`
	// Seconds is the time that the ended calls took together.
	Seconds float64 `json:"seconds"`
	// Latency has how many calls took up to so many milliseconds, by the bucket's
	// upper end; what took longer than the last is in one more.
	Latency [len(latencyBounds) + 1]int64 `json:"-"`
}

func newStats() *Stats { return &Stats{started: time.Now(), tools: map[string]*ToolStats{}} }

// begin counts a call; the function it returns counts its end.
func (s *Stats) begin(tool string) (done func(failed, cancelled bool)) {
	started := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tools[tool]
	if t == nil {
		t = new(ToolStats)
		s.tools[tool] = t
	}
	t.Calls++
	t.Running++
	return func(failed, cancelled bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		t.end(time.Since(started), failed, cancelled)
	}
}

func (t *ToolStats) end(took time.Duration, failed, cancelled bool) {
	t.Running--
	switch {
	case cancelled:
		t.Cancels++
	case failed:
		t.Errors++
	}
	t.Seconds += took.Seconds()
	i := 0
	for i < len(latencyBounds) && took > latencyBounds[i] {
		i++
	}
	t.Latency[i]++
}

// Tools is a copy of the numbers, by tool.
func (s *Stats) Tools() map[string]ToolStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	tools := map[string]ToolStats{}
	for name, t := range s.tools {
		tools[name] = *t
	}
	return tools
}

// jsonStats is one record of the whole: since when, for how long, and the numbers
// of each tool.
type jsonStats struct {
	Started time.Time            `json:"started"`
	Uptime  float64              `json:"uptimeSeconds"`
	Tools   map[string]ToolStats `json:"tools"`
}

func (s *Stats) record() *jsonStats {
	return &jsonStats{s.started.UTC(), time.Since(s.started).Seconds(), s.Tools()}
}

// MarshalJSON implements json.Marshaler.
func (s *Stats) MarshalJSON() ([]byte, error) { return json.Marshal(s.record()) }

// MarshalJSON writes the histogram with the ends of its buckets: {"1ms": 3, …, "more": 0}.
// Empty buckets are left out.
func (t ToolStats) MarshalJSON() ([]byte, error) {
	type plain ToolStats
	latency := map[string]int64{}
	for i, n := range t.Latency {
		bound := "more"
		if i < len(latencyBounds) {
			bound = latencyBounds[i].String()
		}
		latency[bound] = n
	}
	maps.DeleteFunc(latency, func(_ string, n int64) bool { return n == 0 })
	return json.Marshal(struct {
		plain
		Latency map[string]int64 `json:"latency"`
	}{plain(t), latency})
}
