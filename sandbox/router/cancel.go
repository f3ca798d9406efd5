package router

import (
	"context"
	"time"

	"gander.dev/gander/sandbox"
)

const (
	// killTime is what the killing of a cancelled turn's processes may take, on top
	// of the deadline for the agent's answer, before the whole sandbox is closed.
	killTime = 500 * time.Millisecond
	// closeTime is how long the response to a cancelled prompt waits for that; a
	// sandbox that takes longer is waited for by the next prompt.
	closeTime = time.Second
)

// cancelAgent ends the turn inside the sandbox: the agent is asked to stop, then
// every process born in this turn is killed. An agent that does not answer in
// time, or whose processes cannot be hunted down, goes with its whole sandbox.
func (t *turn) cancelAgent(b *backend, mark sandbox.Mark, answered <-chan answer) {
	deadline := t.s.r.opts.CancelDeadline
	if b.hosted() { // which waits for others to be killed
		deadline += killTime + closeTime
	}
	ctx, done := context.WithTimeout(context.Background(), deadline+killTime)
	defer done()
	if t.stopAgent(b, deadline, answered) {
		report, err := b.sb.KillSince(ctx, mark)
		if err == nil {
			t.s.log.Debug("killed what the turn left", "killed", report.Killed, "took", report.Duration)
			return
		}
		t.s.log.Warn("what the turn left could not be killed; the sandbox is closed", "err", err)
	}
	t.s.replaceBackend(b)
}

// stopAgent asks the agent to end the turn and reports whether it did in time.
func (t *turn) stopAgent(b *backend, deadline time.Duration, answered <-chan answer) bool {
	select {
	case a := <-answered: // by itself, just before
		return a.err == nil || !b.over()
	default:
	}
	if err := b.conv.Cancel(); err != nil {
		t.s.log.Debug("cancelling at the agent", "err", err)
	}
	b.place.Model.AbortInFlight()
	timer := time.NewTimer(deadline)
	defer timer.Stop()
	select {
	case a := <-answered:
		return a.err == nil || !b.over()
	case <-t.s.r.client.Done(): // gander is ending: no time for manners
	case <-t.s.r.ctx.Done():
	case <-timer.C:
		t.s.log.Warn("the agent did not answer the cancel in time and is ended", "agent", b.agent.Name())
	}
	return false
}

// replaceBackend ends b and starts a fresh one for the next prompt.
func (s *session) replaceBackend(b *backend) {
	b.stop()
	late := time.NewTimer(closeTime)
	defer late.Stop()
	select {
	case <-b.ended:
	case <-late.C:
		s.log.Warn("the sandbox takes long to close")
		return // the next prompt waits for it and starts another
	}
	select {
	case <-s.r.client.Done(): // there will be no next prompt
	default:
		s.startEarly()
	}
}
