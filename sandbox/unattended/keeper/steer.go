package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/loop"
)

// tell gives the loop a command. The error is ErrNoLoop when none runs.
func (k *keeper) tell(c loop.Command) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.command(c)
}

// command is tell; mu is held.
func (k *keeper) command(c loop.Command) error {
	if k.loop == nil {
		return ErrNoLoop
	}
	return k.loop.send(c)
}

// ordered is command for what the loop counts; mu is held.
func (k *keeper) ordered(c loop.Command) error {
	err := k.command(c)
	if err == nil {
		k.loop.orders++
		k.resting = k.resting && c.Type == loop.CommandPause
	}
	return err
}

// want notes what the person wants of the run, also for the next keeper; mu is held.
func (k *keeper) want(d Desired) error {
	err := k.dir.SetDesired(d)
	if err == nil {
		k.spec.Desired = d
	}
	return err
}

// stop ends the run, also when that cannot be noted, and returns when nothing of it runs
// any more. The error says that a later keeper may not know of it.
func (k *keeper) stop(ctx context.Context) error {
	k.mu.Lock()
	err := k.want(Stopped)
	k.spec.Desired, k.phase = Stopped, Stopping
	_ = k.command(loop.Command{Type: loop.CommandStop}) // without it, its sandbox is closed all the same
	k.mu.Unlock()
	k.halt()
	select {
	case <-k.halted:
	case <-ctx.Done():
		return errors.Join(err, fmt.Errorf("stopping run %s: %w", k.dir.RunID, ctx.Err()))
	}
	if err == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.want(Stopped); err != nil { // there may be room again, as the sandbox's home is gone
		return fmt.Errorf("nothing of run %s runs any more, and that cannot be noted: %w", k.dir.RunID, err)
	}
	return nil
}

// pause lets the iteration that runs end; none follows, also after a restart.
func (k *keeper) pause(context.Context) error { return k.pauseFor("") }

// pauseFor is pause with a reason; empty is that somebody wants it.
func (k *keeper) pauseFor(reason string) error {
	return k.order(Paused, loop.Command{Type: loop.CommandPause, Reason: reason}, func(s *loop.Saved) { s.Pause(reason) })
}

// resume is the opposite.
func (k *keeper) resume(context.Context) error {
	return k.order(Running, loop.Command{Type: loop.CommandResume}, (*loop.Saved).Resume)
}

// order notes what the person wants, and tells the loop. What that changes is changed here,
// too: there may be no loop, or it may die before it says that it has done so. One that
// runs is told even when nothing can be kept. The error is ErrNoLoop when the run is to end.
func (k *keeper) order(to Desired, c loop.Command, change func(*loop.Saved)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.spec.Desired == Stopped {
		return ErrNoLoop
	}
	change(&k.saved.Saved)
	err := errors.Join(k.want(to), k.save())
	if told := k.ordered(c); !errors.Is(told, ErrNoLoop) {
		err = errors.Join(err, told)
	}
	return err
}

// step has a paused loop do one iteration.
func (k *keeper) step(context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.spec.Desired == Stopped {
		return ErrNoLoop
	}
	if err := k.ordered(loop.Command{Type: loop.CommandStep}); err != nil {
		return err
	}
	return k.want(Paused)
}

// cancelIteration ends the iteration that runs.
func (k *keeper) cancelIteration(context.Context) error {
	return k.tell(loop.Command{Type: loop.CommandCancel})
}

// hold ends the iteration that runs and lets none follow until somebody resumes the
// run, also after a restart.
// A run that is to stop stays so.
func (k *keeper) hold(reason string) error {
	err := k.pauseFor(reason)
	if errors.Is(err, ErrNoLoop) {
		return nil
	}
	if told := k.tell(loop.Command{Type: loop.CommandCancel}); !errors.Is(told, ErrNoLoop) {
		err = errors.Join(err, told)
	}
	return err
}

// message is for the agent's next instruction. The keeper has it, and the next keeper,
// until a loop counts it among those that it has heard.
func (k *keeper) message(text string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.spec.Desired == Stopped:
		return ErrNoLoop
	case len(k.saved.Messages)+len(k.saved.Unheard) >= maxMessages: // a loop drops the oldest of more
		return ErrBusy
	}
	if err := k.command(loop.Command{Type: loop.CommandMessage, Message: text}); err != nil && !errors.Is(err, ErrNoLoop) {
		return err
	}
	k.saved.Unheard = append(k.saved.Unheard, loop.CutMessage(text))
	return k.save()
}

// maxMessages bounds the operator's messages that no iteration has got, whether a loop has
// heard of them or not. It is what a loop keeps at most.
const maxMessages = 20

// status is how the run is, also while events wait to be written.
func (k *keeper) status() Status {
	seq := k.spool.Last()
	k.mu.Lock()
	defer k.mu.Unlock()
	j := k.journal
	s := Status{
		RunID: k.dir.RunID, PID: os.Getpid(), Phase: k.phase, Error: k.trouble,
		Sandbox: k.box.ID, Driver: k.box.Driver, Made: j.Made, Seq: seq, Iteration: j.Iteration, Using: k.using, Vitals: k.vitals, Resting: k.resting,
	}
	if r, err := registry.Get(k.o.Home, k.box.ID); err == nil {
		s.Container = r.Container
	}
	return s
}

// conclude says how the run stands when nothing of it runs any more. ctx is the
// keeper's: when it has ended the run is to go on elsewhere.
func (k *keeper) conclude(ctx context.Context, failure error) {
	k.closeIteration("The iteration was interrupted: the run was ended.")
	over := k.over()
	switch {
	case failure != nil:
		k.mu.Lock()
		k.phase, k.trouble = Failed, failure.Error()
		k.mu.Unlock()
	case over || k.wanted() == Stopped:
		if !over {
			k.say(telemetry.Stopped, "", time.Time{})
		}
		k.mu.Lock()
		k.phase = Draining
		k.mu.Unlock()
	}
	if failure != nil || over {
		k.mu.Lock()
		err := k.want(Stopped)
		k.mu.Unlock()
		if err != nil {
			k.log.Error("that the run is over cannot be noted", "err", err)
		}
	}
	k.once.Do(func() { close(k.ready) })
	if ctx.Err() == nil {
		if err := k.dir.clear(); err != nil {
			k.log.Warn("the run's home is left over", "err", err)
		}
	}
}
