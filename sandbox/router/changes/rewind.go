package changes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Target says which turns of a session are to have had an effect on the files.
type Target struct {
	// Back are the turns that are not, and Again those that are, unless they were undone before
	// Since.
	Back, Again []string
	Since       time.Time
	// Changed are those of Back that are known to have changed files.
	Changed []string
}

// Rewind undoes and redoes turns of a session, the last ones first: all of that or, where one
// cannot be, nothing. What holds of Undo and Redo holds of it.
func (t *Tree) Rewind(ctx context.Context, session string, to Target) (undone, redone []*Undone, err error) {
	release, err := t.settle(ctx, "put back")
	if err != nil {
		return nil, nil, err
	}
	defer release()
	turns, err := t.session(session)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range to.Changed {
		if !slices.ContainsFunc(turns, func(turn *Turn) bool { return turn.ID == id }) {
			return nil, nil, errors.New("what one of these turns changed is not kept any more")
		}
	}
	var back, again []*Turn
	for _, turn := range turns { // the newest first
		switch {
		case slices.Contains(to.Back, turn.ID) && turn.Undone == nil:
			if turn.Unknown != "" && turn.Passed {
				continue
			}
			if turn.Unknown != "" {
				return nil, nil, fmt.Errorf("what the turn of %s changed is not known (%s)", turn.Started.Format("15:04:05"), turn.Unknown)
			}
			back = append(back, turn)
		case slices.Contains(to.Again, turn.ID) && turn.Undone != nil && turn.Undone.After(to.Since):
			again = append(again, turn)
		}
	}
	defer func() {
		if err == nil {
			return
		}
		ctx := context.WithoutCancel(ctx)
		for _, u := range slices.Backward(redone) {
			_, e := t.undo(ctx, u.Turn)
			err = errors.Join(err, e)
		}
		for _, u := range slices.Backward(undone) {
			_, e := t.redo(ctx, u.Turn)
			err = errors.Join(err, e)
		}
		undone, redone = nil, nil
	}()
	for _, turn := range back {
		u, err := t.undo(ctx, turn)
		if err != nil {
			return undone, redone, err
		}
		undone = append(undone, u)
	}
	for _, turn := range slices.Backward(again) { // the oldest first, as they were
		u, err := t.redo(ctx, turn)
		if err != nil {
			return undone, redone, err
		}
		redone = append(redone, u)
	}
	return undone, redone, nil
}
