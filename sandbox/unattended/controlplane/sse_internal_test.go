package controlplane

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// openLive opens a stream of server-sent events.
func openLive(t *testing.T, s *httptest.Server, path string, change ...func(*http.Request)) *bufio.Scanner {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "127.0.0.1:3000"
	req.Header.Set("Authorization", "Bearer "+tokenOfPerson)
	for _, c := range change {
		c(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || kind != "text/event-stream" {
		t.Fatalf("%d %s", resp.StatusCode, kind)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return lines
}

// readLive is the first message of a stream after connected.
func readLive(t *testing.T, s *httptest.Server, path string) string {
	t.Helper()
	lines := openLive(t, s, path)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && !strings.Contains(data, `"type":"connected"`) {
			return data
		}
	}
	t.Fatalf("the stream ended: %v", lines.Err())
	return ""
}

// A browser that comes back names the last id it has, and gets what follows.
func TestServerSentEvents(t *testing.T) {
	p := newPlane(t)
	s := httptest.NewServer(p.Handler())
	t.Cleanup(s.Close) // after the streams have ended
	one, two := addRun(t, p, "run-00001"), addRun(t, p, "run-00002")
	post := func(token string, from, to int64) {
		t.Helper()
		if w := send(t, p, token, "POST", "/api/telemetry/stream", batchOf(t, "", numbered(from, to)...)); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	post(one, 1, 3) // ids 1 to 3
	post(two, 1, 3) // 4 to 6
	post(one, 4, 6) // 7 to 9
	read := func(lines *bufio.Scanner, n int) (ids []string) {
		t.Helper()
		for len(ids) < n && lines.Scan() {
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				ids = append(ids, id)
			}
		}
		if len(ids) < n {
			t.Fatalf("the stream ended after %v: %v", ids, lines.Err())
		}
		return ids
	}
	last := func(id string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Last-Event-ID", id) }
	}
	for _, tt := range []struct {
		path, last, want string
	}{
		{"/api/events?since=0", "", "[1 2 3 4 5 6 7 8 9]"},
		{"/api/events", "5", "[6 7 8 9]"},
		{"/api/events?since=0", "5", "[6 7 8 9]"},
		{"/api/events?run=run-00001&after=0", "", "[1 2 3 7 8 9]"},
		{"/api/events?run=run-00001&after=2", "", "[3 7 8 9]"},
		{"/api/events?run=run-00001&after=0", "5", "[7 8 9]"},
		{"/api/events?run=run-00002", "5", "[6]"},
	} {
		lines := openLive(t, s, tt.path, func(r *http.Request) {
			if tt.last != "" {
				last(tt.last)(r)
			}
		})
		if got := fmt.Sprint(read(lines, strings.Count(tt.want, " ")+1)); got != tt.want {
			t.Errorf("%s after %s: %s, want %s", tt.path, tt.last, got, tt.want)
		}
	}
	for _, bad := range []string{"?after=1", "?since=x", "?since=-1", "?run=none"} {
		if w := send(t, p, tokenOfPerson, "GET", "/api/events"+bad, ""); w.Code != 400 && w.Code != 404 {
			t.Errorf("%s: %d", bad, w.Code)
		}
	}
}
