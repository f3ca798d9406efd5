package router

import (
	"path/filepath"
	"sync"

	"gander.dev/gander/sessions"
)

// traces are the run traces of a session's turns.
type traces struct {
	// mu guards running.
	mu      sync.Mutex
	running map[string]*sessions.Trace // by turn
}

// trace begins the run trace of a turn; the function that it returns ends it,
// whatever became of the turn. The trace is written as a whole by the way.
func (t *turn) trace() (end func()) {
	s := t.s
	if s.r.opts.Runs == nil || s.unkept {
		return func() {}
	}
	s.mu.Lock()
	agent, first := s.agent.Name(), s.last == ""
	s.mu.Unlock()
	trace := s.r.opts.Runs.Start(sessions.RunSession{
		AgentID: agent, SessionKey: string(s.id), SessionID: s.id, TurnID: t.id,
		Transcript:    filepath.Join(s.r.opts.StateDir, "sessions", string(s.id)+".jsonl"),
		WorkspacePath: s.cwd, WorkingPath: s.cwd, IsNewSession: first,
	}, t.started)
	s.traces.mu.Lock()
	defer s.traces.mu.Unlock()
	if s.traces.running == nil {
		s.traces.running = map[string]*sessions.Trace{}
	}
	s.traces.running[t.id] = trace
	return func() {
		s.traces.mu.Lock()
		delete(s.traces.running, t.id)
		s.traces.mu.Unlock()
		s.work.Go(trace.Close) // close waits for this turn before it waits for work
	}
}

// record gives a record to the traces that it belongs to: its turn's, or those of
// all turns that run when it is about the session.
func (t *traces) record(r sessions.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, trace := range t.running {
		if r.TurnID == id || r.TurnID == "" {
			trace.Record(r)
		}
	}
}
