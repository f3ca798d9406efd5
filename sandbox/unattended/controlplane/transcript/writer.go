// Package transcript keeps what happens in unattended runs as sessions, so that it is
// listed, shown, exported, replayed and followed like any other conversation.
//
// A [Writer] is a controlplane.Transcripts. Each run is a session with the id that the
// run has for it, of the origin loop, in the run's workspace. An iteration is a turn;
// records.go says what each event is in it.
//
// # Once
//
// The same events may come again, after a crash on either side. Every record is named
// after the event that it was made from, and events come in their order: the last name
// in the file says where to go on. So no event is in a transcript twice, and none is
// left out.
package transcript

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sessions"
)

// Writer writes the transcripts of runs. It is safe for concurrent use; the events of
// one run must come one call at a time.
type Writer struct {
	store *sessions.Store
	log   *slog.Logger

	// mu guards what follows.
	mu     sync.Mutex
	open   map[string]*thread // by run
	closed bool
}

// New returns a Writer into a store; a nil log discards.
func New(store *sessions.Store, log *slog.Logger) *Writer {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Writer{store: store, log: log, open: map[string]*thread{}}
}

var errClosed = errors.New("the transcripts are closed; the events are written after the next start")

// OnEvents implements controlplane.Transcripts. It returns when what the events say is
// on disk. Events without a number are left out: nobody could tell whether they are new.
func (w *Writer) OnEvents(ctx context.Context, run controlplane.Run, events []telemetry.Event) error {
	t, err := w.thread(ctx, &run)
	if err != nil {
		return fmt.Errorf("the transcript of run %s: %w", run.RunID, err)
	}
	err = t.write(ctx, events)
	if err != nil || over(events) {
		w.forget(run.RunID, t)
	}
	if err != nil {
		return fmt.Errorf("the transcript of run %s: %w", run.RunID, err)
	}
	return nil
}

// over reports whether nothing comes behind the events, as a rule.
func over(events []telemetry.Event) bool {
	return slices.ContainsFunc(events, func(e telemetry.Event) bool {
		return e.Type == telemetry.StateChange && (e.State == telemetry.Stopped || e.State == telemetry.Done || e.State == telemetry.Broken)
	})
}

// Close closes every transcript. What comes later fails.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	var errs []error
	for _, t := range w.open {
		errs = append(errs, t.file.Close())
	}
	clear(w.open)
	return errors.Join(errs...)
}

// forget closes a transcript; it is read again when more comes.
func (w *Writer) forget(run string, t *thread) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[run] == t {
		delete(w.open, run)
	}
	if err := t.file.Close(); err != nil {
		w.log.Warn("closing the transcript of a run", "run", run, "err", err)
	}
}

// thread is the transcript of a run, made or opened again.
func (w *Writer) thread(ctx context.Context, run *controlplane.Run) (*thread, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, errClosed
	}
	if t := w.open[run.RunID]; t != nil {
		return t, nil
	}
	t, err := w.reopen(ctx, run)
	if errors.Is(err, sessions.ErrNotFound) {
		t, err = w.create(ctx, run)
	}
	if err != nil {
		return nil, err
	}
	w.open[run.RunID] = t
	return t, nil
}

// create makes the session of a run. Its key is the agent's, which the next run of
// that agent takes over.
func (w *Writer) create(ctx context.Context, run *controlplane.Run) (*thread, error) {
	h := sessions.Header{
		SessionID: acp.SessionID(run.SessionID), SessionKey: "loop:" + sessions.AgentSegment(run.Agent) + ":main", AgentID: run.Agent,
		Origin: sessions.OriginLoop, WorkspacePath: run.Workspace, WorkingPath: run.Workspace,
	}
	if run.CreatedAt != nil {
		h.CreatedAt, _ = time.Parse(time.RFC3339Nano, *run.CreatedAt) // else it is now
	}
	if before, err := w.store.Resolve(ctx, h.SessionKey, run.Agent); err == nil {
		h.PreviousID = before.ID
	}
	file, err := w.store.Create(h)
	if err != nil {
		return nil, err
	}
	t := newThread(file, run)
	if err := t.entitle(ctx, run); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return t, nil
}

// entitle names the session after what the run is asked.
func (t *thread) entitle(ctx context.Context, run *controlplane.Run) error {
	title := run.Agent + " loop"
	if asked := sessions.TitleOf(run.Prompt.Content); asked != "" {
		title += ": " + asked
	}
	t.done = place{}
	return t.file.Commit(ctx, sessions.Record{ID: t.done.id(), Body: sessions.Title{Title: title}})
}

// reopen opens the transcript that is there and finds the place to go on at.
func (w *Writer) reopen(ctx context.Context, run *controlplane.Run) (*thread, error) {
	file, _, err := w.store.Resume(ctx, acp.SessionID(run.SessionID))
	if err != nil {
		return nil, err
	}
	t := newThread(file, run)
	for rec, err := range w.store.Entries(ctx, acp.SessionID(run.SessionID)) {
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		t.recall(&rec)
	}
	if t.done.index < 0 { // it ended between its header and its title
		err = t.entitle(ctx, run)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return t, nil
}
