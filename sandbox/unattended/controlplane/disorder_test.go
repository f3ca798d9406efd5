package controlplane_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"

	"gander.dev/gander/sandbox/unattended/controlplane/planetest"
)

// TestTelemetryInDisorder counts: of two runs from elsewhere, one that numbers its events and one
// that does not, batches come twice, also at once, too early, and while the control plane is
// restarted, and answers are lost. Each event is there once, in order, and in its iteration's
// count. GANDER_LOOP_EVENTS says how many events each run has.
func TestTelemetryInDisorder(t *testing.T) {
	total := 2000
	if text := os.Getenv("GANDER_LOOP_EVENTS"); text != "" {
		var err error
		if total, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // no secret
	s := planetest.Start(t, planetest.Options{})
	const numbered, plain = "elsewhere-1", "elsewhere-2"
	most := min(500, total/20)
	in := func(seq int) int { return (seq-1)*10/total + 1 } // ten iterations
	batch := func(run string, from, to int) []byte {
		var events []any
		for seq := from; seq <= to; seq++ {
			e := map[string]any{"type": []string{"text", "tool_use"}[seq%2], "summary": fmt.Sprint("event ", seq)}
			if run == numbered {
				e["seq"], e["iterationId"] = seq, in(seq)
			}
			events = append(events, e)
		}
		raw, err := json.Marshal(map[string]any{"runId": run, "iterationId": in(from), "events": events})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	// post returns the status, which is 0 where no answer came.
	url, token := s.URL, s.Token // which a restart keeps
	post := func(body []byte) (int, float64) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/telemetry/stream", bytes.NewReader(body))
		if err != nil {
			return 0, 0
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, 0
		}
		defer resp.Body.Close()
		var got struct{ LastSeq float64 }
		if json.NewDecoder(resp.Body).Decode(&got) != nil {
			return 0, 0
		}
		return resp.StatusCode, got.LastSeq
	}
	restarts, repeated, early, cut := 0, 0, 0, 0
	for had := 0; had < total; {
		to := min(had+1+chance.IntN(most), total)
		for in(to) != in(had+1) { // a batch without numbers belongs to one iteration
			to--
		}
		for _, run := range []string{numbered, plain} {
			body := batch(run, had+1, to)
			switch what := chance.IntN(6); {
			case what == 0 && run == numbered && had > 0: // what is there, and more
				repeated++
				body = batch(run, max(1, had-chance.IntN(most), to-499), to) // a request has at most 500
			case what == 1 && run == numbered && to < total: // what follows comes first
				early++
				if status, last := post(batch(run, to+1, min(to+5, total))); status != http.StatusConflict || last != float64(had) {
					t.Fatalf("events from %d, of which %d are there, are answered with %d, %v", to+1, had, status, last)
				}
			case what == 2: // at once
				repeated++
				var both sync.WaitGroup
				both.Go(func() { post(body) })
				post(body)
				both.Wait()
			case what == 3 && restarts < had*10/total+1: // its answer may be lost
				restarts, cut = restarts+1, cut+1
				var sending sync.WaitGroup
				sending.Go(func() { post(body) })
				s.Restart()
				sending.Wait()
			}
			if status, _ := post(body); status != http.StatusOK {
				t.Fatalf("events %d to %d of %s: %d", had+1, to, run, status)
			}
		}
		had = to
	}
	s.Restart()
	for _, run := range []string{numbered, plain} {
		n := 0
		for {
			page := want(t, s, 200, "GET", fmt.Sprintf("/api/telemetry/events?run=%s&after=%d&limit=500", run, n), nil).body["events"].([]any)
			if len(page) == 0 {
				break
			}
			for _, row := range page {
				n++
				if e := row.(map[string]any); e["seq"] != float64(n) || e["summary"] != fmt.Sprint("event ", n) || e["iterationId"] != float64(in(n)) {
					t.Fatalf("event %d of %s is %v", n, run, e)
				}
			}
		}
		actions := 0
		rows := want(t, s, 200, "GET", "/api/telemetry/iterations?run="+run, nil).body["iterations"].([]any)
		for _, row := range rows {
			actions += int(row.(map[string]any)["action_count"].(float64))
		}
		if n != total || len(rows) != 10 || actions != (total+1)/2 {
			t.Errorf("%s has %d events, %d iterations with %d actions; want %d, 10 and %d", run, n, len(rows), actions, total, (total+1)/2)
		}
	}
	t.Logf("%d events of each run, %d batches sent again, %d too early, %d cut by a restart: nothing lost, nothing twice", total, repeated, early, cut)
}
