package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"time"

	"gander.dev/gander/acp"
)

// A Reading goes through the transcript of a session from its beginning and on with
// what is appended later, by whichever process: nothing is left out or read twice.
// It has one user at a time and holds nothing open.
type Reading struct {
	store  *Store
	id     acp.SessionID
	offset int64 // end of the last whole line that was read
	looked int64 // size of the file when it was read last
	replay replay
}

// Read begins a Reading at the beginning of a session. With a limit the updates of
// all but the last items are left out of what [Reading.Updates] returns, as [Store.Replay]
// does; what is appended later is never left out.
func (s *Store) Read(ctx context.Context, id acp.SessionID, limit int) (*Reading, error) {
	if _, err := s.stat(id); err != nil {
		return nil, fmt.Errorf("reading session %s: %w", id, err)
	}
	r := &Reading{store: s, id: id}
	if limit > 0 {
		var all replay
		for _, err := range s.replay(ctx, id, &all) {
			if err != nil {
				return nil, err
			}
		}
		r.replay.skip = max(0, all.items-limit)
	}
	return r, nil
}

// Records reads the records that have been appended since those that were read
// before, up to the present end. A line that is not whole yet is left for later. The
// sequence ends after an error: ErrNotFound when the session was deleted.
func (r *Reading) Records(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if err := r.each(ctx, yield); err != nil {
			yield(Record{}, fmt.Errorf("reading session %s: %w", r.id, err))
		}
	}
}

func (r *Reading) each(ctx context.Context, yield func(Record, error) bool) error {
	file, err := os.Open(r.store.path(r.id))
	if os.IsNotExist(err) {
		return ErrNotFound
	}
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < r.offset {
		return fmt.Errorf("%w: another one has its name", ErrNotFound)
	}
	r.looked = info.Size()
	r.offset, err = scan(ctx, file, r.offset, func(line []byte, whole bool) bool {
		return whole && yield(decodeRecord(line), nil)
	})
	return err
}

// Updates are what a client is shown of a record, which must be the last one read;
// see [Store.Replay].
func (r *Reading) Updates(rec *Record) []json.RawMessage {
	var out []json.RawMessage
	for _, u := range r.replay.updates(rec) {
		if r.replay.show(u) {
			out = append(out, u)
		}
	}
	return out
}

// followEvery is how often a transcript is looked at for more. That is a question
// to the file system which costs microseconds; notifications would not come from
// every file system, nor from every process.
const followEvery = 100 * time.Millisecond

// Wait returns when the transcript has changed since [Reading.Records] began last. It
// fails with ErrNotFound when the session was deleted, and when ctx ends.
func (r *Reading) Wait(ctx context.Context) error {
	again := time.NewTicker(followEvery)
	defer again.Stop()
	for {
		now, err := r.store.stat(r.id)
		if err != nil {
			return fmt.Errorf("following session %s: %w", r.id, err)
		}
		if now.size != r.looked {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
