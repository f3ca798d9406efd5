package loop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/sandbox/telemetry"
)

const (
	// growTime is between two looks at how far a message is.
	growTime = 250 * time.Millisecond
	// unansweredCalls is after how many calls in a row that the model did not answer the
	// iteration is given up: agents repeat them for a minute without a word.
	unansweredCalls = 3
	// lastWordsLimit bounds what is kept of what an agent said last, and actionsLimit the
	// actions, for a memory that it did not write.
	lastWordsLimit = 2000
	actionsLimit   = 20
)

// iteration is one run of the agent.
type iteration struct {
	loop   *Loop
	number int64
	cancel context.CancelCauseFunc
	prompt string // what it was asked
	heard  int64  // Saved.Heard when it began: it got all of those
	budget Limits
	spent  telemetry.Usage // by the iterations before
	idle   *time.Timer

	// mu guards the parser and the fields below; it is taken after the loop's, never before.
	mu      sync.Mutex
	parser  telemetry.Parser
	counts  telemetry.Event // Actions and Errors
	said    string          // the end of what the agent said
	did     []string        // its last actions
	metered telemetry.Usage // what the gateway saw
	silent  int             // calls in a row that the model did not answer
	silence string          // what the last one of them was answered
	storm   string          // why the gateway lets no call out any more
}

// iterate runs one iteration. An error means that the loop cannot go on.
func (l *Loop) iterate(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	it, text := l.begin(cancel)
	l.save() // its number is used now, whatever comes
	_ = l.vitals(false)
	select {
	case <-l.admitted: // too late, of the one before
	default:
	}
	l.emit(telemetry.Event{Type: telemetry.IterationStart, Iteration: it.number, Summary: fmt.Sprintf("Starting iteration %d", it.number)})
	before, _ := readTail(l.o.Start.Workspace, memoryFile)
	l.admit(ctx)
	exit, err := it.run(ctx, text)
	v := it.judge(ctx, exit, err)
	l.mu.Lock()
	l.now = nil
	l.mu.Unlock()
	l.remember(it, before, v)
	l.finish(it, v)
	if err != nil && errors.Is(err, ErrLeft) {
		return err
	}
	return nil
}

// admitTime is how long an iteration waits for a keeper that does not let it begin.
// Nothing is open then that should not be.
const admitTime = 3 * time.Minute

// admit waits until the keeper lets the iteration begin, where it said that it would.
func (l *Loop) admit(ctx context.Context) {
	if !l.o.Start.Admitted {
		return
	}
	t := time.NewTimer(admitTime)
	defer t.Stop()
	select {
	case <-l.admitted:
	case <-ctx.Done():
	case <-t.C:
		l.log.Warn("the keeper has not let the iteration begin; it begins", "after", admitTime)
	}
}

// ErrLeft is returned by a Runner when something of the agent may be left.
var ErrLeft = errors.New("not everything that the agent started could be ended")

// begin takes a number and makes the instruction.
func (l *Loop) begin(cancel context.CancelCauseFunc) (*iteration, string) {
	start := &l.o.Start
	memory, err := readTail(start.Workspace, memoryFile)
	tasks, _ := readTail(start.Workspace, TasksFile)
	_ = removeFile(start.Workspace, doneFile) // of a run before
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.saved
	if n := len(s.Memory); err != nil && n > 0 {
		memory = s.Memory[n-1] // the agent has destroyed it
	}
	s.Iteration++
	in := instruction{
		identity: start.Bootstrap, memory: memory, tasks: tasks, prompt: s.Prompt.Content, previous: s.PreviousPrompt,
		messages: s.Messages, iteration: s.Iteration, workspace: start.Workspace,
	}
	it := &iteration{
		loop: l, number: s.Iteration, cancel: cancel, prompt: s.Prompt.Content, heard: s.Heard,
		parser: l.o.Parser(), budget: start.Limits, spent: s.Usage,
	}
	l.now = it
	if l.stopping {
		cancel(errStopped)
	}
	return it, in.String()
}

