package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"
)

// errTime is the cause when work ends with the run's time.
var errTime = errors.New("the run's time is over")

// clock measures the time of a run. It stands while the person is asked something.
type clock struct {
	// mu guards what follows.
	mu    sync.Mutex
	left  time.Duration
	since time.Time
	asked int // questions that wait
	timer *time.Timer
}

// newClock returns a clock and a context that ends when its time is over; 0 is for ever.
func newClock(ctx context.Context, limit time.Duration) (*clock, context.Context) {
	if limit <= 0 {
		return &clock{}, ctx
	}
	ctx, end := context.WithCancelCause(ctx)
	return &clock{left: limit, since: time.Now(), timer: time.AfterFunc(limit, func() { end(errTime) })}, ctx
}

// ask has the clock stand until what it returns is called.
func (c *clock) ask() (answered func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.asked == 1 && c.timer != nil && c.timer.Stop() {
		c.left -= time.Since(c.since)
	}
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.asked--; c.asked == 0 && c.timer != nil {
			c.since = time.Now()
			c.timer.Reset(max(c.left, 0))
		}
	})
}

// remaining returns the time that is left; it is negative where there is no end.
func (c *clock) remaining() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.timer == nil:
		return -1
	case c.asked > 0:
		return max(c.left, 0)
	}
	return max(c.left-time.Since(c.since), 0)
}

func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
}

// reached says which limit a run has reached; empty when it may go on.
func (r *run) reached() string {
	l := r.limits
	switch {
	case r.steps >= l.Steps:
		return fmt.Sprintf("the limit of %d steps is reached (orchestrator.limits.steps)", l.Steps)
	case context.Cause(r.ctx) == errTime:
		return fmt.Sprintf("the limit of %s is reached (orchestrator.limits.time)", l.Time)
	case l.Tokens > 0 && r.spent() >= l.Tokens:
		return fmt.Sprintf("the limit of %d tokens is reached (orchestrator.limits.tokens)", l.Tokens)
	}
	return r.over
}

func (r *run) spent() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used.total
}

// standing tells the planner how much of the limits is used.
func (r *run) standing() string {
	text := fmt.Sprintf("step %d/%d, delegations %d/%d", r.steps, r.limits.Steps, r.delegations, r.limits.Delegations)
	if left := r.clock.remaining(); left >= 0 {
		text += fmt.Sprintf(", %s left", left.Round(time.Second))
	}
	return text
}

// repeats counts what a planner has done already, with what came of it.
type repeats map[string]*repeated

type repeated struct {
	outcome uint64
	times   int // in a row with this outcome
}

// fingerprint tells actions apart, but for how they are written.
func (a *action) fingerprint() string {
	fold := func(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }
	return strings.Join([]string{a.Type, a.Target, a.TaskKey, a.Mode, a.Policy, a.Access, strings.Join(a.Attach, " "), a.Path, fold(a.Message), fold(a.Content), a.SkillName}, "\x00")
}

// again counts an action that is to be done: times is how often it had the same outcome before.
func (p repeats) again(a *action) (times int) {
	if was := p[a.fingerprint()]; was != nil {
		return was.times
	}
	return 0
}

// note takes down what came of an action.
func (p repeats) note(a *action) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(a.outcome)) // never fails
	key, sum := a.fingerprint(), h.Sum64()
	if was := p[key]; was != nil && was.outcome == sum {
		was.times++
		return
	}
	p[key] = &repeated{outcome: sum, times: 1}
}
