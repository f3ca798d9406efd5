package changes

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// store keeps content outside of the project: one file of records, each a header
// and the content, deflated where that is shorter. Records are appended and never
// changed; [store.compact] writes a new file. Whoever appends holds the lock,
// which is the only thing that processes share.
type store struct {
	dir  string
	max  int64
	lock *flock.Flock
	uses *flock.Flock // shared, for as long as the store is open

	// mu guards what follows.
	mu    sync.Mutex
	f     *os.File
	index map[sum]place
	size  int64 // of the file, as far as it is known
	full  bool  // something was not kept for want of room
	open  bool  // the lock is held: records may be added
	files int   // how many files there were, one after the other
}

// place is where a record's content is.
type place struct {
	at       int64
	raw, enc uint32
}

// inUseFile is locked by everybody who has a store open.
const inUseFile = "in-use"

const (
	recordMagic  = "gsn1"
	recordHeader = len(recordMagic) + sha256.Size + 4 + 4
	maxRecord    = 64 << 20
)

// buffers are a worker's, used again for every file.
type buffers struct {
	content, record bytes.Buffer
	deflate         *flate.Writer
}

// settleTime is how long who opens a store waits for who drops content of it.
const settleTime = 10 * time.Second

func newStore(dir string, max int64) *store {
	return &store{
		dir: dir, max: max, lock: flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(0o600)),
		uses: flock.New(filepath.Join(dir, inUseFile), flock.SetPermissions(0o600)),
	}
}

func openStore(dir string, max int64) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory for what files were, %s: %w", dir, err)
	}
	s := newStore(dir, max)
	ctx, done := context.WithTimeout(context.Background(), settleTime)
	defer done()
	if _, err := s.uses.TryRLockContext(ctx, 10*time.Millisecond); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("opening what files were: %w", err)
	}
	if err := s.reopen(); err != nil {
		return nil, errors.Join(err, s.uses.Close())
	}
	return s, nil
}

func (s *store) path() string { return filepath.Join(s.dir, "objects") }

func (s *store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.f.Close(), s.lock.Close(), s.uses.Close())
}

// hold takes the lock; the returned function lets it go. It fails when another
// process does not let go before ctx ends.
func (s *store) hold(ctx context.Context) (release func(), err error) {
	ok, err := s.lock.TryLockContext(ctx, 10*time.Millisecond)
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, ctx.Err() // nobody waits for it any more
	}
	if err != nil || !ok {
		return nil, fmt.Errorf("another gander is busy with the files of this project (%s): %w; try again", s.dir, errors.Join(err, ctx.Err()))
	}
	s.mu.Lock()
	err = s.refresh()
	s.open = err == nil
	s.mu.Unlock()
	release = func() {
		s.mu.Lock()
		s.open = false
		s.mu.Unlock()
		_ = s.lock.Unlock() // closing the file at the latest does
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// reopen opens the file and reads where everything is. mu is held, or nobody knows s yet.
func (s *store) reopen() error {
	if s.f != nil {
		s.f.Close()
	}
	f, err := os.OpenFile(s.path(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("opening what files were: %w", err)
	}
	s.f, s.size, s.index = f, 0, map[sum]place{}
	s.files++
	return s.readOn()
}

// refresh takes in what other processes did. mu and the lock are held. What a
// crash left half written is cut off.
func (s *store) refresh() error {
	if s.isReplaced() {
		if err := s.reopen(); err != nil {
			return err
		}
	} else if err := s.readOn(); err != nil {
		return err
	}
	return s.f.Truncate(s.size)
}

// isReplaced says that another process has made a new file. mu is held.
func (s *store) isReplaced() bool {
	now, err := os.Stat(s.path())
	mine, errMine := s.f.Stat()
	return err != nil || errMine != nil || !os.SameFile(now, mine)
}

// generation is another number after content may have been dropped.
func (s *store) generation() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isReplaced() {
		if err := s.reopen(); err != nil {
			return 0, err
		}
	}
	return s.files, nil
}

// readOn reads the headers of records that are new.
func (s *store) readOn() error {
	info, err := s.f.Stat()
	if err != nil {
		return fmt.Errorf("reading what files were: %w", err)
	}
	var header [recordHeader]byte
	for s.size+int64(recordHeader) <= info.Size() {
		if _, err := s.f.ReadAt(header[:], s.size); err != nil {
			return fmt.Errorf("reading what files were: %w", err)
		}
		id, p, ok := parseHeader(header[:], s.size)
		if !ok || p.at+int64(p.enc) > info.Size() {
			return nil
		}
		s.index[id] = p
		s.size = p.at + int64(p.enc)
	}
	return nil
}

func parseHeader(h []byte, at int64) (id sum, p place, ok bool) {
	n := copy(id[:], h[len(recordMagic):]) + len(recordMagic)
	p = place{at + int64(recordHeader), binary.BigEndian.Uint32(h[n:]), binary.BigEndian.Uint32(h[n+4:])}
	return id, p, string(h[:len(recordMagic)]) == recordMagic && p.enc <= p.raw && p.raw <= maxRecord
}

// has says whether content is kept.
func (s *store) has(id sum) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.index[id]
	return ok
}

