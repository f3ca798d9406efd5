package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gander.dev/gander/sandbox/telemetry"
)

// agent is a Runner whose iterations are functions; the last one is repeated. What they
// print are telemetry events as JSON.
type agent struct {
	workspace string
	plays     []func(ctx context.Context, print func(telemetry.Event)) verdict

	// mu guards the fields below.
	mu           sync.Mutex
	instructions []string
	began        []time.Time
}

type verdict struct {
	telemetry.Verdict
	err error
}

func (a *agent) Run(ctx context.Context, instruction string, line func([]byte)) (telemetry.Exit, error) {
	a.mu.Lock()
	play := a.plays[min(len(a.instructions), len(a.plays)-1)]
	a.instructions = append(a.instructions, instruction)
	a.began = append(a.began, time.Now())
	a.mu.Unlock()
	v := play(ctx, func(e telemetry.Event) {
		raw, _ := json.Marshal(e)
		line(raw)
	})
	raw, _ := json.Marshal(v.Verdict)
	return telemetry.Exit{Stderr: string(raw)}, v.err
}

// starts are the times at which iterations began, heard their instructions.
func (a *agent) starts() []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.began)
}

func (a *agent) heard() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.instructions)
}

// parser reads what agent prints.
type parser struct{}

func (parser) Line(line []byte) []telemetry.Event {
	var e telemetry.Event
	_ = json.Unmarshal(line, &e)
	return []telemetry.Event{e}
}
func (parser) Growing() telemetry.Growth { return telemetry.Growth{} }
func (parser) End(exit telemetry.Exit) ([]telemetry.Event, telemetry.Verdict) {
	var v telemetry.Verdict
	_ = json.Unmarshal([]byte(exit.Stderr), &v)
	return nil, v
}

// run is a Loop that runs with an agent, in a bubble with a clock of its own.
type run struct {
	*Loop
	t     *testing.T
	agent *agent
	done  chan error

	// mu guards the fields below.
	mu     sync.Mutex
	events []telemetry.Event
	saved  Saved
	orders [2]int64 // that the last state knew of, and the last to be kept
}

func (r *run) output(o Output) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.Event != nil {
		r.events = append(r.events, *o.Event)
		if o.Event.Type == telemetry.StateChange {
			r.orders[0] = o.Orders
		}
	}
	if o.Saved != nil {
		r.saved, r.orders[1] = *o.Saved, o.Orders
	}
}

// kept is what the loop said last to be kept.
func (r *run) kept() Saved {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.saved
}

// of lists the events of a type.
func (r *run) of(typ telemetry.Type) []telemetry.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.events), func(e telemetry.Event) bool { return e.Type != typ })
}

func (r *run) state() telemetry.Event {
	states := r.of(telemetry.StateChange)
	if len(states) == 0 {
		return telemetry.Event{}
	}
	return states[len(states)-1]
}

func (r *run) iterations() int { return len(r.of(telemetry.IterationEnd)) }

// last is the outcome of the last iteration.
func (r *run) last() telemetry.Outcome {
	ends := r.of(telemetry.IterationEnd)
	return telemetry.Outcome(ends[len(ends)-1].Status)
}

// looping runs a loop for the time of a test.
func looping(t *testing.T, start Start, test func(*run), plays ...func(context.Context, func(telemetry.Event)) verdict) {
	t.Helper()
	if start.Workspace == "" {
		start.Workspace = t.TempDir()
	}
	synctest.Test(t, func(t *testing.T) {
		start.Agent = "goose"
		if start.Prompt == (Prompt{}) {
			start.Prompt = Prompt{Content: "Build a boat.", Version: "1", Known: true}
		}
		r := &run{t: t, agent: &agent{workspace: start.Workspace, plays: plays}, done: make(chan error, 1)}
		r.Loop = New(Options{Start: start, Runner: r.agent, Parser: func() telemetry.Parser { return parser{} }, Output: r.output})
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			r.done <- r.Run(ctx)
			close(over)
		}()
		test(r)
		cancel()
		<-over
	})
}

// ended wants the loop to have ended by now.
func (r *run) ended(state telemetry.State) {
	r.t.Helper()
	synctest.Wait()
	select {
	case err := <-r.done:
		if err != nil {
			r.t.Errorf("the loop ended with %v", err)
		}
	default:
		r.t.Errorf("the loop goes on, as %q", r.state().State)
	}
	if got := r.state().State; got != state {
		r.t.Errorf("it ended as %q, want %q", got, state)
	}
}

