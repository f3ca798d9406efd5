package planetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"gander.dev/gander/sandbox/outbound/ports"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane"
)

// Fleet is a fleet whose runs are played. Its fields may be set before the first request.
type Fleet struct {
	// AgentList is what Agents answers; goose and opencode, both available, unless set.
	AgentList []controlplane.AgentInfo
	// Fail, when it is set, is asked before every order ("start", "stop", "pause",
	// "resume", "step", "cancel", "message", "port", "adopt") and may refuse it.
	Fail func(order, runID string) error
	// Listening are the ports at which something listens in each sandbox.
	Listening []int

	iterations int
	pace       time.Duration
	ctx        context.Context
	end        context.CancelFunc
	work       sync.WaitGroup

	mu     sync.Mutex // guards the following
	url    string
	runs   map[string]*played
	orders []string
}

// A played run is what a keeper would have of one.
type played struct {
	spec   controlplane.Spec
	token  string
	events []telemetry.Event // all of them, as in a spool
	sent   int               // of them, that the control plane has
	wake   chan struct{}
	open   []ports.Spec
	ended  bool
	number int64 // of the iteration
}

func newFleet(iterations int, pace time.Duration) *Fleet {
	ctx, end := context.WithCancel(context.Background())
	return &Fleet{
		AgentList: []controlplane.AgentInfo{{Name: "goose", Available: true}, {Name: "opencode", Available: true}},
		ctx:       ctx, end: end, iterations: iterations, pace: pace, runs: map[string]*played{},
	}
}

func (f *Fleet) close() {
	f.end()
	f.work.Wait()
}

func (f *Fleet) at(url string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.url = url
}

// Orders are the orders so far, as "pause RUN" or "message RUN TEXT".
func (f *Fleet) Orders() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.orders)
}

// Events are all that a run has told.
func (f *Fleet) Events(runID string) []telemetry.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.runs[runID]; r != nil {
		return slices.Clone(r.events)
	}
	return nil
}

// RunToken is the token of a run's keeper; empty when there is no such run.
func (f *Fleet) RunToken(runID string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.runs[runID]; r != nil {
		return r.token
	}
	return ""
}

// Emit has a run tell events: it numbers them, and says when they were where that is
// not said. They are sent in the background.
func (f *Fleet) Emit(runID string, events ...telemetry.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.runs[runID]
	if r == nil {
		return
	}
	for _, e := range events {
		e.RunID, e.Agent, e.Seq = runID, r.spec.Agent, int64(len(r.events)+1)
		if e.Time == 0 {
			e.Time = time.Now().UnixMilli()
		}
		e.Cap()
		r.events = append(r.events, e)
		r.number = max(r.number, e.Iteration)
	}
	r.signal()
}

// resting says whether the run has told last that it is paused.
func (r *played) resting() bool {
	for _, e := range slices.Backward(r.events) {
		if e.Type == telemetry.StateChange {
			return e.State == telemetry.Paused
		}
	}
	return false
}

