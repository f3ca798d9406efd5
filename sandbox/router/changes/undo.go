package changes

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// A ConflictError says that files are not as the turn left them. Nothing was undone.
type ConflictError struct {
	// Paths are the files that are not, sorted.
	Paths []Path
}

func (e *ConflictError) Error() string {
	const most = 10
	names := make([]string, 0, most)
	for _, p := range e.Paths[:min(len(e.Paths), most)] {
		names = append(names, p.String())
	}
	more := ""
	if n := len(e.Paths) - most; n > 0 {
		more = " and " + plural(n, "other", "others")
	}
	return fmt.Sprintf("%s%s changed after the turn, so nothing was undone; put back what changed there, or move those files away, and undo again", strings.Join(names, ", "), more)
}

// ErrNothing says that there is no turn to undo.
var ErrNothing = errors.New("no turn with changed files is left to undo")

// Undone is what an undo did.
type Undone struct {
	Turn *Turn
	// Restored are the changes that were undone.
	Restored []Change
	// Skipped are sentences about what was not.
	Skipped []string
}

// step is one path of an undo: what must be there, and what comes in its place.
type step struct {
	Path Path  `json:"path"`
	Want *File `json:"want,omitempty"` // nil: nothing
	Put  *File `json:"put,omitempty"`  // nil: nothing
}

// Undo puts back what the last turn of a session that is not undone yet changed;
// of all sessions when session is empty. Files that are not as the turn left them
// are a [ConflictError]. A turn of which it is not known what it changed is refused once, so
// that nobody takes an earlier one for it; one whose record cannot be read always is. All is put back or nothing, also when gander is killed
// meanwhile: the next Open or Undo mends it then. When ctx ends before files are put in
// place, all is as it was; after that it is carried out. Commits, branches and the index of git
// stay as they are.
func (t *Tree) Undo(ctx context.Context, session string) (*Undone, error) {
	waiting, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	t.mu.Lock()
	defer t.mu.Unlock()
	release, err := t.store.hold(waiting)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := t.mend(); err != nil {
		return nil, fmt.Errorf("ending an undo that was cut short: %w", err)
	}
	if err := t.writeTurns(); err != nil {
		return nil, fmt.Errorf("nothing was undone, as the last turn is not kept: %w", err)
	}
	turn, err := t.undoable(session)
	switch {
	case err != nil:
		return nil, err
	case turn.unread:
		return nil, fmt.Errorf("what the turn of %s changed is not known (%s), so nothing was undone; make that file readable again, or remove %s to put back what an earlier turn changed", turn.Started.Format("15:04:05"), turn.Unknown, t.turnFile(turn.ID))
	}
	if turn.Unknown != "" {
		turn.Passed = true
		return nil, errors.Join(t.writeTurn(turn), fmt.Errorf("what the turn of %s changed is not known (%s), so nothing was undone; undo again to put back what an earlier turn changed", turn.Started.Format("15:04:05"), turn.Unknown))
	}
	return t.undo(ctx, turn)
}

// Undoable is the turn that Undo puts back, or [ErrNothing]. A turn that changed no file,
// as one that only committed, is passed over; not one of which that is not known.
func (t *Tree) Undoable(session string) (*Turn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.undoable(session)
}

// undoable is Undoable. mu is held.
func (t *Tree) undoable(session string) (*Turn, error) {
	turns, err := t.session(session)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(turns, func(turn *Turn) bool {
		return turn.Undone == nil && (len(turn.Changes)+turn.More > 0 || turn.Unknown != "" && !turn.Passed)
	})
	if i < 0 {
		return nil, ErrNothing
	}
	return turns[i], nil
}

func (t *Tree) undo(ctx context.Context, turn *Turn) (*Undone, error) {
	if turn.More > 0 {
		return nil, fmt.Errorf("the turn changed %d files, more than are kept; use your version control to go back", len(turn.Changes)+turn.More)
	}
	u := &Undone{Turn: turn}
	steps := t.plan(u)
	if err := t.check(steps); err != nil {
		return nil, err
	}
	j := &journal{t: t, Turn: turn.ID, Stage: stagePrefix + rand.Text()[:10], Steps: steps}
	if err := j.run(ctx); err != nil {
		if mended := j.rollBack(); mended != nil {
			return nil, fmt.Errorf("%v; and taking back what was already done: %w", err, mended)
		}
		return nil, err
	}
	now := time.Now()
	turn.Undone = &now
	return u, errors.Join(t.writeTurn(turn), j.finish())
}

