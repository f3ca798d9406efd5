package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/loop"
)

// steerTimeout bounds what a Fleet takes for one order.
const steerTimeout = 2 * time.Minute

// keyed lets one order at a time through to each run.
type keyed struct {
	mu    sync.Mutex // guards locks
	locks map[string]*struct {
		sync.Mutex
		users int
	}
}

func (k *keyed) lock(key string) (unlock func()) {
	k.mu.Lock()
	if k.locks == nil {
		k.locks = map[string]*struct {
			sync.Mutex
			users int
		}{}
	}
	l := k.locks[key]
	if l == nil {
		l = &struct {
			sync.Mutex
			users int
		}{}
		k.locks[key] = l
	}
	l.users++
	k.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.locks, key)
		}
	}
}

// A startRequest is the body of a start.
type startRequest struct {
	Agent     string      `json:"agentType"`
	Prompt    string      `json:"prompt"`
	Workspace string      `json:"workspace"`
	Driver    string      `json:"sandbox"`
	Model     string      `json:"model"`
	Pace      float64     `json:"pace"`
	Limits    loop.Limits `json:"limits"`
	// NoBudget starts a run that may use any number of tokens.
	NoBudget bool `json:"noBudget"`
}

// defaultAgent runs when a start names none, as in the succeeded system.
const defaultAgent = "opencode"

func (p *Plane) start(w http.ResponseWriter, r *http.Request) error {
	var req startRequest
	if err := readBody(w, r, &req, true); err != nil {
		return err
	}
	run, err := p.begin(r.Context(), &req)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]string{
		"runId": run.RunID, "sessionId": run.SessionID, "containerId": run.ContainerID, "agentType": run.Agent, "status": "started",
	})
	return nil
}

// begin starts a run.
func (p *Plane) begin(ctx context.Context, req *startRequest) (*Run, error) {
	if err := p.checkStart(ctx, req); err != nil {
		return nil, err
	}
	run := &Run{
		RunID: uuid.Must(uuid.NewV7()).String(), SessionID: uuid.Must(uuid.NewV7()).String(), Agent: req.Agent, Driver: req.Driver,
		Workspace: req.Workspace, Model: req.Model, Pace: req.Pace, Limits: req.Limits, State: Starting, Desired: DesiredRunning, created: p.now(),
	}
	defer p.steering.lock(run.RunID)()
	token, hash := newToken()
	if err := p.keepNewRun(ctx, run, req.Prompt, hash); err != nil {
		return nil, err
	}
	// From here on the browser may go away: a start that has begun is finished.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), steerTimeout)
	defer cancel()
	spec := run.spec()
	spec.Token, spec.Prompt = token, req.Prompt
	if err := p.o.Fleet.Start(ctx, spec); err != nil {
		forget := p.db.write(context.WithoutCancel(ctx), func(t *tx) error { // its time may be over
			_, err := t.exec("DELETE FROM runs WHERE key=?", run.key)
			return err
		})
		return nil, errors.Join(err, forget)
	}
	p.refresh(ctx, run.RunID)
	run, err := readRun(ctx, p.db.read, whereID, run.RunID)
	if err != nil {
		return nil, err
	}
	p.log.Info("a run was started", "run", run.RunID, "agent", run.Agent, "workspace", run.Workspace)
	p.hub.tell(run.RunID, "run", run, p.now())
	p.hub.tell(run.RunID, "session_start", map[string]string{"containerId": run.ContainerID, "agentType": run.Agent, "runId": run.RunID}, p.now())
	return run, nil
}

// keepNewRun makes the row of a run before anything runs, so that of two starts in one
// workspace, or of a start and a restoration, both cannot go on.
func (p *Plane) keepNewRun(ctx context.Context, run *Run, prompt string, hash []byte) error {
	return p.db.write(ctx, func(t *tx) error {
		if err := p.workable(t.ctx, t, run.Workspace); err != nil {
			return err
		}
		others, err := occupants(t.ctx, t, run.Workspace)
		if err != nil {
			return err
		}
		if len(others) > 0 {
			other := others[0]
			return &statusError{
				status: http.StatusConflict,
				text:   fmt.Sprintf("a loop of %s (run %s, %s) works in %s already: stop it first, or name another workspace", other.Agent, other.RunID, other.State, other.Workspace),
				more:   map[string]any{"runId": other.RunID},
			}
		}
		if err := insertRun(t, run, hash); err != nil {
			return err
		}
		if prompt != "" {
			_, err = insertPrompt(t, run.key, prompt, run.created)
		}
		return err
	})
}

