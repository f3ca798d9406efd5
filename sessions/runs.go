package sessions

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/acp"
)

// RunsOptions adjust [Runs]; nil and the zero value are fine.
type RunsOptions struct {
	// Redact is as in [Options].
	Redact func(line []byte) []byte
	// Keep is how many traces are kept; 0 means 1000. MaxAge is how long; 0 means for ever.
	Keep   int
	MaxAge time.Duration
	// Now is the clock of MaxAge; nil means time.Now.
	Now func() time.Time
	// Log is told of traces that could not be written; nil discards.
	Log *slog.Logger
}

const defaultKeep = 1000

// Runs is a directory of traces, one file per turn: <dir>/<run>.json, of which
// [Run] is the format. While the turn runs, what happens is appended to
// <dir>/<run>.jsonl, so that the trace of a turn that a crash cut short is made
// of that, by the next process that begins one. Several processes may share the
// directory.
type Runs struct {
	dir string
	o   RunsOptions
	// mu guards begun.
	mu    sync.Mutex
	begun int // traces, since old ones were removed
}

// OpenRuns returns the traces in dir, an absolute path; it is made (0700) when
// the first one is written.
func OpenRuns(dir string, o *RunsOptions) (*Runs, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("opening run traces %q: the path is not absolute", dir)
	}
	r := &Runs{dir: filepath.Clean(dir)}
	if o != nil {
		r.o = *o
	}
	r.o.Keep = cmp.Or(max(r.o.Keep, 0), defaultKeep)
	if r.o.Now == nil {
		r.o.Now = time.Now
	}
	if r.o.Log == nil {
		r.o.Log = slog.New(slog.DiscardHandler)
	}
	return r, nil
}

// runsVersion is the version of the format of [Run].
const runsVersion = 2

// Run is a trace: what was asked, who answered, what was done and how it ended.
type Run struct {
	SchemaVersion int        `json:"schemaVersion"`
	RunID         string     `json:"runId"`
	Status        string     `json:"status"` // one of RunRunning and so on
	StartedAt     time.Time  `json:"startedAt"`
	CompletedAt   *time.Time `json:"completedAt,omitempty"`
	EntryAgentID  string     `json:"entryAgentId"`
	// UserMessage is the prompt's text, at most maxRunText bytes of it.
	UserMessage   string           `json:"userMessage"`
	Session       RunSession       `json:"session"`
	Execution     RunExecution     `json:"execution"`
	Orchestration RunOrchestration `json:"orchestration"`
}

// The states of a run.
const (
	RunRunning     = "running"
	RunOK          = "ok"
	RunFailed      = "failed"
	RunCancelled   = "cancelled"
	RunLimit       = "limit"       // of tokens or of model calls
	RunInterrupted = "interrupted" // gander itself ended
)

// RunSession is the session that a run is a turn of.
type RunSession struct {
	AgentID       string        `json:"agentId"`
	SessionKey    string        `json:"sessionKey"`
	SessionID     acp.SessionID `json:"sessionId"`
	TurnID        string        `json:"turnId"`
	Transcript    string        `json:"transcriptPath"`
	WorkspacePath string        `json:"workspacePath,omitempty"`
	WorkingPath   string        `json:"workingPath"`
	IsNewSession  bool          `json:"isNewSession"`
}

// RunExecution is what came of a run.
type RunExecution struct {
	AgentID           string `json:"agentId"`
	ProviderSessionID string `json:"providerSessionId,omitempty"`
	// Code is 0 for a run that is ok and 1 for any other.
	Code int `json:"code"`
	// Stdout is what the agent said last, at most the last maxRunText bytes;
	// Stderr the last lines of an agent that ended.
	Stdout     string          `json:"stdout"`
	Stderr     string          `json:"stderr"`
	Error      string          `json:"error,omitempty"`
	StopReason acp.StopReason  `json:"stopReason,omitempty"`
	DurationMS int64           `json:"durationMs"`
	Usage      json.RawMessage `json:"usage,omitempty"`
	// Cost is that of the session up to the end of the turn, where prices are known.
	Cost        *acp.Cost       `json:"cost,omitempty"`
	Permissions []RunPermission `json:"permissions,omitempty"`
	// Network is what was decided about hosts, as far as it was recorded in this turn.
	Network []Network `json:"network,omitempty"`
	// OmittedNetwork is how many records of that there were more.
	OmittedNetwork int `json:"omittedNetwork,omitempty"`
	// Effect is what the turn changed in the working tree, when that was compared.
	Effect *Changes `json:"workingTreeEffect,omitempty"`
}

