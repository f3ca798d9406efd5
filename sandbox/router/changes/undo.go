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
	"time"
)

// A ConflictError says that files are not as the turn, or its undo, left them. Nothing was
// undone, or done again.
type ConflictError struct {
	// Paths are the files that are not, sorted.
	Paths []Path
	// Redo says that a redo found them.
	Redo bool
}

func (e *ConflictError) Error() string {
	if e.Redo {
		return fmt.Sprintf("%s changed after the undo, so nothing was done again; put back what changed there, or move those files away, and say /redo again", named(e.Paths))
	}
	return fmt.Sprintf("%s changed after the turn, so nothing was undone; put back what changed there, or move those files away, and undo again", named(e.Paths))
}

// ErrNothing says that there is no turn to undo.
var ErrNothing = errors.New("no turn with changed files is left to undo")

// ErrNothingUndone says that there is no turn to do again.
var ErrNothingUndone = errors.New("no turn is undone")

// Undone says what an undo did, or a redo.
type Undone struct {
	Turn *Turn
	// Restored are the changes that were undone, or done again.
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
	release, err := t.settle(ctx, "undone")
	if err != nil {
		return nil, err
	}
	defer release()
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

// settle takes mu and the store's lock until release is called, ends what was cut short, and
// writes down the turns that are not yet.
func (t *Tree) settle(ctx context.Context, what string) (release func(), err error) {
	waiting, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	t.mu.Lock()
	unlock, err := t.store.hold(waiting)
	if err != nil {
		t.mu.Unlock()
		return nil, err
	}
	if err = t.mend(); err != nil {
		err = fmt.Errorf("ending an undo that was cut short: %w", err)
	} else if err = t.writeTurns(); err != nil {
		err = fmt.Errorf("nothing was %s, as the last turn is not kept: %w", what, err)
	}
	if err != nil {
		unlock()
		t.mu.Unlock()
		return nil, err
	}
	return func() { unlock(); t.mu.Unlock() }, nil
}

// Redo does again what the last Undo of a session put back. Files that are not as that left
// them are a [ConflictError]; what holds of Undo holds of it.
func (t *Tree) Redo(ctx context.Context, session string) (*Undone, error) {
	release, err := t.settle(ctx, "done again")
	if err != nil {
		return nil, err
	}
	defer release()
	turns, err := t.session(session)
	if err != nil {
		return nil, err
	}
	var last *Turn
	for _, turn := range turns {
		if turn.Undone != nil && (last == nil || turn.Undone.After(*last.Undone)) {
			last = turn
		}
	}
	if last == nil {
		return nil, ErrNothingUndone
	}
	return t.redo(ctx, last)
}

func (t *Tree) redo(ctx context.Context, turn *Turn) (*Undone, error) {
	u := &Undone{Turn: turn}
	steps := t.plan(u)
	for i, s := range steps {
		steps[i].Want, steps[i].Put = s.Put, s.Want
		if f := s.Want; f != nil && f.Type != TypeDir {
			if id, err := f.sum(); err != nil || !t.store.has(id) {
				return nil, fmt.Errorf("nothing was done again, as what %s was after the turn is not kept", s.Path)
			}
		}
	}
	if err := t.carryOut(ctx, turn, steps, true); err != nil {
		return nil, err
	}
	return u, nil
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
	if err := t.carryOut(ctx, turn, t.plan(u), false); err != nil {
		return nil, err
	}
	return u, nil
}

// carryOut does all of some steps, or none, and notes that the turn is undone or not any more.
func (t *Tree) carryOut(ctx context.Context, turn *Turn, steps []step, redo bool) error {
	j := &journal{t: t, Turn: turn.ID, Stage: stagePrefix + rand.Text()[:10], Steps: steps, Redo: redo}
	err := t.check(steps)
	if err == nil {
		if err = j.run(ctx); err != nil {
			if mended := j.rollBack(); mended != nil {
				err = fmt.Errorf("%v; and taking back what was already done: %w", err, mended)
			}
		}
	}
	if conflict, ok := errors.AsType[*ConflictError](err); ok {
		conflict.Redo = redo
	}
	if err != nil {
		return err
	}
	return errors.Join(j.mark(turn), j.finish())
}

// plan says what is to be done, and what cannot be.
func (t *Tree) plan(u *Undone) []step {
	var steps []step
	claims := t.claims(u.Turn)
	for _, c := range u.Turn.Changes {
		why := t.unable(&c)
		if by := claims[c.Path] + claims[c.From]; why == "" && c.Unsure {
			why = "whether this turn changed it, or another thread that ran in the project meanwhile, is not known"
		} else if why == "" && by != "" {
			why = "the turn of another thread that began at " + by + " changed it, too"
		}
		if why != "" {
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
	if len(u.Turn.Others) > 0 {
		u.Skipped = append(u.Skipped, fmt.Sprintf("Not by this turn, so that what changed there stays: %s.", named(u.Turn.Others)))
	}
	for _, n := range u.Turn.NotCompared {
		u.Skipped = append(u.Skipped, fmt.Sprintf("Not compared, so that what changed there stays: %s.", n))
	}
	return steps
}

// claims returns the files that turns of other sessions changed while a turn ran, each with when
// that began.
func (t *Tree) claims(turn *Turn) map[Path]string {
	claims := map[Path]string{}
	turns, err := t.session("")
	if err != nil {
		t.log.Warn("looking for turns at the same time", "err", err)
	}
	for _, other := range turns {
		if other.Session == turn.Session || other.Parent == turn.Session || other.Session == turn.Parent || other.unread || !other.Started.Before(turn.Ended) || !turn.Started.Before(other.Ended) {
			continue
		}
		for _, c := range other.Changes {
			if c.isDir() || c.Unsure {
				continue
			}
			for _, p := range []Path{c.Path, c.From} {
				if p != "" {
					claims[p] = other.Started.Format("15:04:05")
				}
			}
		}
	}
	return claims
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
