package changes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/gofrs/flock"
)

// forgottenFile says that turns were removed whose content may still be there.
const forgottenFile = "forgotten"

// Forget removes what is kept below dir, see [Options], of a session's turns in the
// project at root, which need not be there any more: the turns at once, and the content
// that nothing else refers to as soon as no process has the project open: what a turn
// that runs was before is in no list yet. With the last turn goes what is known of the
// project's files as they are.
func Forget(ctx context.Context, dir, root, session string) error {
	t := &Tree{o: Options{Root: root}, log: slog.New(slog.DiscardHandler), store: &store{dir: filepath.Join(dir, key(root))}}
	turns, err := t.session(session)
	turns = slices.DeleteFunc(turns, func(turn *Turn) bool { return turn.unread }) // whose it is nobody knows
	if err != nil || len(turns) == 0 {
		return err
	}
	if err := os.WriteFile(filepath.Join(t.store.dir, forgottenFile), nil, 0o600); err != nil {
		return fmt.Errorf("noting that turns are removed: %w", err)
	}
	for _, turn := range turns {
		if err := os.Remove(t.turnFile(turn.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing what the turn %s did: %w", turn.ID, err)
		}
	}
	return settle(ctx, dir, root)
}

// settle drops the content of turns that were removed, unless a process has the project
// open: the last one that closes it does it then. An undo that was cut short is mended
// first, by who opens the project.
func settle(ctx context.Context, dir, root string) error {
	at := filepath.Join(dir, key(root))
	note := filepath.Join(at, forgottenFile)
	if _, err := os.Stat(note); err != nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(at, journalName)); err == nil {
		return nil
	}
	inUse := flock.New(filepath.Join(at, inUseFile), flock.SetPermissions(0o600))
	if alone, err := inUse.TryLock(); err != nil || !alone {
		return errors.Join(err, inUse.Close())
	}
	err := compactAlone(ctx, at, root)
	if err == nil {
		err = os.Remove(note)
	}
	return errors.Join(err, inUse.Close())
}

// compactAlone keeps what the saved tree and the turns refer to; nothing when there is
// no turn any more.
func compactAlone(ctx context.Context, at, root string) error {
	s := newStore(at, 0)
	if err := s.reopen(); err != nil {
		return err
	}
	t := &Tree{o: Options{Root: root}, log: slog.New(slog.DiscardHandler), store: s}
	turns, err := t.Turns()
	if err == nil && len(turns) == 0 {
		err = os.Remove(t.treeFile())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, s.Close())
	}
	t.last = t.load()
	return errors.Join(t.forget(ctx), s.Close())
}