// plan says what is to be done, and what cannot be.
func (t *Tree) plan(u *Undone) []step {
	var steps []step
	for _, c := range u.Turn.Changes {
		if why := t.unable(&c); why != "" {
			if !c.isDir() {
				u.Skipped = append(u.Skipped, fmt.Sprintf("%s stays as it is: %s.", c.Path, why))
			}
			continue
		}
		if !c.isDir() {
			u.Restored = append(u.Restored, c)
		}
		if c.Kind == Renamed {
			steps = append(steps, step{c.Path, c.After, nil}, step{c.From, nil, c.Before})
			continue
		}
		steps = append(steps, step{c.Path, c.After, c.Before})
	}
	for _, h := range u.Turn.Heavy {
		u.Skipped = append(u.Skipped, fmt.Sprintf("%s stays as it is: its content is not kept.", h.Dir))
	}
	for _, n := range u.Turn.NotCompared {
		u.Skipped = append(u.Skipped, fmt.Sprintf("Not compared, so that what changed there stays: %s.", n))
	}
	return steps
}

// unable says why a change cannot be undone; "" when it can.
func (t *Tree) unable(c *Change) string {
	if t.closed(c.Path) || c.From != "" && t.closed(c.From) {
		return "the ignore rules close it now"
	}
	if b := c.Before; b != nil && b.Type != TypeDir {
		id, err := b.sum()
		if err == nil && !t.store.has(id) {
			err = errors.New("what it was is not kept")
		}
		if err != nil {
			return err.Error()
		}
	}
	if a := c.After; a != nil && (a.Type == TypeFile || a.Type == TypeLink) && a.Sum == "" {
		return "its content was not read after the turn, so whether it changed since cannot be told"
	}
	return ""
}

// check finds what is not as the turn left it.
func (t *Tree) check(steps []step) error {
	conflict := &ConflictError{}
	for _, s := range steps {
		if s.Want != nil && s.Want.Type == TypeDir && s.Put == nil {
			continue // it goes if it is empty
		}
		if (s.Want == nil || s.Want.Type == TypeDir) && s.Put.Type == TypeDir && t.is(s.Path, s.Put) {
			continue // as when somebody opened it again to look
		}
		if !t.is(s.Path, s.Want) {
			conflict.Paths = append(conflict.Paths, s.Path)
		}
	}
	if len(conflict.Paths) > 0 {
		return conflict
	}
	return nil
}

// is says whether a path is what a File says, or nothing.
func (t *Tree) is(p Path, want *File) bool {
	in, err := t.root.lookup(string(p))
	if want == nil {
		return isGone(err)
	}
	return err == nil && t.matches(string(p), in, want)
}

// isGone says that nothing is at a path, or that a part of it is no directory.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || isNotDir(err) }

func (t *Tree) matches(rel string, in info, want *File) bool {
	if in.kind != want.kind() || in.kind != kindLink && in.mode != want.mode() {
		return false
	}
	if in.kind != kindFile && in.kind != kindLink {
		return true
	}
	if in.size != want.Size {
		return false
	}
	id, err := t.sumOf(rel, in)
	return err == nil && hex.EncodeToString(id[:]) == want.Sum
}

func (f *File) kind() kind {
	switch f.Type {
	case TypeFile:
		return kindFile
	case TypeLink:
		return kindLink
	case TypeDir:
		return kindDir
	}
	return kindSpecial
}

// sumOf is of what a file or a link holds now.
func (t *Tree) sumOf(rel string, in info) (sum, error) {
	if in.kind == kindLink {
		target, err := t.root.readLink(rel)
		return sha256.Sum256([]byte(target)), err
	}
	f, _, err := t.root.file(rel)
	if err != nil {
		return sum{}, err
	}
	defer f.Close()
	return hash(context.Background(), io.LimitReader(f, in.size+1)) // it may grow
}