// works is an iteration of a second with a tool call.
func works(_ context.Context, print func(telemetry.Event)) verdict {
	time.Sleep(time.Second)
	print(telemetry.Call("shell", "1", json.RawMessage(`{"command":"make"}`), ""))
	print(telemetry.Event{Type: telemetry.Text, Content: "It floats."})
	return verdict{Verdict: telemetry.Verdict{Outcome: telemetry.OK, Usage: telemetry.Usage{Input: 60, Output: 40, Total: 100, Cost: 0.5}}}
}

// fails is an iteration with an outcome, after a while.
func fails(outcome telemetry.Outcome, after time.Duration) func(context.Context, func(telemetry.Event)) verdict {
	return func(context.Context, func(telemetry.Event)) verdict {
		time.Sleep(after)
		return verdict{Verdict: telemetry.Verdict{Outcome: outcome, Reason: "it rains"}}
	}
}

// sleeps is an iteration that does not end by itself.
func sleeps(ctx context.Context, _ func(telemetry.Event)) verdict {
	<-ctx.Done()
	return verdict{err: ctx.Err()}
}

func TestIterations(t *testing.T) {
	looping(t, Start{Pace: 10 * time.Second}, func(r *run) {
		time.Sleep(35 * time.Second) // 1 + 10, three times, and a bit
		r.Do(Command{Type: CommandStop})
		r.ended(telemetry.Stopped)
		if n := r.iterations(); n != 4 {
			t.Errorf("%d iterations", n)
		}
		var types []telemetry.Type
		for _, e := range r.events[:7] {
			types = append(types, e.Type)
		}
		want := []telemetry.Type{telemetry.StateChange, telemetry.IterationStart, telemetry.ToolUse, telemetry.Text, telemetry.IterationEnd, telemetry.StateChange, telemetry.StateChange}
		if !slices.Equal(types, want) {
			t.Errorf("events %q", types)
		}
		end := r.of(telemetry.IterationEnd)[0]
		if end.Status != "ok" || end.Summary != "Completed: 1 actions, 0 errors" || end.Usage.Total != 100 || end.Iteration != 1 || end.Actions != 1 {
			t.Errorf("the first one ended as %+v", end)
		}
		if wait := r.of(telemetry.StateChange)[1]; wait.State != telemetry.Waiting || wait.Until != end.Time+10_000 {
			t.Errorf("after it: %+v, ended at %d", wait, end.Time)
		}
		if r.kept().Iteration != 4 || r.kept().Usage.Total != 400 {
			t.Errorf("saved %+v", r.kept())
		}
	}, works)
}

// The model does not answer for an hour: few calls, a state that says so, and recovery
// without anybody.
func TestModelAwayForAnHour(t *testing.T) {
	var answers atomic.Bool
	play := func(ctx context.Context, print func(telemetry.Event)) verdict {
		if !answers.Load() {
			return fails(telemetry.LLMUnavailable, 7*time.Second)(ctx, print)
		}
		return works(ctx, print)
	}
	looping(t, Start{}, func(r *run) {
		time.Sleep(time.Hour)
		began := r.agent.starts()
		for i := range began {
			within := 0
			for _, other := range began[i:] {
				if other.Sub(began[i]) < time.Minute {
					within++
				}
			}
			if within > 4 {
				t.Errorf("%d iterations in a minute", within)
			}
		}
		if len(began) > 65 || len(began) < 25 {
			t.Errorf("%d iterations in an hour", len(began))
		}
		if st := r.state(); st.State != telemetry.Unready && st.State != telemetry.Running || r.kept().Paused {
			t.Errorf("state %+v", st)
		}
		if !slices.ContainsFunc(r.of(telemetry.StateChange), func(e telemetry.Event) bool {
			return e.State == telemetry.Unready && e.Until > e.Time && e.Reason == "it rains"
		}) {
			t.Error("no state says that the model is away, why, and until when it is waited")
		}
		answers.Store(true)
		time.Sleep(longModelPause + 10*time.Second)
		if r.last() != telemetry.OK || r.kept().Unanswered != 0 {
			t.Errorf("after it is back: %s, %+v", r.last(), r.kept())
		}
	}, play)
}

