package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/controlplane/planetest"
)

// Summaries have their own column; a model that fails is asked again, a few times, and a
// slow one holds up nothing.
func TestSummaries(t *testing.T) {
	var mu sync.Mutex
	var calls [][]string
	fails := 1
	hold := make(chan struct{})
	s := planetest.Start(t, planetest.Options{Change: func(o *controlplane.Options) {
		o.Summarize = func(ctx context.Context, lines []string) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, lines)
			if fails--; fails >= 0 {
				return "", errors.New("not now")
			}
			select {
			case <-hold:
			case <-ctx.Done():
			}
			return "  It tidied\nup. " + strings.Repeat("x", 1000), nil
		}
	}})
	stream := dial(t, s, "")
	run := begin(t, s, nil)
	s.Fleet.Play(run)
	s.Fleet.Emit(run, telemetry.Event{Type: telemetry.IterationStart, Iteration: 2}, telemetry.Event{Type: telemetry.IterationEnd, Iteration: 2, Status: "ok", Summary: "Completed: 0 actions, 0 errors"})
	sent(t, s, run) // while the model thinks
	close(hold)
	said := map[float64]string{}
	for len(said) < 2 {
		data := stream.kind("iteration_summary")["data"].(map[string]any)
		said[data["iterationId"].(float64)] = data["summary"].(string)
	}
	if !strings.HasPrefix(said[1], "It tidied up. xxx") || len(said[1]) != 500 || said[2] != "No activity" {
		t.Errorf("the summaries are %v", said)
	}
	for _, r := range want(t, s, 200, "GET", "/api/telemetry/iterations", nil).body["iterations"].([]any) {
		row := r.(map[string]any)
		if row["llm_summary"] != said[row["seq"].(float64)] || !strings.HasPrefix(row["summary"].(string), "Completed:") || row["end_time"] == nil {
			t.Errorf("the row is %v", row)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(calls) != 2 || strings.Join(calls[1], "\n") != "[thought] I look around first.\n[text] Let me look.\n[tool_use] shell: command=ls\n[tool_result] hello.txt\n[tool_use] edit: path=hello.txt\n[tool_result] edited" {
		t.Errorf("the model was asked %q", calls)
	}
}

// A transcript gets every event once and in order, also when it fails in between and
// when the control plane is restarted.
type notebook struct {
	mu    sync.Mutex
	seqs  map[string][]int64
	calls int
}

func (n *notebook) OnEvents(_ context.Context, run controlplane.Run, events []telemetry.Event) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.calls++; n.calls == 2 {
		return errors.New("the disk is full for a moment")
	}
	seqs := n.seqs[run.SessionID]
	for _, e := range events {
		if len(seqs) == 0 || e.Seq > seqs[len(seqs)-1] { // what a kill came after is told again
			seqs = append(seqs, e.Seq)
		}
	}
	n.seqs[run.SessionID] = seqs
	return nil
}

func TestTranscripts(t *testing.T) {
	n := &notebook{seqs: map[string][]int64{}}
	s := planetest.Start(t, planetest.Options{Change: func(o *controlplane.Options) { o.Transcripts = n }})
	run := begin(t, s, nil)
	for range 3 {
		s.Fleet.Play(run)
		sent(t, s, run)
		s.Restart()
	}
	session := want(t, s, 200, "GET", "/api/runs/"+run, nil).body["sessionId"].(string)
	total := len(s.Fleet.Events(run))
	var seqs []int64
	eventually(t, "all events in the transcript", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		seqs = slices.Clone(n.seqs[session]) // the run goes on
		return len(seqs) >= total
	})
	for i, seq := range seqs {
		if seq != int64(i+1) {
			t.Fatalf("event %d came where %d was to: %v", seq, i+1, seqs)
		}
	}
}

func TestMetrics(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	run := begin(t, s, nil)
	s.Fleet.Play(run)
	sent(t, s, run)
	text := want(t, s, 200, "GET", "/metrics", nil).text
	for _, line := range []string{
		"gander_events_total 11", `gander_runs{state="waiting"} 1`, `gander_iterations{outcome="ok"} 1`, `gander_tokens{agent="goose"} 1000`,
		`gander_cost{agent="goose"} 0.01`, "# TYPE gander_http_requests_total counter",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("%s is not in\n%s", line, text)
		}
	}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		var name string
		var value float64
		if _, err := fmt.Sscanf(line, "%s %g", &name, &value); !strings.HasPrefix(line, "# ") && err != nil {
			t.Errorf("%q is no line of the format: %v", line, err)
		}
	}
}
