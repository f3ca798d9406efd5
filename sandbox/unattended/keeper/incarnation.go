package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/outbound/egress"
	"gander.dev/gander/sandbox/outbound/gateway"
	"gander.dev/gander/sandbox/rules/gitconfig"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/loop"
)

// controlDoor is the name of the door to the control plane inside.
const controlDoor = "control"

// URLVariable is the variable in which processes inside find the control plane.
const URLVariable = "CONTROL_PLANE_URL"

// PaceVariable is the variable that has the seconds between two iterations.
const PaceVariable = "ITERATION_SLEEP"

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

// incarnation is one sandbox with a loop in it.
type incarnation struct {
	k *keeper

	// mu guards what the person was told, and how much of that a program inside had caused.
	mu       sync.Mutex
	notices  map[string]bool
	provoked int

	// hosts were asked about; mu guards them, too. The questions end with life.
	asks    bool
	hosts   map[string]bool
	life    context.Context
	endLife context.CancelFunc
	asking  sync.WaitGroup

	door  *door
	place *confine.Place
}

// incarnate makes a sandbox, runs the loop in it until either has ended, or ctx has,
// and returns why when nothing of them is left.
func (k *keeper) incarnate(ctx context.Context) (err error) {
	in := &incarnation{k: k, notices: map[string]bool{}, asks: k.asksHosts(), hosts: map[string]bool{}}
	in.life, in.endLife = context.WithCancel(ctx)
	k.mu.Lock()
	k.present = in
	k.mu.Unlock()
	defer func() { err = errors.Join(err, in.close()) }()
	making, cancel := context.WithTimeout(ctx, createTime)
	defer cancel()
	start, env, err := in.make(making)
	if err != nil {
		return err
	}
	l, err := startLoop(making, in.place.Sandbox, env, k.log)
	if err != nil {
		return err
	}
	k.up(in.place.Sandbox.Info(), l, start)
	in.k.ports.begin(in)
	done := make(chan struct{})
	account := newMeter(ctx, in.place.Sandbox, k.log)
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
			if o.Event != nil && o.Event.Type == telemetry.ToolResult {
				in.exceeded(ctx)
			}
			if o.Event != nil && o.Event.Type == telemetry.IterationStart && refused == nil {
				if refused = in.begin(ctx); refused != nil {
					_ = in.place.Sandbox.Close() // close says the error, if there is one
				}
			}
			silence.Reset(k.o.silence)
		})
	}()
	var silent error
	select {
	case <-done:
	case <-in.place.Sandbox.Done():
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
		case <-in.place.Sandbox.Done():
		case <-t.C:
			in.k.log.Warn("the loop did not stop in time; the sandbox is closed", "after", graceTime)
		}
	}
	select {
	case <-done:
		return
	default:
		_ = in.place.Sandbox.Close() // close says the error, if there is one
	}
}

// make makes the sandbox and what the loop is to run in it.
func (in *incarnation) make(ctx context.Context) (start loop.Start, env []string, err error) {
	k := in.k
	if err := registry.AwaitEnd(ctx, k.o.Home, k.dir.SandboxID(), leftTime); err != nil {
		return start, nil, err
	}
	if in.place, err = confine.Open(ctx, confine.Request{
		Terms: k.o.Terms, Driver: k.o.Driver, StateDir: k.o.Home, Spec: in.spec(), Denied: in.denied, Way: in.way(),
		Doors: in.doors, Make: in.create, Log: k.log,
	}); err != nil {
		return start, nil, err
	}
	for _, text := range append(in.place.Examined.Notices(), in.place.Sandbox.Info().Warnings...) {
		in.notice(text)
	}
	return in.prepare(ctx)
}

// begin lets an iteration run that the loop has announced, when what has come to the
// sandbox since the last was looked at.
func (in *incarnation) begin(ctx context.Context) error {
	said, err := in.place.Check(ctx)
	if err != nil || ctx.Err() != nil { // there is to be none
		return err
	}
	for _, text := range said {
		in.notice(text)
	}
	in.place.Model.Proceed()
	return in.k.tell(loop.Command{Type: loop.CommandBegin})
}

// way says what may lead out of the sandbox. Nobody is there to be waited for about hosts. What
// the run may use holds beside the policy's budget.
func (in *incarnation) way() confine.Way {
	k, run := in.k, in.k.asked()
	return confine.Way{
		Session: acp.SessionID(run.SessionID), WorkingDir: run.Workspace, Agent: run.Agent, Context: k.life, Leaks: k.leaks.Leaks,
		Notice:  func(_, text string) { in.provokedNotice(text) },
		Decided: in.decided,
		Ask:     func(context.Context, string, int) egress.Answer { return egress.Unasked },
		Budget:  gateway.Budget{MaxTokens: run.Limits.Tokens, MaxCost: run.Limits.Cost},
		Observe: func(e gateway.Event) {
			if told, ok := modelEvent(e); ok {
				k.use(told.Usage)
				_ = k.tell(loop.Command{Type: loop.CommandModel, Model: &told}) // a call that nobody counts any more
			}
		},
	}
}

