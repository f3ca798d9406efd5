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

// LastRef is the reference of the session of a directory that was used last.
const LastRef = "last"

// ErrAmbiguous means that a reference stands for several sessions.
var ErrAmbiguous = errors.New("ids have that beginning")

// ResolveIn finds the session that a person in a directory means: [LastRef], or a
// reference as for [Store.Resolve]. Its errors are those of Resolve.
func (s *Store) ResolveIn(ctx context.Context, ref, agent, dir string) (Info, error) {
	if !isLast(ref) {
		return s.Resolve(ctx, ref, agent)
	}
	page, err := s.List(ctx, ListOptions{CWD: dir})
	if err != nil {
		return Info{}, err
	}
	for i := range page.Sessions {
		if page.Sessions[i].WorkingPath != "" { // an imported one may be of any directory
			return page.Sessions[i], nil
		}
	}
	return Info{}, fmt.Errorf("a session of %s: %w", dir, ErrNotFound)
}

func isLast(ref string) bool { return strings.EqualFold(strings.TrimSpace(ref), LastRef) }

// Resolve finds the session that a reference means: its id, its key, a name that is part
// of the key for the agent, the beginning of one session's short id (at least 4
// characters, see [ShortID]) or of one session's id (at least 6). When several had a key
// it is the last one. None is ErrNotFound, several are ErrAmbiguous, one whose transcript
// cannot be read is ErrDamaged.
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
		case shortens(ref, info.ID):
			begin = append(begin, *info)
		}
	}
	for _, id := range page.Damaged {
		if shortens(ref, id) {
			begin = append(begin, Info{ID: id})
		}
	}
	switch {
	case latest != nil:
		return *latest, nil
	case len(begin) == 1:
		return begin[0], nil
	case len(begin) > 1:
		return Info{}, fmt.Errorf("session %q: %d %w; give more of it", ref, len(begin), ErrAmbiguous)
	}
	return Info{}, fmt.Errorf("session %q: %w", ref, ErrNotFound)
}

// The fewest characters that stand for a session.
const (
	minPrefix = 6 // of its id, which begins with the time
	minShort  = 4 // of its short id, which is random
)

// ShortLength is the length of the short id of a session that gander made.
const ShortLength = 12

// ShortID returns the random end of a session's id, or the whole id where it does not end
// as those of gander do.
func ShortID(id acp.SessionID) string {
	if n := len(id) - len(uuid.Nil.String()); n >= 0 && uuid.Validate(string(id[n:])) == nil {
		return string(id[len(id)-ShortLength:])
	}
	return string(id)
}

// shortens reports whether a reference stands for an id by being shorter than it.
func shortens(ref string, id acp.SessionID) bool {
	ref = strings.ToLower(ref)
	return len(ref) >= minPrefix && strings.HasPrefix(strings.ToLower(string(id)), ref) ||
		len(ref) >= minShort && strings.HasPrefix(strings.ToLower(ShortID(id)), ref)
}

// hasKey says whether a reference means the session by its key or by a name in it.
func (i *Info) hasKey(ref, agent string) bool {
	return i.Key == KeyOf(ref, agent) || strings.EqualFold(i.Key, strings.TrimSpace(ref))
}

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
	info, err := s.ResolveIn(ctx, q.Ref, q.Agent, q.WorkingDir)
	if errors.Is(err, ErrNotFound) && namesNew(q.Ref) {
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

// namesNew reports whether a reference that means no session may name a new one.
func namesNew(ref string) bool {
	ref = strings.TrimSpace(ref)
	return uuid.Validate(ref) != nil && !isLast(ref)
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
