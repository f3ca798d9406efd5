package sessions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"gander.dev/gander/acp"
)

// mainKey is what an empty reference means.
const mainKey = "main"

// AgentSegment is an agent's name as it is in a key: lower case, everything but
// letters and digits a dash.
func AgentSegment(name string) string { return segment(name, "") }

// segment is s in lower case with runs of other characters than letters, digits
// and those of keep as one dash, none at the ends.
func segment(s, keep string) string {
	var b strings.Builder
	gap := false
	for _, c := range strings.ToLower(strings.TrimSpace(s)) {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || strings.ContainsRune(keep, c) {
			if gap && b.Len() > 0 {
				b.WriteByte('-')
			}
			gap = false
			b.WriteRune(c)
			continue
		}
		gap = true
	}
	return strings.Trim(b.String(), "-")
}

// KeyOf is the key that a reference means for an agent, when it is not the id or
// the key of a session that there is: nothing or "main" is agent:<agent>:main,
// something with a colon is a key already, and anything else agent:<agent>:<name>.
// References do not depend on case.
func KeyOf(ref, agent string) string {
	ref = strings.ToLower(strings.TrimSpace(ref))
	if strings.Contains(ref, ":") {
		return ref
	}
	name := segment(ref, "-")
	if name == "" {
		name = mainKey
	}
	return "agent:" + AgentSegment(agent) + ":" + name
}

// Resolve finds the session that a reference means: its id, the beginning of at
// least 6 characters of the id of one session only, its key, or a name that is
// part of the key for the agent. When several had a key it is the last one. None
// is ErrNotFound, one whose transcript cannot be read ErrDamaged.
func (s *Store) Resolve(ctx context.Context, ref, agent string) (Info, error) {
	info, err := s.resolve(ctx, strings.TrimSpace(ref), agent)
	if err != nil {
		return Info{}, err
	}
	if _, err := s.Header(ctx, info.ID); err != nil { // the index may know what the file has lost
		return Info{}, err
	}
	return info, nil
}

func (s *Store) resolve(ctx context.Context, ref, agent string) (Info, error) {
	if id := acp.SessionID(ref); CheckID(id) == nil {
		if info, err := s.Info(ctx, id); !errors.Is(err, ErrNotFound) {
			return info, err
		}
	}
	page, err := s.List(ctx, ListOptions{all: true})
	if err != nil {
		return Info{}, err
	}
	isPrefix := func(id acp.SessionID) bool {
		return len(ref) >= minPrefix && strings.HasPrefix(strings.ToLower(string(id)), strings.ToLower(ref))
	}
	var begin []Info
	var latest *Info
	for i := range page.Sessions {
		info := &page.Sessions[i]
		switch {
		case strings.EqualFold(string(info.ID), ref):
			return *info, nil
		case info.hasKey(ref, agent):
			if latest == nil || info.CreatedAt.After(latest.CreatedAt) {
				latest = info
			}
		case isPrefix(info.ID):
			begin = append(begin, *info)
		}
	}
	for _, id := range page.Damaged {
		if isPrefix(id) {
			begin = append(begin, Info{ID: id})
		}
	}
	switch {
	case latest != nil:
		return *latest, nil
	case len(begin) == 1:
		return begin[0], nil
	case len(begin) > 1:
		return Info{}, fmt.Errorf("%q is the beginning of %d session ids; give more of it", ref, len(begin))
	}
	return Info{}, fmt.Errorf("session %q: %w", ref, ErrNotFound)
}

// hasKey says whether a reference means the session by its key or by a name in it.
func (i *Info) hasKey(ref, agent string) bool {
	return i.Key == KeyOf(ref, agent) || strings.EqualFold(i.Key, strings.TrimSpace(ref))
}

const minPrefix = 6 // characters of an id that stand for it

// Reset says when a session of a command line or a loop is old, so that its key
// goes on with a new one. The zero value never does.
type Reset struct {
	// Daily makes a session old that was last used before the last AtHour o'clock
	// (0 to 23) of the local time.
	Daily  bool
	AtHour int
	// Idle makes a session old that nothing happened in for longer; 0 never.
	Idle time.Duration
}

// old says why a session that was last used at updated is old at now; empty when it is not.
func (r Reset) old(updated, now time.Time) string {
	if r.Daily {
		h := min(max(r.AtHour, 0), 23)
		at := time.Date(now.Year(), now.Month(), now.Day(), h, 0, 0, 0, now.Location())
		if at.After(now) {
			at = time.Date(now.Year(), now.Month(), now.Day()-1, h, 0, 0, 0, now.Location())
		}
		if updated.Before(at) {
			return fmt.Sprintf("a new day began at %02d:00", h)
		}
	}
	if r.Idle > 0 && now.Sub(updated) > r.Idle {
		return fmt.Sprintf("nothing happened in it for longer than %s", r.Idle)
	}
	return ""
}

