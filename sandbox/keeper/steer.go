package keeper

import (
	"context"
	"fmt"
	"os"
	"time"

	"gander.dev/gander/sandbox/loop"
	"gander.dev/gander/sandbox/registry"
	"gander.dev/gander/sandbox/telemetry"
)

// tell gives the loop a command, if one runs.
func (k *keeper) tell(c loop.Command) bool {
	k.mu.Lock()
	l := k.loop
	k.mu.Unlock()
	return l != nil && l.send(c)
}

// want notes what the person wants of the run, also for the next keeper.
func (k *keeper) want(d Desired) error {
	if err := k.dir.SetDesired(d); err != nil {
		return err
	}
	k.mu.Lock()
	k.spec.Desired = d
	k.mu.Unlock()
	return nil
}

// stop ends the run and returns when nothing of it runs any more.
func (k *keeper) stop(ctx context.Context) error {
	if err := k.want(Stopped); err != nil {
		return err
	}
	k.mu.Lock()
	k.phase = Stopping
	k.mu.Unlock()
	k.tell(loop.Command{Type: loop.CommandStop})
	k.halt()
	select {
	case <-k.halted:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping run %s: %w", k.dir.RunID, ctx.Err())
	}
}

// pause lets the iteration that runs end; none follows, also after a restart.
func (k *keeper) pause(context.Context) error {
	err := k.want(Paused)
	if err == nil {
		k.tell(loop.Command{Type: loop.CommandPause})
	}
	return err
}

// resume is the opposite.
func (k *keeper) resume(context.Context) error {
	err := k.want(Running)
	if err == nil {
		k.tell(loop.Command{Type: loop.CommandResume})
	}
	return err
}

// step has a paused loop do one iteration.
func (k *keeper) step(context.Context) error {
	if err := k.want(Paused); err != nil {
		return err
	}
	return k.command(loop.CommandStep)
}

// cancelIteration ends the iteration that runs.
func (k *keeper) cancelIteration(context.Context) error { return k.command(loop.CommandCancel) }

// hold ends the iteration that runs and lets none follow until somebody resumes the
// run, also after a restart.
// A run that is to stop stays so.
func (k *keeper) hold(reason string) error {
	k.tell(loop.Command{Type: loop.CommandPause, Reason: reason})
	k.tell(loop.Command{Type: loop.CommandCancel})
	k.mu.Lock()
	stopped := k.spec.Desired == Stopped
	k.mu.Unlock()
	if stopped {
		return nil
	}
	return k.want(Paused)
}

// command is tell for what makes no sense without a loop.
func (k *keeper) command(name string) error {
	if !k.tell(loop.Command{Type: name}) {
		return ErrNoLoop
	}
	return nil
}

// message is for the agent's next instruction. The loop says that it has it; until
// then the keeper does.
func (k *keeper) message(text string) error {
	k.mu.Lock()
	if k.unsaved = append(k.unsaved, text); len(k.unsaved) > maxMessages {
		k.unsaved = k.unsaved[1:]
	}
	k.mu.Unlock()
	k.tell(loop.Command{Type: loop.CommandMessage, Message: text})
	return nil
}

// maxMessages bounds the operator's messages that no loop has taken.
const maxMessages = 20

// status is how the run is.
func (k *keeper) status() Status {
	k.emitting.Lock()
	j, seq := k.journal, k.spool.Last()
	k.emitting.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	s := Status{
		RunID: k.dir.RunID, PID: os.Getpid(), Phase: k.phase, Error: k.trouble,
		Sandbox: k.box.ID, Driver: k.box.Driver, Made: j.Made, Seq: seq, Iteration: j.Iteration, Vitals: k.vitals,
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
		if err := k.want(Stopped); err != nil {
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