// add keeps content, unless there is no room. The lock is held.
func (s *store) add(id sum, data []byte, b *buffers) {
	if s.has(id) || len(data) > maxRecord {
		return
	}
	record := b.encode(id, data)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.index[id]; ok || !s.open {
		return
	}
	if s.size+int64(len(record)) > s.max {
		s.full = true
		return
	}
	if _, err := s.f.WriteAt(record, s.size); err != nil {
		s.full = true // the disk; what is behind size is cut off
		return
	}
	s.index[id] = place{s.size + int64(recordHeader), uint32(len(data)), uint32(len(record) - recordHeader)}
	s.size += int64(len(record))
}

// encode is the record of a content.
func (b *buffers) encode(id sum, data []byte) []byte {
	b.record.Reset()
	head := append([]byte(recordMagic), id[:]...)
	head = binary.BigEndian.AppendUint32(head, uint32(len(data)))
	b.record.Write(binary.BigEndian.AppendUint32(head, 0))
	if len(data) > 128 {
		if b.deflate == nil {
			b.deflate, _ = flate.NewWriter(nil, flate.BestSpeed) // a level that exists
		}
		b.deflate.Reset(&b.record)
		_, _ = b.deflate.Write(data) // a bytes.Buffer takes everything
		_ = b.deflate.Close()
	}
	if n := b.record.Len() - recordHeader; n == 0 || n >= len(data) {
		b.record.Truncate(recordHeader)
		b.record.Write(data)
	}
	record := b.record.Bytes()
	binary.BigEndian.PutUint32(record[recordHeader-4:], uint32(len(record)-recordHeader))
	return record
}

// get is kept content. It is what it was when it was kept, or an error.
func (s *store) get(id sum) ([]byte, error) {
	s.mu.Lock()
	p, ok := s.index[id]
	enc := make([]byte, p.enc)
	_, err := s.f.ReadAt(enc, p.at)
	s.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("what it was is not kept any more (%x)", id[:6])
	}
	if err != nil {
		return nil, fmt.Errorf("reading what it was: %w", err)
	}
	data := enc
	if p.enc < p.raw {
		var err error
		if data, err = io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(enc)), int64(p.raw)+1)); err != nil {
			return nil, fmt.Errorf("reading what it was: %w", err)
		}
	}
	if sha256.Sum256(data) != id {
		return nil, fmt.Errorf("what it was is damaged in %s (%x)", s.path(), id[:6])
	}
	return data, nil
}

// compact drops everything that is not live. The lock is held.
func (s *store) compact(live func(sum) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	tmp, err := os.CreateTemp(s.dir, "objects-*")
	if err != nil {
		return fmt.Errorf("making room for what files were: %w", err)
	}
	err = s.copyTo(tmp, live)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), s.path())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("making room for what files were: %w", err), os.Remove(tmp.Name()))
	}
	s.full = false
	return s.reopen()
}

func (s *store) copyTo(w io.Writer, live func(sum) bool) error {
	for id, p := range s.index {
		if !live(id) {
			continue
		}
		from := p.at - int64(recordHeader)
		if _, err := io.Copy(w, io.NewSectionReader(s.f, from, int64(recordHeader)+int64(p.enc))); err != nil {
			return err
		}
	}
	return nil
}

// sync makes what is kept last.
func (s *store) sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.f.Sync()
}

func (s *store) isFull() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full
}
