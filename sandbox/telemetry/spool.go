package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// SpoolOptions say where and how events are kept. Dir is needed.
type SpoolOptions struct {
	// Dir is the directory of the files; it is made when it is not there. One Spool at a
	// time uses it.
	Dir string
	// RunID is put into every event.
	RunID string
	// Last is a number that was used in this run, if one is known: events are numbered
	// after it even if the files have been lost.
	Last int64
	// Segment is how large a file grows, in bytes; 0 means 4 MiB.
	Segment int64
	// Limit bounds all files, in bytes; 0 means 1 GiB. When it is reached events are kept
	// without their content, which the log and an event say; at twice of it they are
	// refused with ErrFull.
	Limit int64
	// SyncEvery is how long events wait to be made safe together; 0 means 50 ms.
	SyncEvery time.Duration
	// Log takes what is worth knowing; nil discards it.
	Log *slog.Logger
}

// ErrFull is returned when nothing more can be kept: nobody has taken the events for so
// long that the files are twice as large as they may be.
var ErrFull = errors.New("the spool of events is full: the control plane has not taken them; start it (gander serve), or give the run's directory up")

// ErrSpoolClosed is returned by a Spool that was closed.
var ErrSpoolClosed = errors.New("the spool of events is closed")

// Spool keeps the events of a run in files until somebody has them, one JSON object per
// line. It numbers them. What it holds in memory does not grow with what it keeps.
// Methods are safe for concurrent use.
type Spool struct {
	o     SpoolOptions
	log   *slog.Logger
	dirty chan struct{} // has one element when something is to be made safe
	quit  chan struct{}
	wg    sync.WaitGroup

	// mu guards the fields below.
	mu       sync.Mutex
	segments []segment // by number; the last one is written to, and never removed
	file     *os.File
	written  int64         // the number of the last event in the files
	safe     int64         // and of the last that survives a power failure
	acked    int64         // and of the last that somebody has
	changed  chan struct{} // closed and replaced when safe grows
	full     bool          // contents are left out
	failed   error         // of the last attempt to make events safe
	closed   bool
}

// segment is a file of events, named after the number of the first.
type segment struct {
	first int64
	size  int64
}

const segmentSuffix = ".jsonl"

func (g segment) name() string { return fmt.Sprintf("%020d%s", g.first, segmentSuffix) }

// OpenSpool opens the files of a run, or begins them. What a crash left half-written at
// the end is cut off. Close the Spool.
func OpenSpool(o SpoolOptions) (*Spool, error) {
	o = o.withDefaults()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of events: %w", err)
	}
	s := &Spool{o: o, log: o.Log, dirty: make(chan struct{}, 1), quit: make(chan struct{}), changed: make(chan struct{})}
	if err := s.find(); err != nil {
		return nil, fmt.Errorf("reading the events kept in %s: %w", o.Dir, err)
	}
	if err := s.recover(); err != nil {
		return nil, fmt.Errorf("opening the events kept in %s: %w", o.Dir, err)
	}
	s.wg.Go(s.keepSafe)
	return s, nil
}

func (o SpoolOptions) withDefaults() SpoolOptions {
	if o.Segment <= 0 {
		o.Segment = 4 << 20
	}
	if o.Limit <= 0 {
		o.Limit = 1 << 30
	}
	if o.SyncEvery <= 0 {
		o.SyncEvery = 50 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// find lists the segments.
func (s *Spool) find() error {
	entries, err := os.ReadDir(s.o.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		number, ours := strings.CutSuffix(e.Name(), segmentSuffix)
		first, err := strconv.ParseInt(number, 10, 64)
		if !ours || err != nil || first < 1 {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		s.segments = append(s.segments, segment{first, info.Size()})
	}
	slices.SortFunc(s.segments, func(a, b segment) int { return int(min(max(a.first-b.first, -1), 1)) })
	return nil
}

// recover opens the last segment for writing, without what is torn at its end.
func (s *Spool) recover() error {
	if len(s.segments) == 0 {
		s.written = s.o.Last
		s.acked, s.safe = s.written, s.written
		return s.begin()
	}
	last := &s.segments[len(s.segments)-1]
	f, err := os.OpenFile(filepath.Join(s.o.Dir, last.name()), os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	events, good, err := countLines(f)
	if err == nil && good < last.size {
		s.log.Warn("the end of the kept events was half-written and is cut off", "file", last.name(), "bytes", last.size-good)
		err = f.Truncate(good)
	}
	if err == nil {
		_, err = f.Seek(good, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	s.file, last.size = f, good
	s.written = last.first - 1 + events
	s.safe, s.acked = s.written, s.segments[0].first-1
	if s.o.Last > s.written { // events are lost; their numbers are not used again
		s.log.Error("events that somebody has are not in the spool any more; it goes on after them", "spool", s.written, "used", s.o.Last)
		s.written, s.safe = s.o.Last, s.o.Last
		return s.rotate()
	}
	return nil
}

// begin makes the next segment.
func (s *Spool) begin() error {
	g := segment{first: s.written + 1}
	f, err := os.OpenFile(filepath.Join(s.o.Dir, g.name()), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := syncDir(s.o.Dir); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name())) // the next try makes it again
	}
	s.file, s.segments = f, append(s.segments, g)
	return nil
}

// rotate ends the segment that is written to and makes another one.
func (s *Spool) rotate() error {
	before := s.file
	if err := before.Sync(); err != nil {
		return err
	}
	if err := s.begin(); err != nil {
		return err
	}
	s.safe = s.written
	return before.Close()
}

// syncDir makes the names in a directory safe, where the system knows how.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !os.IsPermission(err) {
		return err
	}
	return nil
}

// Append caps, numbers and writes events, and returns the number of the last one. They
// are safe soon after, and can be read then; see Sync. After an error none is kept.
func (s *Spool) Append(events ...Event) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.written, ErrSpoolClosed
	}
	room, err := s.room()
	if err != nil {
		return s.written, err
	}
	var buf bytes.Buffer
	next := s.written
	for _, e := range append(room, events...) {
		next++
		e.RunID, e.Seq = s.o.RunID, next
		if e.Cap(); s.full && e.Content != "" {
			e.Truncated, e.Bytes, e.Content = true, max(e.Bytes, len(e.Content)), ""
		}
		line, err := json.Marshal(e)
		if err != nil {
			return s.written, fmt.Errorf("writing an event: %w", err)
		}
		buf.Write(append(line, '\n'))
	}
	return s.write(buf.Bytes(), next)
}

