package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/loop"
)

// The names of the doors inside.
const (
	modelDoor   = "model"
	egressDoor  = "egress"
	controlDoor = "control"
)

// URLVariable is the variable in which processes inside find the control plane.
const URLVariable = "CONTROL_PLANE_URL"

// The labels of a run's sandbox, beside those of every other.
const (
	RunLabel     = "gander.run"
	SessionLabel = "gander.session"
)

const (
	createTime  = 5 * time.Minute // for making a sandbox; a daemon may be busy
	prepareTime = time.Minute     // for what an agent needs in it
	leftTime    = 20 * time.Second
	graceTime   = 2500 * time.Millisecond // for a loop that was told to stop
)

// incarnation is one sandbox with a loop in it, and the ways out of it.
type incarnation struct {
	k *keeper

	// mu guards what the person was told, and how much of that a program inside had caused.
	mu       sync.Mutex
	notices  map[string]bool
	provoked int

	model  Model
	egress Egress
	door   *door
	sb     sandbox.Sandbox
}

// incarnate makes a sandbox, runs the loop in it until either has ended, or ctx has,
// and returns why when nothing of them is left.
func (k *keeper) incarnate(ctx context.Context) (err error) {
	in := &incarnation{k: k, notices: map[string]bool{}}
	defer func() { err = errors.Join(err, in.close()) }()
	making, cancel := context.WithTimeout(ctx, createTime)
	defer cancel()
	start, env, err := in.make(making)
	if err != nil {
		return err
	}
	l, err := startLoop(making, in.sb, env, k.log)
	if err != nil {
		return err
	}
	k.up(in.sb.Info(), l, start)
	done := make(chan struct{})
	account := newMeter(ctx, in.sb, k.log)
	silence := time.NewTimer(k.o.silence)
	var refused error // an iteration
	go func() {       // ends with the loop's output, which ends with the sandbox
		defer close(done)
		defer k.down()
		defer silence.Stop()
		l.read(func(o loop.Output) {
			silence.Stop() // the time that events take to be kept is not the loop's
			account.correct(ctx, &o)
			k.hear(o)
			if o.Event != nil && o.Event.Type == telemetry.IterationStart && refused == nil {
				if refused = in.begin(ctx); refused != nil {
					_ = in.sb.Close() // close says the error, if there is one
				}
			}
			silence.Reset(k.o.silence)
		})
	}()
	var silent error
	select {
	case <-done:
	case <-in.sb.Done():
	case <-silence.C:
		silent = fmt.Errorf("the loop has said nothing for %v: it hangs, or was stopped from inside", k.o.silence)
	case <-ctx.Done():
	}
	in.end(ctx, l, done)
	<-done
	l.work.Wait()
	if ctx.Err() != nil {
		return nil
	}
	why := cmp.Or(refused, silent, l.outcome(context.WithoutCancel(ctx)))
	if len(l.stderr) > 0 {
		k.log.Warn("the loop's last words", "stderr", string(l.stderr))
	}
	return why
}

// end gives a loop that is still there a moment to end by itself, when it was told to,
// and closes the sandbox then: its streams end with it.
func (in *incarnation) end(ctx context.Context, l *process, done <-chan struct{}) {
	if ctx.Err() != nil && in.k.wanted() == Stopped {
		t := time.NewTimer(graceTime)
		defer t.Stop()
		select {
		case <-done:
			return
		case <-in.sb.Done():
		case <-t.C:
			in.k.log.Warn("the loop did not stop in time; the sandbox is closed", "after", graceTime)
		}
	}
	select {
	case <-done:
		return
	default:
		_ = in.sb.Close() // close says the error, if there is one
	}
}

// make makes the sandbox and what the loop is to run in it.
func (in *incarnation) make(ctx context.Context) (start loop.Start, env []string, err error) {
	k := in.k
	place, err := k.o.Place(in.notice)
	if err != nil {
		return start, nil, err
	}
	if err := in.openWays(); err != nil {
		return start, nil, err
	}
	if err := registry.AwaitEnd(ctx, k.o.Home, k.dir.SandboxID(), leftTime); err != nil {
		return start, nil, err
	}
	spec := in.spec(place)
	if in.sb, err = k.o.Driver.Create(ctx, spec); err != nil {
		return start, nil, fmt.Errorf("making the %s sandbox: %w", k.o.Driver.Name(), err)
	}
	k.placed(in.sb.Info())
	found, err := k.o.Examine(ctx, in.sb, spec)
	if err != nil {
		return start, nil, err
	}
	for _, text := range append(found, in.sb.Info().Warnings...) {
		in.notice(text)
	}
	return in.prepare(ctx, place)
}

