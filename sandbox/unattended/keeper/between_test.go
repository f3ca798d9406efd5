package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/loop"
)

// What is asked while no loop runs, the next one starts with.
func TestOrdersBetweenLoops(t *testing.T) {
	tripped := loop.Saved{Iteration: 5, Failures: 5, Paused: true, Reason: "5 iterations in a row have failed"}
	for _, tt := range []struct {
		name  string
		saved loop.Saved // by the loop before
		order func(context.Context, *rig) error
		want  func(loop.Start) bool
	}{
		{
			"pause",
			loop.Saved{},
			func(ctx context.Context, r *rig) error { return r.client.Pause(ctx) },
			func(s loop.Start) bool { return s.Paused },
		},
		{
			"resume", tripped, func(ctx context.Context, r *rig) error { return r.client.Resume(ctx) },
			func(s loop.Start) bool { return !s.Paused && !s.Saved.Paused && s.Saved.Failures == 0 },
		},
		{
			"pause and resume",
			loop.Saved{},
			func(ctx context.Context, r *rig) error {
				if err := r.client.Pause(ctx); err != nil {
					return err
				}
				return r.client.Resume(ctx)
			},
			func(s loop.Start) bool { return !s.Paused && !s.Saved.Paused },
		},
		{
			"hold",
			loop.Saved{},
			func(_ context.Context, r *rig) error { return r.keeper.Load().hold("it leaked") },
			func(s loop.Start) bool { return s.Paused && s.Saved.Reason == "it leaked" },
		},
		{
			"step, which is refused",
			loop.Saved{},
			func(ctx context.Context, r *rig) error {
				if err := r.client.Step(ctx); !errors.Is(err, ErrNoLoop) {
					return fmt.Errorf("a step without a loop: %w", err)
				}
				if s, err := r.dir.Spec(); err != nil || s.Desired != Running {
					return fmt.Errorf("the run is to be %s (%v)", s.Desired, err)
				}
				return nil
			},
			func(s loop.Start) bool { return !s.Paused },
		},
		{
			"message",
			loop.Saved{Messages: []string{"first"}, Heard: 1},
			func(ctx context.Context, r *rig) error { return r.client.Message(ctx, "second") },
			func(s loop.Start) bool { return slices.Equal(s.Saved.Messages, []string{"first", "second"}) },
		},
		{
			"prompt",
			loop.Saved{},
			func(ctx context.Context, r *rig) error {
				r.plane.set("another")
				err := r.client.PromptChanged(ctx)
				await(r.t, "the prompt", func() bool {
					known, _ := os.ReadFile(filepath.Join(r.dir.file(stateDir), "prompt.json"))
					return strings.Contains(string(known), "another")
				})
				return err
			},
			func(s loop.Start) bool { return s.Prompt.Content == "another" },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			starts := make(chan loop.Start, 2)
			r := newRig(t, func(l *fakeLoop) {
				c, ok := l.until(loop.CommandStart)
				if !ok {
					return
				}
				starts <- *c.Start
				if len(starts) == 1 {
					l.line(loop.Output{Saved: &tt.saved})
					return
				}
				_, _ = l.until("never")
			})
			r.driver.starting = func() {
				if r.driver.count() != 2 {
					return
				}
				if err := tt.order(t.Context(), r); err != nil {
					t.Errorf("it is answered with %v", err)
				}
			}
			r.start()
			await(t, "another loop", func() bool { return len(starts) == 2 })
			<-starts
			if s := <-starts; !tt.want(s) {
				t.Errorf("the loop is started with %+v", s)
			}
		})
	}
}

