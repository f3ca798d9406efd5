package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sessions"
)

// ErrNoLoop means that nothing is known of a run that a session would belong to.
var ErrNoLoop = errors.New("there is no run of that session")

// Loops are the unattended runs whose sessions an editor attaches to. Their errors
// say in words what is wrong and what to do.
type Loops interface {
	// Loop says how the run of a session does; ErrNoLoop when there is none. Beside
	// another error the ID is set when the run is known to go on all the same.
	Loop(ctx context.Context, session acp.SessionID) (Loop, error)
	// Say gives the run a message of the person, for the next instruction of its agent.
	Say(ctx context.Context, session acp.SessionID, text string) error
	// Steer changes what the run does: "pause", "resume", "step" (one iteration, then
	// pause) or "cancel" (the running iteration).
	Steer(ctx context.Context, session acp.SessionID, verb string) error
}

// Loop is an unattended run as it is now.
type Loop struct {
	// ID is the run's, Agent, Model and Sandbox what it was started with; Model may be empty.
	ID, Agent, Model, Sandbox string
	// State is what it does, Reason why, Until when that ends; zero when nobody knows.
	State  telemetry.State
	Reason string
	Until  time.Time
	// Over is whether it has ended for good.
	Over bool
	// Iteration is the number of the last one that began, Tokens and Cost what all have used.
	Iteration int64
	Tokens    int64
	Cost      float64
}

// String is the state in a sentence's words: paused (5 failures in a row).
func (l *Loop) String() string {
	var more []string
	if l.Reason != "" {
		more = append(more, l.Reason)
	}
	if !l.Until.IsZero() {
		more = append(more, "until "+l.Until.Local().Format("15:04:05"))
	}
	if len(more) == 0 {
		return string(l.State)
	}
	return fmt.Sprintf("%s (%s)", l.State, strings.Join(more, ", "))
}

// idle reports whether the run begins no iteration unless somebody says so.
func (l *Loop) idle() bool { return l.Over || l.State == telemetry.Paused }

// noLoops is a gander without a control plane.
type noLoops struct{}

func (noLoops) Loop(context.Context, acp.SessionID) (Loop, error) {
	return Loop{}, errors.New("this gander has no control plane to ask")
}

func (l noLoops) Say(ctx context.Context, id acp.SessionID, _ string) error { return l.fail(ctx, id) }

func (l noLoops) Steer(ctx context.Context, id acp.SessionID, _ string) error { return l.fail(ctx, id) }

func (l noLoops) fail(ctx context.Context, id acp.SessionID) error {
	_, err := l.Loop(ctx, id)
	return err
}

// Deletable fails for the session of a loop that runs and would go on writing to it.
func Deletable(ctx context.Context, loops Loops, info *sessions.Info) error {
	if info.Origin != sessions.OriginLoop {
		return nil
	}
	loop, err := loops.Loop(ctx, info.ID)
	if loop.Over || err != nil && loop.ID == "" {
		return nil
	}
	return fmt.Errorf("session %s belongs to the loop %s, which is %s; stop it first: gander loop stop %s", info.ID, loop.ID, cmp.Or(string(loop.State), "going on"), loop.ID)
}