// RunPermission is a question and its answer.
type RunPermission struct {
	ID      string          `json:"id"`
	Request json.RawMessage `json:"request,omitempty"`
	Outcome json.RawMessage `json:"outcome,omitempty"`
}

// RunOrchestration are the steps of a run.
type RunOrchestration struct {
	Mode         string    `json:"mode"` // "single-agent", or "ai-loop"
	FinalMessage string    `json:"finalMessage"`
	Steps        []RunStep `json:"steps"`
	// OmittedSteps is how many more there were.
	OmittedSteps int `json:"omittedSteps,omitempty"`
	// Graph and Threads are those of a run that a planner had others do.
	Graph   *RunGraph   `json:"sessionGraph,omitempty"`
	Threads []RunThread `json:"taskThreads,omitempty"`
}

// A RunStep is a tool call of the agent, a note, or an action of a planner.
type RunStep struct {
	StepFacts

	Step       int       `json:"step"`
	Timestamp  time.Time `json:"timestamp"`
	ToolCallID string    `json:"toolCallId,omitempty"`
	Kind       string    `json:"kind,omitempty"`
	Title      string    `json:"title,omitempty"`
	Status     string    `json:"status,omitempty"`
	Note       string    `json:"note,omitempty"`
}

// Limits of a trace, in bytes and in pieces.
const (
	maxRunText  = 64 << 10
	maxRunSteps = 2000
	maxRunAsked = 500
	maxRunHosts = 500
	maxRunRaw   = 16 << 10
)

// Start begins the trace of a turn. session.TurnID names it. Traces are for
// people to look at later: one that cannot be written is logged and costs nothing
// else, so the Trace works in any case.
func (r *Runs) Start(session RunSession, at time.Time) *Trace {
	t := &Trace{runs: r, calls: map[string]int{}, run: Run{
		SchemaVersion: runsVersion, RunID: session.TurnID, Status: RunRunning, StartedAt: at.UTC(), EntryAgentID: session.AgentID,
		Session: session, Execution: RunExecution{AgentID: session.AgentID}, Orchestration: RunOrchestration{Mode: modeSingle, Steps: []RunStep{}},
	}}
	if err := r.open(t); err != nil {
		r.o.Log.Warn("the run trace cannot be written", "run", session.TurnID, "err", err)
	}
	return t
}

// cleanEvery is how many traces are begun until old ones are removed.
const cleanEvery = 50

