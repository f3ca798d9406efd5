package sessions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gander.dev/gander/acp"
)

var (
	// ErrNotFound means that there is no such session.
	ErrNotFound = errors.New("no such session")
	// ErrDamaged means that a transcript has no header that can be read, or cannot be
	// read at all, so that nobody knows what session it is of.
	ErrDamaged = errors.New("its transcript is damaged")
	// ErrExists means that a session of that id is there already.
	ErrExists = errors.New("session exists already")
	// ErrClosed means that the transcript was closed.
	ErrClosed = errors.New("transcript is closed")
)

// Options adjust a [Store]; nil and the zero value are fine.
type Options struct {
	// Redact is applied to every line just before it is written, without the
	// newline. It returns the line with secrets taken out, still valid JSON; it
	// may return its argument but not change it. Nil changes nothing.
	Redact func(line []byte) []byte
	// BufferBytes is how much each transcript holds that is not written yet
	// before Append waits; 0 means 4 MiB. A single larger record passes.
	BufferBytes int
	// MaxBytes bounds each transcript's file, as what an agent says has no end; 0 means
	// 4 GiB. One that has reached it stops as on a full disk.
	MaxBytes int64
	// Sync is when an entry counts as on disk; the zero value is SyncAlways.
	Sync SyncPolicy
	// SyncInterval is the time of SyncInterval; 0 means a second.
	SyncInterval time.Duration
	// Now is the clock of resets; nil means time.Now.
	Now func() time.Time
	// Log is told of records that could not be written; nil discards.
	Log *slog.Logger
}

// A SyncPolicy says when [Transcript.Sync] acknowledges.
type SyncPolicy int

const (
	// SyncAlways acknowledges what a loss of power cannot take back. Those who
	// wait at the same time share one flush.
	SyncAlways SyncPolicy = iota
	// SyncInterval acknowledges what the system has; it is flushed at least each
	// Options.SyncInterval. A loss of power takes what is younger.
	SyncInterval
	// SyncNever acknowledges what the system has and leaves the rest to it.
	SyncNever
)

const (
	defaultBufferBytes  = 4 << 20
	defaultMaxBytes     = 4 << 30
	defaultSyncInterval = time.Second
)

// A Store is a directory of transcripts.
type Store struct {
	dir   string
	o     Options
	index index
}

// Open returns the store in dir, an absolute path. The directory is made (0700)
// when the first session is.
func Open(dir string, o *Options) (*Store, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("opening session store %q: the path is not absolute", dir)
	}
	s := &Store{dir: filepath.Clean(dir), index: index{version: foldVersion()}}
	if o != nil {
		s.o = *o
	}
	if s.o.BufferBytes <= 0 {
		s.o.BufferBytes = defaultBufferBytes
	}
	if s.o.MaxBytes <= 0 {
		s.o.MaxBytes = defaultMaxBytes
	}
	if s.o.SyncInterval <= 0 {
		s.o.SyncInterval = defaultSyncInterval
	}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	if s.o.Log == nil {
		s.o.Log = slog.New(slog.DiscardHandler)
	}
	return s, nil
}

// Create makes a session and its transcript. h.SessionID must be usable as a
// file name ([CheckID]); an existing one is ErrExists. A zero SchemaVersion or
// CreatedAt is filled in. The header has left this process when Create returns;
// Sync makes it safe from power loss.
func (s *Store) Create(h Header) (*Transcript, error) {
	t, err := s.create(h)
	if err != nil {
		return nil, fmt.Errorf("creating session %s: %w", h.SessionID, err)
	}
	return t, nil
}

