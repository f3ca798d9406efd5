package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"gander.dev/gander/sandbox/telemetry"
)

// Plane is a control plane. Make one with [New].
type Plane struct {
	o       Options
	log     *slog.Logger
	db      *database
	hub     *hub
	hosts   hosts
	token   []byte // hash of the person's
	handler http.Handler
	counts  counts

	adopted   chan struct{}          // closed when the runs of earlier processes were taken up
	adoptOnce sync.Once              // closes it
	scheduled chan struct{}          // a schedule is new
	summarise chan struct{}          // an iteration has ended
	transmit  chan struct{}          // events have come
	asked     asked                  // questions that wait for the person
	noted     noted                  // what the person was told who is away
	steering  keyed                  // one order to a run at a time
	storing   chan struct{}          // has an element while a snapshot is made, restored or removed
	restoring atomic.Pointer[string] // the workspace that is restored; nil when none is

	ctx  context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup // everything that runs beside requests

	late     context.Context // ends when Close has waited long enough for a restoration
	giveUp   context.CancelFunc
	patience time.Duration // how long that is
}

// New opens the database below o.Dir and starts what runs beside requests: summaries,
// transcripts, vitals and retention. The error names what is wrong with o or the file.
func New(o Options) (*Plane, error) {
	switch {
	case !filepath.IsAbs(o.Dir):
		return nil, fmt.Errorf("the directory %q of the control plane must be absolute", o.Dir)
	case o.Fleet == nil:
		return nil, errors.New("a control plane needs a fleet")
	case len(o.Token) < 16:
		return nil, errors.New("the person's token must have at least 16 characters")
	}
	o = o.withDefaults()
	ctx, end := context.WithCancel(context.Background()) // Close ends it
	db, err := openDatabase(ctx, filepath.Join(o.Dir, "sandbox.db"))
	if err != nil {
		end()
		return nil, err
	}
	newest, err := newestEventID(ctx, db.read)
	if err != nil {
		end()
		return nil, errors.Join(err, db.close())
	}
	p := &Plane{
		o: o, log: o.Log, db: db, hub: newHub(newest), hosts: newHosts(o.Listen, o.AllowHosts), token: hashToken(o.Token),
		adopted: make(chan struct{}), scheduled: make(chan struct{}, 1), summarise: make(chan struct{}, 1), transmit: make(chan struct{}, 1), storing: make(chan struct{}, 1), ctx: ctx, end: end, patience: restoreWait,
	}
	p.late, p.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	p.clearSnapshots()
	p.handler = p.newHandler()
	p.background()
	return p, nil
}

// background starts what runs beside requests; Close waits for it.
func (p *Plane) background() {
	if p.o.Summarize != nil {
		p.work.Go(p.summaries)
		p.wake(p.summarise)
	}
	if p.o.Transcripts != nil {
		p.work.Go(p.transcripts)
		p.wake(p.transmit)
	}
	p.work.Go(p.retention)
	p.work.Go(p.watch)
	p.work.Go(p.timekeeper)
}

func (p *Plane) wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is awake, or will be
	}
}

// Handler answers the requests. The server around it must not bound how long an answer
// takes (http.Server.WriteTimeout): live streams last.
func (p *Plane) Handler() http.Handler { return p.handler }

// Close ends the live streams and what runs beside requests, and closes the database
// when all is written. Requests that come later are answered 503. Runs go on. A snapshot
// that is being restored is waited for, for about a minute; the error says when it could
// not be finished. The next control plane knows then that the workspace is not whole.
func (p *Plane) Close() error {
	p.end()
	p.endQuestions()
	p.hub.close()
	p.work.Wait()
	return errors.Join(p.settle(), p.db.close())
}

const (
	restoreWait = time.Minute     // that Close waits for a restoration
	breakOff    = 5 * time.Second // and then for its end, which may be in the middle of a file
)

