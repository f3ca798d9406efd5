package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/ports"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/loop"
)

// Options configure Run. All fields but AllowHost and Log are required.
type Options struct {
	// Home is gander's home, Dir the run's directory below it.
	Home string
	Dir  Dir
	// Agent and Driver are those of the run.
	Agent  Agent
	Driver sandbox.Driver
	// Terms give the policy of the workspace, as it is now, and open the ways out.
	Terms confine.Terms
	// Ports of the sandbox are open on this machine, until the person closes them.
	Ports []ports.Spec
	// AllowHost allows the project a host for good, as the person has answered on the page; nil
	// asks nobody.
	AllowHost func(address string) error
	Log       *slog.Logger

	silence time.Duration // silentTime; tests are less patient
	made    func(*keeper) // for tests; may be nil
}

// Agent is an agent that can be run once for an instruction.
type Agent interface {
	sandbox.Agent
	sandbox.OneShot
}

const (
	firstPause = time.Second     // before a sandbox that died is made again
	maxPause   = time.Minute     // and at most
	longLife   = 2 * time.Minute // of a sandbox that is no sign of trouble
	drainTime  = time.Minute     // for sending what is left when nothing runs any more
	// silentTime is for how long a loop may say nothing, which tells its vitals every
	// loop.Heartbeat: it hangs, or a program inside, whose user is its own, has stopped it,
	// and with it all limits of the run.
	silentTime = 24 * loop.Heartbeat
	toldTime   = 10 * time.Second // for asking why the first sandbox could not be made
)

// keeper is the one of a run.
type keeper struct {
	o       Options
	dir     Dir
	log     *slog.Logger
	plane   *plane
	prompts *prompts
	spool   *telemetry.Spool
	work    sync.WaitGroup
	ready   chan struct{}   // closed when the first sandbox was made, or could not be
	once    sync.Once       // of ready
	halted  chan struct{}   // closed when nothing runs any more
	told    chan struct{}   // closed when somebody has learned whether it was
	telling sync.Once       // of told
	leaving chan struct{}   // closed when it ends
	life    context.Context // ends when nothing is to run any more
	halt    context.CancelFunc
	leaks   *leaks
	growing growing
	ports   runPorts

	// emitting is held while an event is numbered and written, which takes as long as
	// there is no room for it: nothing that has to be answered waits for it.
	emitting sync.Mutex

	// mu guards what follows. journal is changed with emitting held, too.
	mu      sync.Mutex
	journal journal
	spec    Spec
	saved   saved
	phase   Phase
	trouble string
	box     sandbox.Info
	present *incarnation // nil before the first
	loop    *process     // nil while none runs
	resting bool         // the loop is paused, and was when it knew of every order
	vitals  *telemetry.Vitals
	using   telemetry.Usage // by the iteration that runs
}

// Run keeps the run until it has ended, was told to stop, or ctx ends, and returns
// when nothing of it is left on this machine. When ctx ends the run is to go on with
// another keeper. The error is ErrKept when there is one already.
func Run(ctx context.Context, o Options) error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.silence = cmp.Or(o.silence, silentTime)
	release, err := o.Dir.claim()
	if err != nil {
		return err
	}
	defer release()
	k, err := newKeeper(o)
	if err != nil {
		return err
	}
	if o.made != nil {
		o.made(k)
	}
	return k.run(ctx)
}

func newKeeper(o Options) (*keeper, error) {
	k := &keeper{o: o, dir: o.Dir, log: o.Log, ready: make(chan struct{}), halted: make(chan struct{}), told: make(chan struct{}), leaving: make(chan struct{}), phase: Starting, growing: growing{wake: make(chan struct{}, 1)}, ports: runPorts{wanted: slices.Clone(o.Ports)}}
	var err error
	if k.spec, err = k.dir.Spec(); err != nil {
		return nil, err
	}
	token, err := k.dir.Token()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{spoolDir, stateDir, homeDir} {
		if err := os.MkdirAll(k.dir.file(name), 0o700); err != nil {
			return nil, fmt.Errorf("making a place for the run: %w", err)
		}
	}
	if err := errors.Join(readJSON(k.state("keeper.json"), &k.journal), readJSON(k.state("loop.json"), &k.saved)); err != nil {
		return nil, fmt.Errorf("reading the state of run %s: %w; remove %s to begin anew", k.dir.RunID, err, k.dir.file(stateDir))
	}
	k.plane = newPlane(o.Home, k.dir.RunID, token)
	k.prompts = newPrompts(k.plane, k.state("prompt.json"), k.spec.Prompt, k.log)
	k.prompts.changed = func(p loop.Prompt) {
		if err := k.tell(loop.Command{Type: loop.CommandPrompt, Prompt: &p}); err != nil && !errors.Is(err, ErrNoLoop) {
			k.log.Error("the loop does not know that its prompt has changed", "err", err)
		}
	}
	return k, nil
}

func (k *keeper) state(name string) string { return filepath.Join(k.dir.file(stateDir), name) }

// run is the life of the keeper.
func (k *keeper) run(ctx context.Context) (err error) {
	if k.spool, err = k.openSpool(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.spool.Close()) }()
	k.journal.settle(k.spool.Last())
	k.life, k.halt = context.WithCancel(ctx)
	defer k.halt()
	k.leaks = k.newLeaks()
	closeSocket, err := k.serve()
	if err != nil {
		return err
	}
	sending, stopSending := context.WithCancel(ctx)
	defer k.work.Wait()
	defer stopSending()
	defer closeSocket()
	k.work.Go(func() { k.send(sending) })
	k.work.Go(func() { k.sendGrowing(sending) })
	k.work.Go(func() { k.prompts.follow(sending) })
	err = k.keep(k.life)
	k.conclude(ctx, err)
	close(k.halted)
	switch {
	case ctx.Err() != nil:
	case err != nil: // who started the run wants to know
		select {
		case <-k.told:
		case <-ctx.Done():
		case <-time.After(toldTime):
		}
	default:
		k.drain(sending)
	}
	return err
}

// keep makes sandboxes one after the other until the run has ended. An error means
// that the first one could not be made.
func (k *keeper) keep(ctx context.Context) error {
	if k.wanted() == Stopped || k.over() { // the keeper before may have died when it was over
		return nil
	}
	pause := firstPause
	for {
		k.closeIteration("The iteration was interrupted: its keeper has ended.")
		began := time.Now()
		err := k.incarnate(ctx)
		switch {
		case ctx.Err() != nil || k.wanted() == Stopped || k.over():
			return nil
		case err != nil && k.fresh():
			return err
		}
		k.log.Warn("the sandbox or its loop has ended; it is made again", "err", err, "after", pause)
		if time.Since(began) > longLife {
			pause = firstPause
		}
		jittered := pause/2 + rand.N(pause)
		k.waiting(err, jittered)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(jittered):
		}
		pause = min(2*pause, maxPause)
	}
}

// asked returns what the run is to be.
func (k *keeper) asked() Spec {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.spec
}

// wanted holds the state that the person wants of the run.
func (k *keeper) wanted() Desired { return k.asked().Desired }

// over reports whether the loop has ended by itself.
func (k *keeper) over() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return final(k.journal.State)
}

// fresh reports whether no sandbox was made for this run yet, by any keeper.
func (k *keeper) fresh() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.journal.Made == 0
}