// An agent that fails again and again is paused, visibly, and goes on when told.
func TestCircuitBreaker(t *testing.T) {
	looping(t, Start{Limits: Limits{Failures: 3}}, func(r *run) {
		time.Sleep(time.Hour)
		st := r.state()
		if r.iterations() != 3 || st.State != telemetry.Paused || !strings.Contains(st.Reason, "3 iterations in a row have failed") || !strings.Contains(st.Reason, "it rains") {
			t.Errorf("%d iterations, then %+v", r.iterations(), st)
		}
		if !r.kept().Paused {
			t.Error("that it is paused is not kept")
		}
		r.Do(Command{Type: CommandResume})
		time.Sleep(2 * time.Second)
		if r.iterations() != 4 || r.state().State == telemetry.Paused {
			t.Errorf("resumed: %d iterations, %+v", r.iterations(), r.state())
		}
	}, fails(telemetry.AgentError, time.Second))
}

func TestBackoffGrows(t *testing.T) {
	for n := 1; n < 70; n++ {
		d := backoff(n, failurePause, longFailurePause)
		full := longFailurePause
		if n < 8 {
			full = min(failurePause<<(n-1), longFailurePause)
		}
		if d < full/2 || d > full {
			t.Errorf("after %d failures: %v of %v", n, d, full)
		}
	}
}

func TestPauseStepResume(t *testing.T) {
	looping(t, Start{Paused: true, Pace: time.Second}, func(r *run) {
		time.Sleep(time.Minute)
		if r.state().State != telemetry.Paused || len(r.agent.starts()) != 0 {
			t.Errorf("%d iterations, %+v", len(r.agent.starts()), r.state())
		}
		for range 2 {
			r.Do(Command{Type: CommandStep})
			time.Sleep(time.Minute)
		}
		if r.state().State != telemetry.Paused || r.iterations() != 2 {
			t.Errorf("after two steps %d iterations, %+v", r.iterations(), r.state())
		}
		r.Do(Command{Type: CommandResume})
		time.Sleep(9500 * time.Millisecond)
		if r.iterations() < 5 {
			t.Errorf("after resume %d iterations", r.iterations())
		}
		r.Do(Command{Type: CommandPause})
		time.Sleep(time.Minute)
		if n := r.iterations(); r.state().State != telemetry.Paused || n > 8 {
			t.Errorf("after pause %d iterations, %+v", n, r.state())
		}
		if r.Do(Command{Type: CommandPause, Reason: "it leaked"}); r.kept().Reason != "it leaked" {
			t.Errorf("the reason of the pause is %q", r.kept().Reason)
		}
	}, works)
}

// The keeper can tell what a loop has said before it got an order from what it has said
// after, also where the order has changed nothing.
func TestOrdersAreCounted(t *testing.T) {
	looping(t, Start{Paused: true, Pace: time.Second}, func(r *run) {
		for i, orders := range [][]string{{}, {CommandPause}, {CommandStep}, {CommandResume, CommandPause}, {CommandCancel, CommandMessage}, {CommandPause, CommandResume}} {
			for _, o := range orders {
				r.Do(Command{Type: o})
			}
			time.Sleep(time.Minute)
			r.mu.Lock()
			got, want := r.orders, []int64{0, 1, 2, 4, 4, 6}[i]
			r.mu.Unlock()
			if got != [2]int64{want, want} && i > 0 || got[0] != want {
				t.Errorf("after %v the loop says %d, want %d: %+v", orders, got, want, r.state())
			}
		}
	}, works)
}

func TestCancelAndStop(t *testing.T) {
	looping(t, Start{Pace: time.Second}, func(r *run) {
		time.Sleep(time.Minute)
		r.Do(Command{Type: CommandCancel})
		time.Sleep(10 * time.Second)
		if r.iterations() != 1 || r.last() != telemetry.Cancelled || len(r.agent.starts()) != 2 || r.kept().Failures != 0 {
			t.Errorf("%d of %d iterations ended, %s", r.iterations(), len(r.agent.starts()), r.last())
		}
		r.Do(Command{Type: CommandStop})
		r.ended(telemetry.Stopped)
		if r.iterations() != 2 || r.last() != telemetry.Cancelled {
			t.Errorf("%d iterations ended, %s", r.iterations(), r.last())
		}
	}, sleeps)
}