// An order stays given when the loop dies before it has it, whatever the loop has said of
// itself on the way.
func TestOrderCrossesReport(t *testing.T) {
	tripped := loop.Saved{Iteration: 5, Failures: 5, Paused: true, Reason: "5 iterations in a row have failed"}
	for _, tt := range []struct {
		name  string
		saved loop.Saved
		order func(context.Context, *rig) error
		want  func(loop.Start) bool
	}{
		{
			"resume", tripped, func(ctx context.Context, r *rig) error { return r.client.Resume(ctx) },
			func(s loop.Start) bool { return !s.Paused && !s.Saved.Paused && s.Saved.Failures == 0 },
		},
		{
			"hold",
			loop.Saved{Iteration: 5},
			func(_ context.Context, r *rig) error { return r.keeper.Load().hold("it leaked") },
			func(s loop.Start) bool { return s.Paused && s.Saved.Reason == "it leaked" },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			starts := make(chan loop.Start, 2)
			r := newRig(t, func(l *fakeLoop) {
				if c, ok := l.until(loop.CommandStart); ok {
					starts <- *c.Start
				}
				_, _ = l.until("never")
			})
			r.start()
			l := r.driver.last().loop
			l.line(loop.Output{Saved: &tt.saved})
			l.say(begin(5))
			await(t, "the first report", func() bool { return r.plane.count(isBegin) == 1 })
			if err := tt.order(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			tt.saved.Iteration++
			l.line(loop.Output{Saved: &tt.saved}) // which was on its way: it knows of no order
			l.say(begin(6))
			await(t, "the second report", func() bool { return r.plane.count(isBegin) == 2 })
			l.die(1)
			await(t, "another loop", func() bool { return len(starts) == 2 })
			<-starts
			if s := <-starts; !tt.want(s) || s.Saved.Iteration != 6 {
				t.Errorf("the loop is started with %+v", s)
			}
		})
	}
}