func (r *Runs) open(t *Trace) error {
	if err := CheckID(acp.SessionID(t.run.RunID)); err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	r.mu.Lock()
	clean := r.begun%cleanEvery == 0
	r.begun++
	r.mu.Unlock()
	if clean {
		r.clean()
	}
	f, err := os.OpenFile(r.path(t.run.RunID, ".jsonl"), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	t.file = f
	if got, err := tryLockFile(f); err != nil || !got {
		return errors.Join(err, errors.New("somebody has locked it"))
	}
	t.write(&Record{Body: runBegin{t.run}})
	return nil
}

func (r *Runs) path(id, ext string) string { return filepath.Join(r.dir, id+ext) }

// Read returns a trace. One that runs is as it was when it began; none is ErrNotFound.
func (r *Runs) Read(id string) (*Run, error) {
	if CheckID(acp.SessionID(id)) != nil {
		return nil, fmt.Errorf("run %q: %w", id, fs.ErrNotExist)
	}
	raw, err := os.ReadFile(r.path(id, ".json"))
	if err != nil {
		return nil, fmt.Errorf("reading run %s: %w", id, err)
	}
	var run Run
	if err := json.Unmarshal(raw, &run); err != nil {
		return nil, fmt.Errorf("reading run %s: %w", id, err)
	}
	return &run, nil
}

// Forget removes the traces of a session's turns, none of which may run.
func (r *Runs) Forget(id acp.SessionID) error {
	names, err := os.ReadDir(r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking for run traces of session %s: %w", id, err)
	}
	var errs []error
	for _, n := range names {
		if run, ok := strings.CutSuffix(n.Name(), ".jsonl"); ok {
			r.recover(run)
		}
		run, err := r.Read(strings.TrimSuffix(strings.TrimSuffix(n.Name(), ".jsonl"), ".json"))
		if err != nil || run.Session.SessionID != id {
			continue // gone, being written, or another's
		}
		if err := os.Remove(r.path(run.RunID, ".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// clean finishes the traces of processes that were killed and removes old ones.
func (r *Runs) clean() {
	names, err := os.ReadDir(r.dir)
	if err != nil {
		return
	}
	type trace struct {
		name string
		at   time.Time
	}
	var done []trace
	for _, n := range names {
		if id, ok := strings.CutSuffix(n.Name(), ".jsonl"); ok {
			r.recover(id)
			continue
		}
		if info, err := n.Info(); err == nil && strings.HasSuffix(n.Name(), ".json") {
			done = append(done, trace{n.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(done, func(a, b trace) int { return b.at.Compare(a.at) })
	for i, d := range done {
		if i >= r.o.Keep || r.o.MaxAge > 0 && r.o.Now().Sub(d.at) > r.o.MaxAge {
			_ = os.Remove(filepath.Join(r.dir, d.name)) // another process may have
		}
	}
}

// recover makes a trace of what a process that was killed has written of it.
func (r *Runs) recover(id string) {
	finished := false
	f, err := os.OpenFile(r.path(id, ".jsonl"), os.O_APPEND|os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer func() {
		_ = f.Close()
		if finished {
			_ = os.Remove(f.Name())
		}
	}()
	if got, err := tryLockFile(f); err != nil || !got {
		return // it runs
	}
	raw, err := os.ReadFile(f.Name())
	if err != nil {
		return
	}
	t := &Trace{runs: r, calls: map[string]int{}}
	for line := range bytes.Lines(raw) {
		var begin struct {
			Type Type `json:"type"`
			Run  Run  `json:"run"`
		}
		if line = bytes.TrimSpace(line); json.Unmarshal(line, &begin) == nil && begin.Type == typeRun {
			t.run = begin.Run
			continue
		}
		rec := decodeRecord(line)
		t.fold(&rec)
	}
	if t.run.RunID != id { // not even the beginning
		finished = true
		return
	}
	if t.run.Status == RunRunning {
		t.run.Status, t.run.Execution.Code = RunInterrupted, 1
		t.run.Execution.Error = "gander ended before the turn did"
	}
	if err := r.save(t); err != nil {
		r.o.Log.Warn("the run trace cannot be written", "run", id, "err", err)
		return
	}
	finished = true
}

// save writes the trace as a whole.
func (r *Runs) save(t *Trace) error {
	t.run.Execution.Stdout = string(t.text)
	t.run.Orchestration.FinalMessage = t.run.Execution.Stdout
	t.run.Orchestration.sum(t.run.EntryAgentID)
	raw, err := json.MarshalIndent(&t.run, "", "  ")
	if err != nil {
		return err
	}
	if r.o.Redact != nil {
		raw = r.o.Redact(raw)
	}
	if !json.Valid(raw) {
		return errors.New("it cannot be written without the secrets in it")
	}
	return writeFile(r.path(t.run.RunID, ".json"), append(raw, '\n'))
}