// use counts what a model call has used.
func (k *keeper) use(u *telemetry.Usage) {
	if u != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.using.Add(*u)
	}
}

// modelEvent returns what a loop is told of a model call; nothing of one that began, or was
// given up here.
func modelEvent(e gateway.Event) (told loop.ModelEvent, ok bool) {
	if e.Method != http.MethodPost {
		return told, false
	}
	switch e.Kind {
	case gateway.Started, gateway.Cancelled, gateway.Aborted:
		return told, false
	case gateway.Finished:
		told.OK = true
	case gateway.Paused:
		told.Paused, told.Error = true, e.Message
	default:
		told.Error = e.Message
	}
	told.Status = e.Status
	if u := e.Usage; u != nil {
		told.Usage = &telemetry.Usage{Input: int64(u.Input), Output: int64(u.Output), Total: int64(u.Total)}
	}
	return told, true
}

// doors returns those besides the ways out.
func (in *incarnation) doors() []sandbox.Door {
	in.door = newDoor(in.k.plane, in.k.prompts, in.k.leaks.letter, in.k.log)
	return []sandbox.Door{{Name: controlDoor, Dial: in.door.listener.Dial}}
}

func (in *incarnation) spec() sandbox.Spec {
	k, run := in.k, in.k.asked()
	return sandbox.Spec{
		ID: k.dir.SandboxID(), WorkingDir: run.Workspace, ReadOnly: sandbox.ReadsOnly(k.o.Agent), Mounts: k.o.Agent.Mounts(), HomeLinks: sandbox.HomeLinksOf(k.o.Agent),
		Labels: map[string]string{"agent": run.Agent, "program": sandbox.ProgramOf(k.o.Agent), "session": run.SessionID, RunLabel: run.RunID, SessionLabel: run.SessionID},
	}
}

// create makes the sandbox of the place, and tells the person what the policy does not grant.
func (in *incarnation) create(ctx context.Context, p *confine.Place) (sandbox.Sandbox, sandbox.Spec, error) {
	if n := len(p.Policy.Refused); n > 0 {
		in.notice(fmt.Sprintf("The workspace's .gander.json asks for %d things more than you allow and does not get them; see gander policy check.", n))
	}
	for _, text := range p.Policy.SayPlace() {
		in.notice(text)
	}
	if p.Policy.Settings.Unsigned {
		in.notice(gitconfig.SayUnsigned)
	}
	sb, spec, err := p.Create(ctx, in.k.dir.file(homeDir))
	if err == nil {
		in.k.placed(sb.Info())
	}
	return sb, spec, err
}

// prepare has the agent say how an iteration of it is started.
func (in *incarnation) prepare(ctx context.Context) (loop.Start, []string, error) {
	k, run, sb := in.k, in.k.asked(), in.place.Sandbox
	info := sb.Info()
	ctx, cancel := context.WithTimeout(ctx, prepareTime)
	defer cancel()
	cmd, err := k.o.Agent.OneShot(ctx, sb, sandbox.SessionParams{
		WorkingDir: run.Workspace, ModelAddr: info.Doors[confine.ModelDoor], ModelToken: in.place.Model.Token(), ProxyAddr: info.Doors[confine.EgressDoor],
		Model: run.Model, Env: append([]string{
			URLVariable + "=http://" + info.Doors[controlDoor], PaceVariable + "=" + strconv.FormatFloat(cmp.Or(run.Pace, loop.DefaultPace).Seconds(), 'f', -1, 64),
		}, in.place.Policy.Env...),
	})
	if err != nil {
		return loop.Start{}, nil, err
	}
	return loop.Start{
		RunID: run.RunID, Agent: run.Agent, Program: sandbox.ProgramOf(k.o.Agent), Workspace: run.Workspace, Run: loop.AgentCommand{Args: cmd.Args, Env: cmd.Env},
		Limits: run.Limits, Pace: run.Pace, Admitted: true,
	}, info.Environment(append(sandbox.PlainEnvironment(info.Home), "LANG=C.UTF-8")), nil
}

// close takes down whatever was opened.
func (in *incarnation) close() (err error) {
	in.endQuestions()
	if in.place != nil {
		err = in.place.Close()
	}
	in.k.ports.end()
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

// exceeded tells the person which bounds of the policy were met.
func (in *incarnation) exceeded(ctx context.Context) {
	if limited, ok := in.place.Sandbox.(sandbox.Limited); ok {
		for _, sentence := range limited.Exceeded(ctx) {
			in.provokedNotice(sentence)
		}
	}
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
	case d.Setting != "":
		text = fmt.Sprintf("%q cannot be changed: %s. A program inside was refused (%s). %s in gander's config.json allows it.", d.Path, d.Why, d.Operation, d.Setting)
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
	if o.Growing != nil {
		k.grow(*o.Growing)
	}
	if o.Event != nil {
		k.growing.take() // it is in the event
		if o.Event.Type == telemetry.IterationEnd {
			k.mu.Lock()
			k.using = telemetry.Usage{}
			k.mu.Unlock()
		}
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