// Request says which session a command line or a loop wants to go on with.
type Request struct {
	// Ref is what the person said: an id, a key, a name; see [Store.Resolve].
	Ref   string
	Agent string
	// WorkingDir is the directory, absolute.
	WorkingDir string
	// Origin is what a new session gets, OriginCLI or OriginLoop.
	Origin Origin
	// ForceNew begins a new session whatever there is.
	ForceNew bool
	Reset    Reset
}

// Prepared is the session to go on with.
type Prepared struct {
	Info Info
	// New is whether it was made just now.
	New bool
	// Why is why it does not go on with the session that the reference meant
	// before, which is Info.PreviousID and stays as it is; empty when there was none.
	Why string
}

// Prepare returns the session that a reference means, or makes one: when there is
// none, when the one there is belongs to another directory or is old, or when a
// new one is wanted. The clock and another directory replace only a session that
// was asked for by a key, and has one of a command line or a loop; an editor's, and
// one that was asked for by its id, is taken at any age, and
// asking for it in another directory is ErrWorkingDir. An id that nobody has is
// ErrNotFound. Two processes that ask for
// one key at once get the same session.
func (s *Store) Prepare(ctx context.Context, q Request) (Prepared, error) {
	if !filepath.IsAbs(q.WorkingDir) {
		return Prepared{}, fmt.Errorf("preparing session %q: the directory %q is not absolute", q.Ref, q.WorkingDir)
	}
	if err := makeDurable(s.dir); err != nil {
		return Prepared{}, fmt.Errorf("preparing session %q: %w", q.Ref, err)
	}
	lock, err := s.waitLock(".prepare")
	if err != nil {
		return Prepared{}, fmt.Errorf("preparing session %q: waiting for another gander: %w", q.Ref, err)
	}
	defer lock.release()
	s.clearAway()
	info, err := s.Resolve(ctx, q.Ref, q.Agent)
	if errors.Is(err, ErrNotFound) && uuid.Validate(strings.TrimSpace(q.Ref)) != nil { // an id is not a name for a new one
		return s.prepareNew(ctx, &q, KeyOf(q.Ref, q.Agent), nil, "")
	}
	if err != nil {
		return Prepared{}, err
	}
	why, err := s.replaced(&q, &info)
	if err != nil || why == "" {
		return Prepared{Info: info}, err
	}
	return s.prepareNew(ctx, &q, info.Key, &info, why)
}

// replaced says why a session is not gone on with; empty when it is.
func (s *Store) replaced(q *Request, info *Info) (string, error) {
	keyed := (info.Origin == OriginCLI || info.Origin == OriginLoop || info.Origin == OriginImport) && info.hasKey(q.Ref, q.Agent)
	switch err := info.CheckDir(q.WorkingDir); {
	case q.ForceNew:
		return "a new one was asked for", nil
	case !keyed:
		return "", err
	case err != nil:
		return "it belongs to " + info.WorkingPath, nil
	}
	return q.Reset.old(info.UpdatedAt, s.o.Now()), nil
}

func (s *Store) prepareNew(ctx context.Context, q *Request, key string, before *Info, why string) (Prepared, error) {
	h := Header{
		SessionID: acp.SessionID(NewID()), SessionKey: key, AgentID: q.Agent, Origin: q.Origin,
		WorkspacePath: q.WorkingDir, WorkingPath: q.WorkingDir, CreatedAt: s.o.Now(),
	}
	if before != nil {
		h.PreviousID = before.ID
		if before.Key == string(before.ID) { // an editor's: a key is for one session only
			h.SessionKey = string(h.SessionID)
		}
	}
	if err := s.writeSession(s.filled(h), nil); err != nil {
		return Prepared{}, fmt.Errorf("creating session %s: %w", h.SessionID, err)
	}
	info, err := s.Info(ctx, h.SessionID)
	return Prepared{Info: info, New: true, Why: why}, err
}

// Restart begins a new session under the key of an old one, in its directory,
// whatever its age; the old one stays.
func (s *Store) Restart(ctx context.Context, old Info) (Prepared, error) {
	if _, err := os.Stat(old.WorkingPath); err != nil {
		return Prepared{}, fmt.Errorf("session %s cannot begin anew: its directory is gone: %w", old.ID, err)
	}
	q := Request{Agent: old.Agent, WorkingDir: old.WorkingPath, Origin: old.Origin}
	return s.prepareNew(ctx, &q, old.Key, &old, "a new one was asked for")
}

// NewID is an id for a session: unique for ever, ordered by time.
func NewID() string {
	id, err := uuid.NewV7()
	if err != nil {
		panic(err) // the system has no randomness
	}
	return id.String()
}
