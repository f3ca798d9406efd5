package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/telemetry"
)

// A Runner runs one iteration of an agent. It has one caller.
type Runner interface {
	// Run starts the agent with the instruction as its stdin, gives each line that it
	// prints to line, from one goroutine, and returns when nothing of it is left, whatever
	// it started and however that escaped. When ctx ends it kills all of it. An error
	// means that it could not be started, or that something may be left.
	Run(ctx context.Context, instruction string, line func([]byte)) (telemetry.Exit, error)
}

// Options are what a Loop is made of. All but Vitals and Log are needed.
type Options struct {
	Start  Start
	Runner Runner
	// Parser makes the parser of one iteration.
	Parser func() telemetry.Parser
	// Output takes what the loop has to say, one at a time, in order.
	Output func(Output)
	// Vitals says what the sandbox uses; with disk only where that is asked for, as it
	// takes its time. May be nil.
	Vitals func(disk bool) telemetry.Vitals
	// Log takes what is worth knowing; nil discards it.
	Log *slog.Logger
}

// Loop runs iterations. Do may be called from any goroutine.
type Loop struct {
	o   Options
	log *slog.Logger
	// wake has an element when a command may have changed what is to be done.
	wake chan struct{}
	// admitted has an element when the keeper has let an iteration begin.
	admitted chan struct{}

	// out guards the calls of Output, and shown, the last state that was told.
	out   sync.Mutex
	shown decision

	// mu guards the fields below.
	mu       sync.Mutex
	saved    Saved
	orders   int64 // see Output
	stopping bool
	steps    int      // iterations that run though the loop is paused
	hurry    bool     // next is not waited for
	next     decision // what the last iteration is followed by
	now      *iteration
}

// New makes a Loop; Run it.
func New(o Options) *Loop {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Start.Bootstrap == "" {
		o.Start.Bootstrap = sandbox.Bootstrap
	}
	if o.Start.Pace <= 0 {
		o.Start.Pace = DefaultPace
	}
	o.Start.Limits = o.Start.Limits.withDefaults()
	l := &Loop{o: o, log: o.Log, wake: make(chan struct{}, 1), admitted: make(chan struct{}, 1), saved: o.Start.Saved}
	if o.Start.Prompt.Known {
		l.saved.Prompt = o.Start.Prompt
	}
	if o.Start.Paused && !l.saved.Paused {
		l.saved.Pause("")
	}
	if l.saved.StartedAt == 0 {
		l.saved.StartedAt = time.Now().UnixMilli()
	}
	return l
}

func (l Limits) withDefaults() Limits {
	l.Iteration = cmp.Or(l.Iteration, DefaultIteration)
	l.Idle = cmp.Or(l.Idle, DefaultIdle)
	l.Failures = cmp.Or(l.Failures, DefaultFailures)
	return l
}

// pausedByPerson is the reason of a pause that somebody asked for.
const pausedByPerson = "somebody has paused the loop"

// Why an iteration is ended from here.
var (
	errStopped   = errors.New("the loop was told to stop")
	errCancelled = errors.New("somebody has cancelled the iteration")
	errTime      = errors.New("the time of one iteration is over")
	errIdle      = errors.New("the agent has said nothing for too long")
	errModel     = errors.New("the model does not answer")
	errStorm     = errors.New("the agent calls the model and comes no further")
	errLimit     = errors.New("a limit of the run is reached")
)

// Do carries a command out. It does not wait for what follows.
func (l *Loop) Do(c Command) {
	if l.do(c) {
		l.save()
		l.stir()
	}
}

// do reports whether the command may have changed what is to be kept, or done.
func (l *Loop) do(c Command) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch c.Type {
	case CommandPause, CommandResume, CommandStep:
		l.orders++
	}
	switch c.Type {
	case CommandPrompt:
		if c.Prompt != nil && c.Prompt.Known {
			l.saved.Prompt = *c.Prompt
		}
	case CommandMessage:
		l.addMessage(c.Message)
	case CommandPause:
		l.saved.Pause(c.Reason)
		l.steps = 0
	case CommandResume:
		l.saved.Resume()
		l.hurry = true
	case CommandStep:
		if !l.saved.Paused {
			l.saved.Pause("")
		}
		l.steps, l.hurry = 1, true
		if l.now != nil { // the one that runs is the step
			l.steps = 0
		}
	case CommandCancel:
		l.end(errCancelled)
	case CommandStop:
		l.stopping = true
		l.end(errStopped)
	case CommandBegin:
		select {
		case l.admitted <- struct{}{}:
		default:
		}
		return false
	case CommandModel:
		if c.Model != nil && l.now != nil {
			l.now.model(*c.Model)
		}
		return false
	default:
		return false
	}
	return true
}

// messagesLimit bounds what is kept of the operator's words until an iteration gets them.
const messagesLimit = 20

// CutMessage is what a loop keeps of a message of the operator: the end of one that is long.
func CutMessage(text string) string { return tail(text, sectionLimit) }

func (l *Loop) addMessage(text string) {
	l.saved.Heard++
	l.saved.Messages = append(l.saved.Messages, CutMessage(text))
	if over := len(l.saved.Messages) - messagesLimit; over > 0 {
		l.saved.Messages = l.saved.Messages[over:]
	}
}

