package sessions

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	// batchBytes is the size from which a batch is written without waiting for
	// more, linger how long the first record of a smaller one waits. Together
	// they keep the file current for a reader and system calls rare.
	batchBytes = 64 << 10
	linger     = 4 * time.Millisecond
)

// run is the writer: the only one that touches the file. It ends after the
// batch that was taken when the transcript was closing.
func (t *Transcript) run() {
	defer close(t.done)
	timer := time.NewTimer(linger)
	defer timer.Stop()
	for last := false; !last; {
		t.gather(timer)
		var waiters []chan error
		var batch []byte
		var count int64
		batch, count, waiters, last = t.take()
		err := t.write(batch)
		if err == nil && t.due(last, len(waiters) > 0) {
			err = t.flush(count)
		}
		if last {
			err = t.closeFile(err)
		}
		t.finish(batch, count, waiters, err)
	}
}

// gather waits until a batch is due, or a flush.
func (t *Transcript) gather(timer *time.Timer) {
	var flush <-chan time.Time
	if t.dirty && t.policy == SyncInterval {
		timer.Reset(time.Until(t.flushed.Add(t.every)))
		flush = timer.C
	}
	select {
	case <-flush:
		return
	case <-t.urgent:
		return
	case <-t.pending:
	}
	timer.Reset(linger)
	select {
	case <-t.urgent:
	case <-timer.C:
	}
}

// due reports whether what is written must be made durable now.
func (t *Transcript) due(last, wanted bool) bool {
	switch t.policy {
	case SyncNever:
		return false
	case SyncInterval:
		return last || t.dirty && time.Since(t.flushed) >= t.every
	}
	return last || wanted
}

// take swaps the buffers. count is the number of records up to the end of the batch.
func (t *Transcript) take() (batch []byte, count int64, waiters []chan error, last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	batch, t.buf, t.spare = t.buf, t.spare[:0], nil
	waiters, t.waiters = t.waiters, nil
	t.room.Broadcast()
	return batch, t.appended, waiters, t.closing
}

func (t *Transcript) write(batch []byte) error {
	if len(batch) == 0 || t.Err() != nil {
		return nil
	}
	t.dirty = true
	return appendLines(t.file, redactLines(batch, t.redact), t.max)
}

// appendLines appends whole lines behind the last whole line: what a killed
// writer left of its last one gets a line of its own. Writers of other processes
// wait meanwhile. A file that would be larger than max stays as it is.
func appendLines(f *os.File, lines []byte, max int64) (err error) {
	if err := lockFile(f); err != nil {
		return fmt.Errorf("locking transcript %s: %w", f.Name(), err)
	}
	defer func() { err = errors.Join(err, unlockFile(f)) }()
	size, torn, err := endOf(f)
	if err != nil {
		return fmt.Errorf("looking at the end of transcript %s: %w", f.Name(), err)
	}
	if size+int64(len(lines)) > max {
		return fmt.Errorf("writing transcript %s: it would be larger than %d MiB, which is the most; go on in a new session", f.Name(), max>>20)
	}
	if torn {
		if _, err := f.Write([]byte("\n")); err != nil {
			return fmt.Errorf("writing transcript %s: %w", f.Name(), err)
		}
	}
	if _, err := f.Write(lines); err != nil {
		return fmt.Errorf("writing transcript %s: %w", f.Name(), err)
	}
	return nil
}

// flush makes the first count records durable, and once the file's name too.
func (t *Transcript) flush(count int64) error {
	if t.Err() != nil { // an fsync that succeeds after one that failed proves nothing
		return nil
	}
	if err := t.file.Sync(); err != nil {
		return fmt.Errorf("syncing transcript %s: %w", t.file.Name(), err)
	}
	if !t.dirSynced {
		if err := syncDir(filepath.Dir(t.file.Name())); err != nil {
			return fmt.Errorf("syncing transcript %s: %w", t.file.Name(), err)
		}
		t.dirSynced = true
	}
	t.dirty, t.flushed = false, time.Now()
	return nil
}

func (t *Transcript) closeFile(err error) error {
	if closeErr := t.file.Close(); err == nil && closeErr != nil {
		return fmt.Errorf("closing transcript %s: %w", t.file.Name(), closeErr)
	}
	return err
}

// finish records the outcome of a batch and tells who waits for it.
func (t *Transcript) finish(batch []byte, count int64, waiters []chan error, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && t.err == nil {
		t.err = err
		t.room.Broadcast()
		t.log.Error("the transcript has stopped; the conversation goes on unrecorded", "err", err)
	}
	if t.err == nil && !(t.policy == SyncAlways && t.dirty) {
		t.synced = count
	}
	for _, w := range waiters {
		w <- t.err
	}
	if cap(batch) <= 2*t.limit { // a huge record's buffer is not kept
		t.spare = batch
	}
}