// write puts whole lines at the end. What a failure left of them is taken away again.
func (s *Spool) write(lines []byte, last int64) (int64, error) {
	g := &s.segments[len(s.segments)-1]
	if g.size > 0 && g.size+int64(len(lines)) > s.o.Segment {
		if err := s.rotate(); err != nil {
			return s.written, fmt.Errorf("beginning another file of events: %w", err)
		}
		g = &s.segments[len(s.segments)-1]
	}
	if _, err := s.file.Write(lines); err != nil {
		_ = s.file.Truncate(g.size)
		_, _ = s.file.Seek(g.size, 0)
		return s.written, fmt.Errorf("keeping events: %w; free some space on the disk of %s", err, s.o.Dir)
	}
	g.size += int64(len(lines))
	s.written = last
	select {
	case s.dirty <- struct{}{}:
	default: // it is to be made safe anyway
	}
	return last, nil
}

// room looks whether there is room, and returns what is to be said when that changes.
func (s *Spool) room() ([]Event, error) {
	var size int64
	for _, g := range s.segments {
		size += g.size
	}
	switch {
	case size >= 2*s.o.Limit:
		return nil, ErrFull
	case size >= s.o.Limit && !s.full:
		s.full = true
		s.log.Error("the control plane has not taken events for so long that they take up all the room they may; from now on they are kept without their content", "dir", s.o.Dir, "bytes", size, "limit", s.o.Limit)
		return []Event{stamped(Problem("The events that wait for the control plane take up all the room they may. Those that follow are without their content."))}, nil
	case size < s.o.Limit && s.full:
		s.full = false
		s.log.Info("there is room for events again", "dir", s.o.Dir)
	}
	return nil, nil
}

func stamped(e Event) Event {
	e.Time = time.Now().UnixMilli()
	return e
}

// keepSafe makes safe what was written, many events at a time.
func (s *Spool) keepSafe() {
	for {
		select {
		case <-s.quit:
			return
		case <-s.dirty:
		}
		_ = s.Sync() // its error is returned by the next call of Sync
		pause := time.NewTimer(s.o.SyncEvery)
		select {
		case <-s.quit:
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// Sync returns when everything that was appended survives a power failure.
func (s *Spool) Sync() error {
	s.mu.Lock()
	f, upTo := s.file, s.written
	if upTo <= s.safe || s.closed {
		err := s.failed
		s.mu.Unlock()
		return err
	}
	s.mu.Unlock()
	err := f.Sync() // others append meanwhile
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.safe < upTo && !s.closed { // a file that was rotated away is safe
		s.failed = fmt.Errorf("making events safe: %w", err)
		s.log.Error("events cannot be made safe; they are not sent until they are", "err", err)
		return s.failed
	}
	s.failed = nil
	if s.safe < upTo {
		s.safe = upTo
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

// Changed is closed when there is more to read than now.
func (s *Spool) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Last is the number of the last event that was appended, 0 without any.
func (s *Spool) Last() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

// Acked is the number of the last event that somebody has, as far as it is known since
// the Spool was opened.
func (s *Spool) Acked() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked
}

// Ack notes that somebody has all events up to a number and no more, which may be less
// than before. Files of which all is had are removed.
func (s *Spool) Ack(seq int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked = max(0, min(seq, s.written))
	for len(s.segments) > 1 && s.segments[1].first <= s.acked+1 {
		if err := os.Remove(filepath.Join(s.o.Dir, s.segments[0].name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing events that the control plane has: %w", err)
		}
		s.segments = s.segments[1:]
	}
	return nil
}

// Close makes everything safe and closes the files.
func (s *Spool) Close() error {
	err := s.Sync()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	err = errors.Join(err, s.file.Close())
	s.mu.Unlock()
	close(s.quit)
	s.wg.Wait()
	return err
}