// An iteration waits for a keeper that wants to be asked, but not for one that is silent,
// and can be ended meanwhile.
func TestAdmitted(t *testing.T) {
	looping(t, Start{Pace: time.Second, Admitted: true}, func(r *run) {
		ran := func(want int) {
			t.Helper()
			if synctest.Wait(); len(r.agent.starts()) != want {
				t.Errorf("%d iterations run, want %d", len(r.agent.starts()), want)
			}
		}
		time.Sleep(time.Minute)
		ran(0)
		r.Do(Command{Type: CommandBegin})
		ran(1)
		r.Do(Command{Type: CommandBegin}) // while it runs: not for the next
		time.Sleep(time.Minute)
		ran(1)
		time.Sleep(admitTime)
		ran(2)
		time.Sleep(10 * time.Second)
		r.Do(Command{Type: CommandStop})
		time.Sleep(time.Second)
		r.ended(telemetry.Stopped)
	}, works)
}

func TestTimes(t *testing.T) {
	tests := map[string]struct {
		limits Limits
		play   func(context.Context, func(telemetry.Event)) verdict
		after  time.Duration
		reason string
	}{
		"an iteration": {Limits{Iteration: 30}, func(ctx context.Context, print func(telemetry.Event)) verdict {
			for ctx.Err() == nil {
				time.Sleep(time.Second)
				print(telemetry.Event{Type: telemetry.Text, Content: "still at it "})
			}
			return verdict{err: ctx.Err()}
		}, 30 * time.Second, errTime.Error()},
		"silence": {Limits{Idle: 10}, func(ctx context.Context, print func(telemetry.Event)) verdict {
			time.Sleep(9 * time.Second)
			print(telemetry.Event{Type: telemetry.Text, Content: "x"})
			return sleeps(ctx, print)
		}, 19 * time.Second, errIdle.Error()},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			looping(t, Start{Limits: tt.limits}, func(r *run) {
				time.Sleep(tt.after + 1500*time.Millisecond)
				ends := r.of(telemetry.IterationEnd)
				if len(ends) != 1 || ends[0].Status != string(telemetry.Timeout) || ends[0].Reason != tt.reason || r.kept().Failures != 1 {
					t.Errorf("it ended as %+v, saved %+v", ends, r.kept())
				}
			}, tt.play)
		})
	}
}

func TestLimits(t *testing.T) {
	tests := map[string]struct {
		limits     Limits
		play       func(context.Context, func(telemetry.Event)) verdict
		iterations int
		reason     string
	}{
		"iterations":       {Limits{Iterations: 3}, works, 3, "the limit of 3 iterations is reached"},
		"tokens":           {Limits{Tokens: 250}, works, 3, "the limit of 250 tokens is reached"},
		"cost":             {Limits{Cost: 1}, works, 2, "the limit of 1 for cost is reached"},
		"wall clock":       {Limits{WallClock: 60}, sleeps, 1, "the limit of 1m0s for the whole run is reached"},
		"wall clock, wait": {Limits{WallClock: 60}, fails(telemetry.LLMUnavailable, time.Second), -1, "the limit of 1m0s for the whole run is reached"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			looping(t, Start{Limits: tt.limits}, func(r *run) {
				time.Sleep(61 * time.Second)
				r.ended(telemetry.Done)
				if r.state().Reason != tt.reason || tt.iterations >= 0 && r.iterations() != tt.iterations {
					t.Errorf("after %d iterations: %q", r.iterations(), r.state().Reason)
				}
			}, tt.play)
		})
	}
}

// What the gateway counts holds also where the agent says nothing of it, and ends an
// iteration that goes beyond.
func TestMeteredLimits(t *testing.T) {
	looping(t, Start{Limits: Limits{Tokens: 1000}}, func(r *run) {
		for range 3 {
			time.Sleep(time.Second)
			r.Do(Command{Type: CommandModel, Model: &ModelEvent{OK: true, Usage: &telemetry.Usage{Input: 300, Output: 100, Total: 400}}})
		}
		r.ended(telemetry.Done)
		if r.last() != telemetry.Cancelled || r.kept().Usage.Total != 1200 {
			t.Errorf("it ended as %s with %+v", r.last(), r.kept().Usage)
		}
	}, sleeps)
}