// run runs the agent within its times.
func (it *iteration) run(ctx context.Context, instruction string) (telemetry.Exit, error) {
	limits := it.budget
	for why, d := range it.times() {
		t := time.AfterFunc(d, func() { it.cancel(why) })
		defer t.Stop()
	}
	it.idle = time.AfterFunc(limits.Idle.Duration(), func() { it.cancel(errIdle) })
	defer it.idle.Stop()
	growing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { it.grow(growing) })
	defer wg.Wait()
	defer stop()
	return it.loop.o.Runner.Run(ctx, instruction, it.line)
}

// times are the ends of an iteration, from now.
func (it *iteration) times() map[error]time.Duration {
	times := map[error]time.Duration{errTime: it.budget.Iteration.Duration()}
	if it.budget.WallClock > 0 {
		it.loop.mu.Lock()
		times[errLimit] = time.Until(it.budget.deadline(&it.loop.saved))
		it.loop.mu.Unlock()
	}
	return times
}

func (it *iteration) line(line []byte) {
	it.idle.Reset(it.budget.Idle.Duration())
	it.mu.Lock()
	defer it.mu.Unlock()
	it.tell(it.parser.Line(line))
}

// grow tells now and then how far a message is that is not complete.
func (it *iteration) grow(ctx context.Context) {
	t := time.NewTicker(growTime)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			it.mu.Lock()
			if g := it.parser.Growing(); g.Content != "" {
				g.Iteration = it.number
				it.loop.put(Output{Growing: &g})
			}
			it.mu.Unlock()
		}
	}
}

// tell tells events of the agent and counts them.
func (it *iteration) tell(events []telemetry.Event) {
	for _, e := range events {
		e.Iteration = it.number
		switch e.Type {
		case telemetry.ToolUse:
			it.counts.Actions++
			if it.did = append(it.did, telemetry.Summarise(e.Summary)); len(it.did) > actionsLimit {
				it.did = it.did[1:]
			}
		case telemetry.Error:
			it.counts.Errors++
		case telemetry.Text:
			it.said = tailOf(it.said+e.Content, lastWordsLimit)
		}
		it.loop.emit(e)
	}
}

// tailOf is the end of a text, whole characters.
func tailOf(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[len(text)-limit:], "")
}

// model takes what became of a call to the model.
func (it *iteration) model(m ModelEvent) {
	it.mu.Lock()
	defer it.mu.Unlock()
	if m.Usage != nil {
		it.metered.Add(*m.Usage)
		total := it.spent
		total.Add(it.metered)
		if it.budget.spent(total) != "" {
			it.cancel(errLimit)
		}
	}
	switch {
	case m.Paused:
		it.storm = m.Error
		it.cancel(errStorm)
	case m.OK:
		it.silent, it.silence = 0, ""
	case telemetry.Unanswered(m.Status):
		it.silent, it.silence = it.silent+1, m.Error
		if it.silence == "" {
			it.silence = fmt.Sprintf("HTTP status %d", m.Status)
		}
		if it.silent >= unansweredCalls {
			it.cancel(errModel)
		}
	}
}

// judge says how the iteration ended, by what happened.
func (it *iteration) judge(ctx context.Context, exit telemetry.Exit, err error) telemetry.Verdict {
	it.mu.Lock()
	defer it.mu.Unlock()
	events, v := it.parser.End(exit)
	it.tell(events)
	usage := v.Usage
	if it.metered != (telemetry.Usage{}) {
		cost := usage.Cost // the gateway knows no prices
		usage = it.metered
		usage.Cost = max(usage.Cost, cost)
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStorm):
		v = telemetry.Verdict{Outcome: telemetry.AgentError, Reason: it.storm}
	case errors.Is(cause, errModel):
		v = telemetry.ModelFailed(0, it.silence)
	case errors.Is(cause, errTime), errors.Is(cause, errIdle):
		v = telemetry.Verdict{Outcome: telemetry.Timeout, Reason: cause.Error()}
	case cause != nil:
		if cause == context.Canceled {
			cause = errStopped
		}
		v = telemetry.Verdict{Outcome: telemetry.Cancelled, Reason: cause.Error()}
	case err != nil:
		v = telemetry.Verdict{Outcome: telemetry.AgentError, Reason: err.Error()}
	case v.Outcome == telemetry.AgentError && it.silent > 0:
		v = telemetry.ModelFailed(0, it.silence)
	}
	v.Usage = usage.Sane()
	return v
}

