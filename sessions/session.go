package sessions

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gander.dev/gander/acp"
)

// Append adds records to a session that need not be open here, and returns when
// they are on disk.
func (s *Store) Append(ctx context.Context, id acp.SessionID, records ...Record) error {
	t, _, err := s.Resume(ctx, id)
	if err != nil {
		return err
	}
	return errors.Join(t.Commit(ctx, records...), t.Close())
}

// SetTitle renames a session for by, a person or an agent. A title is one line
// of at most 120 characters; what is longer is cut, and an empty one refused.
// UpdatedAt stays.
func (s *Store) SetTitle(ctx context.Context, id acp.SessionID, title, by string) (string, error) {
	title = cleanTitle(title)
	if title == "" {
		return "", fmt.Errorf("renaming session %s: the title is empty; give some words", id)
	}
	return title, s.Append(ctx, id, Record{Body: Title{title, by}})
}

// SetArchived archives a session, or takes it out of the archive.
func (s *Store) SetArchived(ctx context.Context, id acp.SessionID, archived bool) error {
	return s.Append(ctx, id, Record{Body: Archive{archived}})
}

// InUse reports whether somebody has a session open.
func (s *Store) InUse(id acp.SessionID) bool {
	release, err := s.Claim(id)
	if err == nil {
		release()
	}
	return errors.Is(err, ErrInUse)
}

// Fork makes a session h.SessionID that begins with all that is in session from,
// up to the last whole record; it is temporary when that is. Of h the id, the key, the origin and the
// directories may be given, for what is empty is taken from the other. The agents
// begin conversations of their own there.
func (s *Store) Fork(ctx context.Context, from acp.SessionID, h Header) (Info, error) {
	old, err := s.Header(ctx, from)
	if err != nil {
		return Info{}, err
	}
	info, err := s.Info(ctx, from)
	if err != nil {
		return Info{}, err
	}
	h.SchemaVersion, h.AgentID, h.ForkedFrom, h.Temporary = SchemaVersion, info.Agent, from, info.Temporary
	if h.WorkingPath == "" {
		h.WorkspacePath, h.WorkingPath, h.RealPath = old.WorkspacePath, old.WorkingPath, old.RealPath
	}
	if h.SessionKey == "" {
		h.SessionKey = string(h.SessionID)
	}
	if err := s.copySession(ctx, from, s.filled(h)); err != nil {
		return Info{}, fmt.Errorf("forking session %s: %w", from, err)
	}
	return s.Info(ctx, h.SessionID)
}

// copySession writes a session as a whole: it is there with everything or not at all.
func (s *Store) copySession(ctx context.Context, from acp.SessionID, h Header) error {
	return s.writeSession(h, func(w *bufio.Writer) error {
		in, err := os.Open(s.path(from))
		if err != nil {
			return err
		}
		defer in.Close()
		var failed error
		_, err = scan(ctx, in, 0, func(line []byte, whole bool) bool {
			if !whole || typeOf(line) == TypeSession {
				return whole
			}
			_, failed = w.Write(append(line, '\n'))
			return failed == nil
		})
		return errors.Join(err, failed, writeRecord(w, &Record{ID: newPrefix() + "0", Body: Fork{from}}))
	})
}

// writeSession makes a session of a header and what write writes, which is
// redacted already.
func (s *Store) writeSession(h Header, write func(*bufio.Writer) error) error {
	if err := CheckID(h.SessionID); err != nil {
		return err
	}
	if err := makeDurable(s.dir); err != nil {
		return err
	}
	f, err := os.CreateTemp(s.dir, ".new-*")
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 64<<10)
	err = writeRecord(w, &Record{Body: h})
	if err == nil && write != nil {
		err = write(w)
	}
	err = errors.Join(err, w.Flush(), f.Sync(), f.Close())
	if err == nil {
		err = takeName(f.Name(), s.path(h.SessionID))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(s.dir)
}

func writeRecord(w io.Writer, r *Record) error {
	line, err := appendRecord(nil, r)
	if err != nil {
		return err
	}
	_, err = w.Write(line)
	return err
}

// takeName renames a file to a name that nobody has: ErrExists when somebody does.
func takeName(from, to string) error {
	err := os.Link(from, to) // fails when the name is taken, as rename does not
	if errors.Is(err, fs.ErrExist) {
		return ErrExists
	}
	if err == nil {
		return os.Remove(from)
	}
	if _, err := os.Lstat(to); err == nil { // a file system without hard links
		return ErrExists
	}
	return os.Rename(from, to)
}

// Delete removes a session and its transcript for good. One that is not there is
// ErrNotFound, one that somebody has open ErrInUse.
func (s *Store) Delete(_ context.Context, id acp.SessionID) error {
	if _, err := s.stat(id); err != nil {
		return fmt.Errorf("deleting session %s: %w", id, err)
	}
	release, err := s.Claim(id)
	if err != nil {
		return err
	}
	defer release()
	err = os.Remove(s.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNotFound
	}
	if err == nil {
		err = errors.Join(syncDir(s.dir), s.dropIndexed())
	}
	if err != nil {
		return fmt.Errorf("deleting session %s: %w", id, err)
	}
	return nil
}

// leftover is how old a file of a killed process is when it is cleared away.
const leftover = time.Hour

// clearAway removes what processes that were killed left unfinished.
func (s *Store) clearAway() {
	names, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	for _, n := range names {
		if !strings.HasPrefix(n.Name(), ".new-") {
			continue
		}
		if info, err := n.Info(); err == nil && s.o.Now().Sub(info.ModTime()) > leftover {
			_ = os.Remove(filepath.Join(s.dir, n.Name()))
		}
	}
}