func (r *played) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Sent waits until the control plane has all that a run told.
func (f *Fleet) Sent(ctx context.Context, runID string) error {
	for {
		f.mu.Lock()
		r := f.runs[runID]
		done := r == nil || r.sent == len(r.events)
		f.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until the control plane has all events of run %s: %w", runID, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Play has a run go through one more iteration: words, a thought, two calls of tools.
func (f *Fleet) Play(runID string) {
	f.mu.Lock()
	r := f.runs[runID]
	if r == nil {
		f.mu.Unlock()
		return
	}
	n := r.number + 1
	f.mu.Unlock()
	for _, e := range Iteration(n) {
		f.Emit(runID, e)
		if f.pace > 0 && !f.sleep(f.pace) {
			return
		}
	}
}

func (f *Fleet) sleep(d time.Duration) bool {
	select {
	case <-f.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Iteration is what an ordinary iteration tells.
func Iteration(n int64) []telemetry.Event {
	call, edit := fmt.Sprintf("call-%d-1", n), fmt.Sprintf("call-%d-2", n)
	return []telemetry.Event{
		{Type: telemetry.StateChange, State: telemetry.Running},
		{Type: telemetry.IterationStart, Iteration: n, Summary: fmt.Sprintf("Starting iteration %d", n)},
		{Type: telemetry.Thought, Iteration: n, Summary: "I look around first.", Content: "I look around first."},
		{Type: telemetry.Text, Iteration: n, Summary: "Let me look.", Content: "Let me look."},
		{
			Type: telemetry.ToolUse, Iteration: n, Tool: "shell", ToolCallID: call, Summary: "shell: command=ls",
			Content: `{"name":"shell","arguments":{"command":"ls"}}`,
		},
		{Type: telemetry.ToolResult, Iteration: n, Tool: "shell", ToolCallID: call, Status: telemetry.Completed, Summary: "hello.txt", Content: "hello.txt\n"},
		{
			Type: telemetry.ToolUse, Iteration: n, Tool: "edit", ToolCallID: edit, Summary: "edit: path=hello.txt",
			Content: `{"name":"edit","arguments":{"path":"hello.txt","before":"hello","after":"good day"}}`,
		},
		{Type: telemetry.ToolResult, Iteration: n, Tool: "edit", ToolCallID: edit, Status: telemetry.Completed, Summary: "edited", Content: "edited"},
		{
			Type: telemetry.IterationEnd, Iteration: n, Summary: "Completed: 2 actions, 0 errors", Status: string(telemetry.OK), Actions: 2,
			Usage:  &telemetry.Usage{Input: 900, Output: 100, Total: 1000, Cost: 0.01},
			Vitals: &telemetry.Vitals{CPU: 12.5 + float64(n), Memory: 200 + 3*float64(n), Disk: 40},
		},
		{Type: telemetry.StateChange, State: telemetry.Waiting, Until: time.Now().Add(2 * time.Second).UnixMilli()},
	}
}

// Agents implements controlplane.Fleet.
func (f *Fleet) Agents(context.Context) []controlplane.AgentInfo { return f.AgentList }

// Start implements controlplane.Fleet.
func (f *Fleet) Start(_ context.Context, s controlplane.Spec) error {
	if err := f.order("start", s.RunID, ""); err != nil {
		return err
	}
	r := &played{spec: s, token: s.Token, wake: make(chan struct{}, 1)}
	f.mu.Lock()
	f.runs[s.RunID] = r
	f.mu.Unlock()
	f.work.Go(func() { f.upload(r) })
	f.Emit(s.RunID, telemetry.Event{Type: telemetry.StateChange, State: telemetry.Running})
	f.work.Go(func() {
		for range f.iterations {
			if f.ctx.Err() != nil || f.gone(s.RunID) {
				return
			}
			f.Play(s.RunID)
		}
	})
	return nil
}

func (f *Fleet) gone(runID string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.runs[runID]
	return r == nil || r.ended
}

// order notes an order; it fails when it is to, or when there is no such run.
func (f *Fleet) order(order, runID, text string) error {
	if f.Fail != nil {
		if err := f.Fail(order, runID); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	words := order + " " + runID
	if text != "" {
		words += " " + text
	}
	f.orders = append(f.orders, words)
	if r := f.runs[runID]; order != "start" && (r == nil || r.ended) {
		return fmt.Errorf("run %s: %w", runID, controlplane.ErrNotRunning)
	}
	return nil
}

// Stop implements controlplane.Fleet.
func (f *Fleet) Stop(_ context.Context, runID string) error {
	if err := f.order("stop", runID, ""); err != nil {
		return err
	}
	f.Emit(runID, telemetry.Event{Type: telemetry.StateChange, State: telemetry.Stopping},
		telemetry.Event{Type: telemetry.StateChange, State: telemetry.Stopped})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs[runID].ended = true
	return nil
}

// Pause implements controlplane.Fleet.
func (f *Fleet) Pause(_ context.Context, runID string) error {
	return f.tell("pause", runID, telemetry.Event{Type: telemetry.StateChange, State: telemetry.Paused, Reason: "paused by a person"})
}

// Resume implements controlplane.Fleet.
func (f *Fleet) Resume(_ context.Context, runID string) error {
	return f.tell("resume", runID, telemetry.Event{Type: telemetry.StateChange, State: telemetry.Running})
}

// Step implements controlplane.Fleet.
func (f *Fleet) Step(_ context.Context, runID string) error {
	if err := f.order("step", runID, ""); err != nil {
		return err
	}
	f.work.Go(func() {
		f.Play(runID)
		f.Emit(runID, telemetry.Event{Type: telemetry.StateChange, State: telemetry.Paused, Reason: "after one step"})
	})
	return nil
}

// Cancel implements controlplane.Fleet.
func (f *Fleet) Cancel(_ context.Context, runID string) error { return f.order("cancel", runID, "") }

// Message implements controlplane.Fleet.
func (f *Fleet) Message(_ context.Context, runID, text string) error {
	return f.order("message", runID, text)
}

// Ports implements controlplane.Fleet.
func (f *Fleet) Ports(_ context.Context, runID string, o ports.Order) (v ports.View, err error) {
	if o != (ports.Order{}) {
		if err := f.order("port", runID, fmt.Sprintf("%q %d", o.Open, o.Close)); err != nil {
			return v, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.runs[runID]
	if r == nil || r.ended {
		return v, fmt.Errorf("run %s: %w", runID, controlplane.ErrNotRunning)
	}
	if spec, err := ports.Parse(o.Open); err == nil {
		r.open = append(r.open, spec)
	}
	r.open = slices.DeleteFunc(r.open, func(s ports.Spec) bool { return s.Port == o.Close })
	v = ports.View{Open: []ports.Link{}, Listening: slices.DeleteFunc(slices.Clone(f.Listening), func(port int) bool {
		return slices.ContainsFunc(r.open, func(s ports.Spec) bool { return s.Port == port })
	})}
	for _, s := range r.open {
		v.Open = append(v.Open, ports.Link{Port: s.Port, URL: s.URL("loop-" + runID), Heard: slices.Contains(f.Listening, s.Port)})
	}
	return v, nil
}

// PromptChanged implements controlplane.Fleet.
func (f *Fleet) PromptChanged(runID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orders = append(f.orders, "prompt "+runID)
}

// Adopt implements controlplane.Fleet: runs that this fleet has started live on.
func (f *Fleet) Adopt(ctx context.Context, specs []controlplane.Spec) (alive []string, err error) {
	for _, s := range specs {
		if s.Desired == controlplane.DesiredStopped {
			if stopErr := f.Stop(ctx, s.RunID); stopErr != nil && !errors.Is(stopErr, controlplane.ErrNotRunning) {
				alive, err = append(alive, s.RunID), errors.Join(err, stopErr)
			}
			continue
		}
		if f.Fail != nil && f.Fail("adopt", s.RunID) != nil {
			continue
		}
		f.mu.Lock()
		if r := f.runs[s.RunID]; r != nil && !r.ended {
			alive = append(alive, s.RunID)
		}
		f.orders = append(f.orders, "adopt "+s.RunID)
		f.mu.Unlock()
	}
	return alive, err
}

// Status implements controlplane.Fleet.
func (f *Fleet) Status(_ context.Context, runID string) (controlplane.SandboxStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.runs[runID]
	if r == nil || r.ended {
		return controlplane.SandboxStatus{}, fmt.Errorf("run %s: %w", runID, controlplane.ErrNotRunning)
	}
	return controlplane.SandboxStatus{
		ContainerID: "played-" + runID, KeeperPID: 1, Resting: r.resting(), Vitals: &telemetry.Vitals{CPU: 5, Memory: 100, Disk: 1},
	}, nil
}

func (f *Fleet) tell(order, runID string, e telemetry.Event) error {
	if err := f.order(order, runID, ""); err != nil {
		return err
	}
	f.Emit(runID, e)
	return nil
}

// upload sends what a run tells, until the fleet ends.
func (f *Fleet) upload(r *played) {
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-r.wake:
		}
		for f.uploadSome(r) {
		}
	}
}

// How many events are sent at once, and about how many bytes of them.
const (
	batchSize  = 100
	batchBytes = 256 << 10
)

// uploadSome sends the next events; again says that there is more to do.
func (f *Fleet) uploadSome(r *played) (again bool) {
	f.mu.Lock()
	url, from := f.url, r.sent
	n, bytes := 0, 0
	for ; n < batchSize && from+n < len(r.events) && bytes < batchBytes; n++ {
		bytes += len(r.events[from+n].Content)
	}
	events := slices.Clone(r.events[from : from+n])
	f.mu.Unlock()
	if len(events) == 0 {
		return false
	}
	last, err := send(f.ctx, url, r.token, r.spec.RunID, events)
	if err != nil {
		return f.sleep(20 * time.Millisecond) // it is away; it comes back
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r.sent = int(last)
	return true
}

// send sends one batch and returns the number of the last event that is there.
func send(ctx context.Context, url, token, runID string, events []telemetry.Event) (lastSeq int64, err error) {
	body, err := json.Marshal(map[string]any{"runId": runID, "events": events})
	if err != nil {
		return 0, err
	}
	req, err := request(ctx, url, token, http.MethodPost, "/api/telemetry/stream", body)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	var answer struct {
		LastSeq *int64 `json:"lastSeq"`
		Error   string `json:"error"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return 0, err
	}
	if answer.LastSeq == nil {
		return 0, errors.New(answer.Error)
	}
	return *answer.LastSeq, nil
}

func request(ctx context.Context, url, token, method, path string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}