// begin lets an iteration run that the loop has announced, when what has come to the
// sandbox since the last was looked at.
func (in *incarnation) begin(ctx context.Context) error {
	if in.k.o.Again == nil {
		return nil
	}
	said, err := in.k.o.Again(ctx)
	if err != nil || ctx.Err() != nil { // there is to be none
		return err
	}
	for _, text := range said {
		in.notice(text)
	}
	return in.k.tell(loop.Command{Type: loop.CommandBegin})
}

// openWays opens what leads out of the sandbox.
func (in *incarnation) openWays() (err error) {
	o := in.k.o
	if in.model, err = o.OpenModel(in.provokedNotice, func(e loop.ModelEvent) {
		_ = in.k.tell(loop.Command{Type: loop.CommandModel, Model: &e}) // a call that nobody counts any more
	}); err != nil {
		return err
	}
	if o.OpenEgress != nil {
		if in.egress, err = o.OpenEgress(in.provokedNotice, in.k.decided); err != nil {
			return err
		}
	}
	in.door = newDoor(in.k.plane, in.k.prompts, o.Letter, in.k.log)
	return nil
}

func (in *incarnation) spec(place Place) sandbox.Spec {
	k := in.k
	k.mu.Lock()
	run := k.spec
	k.mu.Unlock()
	doors := []sandbox.Door{{Name: modelDoor, Dial: in.model.Dial}, {Name: controlDoor, Dial: in.door.listener.Dial}}
	if in.egress != nil {
		doors = append(doors, sandbox.Door{Name: egressDoor, Dial: in.egress.Dial})
	}
	if place.Rules != nil {
		place.Rules.Denied = func(d sandbox.Denial) { in.denied(d) }
	}
	return sandbox.Spec{
		ID: k.dir.SandboxID(), WorkingDir: run.Workspace, Home: k.dir.file(homeDir), HomeFiles: place.HomeFiles,
		Mounts: append(k.o.Agent.Mounts(), place.Mounts...), Doors: doors, Rules: place.Rules, Limits: place.Limits,
		Labels: map[string]string{"agent": run.Agent, "session": run.SessionID, RunLabel: run.RunID, SessionLabel: run.SessionID},
	}
}

// prepare has the agent say how an iteration of it is started.
func (in *incarnation) prepare(ctx context.Context, place Place) (loop.Start, []string, error) {
	k, info := in.k, in.sb.Info()
	ctx, cancel := context.WithTimeout(ctx, prepareTime)
	defer cancel()
	k.mu.Lock()
	run := k.spec
	k.mu.Unlock()
	cmd, err := k.o.Agent.OneShot(ctx, in.sb, sandbox.SessionParams{
		WorkingDir: run.Workspace, ModelAddr: info.Doors[modelDoor], ModelToken: in.model.Token(), ProxyAddr: info.Doors[egressDoor],
		Model: run.Model, Env: append([]string{URLVariable + "=http://" + info.Doors[controlDoor]}, place.Env...),
	})
	if err != nil {
		return loop.Start{}, nil, err
	}
	return loop.Start{
		RunID: run.RunID, Agent: run.Agent, Workspace: run.Workspace, Run: loop.AgentCommand{Args: cmd.Args, Env: cmd.Env},
		Limits: run.Limits, Pace: run.Pace, Admitted: k.o.Again != nil,
	}, info.Environment(append(sandbox.PlainEnvironment(info.Home), "LANG=C.UTF-8")), nil
}

// close takes down whatever was opened. The sandbox goes first: what is in it cannot
// hold up the rest then.
func (in *incarnation) close() error {
	var err error
	if in.sb != nil {
		err = in.sb.Close()
	}
	if in.model != nil {
		_ = in.model.Close()
	}
	if in.egress != nil {
		_ = in.egress.Close()
	}
	if in.door != nil {
		in.door.close()
	}
	return err
}

// maxProvoked bounds what is said about what programs inside one sandbox try.
const maxProvoked = 50