// occupants are the runs that are wanted in a workspace, whether they live or not. Above it
// and below it is in it, too.
func occupants(ctx context.Context, q querier, workspace string) ([]*Run, error) {
	runs, err := readRuns(ctx, q, whereWanted)
	return slices.DeleteFunc(runs, func(r *Run) bool { return !overlap(r.Workspace, workspace) }), err
}

// checkStart checks a start as far as it can be checked before, and completes it.
func (p *Plane) checkStart(ctx context.Context, req *startRequest) error {
	req.Agent = cmp.Or(req.Agent, defaultAgent)
	if req.Limits.Tokens == 0 && req.Limits.Cost == 0 && !req.NoBudget {
		req.Limits.Tokens = loop.DefaultTokens
	}
	if err := p.checkAgent(ctx, req.Agent); err != nil {
		return err
	}
	if req.Driver != "" && !slices.Contains(p.o.Sandboxes, req.Driver) {
		return fail(http.StatusBadRequest, "there is no sandbox %q; choose one of %s", req.Driver, strings.Join(p.o.Sandboxes, ", "))
	}
	if strings.TrimSpace(req.Prompt) == "" {
		req.Prompt = ""
	}
	l := req.Limits
	switch {
	case l.Iterations < 0, l.WallClock < 0, l.Iteration < 0, l.Idle < 0, l.Tokens < 0, l.Cost < 0, l.Failures < 0:
		return fail(http.StatusUnprocessableEntity, "a limit cannot be below 0; 0 means that there is none")
	case l.Iteration > 0 && l.Idle > l.Iteration:
		return fail(http.StatusUnprocessableEntity, "the idle time of %d s is above the %d s of a whole iteration", l.Idle, l.Iteration)
	case l.WallClock > maxSeconds, l.Iteration > maxSeconds, l.Idle > maxSeconds:
		return fail(http.StatusUnprocessableEntity, "a time limit above %d s (a year) makes no sense", maxSeconds)
	case req.Pace < 0, req.Pace > 86400:
		return fail(http.StatusUnprocessableEntity, "the pace is in seconds, from 0 to a day")
	}
	workspace, err := p.workspace(req.Agent, req.Workspace)
	req.Workspace = workspace
	return err
}

const maxSeconds loop.Seconds = 365 * 86400

func (p *Plane) checkAgent(ctx context.Context, name string) error {
	var known []string
	for _, a := range p.o.Fleet.Agents(ctx) {
		if a.Name == name {
			if !a.Available {
				return fail(http.StatusServiceUnavailable, "%s cannot run here: %s", name, a.Why)
			}
			return nil
		}
		known = append(known, a.Name)
	}
	return fail(http.StatusBadRequest, "agentType %q is not one of %s", name, strings.Join(known, ", "))
}

// workspace is the directory a run works in: the one that was named, without links on
// the way to it, or the agent's own below Options.Dir, which is made.
func (p *Plane) workspace(agent, named string) (string, error) {
	if named == "" {
		own := filepath.Join(p.o.Dir, "workspaces", agent)
		if err := os.MkdirAll(own, 0o700); err != nil {
			return "", fail(http.StatusServiceUnavailable, "the workspace cannot be made: %v", err)
		}
		return filepath.EvalSymlinks(own)
	}
	if !filepath.IsAbs(named) {
		return "", fail(http.StatusBadRequest, "workspace %q must be an absolute path", named)
	}
	dir, err := filepath.EvalSymlinks(named)
	if err != nil {
		return "", fail(http.StatusBadRequest, "workspace %s: %v", named, err)
	}
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return "", fail(http.StatusBadRequest, "workspace %s is not a directory", named)
	}
	if filepath.Dir(dir) == dir {
		return "", fail(http.StatusBadRequest, "the root of the file system cannot be a workspace: name a directory of the work")
	}
	if spaces, err := filepath.EvalSymlinks(filepath.Join(p.o.Dir, "workspaces")); err == nil && dir != spaces && below(dir, spaces) {
		return dir, nil
	}
	for _, private := range append([]string{p.o.Dir}, p.o.Private...) {
		if real, err := filepath.EvalSymlinks(private); err == nil && overlap(dir, real) {
			return "", fail(http.StatusBadRequest, "workspace %s and %s, which is gander's own, are within one another: name another directory", named, private)
		}
	}
	return dir, nil
}

