package controlplane

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// counts are what /metrics counts since the start.
type counts struct {
	requests  [6]atomic.Int64 // by the first digit of their status; 0: hijacked
	events    atomic.Int64
	known     atomic.Int64
	gaps      atomic.Int64
	ingests   atomic.Int64
	ingesting atomic.Int64 // nanoseconds
	clients   atomic.Int64 // now
	dropped   atomic.Int64
	summaries atomic.Int64
	unsummed  atomic.Int64
	pruned    atomic.Int64
}

func (c *counts) request(status int) {
	if digit := status / 100; digit < len(c.requests) {
		c.requests[digit].Add(1)
	}
}

func (c *counts) took(d time.Duration) {
	c.ingests.Add(1)
	c.ingesting.Add(int64(d))
}

// joined counts a live client until left is called.
func (c *counts) joined() (left func()) {
	c.clients.Add(1)
	return func() { c.clients.Add(-1) }
}

// metrics writes a few numbers in the text format of Prometheus; a library for them is
// larger than they are.
func (p *Plane) metrics(w http.ResponseWriter, r *http.Request) error {
	var b bytes.Buffer
	series := func(name, kind, help string) {
		fmt.Fprintf(&b, "# HELP gander_%s %s\n# TYPE gander_%s %s\n", name, help, name, kind)
	}
	one := func(name, kind, help string, v any) {
		series(name, kind, help)
		fmt.Fprintf(&b, "gander_%s %v\n", name, v)
	}
	c := &p.counts
	series("http_requests_total", "counter", "Requests answered, by the class of their status.")
	for digit := 1; digit < len(c.requests); digit++ {
		fmt.Fprintf(&b, "gander_http_requests_total{code=\"%dxx\"} %d\n", digit, c.requests[digit].Load())
	}
	one("events_total", "counter", "Events taken.", c.events.Load())
	one("events_known_total", "counter", "Events that came again and were skipped.", c.known.Load())
	one("batches_gap_total", "counter", "Batches refused because events before them are missing.", c.gaps.Load())
	series("ingest_seconds", "summary", "Time to take a batch.")
	fmt.Fprintf(&b, "gander_ingest_seconds_sum %s\ngander_ingest_seconds_count %d\n",
		strconv.FormatFloat(time.Duration(c.ingesting.Load()).Seconds(), 'f', 6, 64), c.ingests.Load())
	one("live_clients", "gauge", "Live clients connected now.", c.clients.Load())
	one("live_dropped_total", "counter", "Live clients dropped because they were too slow.", c.dropped.Load())
	one("summaries_total", "counter", "Summaries of iterations that were made.", c.summaries.Load())
	one("summaries_failed_total", "counter", "Summaries of iterations that could not be made.", c.unsummed.Load())
	one("events_pruned_total", "counter", "Events that retention has removed.", c.pruned.Load())
	if err := p.stored(r, &b, series, one); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // a client that has gone needs no answer
	return nil
}

// stored writes what the database knows.
func (p *Plane) stored(r *http.Request, b *bytes.Buffer, series func(name, kind, help string), one func(name, kind, help string, v any)) error {
	size, err := p.db.size(r.Context())
	if err != nil {
		return err
	}
	one("database_bytes", "gauge", "Size of what the database holds.", size)
	tables := []struct{ name, kind, help, label, query string }{
		{"runs", "gauge", "Runs, by state.", "state", "SELECT state, COUNT(*) FROM runs GROUP BY 1"},
		{"iterations", "gauge", "Iterations that have ended, by outcome.", "outcome", "SELECT outcome, COUNT(*) FROM iterations WHERE ended IS NOT NULL GROUP BY 1"},
		{"tokens", "gauge", "Tokens of all runs that are kept, by agent.", "agent", "SELECT agent, SUM(total) FROM runs GROUP BY 1"},
		{"cost", "gauge", "Cost of all runs that are kept, by agent.", "agent", "SELECT agent, SUM(cost) FROM runs GROUP BY 1"},
	}
	for _, t := range tables {
		series(t.name, t.kind, t.help)
		rows, err := p.db.read.QueryContext(r.Context(), t.query)
		if err != nil {
			return err
		}
		for rows.Next() {
			var label string
			var value float64
			if err := rows.Scan(&label, &value); err != nil {
				rows.Close()
				return err
			}
			fmt.Fprintf(b, "gander_%s{%s=\"%s\"} %s\n", t.name, t.label, escapeLabel(label), strconv.FormatFloat(value, 'f', -1, 64))
		}
		if err := rows.Err(); err != nil {
			return err
		}
		rows.Close()
	}
	return nil
}

// escapeLabel: agents and states are words of others.
func escapeLabel(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(s, "\uFFFD"))
}