// A loop rests when it was paused and knew of every order: it may be about to go on else.
func TestResting(t *testing.T) {
	r := newRig(t, func(l *fakeLoop) { _, _ = l.until("never") })
	r.start()
	l := r.driver.last().loop
	var told int
	check := func(want bool, when string) {
		t.Helper()
		s, err := r.client.Status(t.Context())
		if err != nil || s.Resting != want {
			t.Errorf("%s: the run rests: %v (%v)", when, s.Resting, err)
		}
	}
	says := func(state telemetry.State, orders int64) {
		t.Helper()
		l.line(loop.Output{Event: &telemetry.Event{Type: telemetry.StateChange, State: state}, Orders: orders})
		told++
		await(t, "the state", func() bool { return len(states(r.plane.has())) == told })
	}
	does := func(order func(context.Context) error) {
		t.Helper()
		if err := order(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check(false, "begun")
	says(telemetry.Running, 0)
	check(false, "at work")
	says(telemetry.Paused, 0)
	check(true, "paused by itself")
	does(r.client.Pause)
	check(true, "paused by a person, too")
	does(r.client.Resume)
	check(false, "resumed")
	says(telemetry.Paused, 1)
	check(false, "as it was before it was resumed")
	says(telemetry.Running, 2)
	does(r.client.Pause)
	says(telemetry.Paused, 3)
	check(true, "paused by a person")
	does(r.client.Step)
	check(false, "a step")
	says(telemetry.Running, 4)
	says(telemetry.Paused, 4)
	check(true, "after the step")
	l.die(1)
	await(t, "another loop", func() bool { return r.driver.count() == 2 })
	check(false, "begun again")
}

// A message is with the keeper until a loop has counted it, whatever dies meanwhile.
func TestMessageIsHeardOnce(t *testing.T) {
	starts := make(chan *fakeLoop, 10)
	heard := make(chan []string, 10)
	r := newRig(t, func(l *fakeLoop) {
		c, ok := l.until(loop.CommandStart)
		if !ok {
			return
		}
		heard <- c.Start.Saved.Messages
		starts <- l
		_, _ = l.until("never")
	})
	next := func(want ...string) *fakeLoop {
		t.Helper()
		if got := <-heard; !slices.Equal(got, want) {
			t.Fatalf("the loop starts with the messages %q, want %q", got, want)
		}
		return <-starts
	}
	says := func(l *fakeLoop, s loop.Saved) {
		t.Helper()
		l.line(loop.Output{Saved: &s})
		l.say(end(s.Iteration))
		await(t, "what it says to be kept", func() bool { return slices.Contains(outcomes(r.plane.has()), fmt.Sprint(s.Iteration, " ok")) })
	}
	r.start()
	l := next()
	if err := r.client.Message(t.Context(), "look"); err != nil {
		t.Fatal(err)
	}
	says(l, loop.Saved{Iteration: 1}) // before it has read the message
	l.die(1)
	next("look")
	r.stop()
	if err := r.gone(); err != nil {
		t.Fatal(err)
	}
	r.start()
	l = next("look")
	if err := r.client.Message(t.Context(), "listen"); err != nil {
		t.Fatal(err)
	}
	says(l, loop.Saved{Iteration: 2, Heard: 1}) // an iteration has got the first
	l.die(1)
	l = next("listen")
	says(l, loop.Saved{Iteration: 3, Heard: 2})
	l.die(1)
	next()
}

// All that waits for a loop fits into the line that it is started with.
func TestLongMessagesFitIntoAStart(t *testing.T) {
	starts := make(chan loop.Start, 10)
	r := newRig(t, func(l *fakeLoop) {
		if c, ok := l.until(loop.CommandStart); ok {
			starts <- *c.Start
		}
		_, _ = l.until("never")
	})
	r.start()
	await(t, "a loop", func() bool { return len(starts) == 1 })
	for range maxMessages {
		if err := r.client.Message(t.Context(), strings.Repeat("<", 150<<10)); err != nil {
			t.Fatal(err)
		}
	}
	r.driver.last().loop.die(1)
	await(t, "another loop", func() bool { return len(starts) == 2 })
	<-starts
	if s := <-starts; len(s.Saved.Messages) != maxMessages {
		t.Errorf("%d messages are in the start", len(s.Saved.Messages))
	}
}

// A message that nobody could be sure to hear is not taken.
func TestUnheardMessagesAreBounded(t *testing.T) {
	r := newRig(t, func(l *fakeLoop) { _, _ = l.until("never") })
	r.start()
	for i := range maxMessages {
		if err := r.client.Message(t.Context(), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.client.Message(t.Context(), "one more"); !errors.Is(err, ErrBusy) {
		t.Errorf("one message more: %v", err)
	}
}

// A loop that has heard of messages, and runs no iteration that gets them, keeps no more
// than so many: what it could not keep is not taken.
func TestHeardMessagesAreBounded(t *testing.T) {
	var heard atomic.Int64
	r := newRig(t, func(l *fakeLoop) {
		s := loop.Saved{Paused: true}
		for {
			c, ok := l.until(loop.CommandMessage)
			if !ok {
				return
			}
			s.Heard++
			s.Messages = append(s.Messages, c.Message)
			l.line(loop.Output{Saved: &s})
			l.line(loop.Output{Vitals: &telemetry.Vitals{}}) // it is read when the one before is kept
			heard.Add(1)
		}
	})
	r.start()
	for i := range maxMessages {
		if err := r.client.Message(t.Context(), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		await(t, "the loop to hear it", func() bool { return heard.Load() == int64(i)+1 })
	}
	if err := r.client.Message(t.Context(), "one more"); !errors.Is(err, ErrBusy) {
		t.Errorf("one message more: %v", err)
	}
}

// A run that is to end cannot be had to go on, and takes no words that nobody would read.
func TestEndingStaysSo(t *testing.T) {
	r := newRig(t, obey)
	stopping := make(chan struct{})
	stopped := make(chan struct{})
	r.driver.closing = func() {
		close(stopping)
		<-stopped
	}
	r.start()
	ended := make(chan error, 1)
	go func() { ended <- r.client.Stop(t.Context()) }()
	<-stopping
	for name, order := range map[string]func() error{
		"pause":   func() error { return r.client.Pause(t.Context()) },
		"resume":  func() error { return r.client.Resume(t.Context()) },
		"step":    func() error { return r.client.Step(t.Context()) },
		"message": func() error { return r.client.Message(t.Context(), "wait") },
	} {
		if err := order(); !errors.Is(err, ErrNoLoop) {
			t.Errorf("%s of a run that ends: %v", name, err)
		}
	}
	close(stopped)
	if err := errors.Join(<-ended, r.gone()); err != nil {
		t.Fatal(err)
	}
	if s, err := r.dir.Spec(); err != nil || s.Desired != Stopped {
		t.Errorf("the run is to be %s (%v)", s.Desired, err)
	}
}