func (l *Loop) end(why error) {
	if l.now != nil {
		l.now.cancel(why)
	}
}

func (l *Loop) stir() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run runs iterations until the loop is told to stop, is done, or ctx ends. When it
// returns nothing of the agent is left, or the error says so.
func (l *Loop) Run(ctx context.Context) error {
	beats, silence := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { l.beat(beats) })
	defer wg.Wait()
	defer silence()
	for ctx.Err() == nil {
		d := l.decide(time.Now())
		l.tell(d)
		switch d.state {
		case telemetry.Stopped, telemetry.Done:
			l.save()
			return nil
		case telemetry.Running:
			if err := l.iterate(ctx); err != nil {
				l.tell(decision{state: telemetry.Broken, reason: err.Error()})
				return err
			}
		default:
			l.rest(ctx, d.until)
		}
	}
	return nil
}

// decision is what a loop does next.
type decision struct {
	state  telemetry.State
	reason string
	until  time.Time // zero: nobody knows
	orders int64     // that were known
}

// decide looks what is to be done now.
func (l *Loop) decide(now time.Time) (d decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { d.orders = l.orders }()
	switch over := l.o.Start.Limits.exceeded(&l.saved, now); {
	case l.stopping:
		return decision{state: telemetry.Stopped}
	case l.next.state == telemetry.Done:
		return l.next
	case over != "":
		return decision{state: telemetry.Done, reason: over}
	case l.saved.Paused && l.steps == 0:
		return decision{state: telemetry.Paused, reason: l.saved.Reason}
	case !l.saved.Prompt.Known:
		return decision{state: telemetry.Waiting, reason: "the control plane has not said yet what is to be done"}
	case !l.hurry && now.Before(l.next.until):
		return l.next
	}
	l.hurry, l.steps = false, max(0, l.steps-1)
	return decision{state: telemetry.Running}
}

// exceeded says which limit of the run is reached; empty for none.
func (l Limits) exceeded(s *Saved, now time.Time) string {
	switch {
	case l.Iterations > 0 && s.Iteration >= l.Iterations:
		return fmt.Sprintf("the limit of %d iterations is reached", l.Iterations)
	case l.WallClock > 0 && !now.Before(l.deadline(s)):
		return fmt.Sprintf("the limit of %v for the whole run is reached", l.WallClock.Duration())
	}
	return l.spent(s.Usage)
}

// spent says which limit of use is reached.
func (l Limits) spent(u telemetry.Usage) string {
	switch {
	case l.Tokens > 0 && u.Total >= l.Tokens:
		return fmt.Sprintf("the limit of %d tokens is reached", l.Tokens)
	case l.Cost > 0 && u.Cost >= l.Cost:
		return fmt.Sprintf("the limit of %g for cost is reached", l.Cost)
	}
	return ""
}

// deadline is when the time of the run is over.
func (l Limits) deadline(s *Saved) time.Time {
	return time.UnixMilli(s.StartedAt).Add(l.WallClock.Duration())
}

// rest returns when the time has come, a command has, or the run's time is over.
func (l *Loop) rest(ctx context.Context, until time.Time) {
	l.mu.Lock()
	if limits := l.o.Start.Limits; limits.WallClock > 0 {
		if end := limits.deadline(&l.saved); until.IsZero() || end.Before(until) {
			until = end
		}
	}
	l.mu.Unlock()
	var over <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		over = t.C
	}
	select {
	case <-ctx.Done():
	case <-l.wake:
	case <-over:
	}
}

// beat tells the vitals now and then.
func (l *Loop) beat(ctx context.Context) {
	t := time.NewTicker(Heartbeat)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			v := l.vitals(false)
			l.put(Output{Vitals: &v})
		}
	}
}

func (l *Loop) vitals(disk bool) telemetry.Vitals {
	if l.o.Vitals == nil {
		return telemetry.Vitals{}
	}
	return l.o.Vitals(disk)
}

// tell tells a state, when it is another one than before, or the answer to an order.
func (l *Loop) tell(d decision) {
	l.out.Lock()
	same := l.shown == d
	l.shown = d
	l.out.Unlock()
	if same {
		return
	}
	e := telemetry.Event{Type: telemetry.StateChange, State: d.state, Reason: d.reason, Summary: string(d.state)}
	if d.reason != "" {
		e.Summary += ": " + d.reason
	}
	if !d.until.IsZero() {
		e.Until = d.until.UnixMilli()
	}
	l.event(e, d.orders)
}

// emit tells an event, as of now.
func (l *Loop) emit(e telemetry.Event) { l.event(e, 0) }

func (l *Loop) event(e telemetry.Event, orders int64) {
	e.Agent, e.Time = l.o.Start.Agent, time.Now().UnixMilli()
	e.Cap()
	l.put(Output{Event: &e, Orders: orders})
}

// save has what must be known to go on kept outside.
func (l *Loop) save() {
	l.mu.Lock()
	s := l.saved
	s.Memory, s.Messages = slices.Clone(s.Memory), slices.Clone(s.Messages)
	orders := l.orders
	l.mu.Unlock()
	l.put(Output{Saved: &s, Orders: orders})
}

func (l *Loop) put(o Output) {
	l.out.Lock()
	defer l.out.Unlock()
	l.o.Output(o)
}