// finish tells the end of an iteration and decides what follows.
func (l *Loop) finish(it *iteration, v telemetry.Verdict) {
	e := it.counts
	e.Type, e.Iteration, e.Status, e.Reason, e.Usage = telemetry.IterationEnd, it.number, string(v.Outcome), v.Reason, &v.Usage
	if v.Outcome != telemetry.OK && v.Outcome != telemetry.Cancelled && e.Errors == 0 {
		e.Errors = 1
		problem := telemetry.Problem(v.Reason)
		problem.Iteration = it.number
		l.emit(problem)
	}
	e.Summary = fmt.Sprintf("Completed: %d actions, %d errors", e.Actions, e.Errors)
	vitals := l.vitals(true)
	e.Vitals = &vitals
	l.emit(e)
	done := ""
	if v.Outcome == telemetry.OK {
		done = l.declaredDone()
	}
	l.mu.Lock()
	l.saved.Usage.Add(v.Usage)
	if v.Outcome == telemetry.OK || it.counts.Actions > 0 { // else it may not have read them
		l.saved.PreviousPrompt = it.prompt
		n := len(l.saved.Messages) // the last are those that came meanwhile
		l.saved.Messages = l.saved.Messages[n-int(min(l.saved.Heard-it.heard, int64(n))):]
	}
	l.next = l.follow(v, time.Now())
	if it.storm != "" {
		l.saved.Paused, l.saved.Reason, l.steps = true, it.storm+" See what is wrong, then resume", 0
	}
	if done != "" {
		l.next = decision{state: telemetry.Done, reason: done}
	}
	l.mu.Unlock()
	l.save()
}

// declaredDone is what the agent says when it says that it is done.
func (l *Loop) declaredDone() string {
	text, err := readTail(l.o.Start.Workspace, doneFile)
	if err != nil {
		return ""
	}
	if text = telemetry.Summarise(text); text == "" {
		return "the agent says that it is done"
	}
	return "the agent says that it is done: " + text
}

// Pauses after a failure double with each in a row, between these.
const (
	failurePause     = 4 * time.Second
	longFailurePause = 5 * time.Minute
	modelPause       = 10 * time.Second
	longModelPause   = 2 * time.Minute
)

// follow decides what follows an outcome. A model that does not answer is waited for,
// however long; an agent that fails again and again is paused.
func (l *Loop) follow(v telemetry.Verdict, now time.Time) decision {
	s := &l.saved
	switch v.Outcome {
	case telemetry.LLMUnavailable:
		s.Unanswered++
		return decision{state: telemetry.Unready, reason: v.Reason, until: now.Add(backoff(s.Unanswered, modelPause, longModelPause))}
	case telemetry.AgentError, telemetry.Timeout:
		s.Unanswered = 0
		s.Failures++
		if s.Failures >= l.o.Start.Limits.Failures {
			s.Paused, l.steps = true, 0
			s.Reason = fmt.Sprintf("%d iterations in a row have failed, the last one so: %s; see what is wrong, then resume", s.Failures, v.Reason)
		}
		return decision{state: telemetry.Waiting, reason: v.Reason, until: now.Add(backoff(s.Failures, failurePause, longFailurePause))}
	case telemetry.OK:
		s.Failures, s.Unanswered = 0, 0
	}
	return decision{state: telemetry.Waiting, until: now.Add(l.o.Start.Pace)}
}

// backoff is the pause after a number of failures in a row, half of it by chance.
func backoff(failures int, first, longest time.Duration) time.Duration {
	d := longest
	if failures < 16 {
		d = min(first<<(failures-1), longest)
	}
	return d/2 + rand.N(d/2+1)
}