// notice tells the person something about this sandbox, once.
func (in *incarnation) notice(text string) {
	in.mu.Lock()
	seen := in.notices[text]
	in.notices[text] = true
	in.mu.Unlock()
	if !seen {
		in.k.notice(text)
	}
}

// provokedNotice is notice for what a program inside can cause as often as it likes. What else
// there is to say is said after any number of these.
func (in *incarnation) provokedNotice(text string) {
	in.mu.Lock()
	if in.notices[text] || in.provoked == maxProvoked {
		in.mu.Unlock()
		return
	}
	in.provoked++
	if in.provoked == maxProvoked {
		text += " What else is refused or fails in this sandbox is not said any more."
	}
	in.mu.Unlock()
	in.notice(text)
}

// denied tells the person why a program inside was refused a file.
func (in *incarnation) denied(d sandbox.Denial) {
	text := fmt.Sprintf("%q is closed by %s: a program inside was refused access (%s).", d.Path, cmp.Or(d.By, ".gooseignore"), d.Operation)
	switch {
	case d.Rule == sandbox.HiddenByGit:
		text = sandbox.SayHidden
	case d.Rule == sandbox.DeniedUnheard:
		text = fmt.Sprintf("%q is a socket at which nobody in the sandbox listens: a program inside was refused (%s). Programs outside are not reached by sockets.", d.Path, d.Operation)
	case d.Rule == sandbox.DeniedByGit:
		text = fmt.Sprintf("%q may keep content of closed files, and policy.git is \"hide\": git was refused it (%s). What came from outside is looked at before the next iteration.", d.Path, d.Operation)
	case d.Allow != "":
		text = fmt.Sprintf("%q is protected (%s: %s): a program inside was refused (%s). To allow it, add %q to policy.writes.allow in gander's config.json.", d.Path, d.Rule, d.Why, d.Operation, d.Allow)
	case d.Rule != "":
		text = fmt.Sprintf("%q cannot be changed from inside the sandbox: a program was refused (%s).", d.Path, d.Operation)
	}
	go in.provokedNotice(text) // it must not block; the event is written in no time, or the keeper ends
}

// up sends the loop what it is to run. What the person has asked for until now is in it, and
// what is asked for from now on the loop is told.
func (k *keeper) up(info sandbox.Info, l *process, start loop.Start) {
	k.emitting.Lock()
	j := k.journal
	j.Made++
	k.note(j)
	k.emitting.Unlock()
	k.mu.Lock()
	start.Paused, start.Prompt, start.Saved = k.spec.Desired == Paused, k.prompts.current(), k.saved.forStart()
	start.Saved.Iteration = max(start.Saved.Iteration, j.Iteration)
	_ = l.send(loop.Command{Type: loop.CommandStart, Start: &start}) // the first one: there is room
	k.phase, k.trouble, k.box, k.loop = Up, "", info, l
	k.mu.Unlock()
	k.once.Do(func() { close(k.ready) })
}

// down notes that the loop does not run any more.
func (k *keeper) down() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.loop, k.box, k.vitals, k.resting = nil, sandbox.Info{}, nil, false
}

// hear takes a line of the loop, which is k.loop until its last line.
func (k *keeper) hear(o loop.Output) {
	if o.Saved != nil {
		k.mu.Lock()
		k.saved.take(*o.Saved, o.Orders < k.loop.orders)
		err := k.save()
		k.mu.Unlock()
		if err != nil {
			k.log.Error("what the loop wants remembered cannot be kept", "err", err)
		}
	}
	if o.Vitals != nil {
		k.mu.Lock()
		k.vitals = o.Vitals
		k.mu.Unlock()
	}
	if o.Event != nil {
		if o.Event.Type == telemetry.StateChange {
			k.mu.Lock()
			k.resting = o.Event.State == telemetry.Paused && o.Orders == k.loop.orders
			k.mu.Unlock()
		}
		k.take(*o.Event)
	}
}

// waiting says that the sandbox is made again, and when.
func (k *keeper) waiting(err error, pause time.Duration) {
	reason := "the sandbox is made again"
	if err != nil {
		reason += ": " + err.Error()
	}
	k.mu.Lock()
	k.phase, k.trouble = Waiting, reason
	k.mu.Unlock()
	k.closeIteration("The iteration was interrupted: " + reason + ".")
	k.say(telemetry.Waiting, reason, time.Now().Add(pause))
}