// Agents repeat calls that fail for a minute without a word; the gateway sees them.
func TestModelEventsEndTheIteration(t *testing.T) {
	looping(t, Start{}, func(r *run) {
		time.Sleep(time.Second)
		r.Do(Command{Type: CommandModel, Model: &ModelEvent{Status: 400, Error: "bad request"}}) // which is an answer
		for range 2 {
			r.Do(Command{Type: CommandModel, Model: &ModelEvent{Status: 500, Error: "out of order"}})
		}
		r.Do(Command{Type: CommandModel, Model: &ModelEvent{OK: true}})
		for range 2 {
			r.Do(Command{Type: CommandModel, Model: &ModelEvent{Status: 429}})
		}
		synctest.Wait()
		if r.iterations() != 0 {
			t.Fatal("it ended too soon")
		}
		r.Do(Command{Type: CommandModel, Model: &ModelEvent{Error: "connection refused"}})
		synctest.Wait()
		if r.last() != telemetry.LLMUnavailable || !strings.Contains(r.state().Reason, "connection refused") {
			t.Errorf("%s, %+v", r.last(), r.state())
		}
	}, sleeps)
}

// A run whose agent calls the model and comes no further is paused, and says why.
func TestStorm(t *testing.T) {
	looping(t, Start{}, func(r *run) {
		time.Sleep(time.Second)
		r.Do(Command{Type: CommandModel, Model: &ModelEvent{Paused: true, Error: "The agent came no further."}})
		time.Sleep(time.Hour)
		if st := r.state(); r.iterations() != 1 || st.State != telemetry.Paused || !strings.Contains(st.Reason, "came no further. See what is wrong, then resume") {
			t.Errorf("%d iterations, then %+v", r.iterations(), st)
		}
		if !r.kept().Paused {
			t.Error("that it is paused is not kept")
		}
	}, sleeps)
}

func write(t *testing.T, workspace, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(workspace, name), []byte(text), 0o600); err != nil {
		t.Error(err)
	}
}

func TestDone(t *testing.T) {
	workspace := t.TempDir()
	write(t, workspace, doneFile, "a run before") // does not count
	looping(t, Start{Pace: time.Second, Workspace: workspace}, func(r *run) {
		time.Sleep(10 * time.Second)
		r.ended(telemetry.Done)
		if r.iterations() != 3 || r.state().Reason != "the agent says that it is done: The boat floats." {
			t.Errorf("after %d iterations: %+v", r.iterations(), r.state())
		}
	}, works, func(context.Context, func(telemetry.Event)) verdict {
		write(t, workspace, doneFile, "but it failed") // in an iteration that failed it does not count
		return verdict{Verdict: telemetry.Verdict{Outcome: telemetry.AgentError}}
	}, func(context.Context, func(telemetry.Event)) verdict {
		write(t, workspace, doneFile, "The boat\nfloats.\n")
		return verdict{Verdict: telemetry.Verdict{Outcome: telemetry.OK}}
	})
}

func TestPromptAndMessages(t *testing.T) {
	looping(t, Start{Pace: 10 * time.Second, Saved: Saved{Iteration: 41, PreviousPrompt: "Build a house."}}, func(r *run) {
		time.Sleep(2 * time.Second)
		first := r.agent.heard()[0]
		for _, want := range []string{"# Current Prompt\n\nBuild a boat.", "# Notice: Prompt Changed", "Build a house.", "This is iteration 42."} {
			if !strings.Contains(first, want) {
				t.Errorf("the first instruction has no %q:\n%s", want, first)
			}
		}
		r.Do(Command{Type: CommandMessage, Message: "Use oak."})
		time.Sleep(11 * time.Second)
		second := r.agent.heard()[1]
		if !strings.Contains(second, "# Message from the Operator\n\nUse oak.") || strings.Contains(second, "Prompt Changed") {
			t.Errorf("the second instruction:\n%s", second)
		}
		r.Do(Command{Type: CommandPrompt, Prompt: &Prompt{Known: false}}) // which says nothing
		r.Do(Command{Type: CommandPrompt, Prompt: &Prompt{Content: "", Version: "2", Known: true}})
		time.Sleep(11 * time.Second)
		third := r.agent.heard()[2]
		if !strings.Contains(third, "# Mode: Self-Bootstrap") || !strings.Contains(third, "Prompt Changed") || strings.Contains(third, "Operator") {
			t.Errorf("the third instruction:\n%s", third)
		}
		if r.kept().PreviousPrompt != "" || r.kept().Prompt.Version != "2" || len(r.kept().Messages) != 0 || r.kept().Heard != 1 {
			t.Errorf("saved %+v", r.kept())
		}
	}, works)
}