// overlap says whether one of two directories is the other, or is in it; both are clean.
func overlap(a, b string) bool { return below(a, b) || below(b, a) }

// below says whether a path is dir or below it; both are clean.
func below(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// A target names a run: by its id, or by its agent when only one of that runs.
type target struct {
	RunID string `json:"runId"`
	Agent string `json:"agentType"`
}

// errNothingRuns: no run fits a target.
var errNothingRuns = fail(http.StatusConflict, "no loop is running: start one first")

// find finds the run that a target names.
func (p *Plane) find(ctx context.Context, t target) (*Run, error) {
	if t.RunID != "" {
		run, err := readRun(ctx, p.db.read, whereID, t.RunID)
		if err == nil && run == nil {
			err = noRun(t.RunID)
		}
		return run, err
	}
	live, err := readRuns(ctx, p.db.read, whereLive)
	if err != nil {
		return nil, err
	}
	live = slices.DeleteFunc(live, func(r *Run) bool { return r.Driver == External || t.Agent != "" && r.Agent != t.Agent })
	switch len(live) {
	case 0:
		return nil, errNothingRuns
	case 1:
		return live[0], nil
	}
	var names []string
	for _, r := range live {
		names = append(names, fmt.Sprintf("%s (%s in %s)", r.RunID, r.Agent, r.Workspace))
	}
	return nil, fail(http.StatusConflict, "several loops run, say which by runId: %s", strings.Join(names, ", "))
}

// order finds the run that a request names and has do steer it.
func (p *Plane) order(w http.ResponseWriter, r *http.Request, status string, do func(context.Context, *Run) error) error {
	var t target
	if err := readBody(w, r, &t, true); err != nil {
		return err
	}
	run, err := p.find(r.Context(), t)
	if err != nil {
		return err
	}
	defer p.steering.lock(run.RunID)()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), steerTimeout)
	defer cancel()
	if run, err = p.find(ctx, target{RunID: run.RunID}); err != nil { // as it is now that it is our turn
		return err
	}
	if run.Driver == External {
		return fail(http.StatusConflict, "run %s was not started here and cannot be steered from here", run.RunID)
	}
	if err := do(ctx, run); err != nil {
		return err
	}
	p.log.Info("a run was steered", "run", run.RunID, "now", status)
	answer(w, http.StatusOK, map[string]string{"runId": run.RunID, "status": status})
	return nil
}

func (p *Plane) stop(w http.ResponseWriter, r *http.Request) error {
	err := p.order(w, r, "stopped", p.stopRun)
	if errors.Is(err, errNothingRuns) { // as people have it
		answer(w, http.StatusOK, map[string]string{"status": "stopped"})
		return nil
	}
	return err
}

// stopRun keeps first what is wanted: should this process end on the way, the next one
// does not start the run again. Where it cannot be kept, on a full disk for one, the run is
// stopped all the same. One that has ended is asked whether it really has.
func (p *Plane) stopRun(ctx context.Context, run *Run) error {
	if !run.live() && run.Desired == DesiredStopped {
		if _, err := p.o.Fleet.Status(ctx, run.RunID); errors.Is(err, ErrNotRunning) {
			return nil
		}
	}
	noted := p.want(ctx, run.RunID, DesiredStopped)
	if err := p.o.Fleet.Stop(ctx, run.RunID); err != nil && !errors.Is(err, ErrNotRunning) {
		return errors.Join(noted, fmt.Errorf("stopping run %s: %w", run.RunID, err))
	}
	if noted != nil {
		return fmt.Errorf("run %s was stopped, which could not be noted: %w", run.RunID, noted)
	}
	return p.change(ctx, run.RunID, func(t *tx, r *Run) error { return p.endRun(t, r, telemetry.Stopped, "") })
}

// want notes what a person wants of a run. One that has ended meanwhile is not to go on.
func (p *Plane) want(ctx context.Context, id string, d Desired) error {
	return p.change(ctx, id, func(_ *tx, r *Run) error {
		if r.live() || d == DesiredStopped {
			r.Desired = d
		}
		return nil
	})
}

// steered makes the handler's part of an order that needs a run that lives.
func (p *Plane) steered(d Desired, do func(ctx context.Context, runID string) error) func(context.Context, *Run) error {
	return func(ctx context.Context, run *Run) error {
		if !run.live() {
			return fail(http.StatusConflict, "run %s has ended (%s): start a new one", run.RunID, run.State)
		}
		if err := do(ctx, run.RunID); err != nil {
			return err
		}
		if d == "" {
			return nil
		}
		return p.want(ctx, run.RunID, d)
	}
}