func (s *Store) create(h Header) (*Transcript, error) {
	if err := CheckID(h.SessionID); err != nil {
		return nil, err
	}
	h = s.filled(h)
	line, err := appendRecord(nil, &Record{Body: h})
	if err != nil {
		return nil, err
	}
	if err := makeDurable(s.dir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(s.path(h.SessionID), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, ErrExists
	}
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(redactLines(line, s.o.Redact)); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return s.start(h.SessionID, f), nil
}

// filled is a header with what Create fills in.
func (s *Store) filled(h Header) Header {
	if h.SchemaVersion == 0 {
		h.SchemaVersion = SchemaVersion
	}
	if h.CreatedAt.IsZero() {
		h.CreatedAt = s.o.Now()
	}
	h.CreatedAt = h.CreatedAt.UTC().Truncate(time.Millisecond)
	if h.RealPath == "" && h.WorkingPath != "" {
		h.RealPath, _ = filepath.EvalSymlinks(h.WorkingPath) // one that is gone has none
	}
	return h
}

// Resume opens the transcript of an existing session to append to it, and
// returns its header. A session without one is not found: its creation was cut short.
func (s *Store) Resume(ctx context.Context, id acp.SessionID) (*Transcript, Header, error) {
	h, err := s.Header(ctx, id)
	if err != nil {
		return nil, Header{}, err
	}
	f, err := os.OpenFile(s.path(id), os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, Header{}, fmt.Errorf("resuming session %s: %w", id, err)
	}
	return s.start(id, f), h, nil
}

// Header returns the header of a session.
func (s *Store) Header(ctx context.Context, id acp.SessionID) (Header, error) {
	none := ErrNotFound
	for r, err := range s.Entries(ctx, id) {
		if err != nil {
			return Header{}, err
		}
		if h, ok := r.Body.(Header); ok {
			return h, nil
		}
		none = s.damaged(id)
	}
	return Header{}, fmt.Errorf("reading session %s: %w", id, none)
}

// damaged is an ErrDamaged that says what to do.
func (s *Store) damaged(id acp.SessionID) error {
	return fmt.Errorf("%w: the first line of %s cannot be read; mend it, or the file's rights, or move the file away", ErrDamaged, s.path(id))
}

// endOf reports how large f is, and whether it ends inside a line.
func endOf(f *os.File) (size int64, torn bool, err error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, false, err
	}
	var last [1]byte
	if _, err := f.ReadAt(last[:], info.Size()-1); err != nil && !errors.Is(err, io.EOF) {
		return 0, false, err
	}
	return info.Size(), last[0] != '\n', nil
}

func (s *Store) path(id acp.SessionID) string {
	return filepath.Join(s.dir, string(id)+".jsonl")
}

// makeDurable makes a directory and those above it that there are not yet. After a
// loss of power all of them are there.
func makeDurable(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	above := filepath.Dir(dir)
	if err := makeDurable(above); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := syncDir(above); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

const maxIDLength = 128

// CheckID says why id cannot name a session: it is 1 to 128 letters, digits,
// dots, dashes and underscores, begins with a letter or digit, does not end with
// a dot and is not a device name of Windows.
func CheckID(id acp.SessionID) error {
	if id == "" || len(id) > maxIDLength {
		return fmt.Errorf("session id %.40q: want 1 to %d characters", id, maxIDLength)
	}
	for i, c := range []byte(id) {
		alnum := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !alnum && (i == 0 || !strings.ContainsRune("._-", rune(c))) {
			return fmt.Errorf("session id %q: want letters, digits, '.', '-' and '_' only, the first a letter or digit", id)
		}
	}
	if strings.HasSuffix(string(id), ".") || isDeviceName(string(id)) {
		return fmt.Errorf("session id %q: not usable as a file name", id)
	}
	return nil
}

// isDeviceName reports whether Windows would open a device for the name,
// whatever its extension.
func isDeviceName(name string) bool {
	stem, _, _ := strings.Cut(strings.ToLower(name), ".")
	switch stem {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(stem) == 4 && (strings.HasPrefix(stem, "com") || strings.HasPrefix(stem, "lpt")) &&
		'0' <= stem[3] && stem[3] <= '9'
}