// What comes during an iteration is for the next, also when as much waits as is kept.
func TestMessageDuringAnIteration(t *testing.T) {
	full := make([]string, messagesLimit)
	for i := range full {
		full[i] = "Use oak."
	}
	looping(t, Start{Pace: 10 * time.Second, Saved: Saved{Messages: full}}, func(r *run) {
		time.Sleep(time.Second / 2)
		r.Do(Command{Type: CommandMessage, Message: "Use pine."})
		time.Sleep(11 * time.Second)
		if second := r.agent.heard()[1]; !strings.Contains(second, "# Message from the Operator\n\nUse pine.") {
			t.Errorf("the second instruction:\n%s", second)
		}
	}, works)
}

// What the operator said is said again to the next iteration when nobody has heard it.
func TestMessageIsNotLost(t *testing.T) {
	looping(t, Start{Saved: Saved{Messages: []string{"Use oak."}}}, func(r *run) {
		time.Sleep(20 * time.Second)
		if len(r.agent.heard()) < 3 || !strings.Contains(r.agent.heard()[0], "Use oak.") ||
			!strings.Contains(r.agent.heard()[1], "Use oak.") || strings.Contains(r.agent.heard()[2], "Use oak.") {
			t.Errorf("instructions %q", r.agent.heard())
		}
	}, fails(telemetry.LLMUnavailable, time.Second), works)
}

// A prompt that nobody knows is not an empty one.
func TestUnknownPrompt(t *testing.T) {
	looping(t, Start{Prompt: Prompt{Version: "?"}}, func(r *run) {
		time.Sleep(time.Hour)
		if len(r.agent.starts()) != 0 || r.state().State != telemetry.Waiting || !strings.Contains(r.state().Reason, "control plane") {
			t.Errorf("%d iterations, %+v", len(r.agent.starts()), r.state())
		}
		r.Do(Command{Type: CommandPrompt, Prompt: &Prompt{Content: "Go.", Known: true}})
		time.Sleep(2 * time.Second)
		if len(r.agent.starts()) != 1 {
			t.Errorf("%d iterations", len(r.agent.starts()))
		}
	}, works)
	looping(t, Start{Prompt: Prompt{Version: "?"}, Saved: Saved{Prompt: Prompt{Content: "As before.", Known: true}}}, func(r *run) {
		time.Sleep(2 * time.Second)
		if len(r.agent.starts()) != 1 || !strings.Contains(r.agent.heard()[0], "As before.") {
			t.Errorf("instructions %q", r.agent.heard())
		}
	}, works)
}

func TestMemory(t *testing.T) {
	workspace := t.TempDir()
	looping(t, Start{Pace: time.Second, Workspace: workspace}, func(r *run) {
		time.Sleep(20 * time.Second)
		in := r.agent.heard()
		if !strings.Contains(in[0], "fresh start") {
			t.Errorf("the first instruction:\n%s", in[0])
		}
		for i, want := range map[int][]string{
			1: {"## Iteration 1, which wrote no memory", "1 actions, 0 errors", "shell: command=make", "It floats."},
			2: {"# Memory (from previous iteration)\n\nI wrote this."},
			3: {"I wrote this.", "## Iteration 3, which wrote no memory"},
		} {
			for _, w := range want {
				if !strings.Contains(in[i], w) {
					t.Errorf("instruction %d has no %q:\n%s", i+1, w, in[i])
				}
			}
		}
		if len(r.kept().Memory) != memoryVersions {
			t.Errorf("%d versions are kept", len(r.kept().Memory))
		}
		for _, m := range r.kept().Memory {
			if len(m) > sectionLimit+100 {
				t.Errorf("a version has %d bytes", len(m))
			}
		}
	}, works, func(ctx context.Context, print func(telemetry.Event)) verdict {
		write(t, workspace, memoryFile, "I wrote this.")
		return works(ctx, print)
	}, works)
}

func TestLeftOversEndTheLoop(t *testing.T) {
	looping(t, Start{}, func(r *run) {
		time.Sleep(time.Second)
		synctest.Wait()
		if err := <-r.done; !errors.Is(err, ErrLeft) || r.state().State != telemetry.Broken {
			t.Errorf("it ended with %v, %+v", err, r.state())
		}
	}, func(context.Context, func(telemetry.Event)) verdict {
		return verdict{err: fmt.Errorf("%w: 3", ErrLeft)}
	})
}