// working is for an order after which an agent works.
func (p *Plane) working(do func(context.Context, *Run) error) func(context.Context, *Run) error {
	return func(ctx context.Context, run *Run) error {
		if err := p.workable(ctx, p.db.read, run.Workspace); err != nil {
			return err
		}
		return do(ctx, run)
	}
}

func (p *Plane) pause(w http.ResponseWriter, r *http.Request) error {
	return p.order(w, r, "paused", p.steered(DesiredPaused, p.o.Fleet.Pause))
}

func (p *Plane) resume(w http.ResponseWriter, r *http.Request) error {
	return p.order(w, r, "running", p.working(p.steered(DesiredRunning, p.o.Fleet.Resume)))
}

func (p *Plane) step(w http.ResponseWriter, r *http.Request) error {
	return p.order(w, r, "stepping", p.working(p.steered(DesiredPaused, p.o.Fleet.Step)))
}

func (p *Plane) cancel(w http.ResponseWriter, r *http.Request) error {
	return p.order(w, r, "cancelled", p.steered("", p.o.Fleet.Cancel))
}

// status answers what the succeeded system did for the newest run that was started here,
// or the one that is named, and everything else besides.
func (p *Plane) status(w http.ResponseWriter, r *http.Request) error {
	live, err := readRuns(r.Context(), p.db.read, whereOwnLive)
	if err != nil {
		return err
	}
	var run *Run
	switch id := r.URL.Query().Get("run"); {
	case id != "":
		run, err = p.find(r.Context(), target{RunID: id})
	case len(live) > 0:
		run = live[0]
	default:
		run, err = readRun(r.Context(), p.db.read, whereOwnNewest)
	}
	if err != nil {
		return err
	}
	body := map[string]any{"status": "not_running", "sessionId": nil, "sandboxes": live}
	if run != nil {
		body["status"], body["sessionId"], body["runId"], body["run"] = oldStatus(run), run.SessionID, run.RunID, run
		if run.live() && run.Driver != External {
			body["containerId"], body["agentType"] = run.ContainerID, run.Agent
		}
	}
	answer(w, http.StatusOK, body)
	return nil
}

// oldStatus is a run's state in the words of the succeeded system: what somebody stopped
// was forgotten there, what ended by itself was still known. An external run was never
// started here.
func oldStatus(r *Run) string {
	switch {
	case r.Driver == External:
		return "not_running"
	case r.live():
		return "running"
	case r.State == telemetry.Stopped:
		return "not_running"
	}
	return "stopped"
}

// chosen is the run of a request: a sandbox's own, the one named by run=, else the newest
// that lives, else the newest. nil when there is none at all.
func (p *Plane) chosen(r *http.Request) (*Run, error) {
	return p.choose(r, r.URL.Query().Get("run"))
}

func (p *Plane) choose(r *http.Request, id string) (*Run, error) {
	ctx := r.Context()
	if c := callerOf(r); c.kind == sandbox {
		if id != "" && id != c.run.RunID {
			return nil, fail(http.StatusForbidden, "this token is of another run")
		}
		return c.run, nil
	}
	if id != "" {
		return p.find(ctx, target{RunID: id})
	}
	run, err := readRun(ctx, p.db.read, whereLive)
	if err == nil && run == nil {
		run, err = readRun(ctx, p.db.read, whereNewest, 1, 0)
	}
	return run, err
}

func (p *Plane) agents(w http.ResponseWriter, r *http.Request) error {
	agents := p.o.Fleet.Agents(r.Context())
	if agents == nil {
		agents = []AgentInfo{}
	}
	answer(w, http.StatusOK, map[string]any{"agents": agents, "sandboxes": p.o.Sandboxes})
	return nil
}

func (p *Plane) runs(w http.ResponseWriter, r *http.Request) error {
	limit, offset, err := page(r, 50)
	if err != nil {
		return err
	}
	runs, err := readRuns(r.Context(), p.db.read, whereNewest, limit, offset)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]any{"runs": runs})
	return nil
}

func (p *Plane) run(w http.ResponseWriter, r *http.Request) error {
	run, err := p.find(r.Context(), target{RunID: r.PathValue("id")})
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, run)
	return nil
}
