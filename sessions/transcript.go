package sessions

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/acp"
)

// A Transcript appends to the file of one session. It must be closed.
type Transcript struct {
	id     acp.SessionID
	file   *os.File
	redact func([]byte) []byte
	log    *slog.Logger
	limit  int    // bytes that wait
	max    int64  // bytes of the file
	prefix string // of the ids of records
	policy SyncPolicy
	every  time.Duration

	pending chan struct{} // cap 1: something is in buf
	urgent  chan struct{} // cap 1: do not wait for more of it
	done    chan struct{} // closed when the writer has ended

	// mu guards what is appended but not written, and the state below. Appenders
	// hold it while they encode; the writer only to take the buffer.
	mu       sync.Mutex
	room     sync.Cond // buf was taken, or nothing will be appended any more
	buf      []byte    // whole lines
	spare    []byte    // the writer's previous buf
	appended int64     // records
	synced   int64     // records that are on disk
	waiters  []chan error
	closing  bool
	err      error // the first error; sticky

	dirSynced bool      // owned by the writer, as is what follows
	dirty     bool      // something is written that no flush was for
	flushed   time.Time // the last time
}

// start runs the writer of f.
func (s *Store) start(id acp.SessionID, f *os.File) *Transcript {
	t := &Transcript{
		id: id, file: f, redact: s.o.Redact, limit: s.o.BufferBytes, max: s.o.MaxBytes,
		log:    s.o.Log.With("session", string(id)),
		prefix: newPrefix(), policy: s.o.Sync, every: s.o.SyncInterval,
		pending: make(chan struct{}, 1),
		urgent:  make(chan struct{}, 1),
		done:    make(chan struct{}),
		synced:  -1, // the file itself
	}
	t.room.L = &t.mu
	go t.run()
	return t
}

// newPrefix begins the ids of the records of one writer.
func newPrefix() string { return strings.ToLower(rand.Text()[:10]) + "-" }

// ID is the session's id.
func (t *Transcript) ID() acp.SessionID { return t.id }

// Append adds r behind everything appended before. It does not wait for the
// disk, unless Options.BufferBytes are waiting for it already, and does not keep
// r. An earlier write error, or ErrClosed, is returned for all later records.
func (t *Transcript) Append(r Record) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.buf) >= t.limit && t.err == nil && !t.closing {
		t.room.Wait()
	}
	if err := t.state(); err != nil {
		return err
	}
	if r.ID == "" {
		r.ID = t.prefix + strconv.FormatInt(t.appended, 36)
	}
	buf, err := appendRecord(t.buf, &r)
	if err != nil {
		return fmt.Errorf("appending to session %s: %w", t.id, err)
	}
	wasBelow := len(t.buf) < batchBytes
	t.buf = buf
	t.appended++
	signal(t.pending)
	if wasBelow && len(t.buf) >= batchBytes {
		signal(t.urgent)
	}
	return nil
}

// state is why nothing can be appended. The caller holds mu.
func (t *Transcript) state() error {
	if t.err != nil {
		return t.err
	}
	if t.closing {
		return fmt.Errorf("appending to session %s: %w", t.id, ErrClosed)
	}
	return nil
}

// Commit appends records and returns when they are on disk, as Options.Sync has
// it: that is the acknowledgement of an entry.
func (t *Transcript) Commit(ctx context.Context, records ...Record) error {
	for _, r := range records {
		if err := t.Append(r); err != nil {
			return err
		}
	}
	return t.Sync(ctx)
}

// Sync returns when every record appended before the call is on disk, as
// Options.Sync has it. Callers that wait at the same time share one flush. When
// ctx ends first its error is returned and the flush goes on.
func (t *Transcript) Sync(ctx context.Context) error {
	t.mu.Lock()
	if t.err != nil || t.synced == t.appended {
		defer t.mu.Unlock()
		return t.err
	}
	if t.closing {
		defer t.mu.Unlock()
		return fmt.Errorf("syncing session %s: %w", t.id, ErrClosed)
	}
	w := make(chan error, 1)
	t.waiters = append(t.waiters, w)
	signal(t.urgent)
	t.mu.Unlock()
	select {
	case err := <-w:
		return err
	case <-ctx.Done():
		return fmt.Errorf("syncing session %s: %w", t.id, ctx.Err())
	}
}

// Err is the write error that stopped the transcript, if one did.
func (t *Transcript) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Close writes and syncs what was appended and closes the file. It may be
// called several times; the error is the first of the transcript.
func (t *Transcript) Close() error {
	t.mu.Lock()
	t.closing = true
	t.room.Broadcast()
	signal(t.urgent)
	t.mu.Unlock()
	<-t.done
	return t.Err()
}

// signal leaves a token in a channel of capacity one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