// settle waits until no snapshot is made or restored, and lets no other begin.
func (p *Plane) settle() error {
	if p.late.Err() != nil {
		return nil // it is closed already
	}
	defer p.giveUp()
	select {
	case p.storing <- struct{}{}:
		return nil
	default:
	}
	dir := p.restoring.Load()
	if dir != nil {
		p.log.Warn("a snapshot is being restored, which is finished first", "workspace", *dir, "at most", p.patience)
	}
	select {
	case p.storing <- struct{}{}:
		return nil
	case <-time.After(p.patience):
	}
	p.giveUp()
	select {
	case p.storing <- struct{}{}:
	case <-time.After(breakOff):
	}
	if dir == nil {
		return nil // of a snapshot that is not finished nothing is left
	}
	return fmt.Errorf("restoring a snapshot in %s has taken too long and was broken off: restore one again with the next gander serve", *dir)
}

// Adopt takes up the runs of an earlier process: call it once, when the control plane
// can be reached. Schedules start no run before. A run whose keeper is gone and cannot be started again is shown as
// failed until its keeper tells otherwise. The error names such runs and why.
func (p *Plane) Adopt(ctx context.Context) error {
	defer p.adoptOnce.Do(func() { close(p.adopted) })
	runs, err := readRuns(ctx, p.db.read, whereWanted)
	if err != nil {
		return err
	}
	var specs []Spec
	for _, r := range runs {
		specs = append(specs, r.spec())
	}
	if len(specs) == 0 {
		return nil
	}
	alive, adoptErr := p.o.Fleet.Adopt(ctx, specs)
	lives := map[string]bool{}
	for _, id := range alive {
		lives[id] = true
	}
	for _, r := range runs {
		if lives[r.RunID] && r.Desired != DesiredStopped {
			continue
		}
		err = errors.Join(err, p.change(ctx, r.RunID, func(t *tx, r *Run) error {
			switch {
			case lives[r.RunID] && r.live(): // it could not be stopped, and has its workspace until it is
				r.State, r.Reason, r.Until = telemetry.Stopping, "it was to be stopped and could not be: stop it again; the log of gander serve says why", 0
				return nil
			case r.Desired == DesiredStopped:
				return p.endRun(t, r, telemetry.Stopped, "")
			}
			return p.endRun(t, r, telemetry.Broken, "its keeper is gone and could not be started again; the log of gander serve says why")
		}))
	}
	return errors.Join(adoptErr, err)
}

// spec is what a run was started with.
func (r *Run) spec() Spec {
	s := Spec{
		RunID: r.RunID, SessionID: r.SessionID, Agent: r.Agent, Driver: r.Driver, Workspace: r.Workspace, Model: r.Model,
		Pace: time.Duration(r.Pace * float64(time.Second)), Limits: r.Limits, Desired: r.Desired,
	}
	if r.Prompt.Own {
		s.Prompt = r.Prompt.Content
	}
	return s
}

// change changes a run and tells the live clients.
func (p *Plane) change(ctx context.Context, id string, do func(*tx, *Run) error) error {
	return p.db.write(ctx, func(t *tx) error {
		r, err := readRun(t.ctx, t, whereID, id)
		if err != nil {
			return err
		}
		if r == nil {
			return noRun(id)
		}
		before := r.State
		if err := do(t, r); err != nil {
			return err
		}
		if err := updateRun(t, r); err != nil {
			return err
		}
		t.then(func() {
			p.hub.tell(r.RunID, "run", r, p.now())
			p.notifyRun(r, before)
		})
		return nil
	})
}

// endRun marks a run as ended from outside, when its loop can no longer say so.
func (p *Plane) endRun(t *tx, r *Run, state telemetry.State, reason string) error {
	if !r.live() && terminal(r.State) {
		return nil
	}
	now := p.now()
	r.State, r.Reason, r.Until, r.stopped = state, reason, 0, &now
	return closeIterations(t, r.key, now)
}

// now is the time in milliseconds since 1970.
func (p *Plane) now() int64 { return p.o.Now().UnixMilli() }

func noRun(id string) error { return fail(http.StatusNotFound, "there is no run %q", id) }
