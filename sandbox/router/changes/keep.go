package changes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxTurns is how many turns of a project are kept.
const maxTurns = 1000

// maxTurnsSize bounds what they have on disk together: who looks for a session's reads them all.
const maxTurnsSize = 64 << 20

// keepTurns writes down the turns that are not yet, and lets go of what is too old or
// too much. mu is held.
func (t *Tree) keepTurns(ctx context.Context) error {
	if len(t.unkept) == 0 {
		return nil
	}
	release, err := t.store.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := t.writeTurns(); err != nil {
		return err
	}
	if err := t.retain(); err != nil {
		t.log.Warn("making room for what files were", "err", err)
	}
	return nil
}

// writeTurns writes down the turns that are not yet. mu and the store's lock are held.
func (t *Tree) writeTurns() error {
	for len(t.unkept) > 0 {
		if err := t.writeTurn(t.unkept[0]); err != nil {
			return fmt.Errorf("keeping what the turn of %s did: %w", t.unkept[0].Started.Format("15:04:05"), err)
		}
		t.unkept = t.unkept[1:]
	}
	return nil
}

func (t *Tree) writeTurn(turn *Turn) error {
	raw, err := json.Marshal(turn)
	if err != nil {
		return err
	}
	return writeFile(t.turnFile(turn.ID), func(f *os.File) error {
		_, err := f.Write(raw)
		return err
	})
}

// Turns are the ids of the kept turns, the newest first.
func (t *Tree) Turns() ([]string, error) {
	entries, err := os.ReadDir(t.turnsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the turns of %s: %w", t.o.Root, err)
	}
	var ids []string
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".json"); ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	return ids, nil
}

// Turn is a kept turn.
func (t *Tree) Turn(id string) (*Turn, error) {
	id = filepath.Base(id)
	raw, err := os.ReadFile(t.turnFile(id))
	if err != nil {
		return nil, fmt.Errorf("reading what the turn %s did: %w", id, err)
	}
	turn := &Turn{}
	if err := json.Unmarshal(raw, turn); err != nil {
		return nil, fmt.Errorf("reading what the turn %s did from %s: %w", id, t.turnFile(id), err)
	}
	if turn.ID != id {
		return nil, fmt.Errorf("reading what the turn %s did: %s is about another one", id, t.turnFile(id))
	}
	return turn, nil
}

// Session are the turns of a session, the newest first; of all sessions when it is empty. One
// whose record cannot be read may be of any session: it is there with why as Unknown. A turn
// that could not be kept yet says so in its notes.
func (t *Tree) Session(session string) ([]*Turn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	turns, err := t.session(session)
	for _, turn := range t.unkept {
		if session == "" || turn.Session == session {
			late := *turn
			late.late = true
			turns = slices.Insert(turns, 0, &late)
		}
	}
	return turns, err
}

// session are the turns of Session that are kept.
func (t *Tree) session(session string) ([]*Turn, error) {
	ids, err := t.Turns()
	if err != nil {
		return nil, err
	}
	var turns []*Turn
	for _, id := range ids {
		turn, err := t.Turn(id)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it is too old by now
		case err != nil:
			turns = append(turns, t.unreadTurn(id, session, err))
		case session == "" || turn.Session == session:
			turns = append(turns, turn)
		}
	}
	return turns, nil
}

// unreadTurn stands for a turn whose record cannot be read.
func (t *Tree) unreadTurn(id, session string, why error) *Turn {
	turn := &Turn{ID: id, Session: session, Root: t.o.Root, Unknown: why.Error() + "; it may be another session's", unread: true}
	if info, err := os.Lstat(t.turnFile(id)); err == nil {
		turn.Started, turn.Ended = info.ModTime(), info.ModTime()
	}
	return turn
}

// retain drops turns that are too old, too many or too large, and, when the store is full,
// the older half and what only they had. mu and the store's lock are held.
func (t *Tree) retain() error {
	ids, err := t.Turns()
	if err != nil {
		return err
	}
	keep := min(len(ids), maxTurns)
	full := t.store.isFull()
	if full {
		keep = min(keep, max(1, len(ids)/2))
	}
	dropped := len(ids) > keep
	var size int64 // of the newer ones
	for i, id := range ids {
		info, err := os.Stat(t.turnFile(id))
		if err == nil {
			size += info.Size()
		}
		if i >= keep || i > 0 && size > t.mostTurns || err == nil && time.Since(info.ModTime()) > t.o.Keep {
			dropped = true
			if err := os.Remove(t.turnFile(id)); err != nil {
				return err
			}
		}
	}
	if !full && !(dropped && t.store.size > t.o.MaxStore/2) {
		return nil
	}
	live, err := t.live()
	if err != nil {
		return err
	}
	return t.store.compact(func(id sum) bool { return live[id] })
}

// live is the content that something refers to.
func (t *Tree) live() (map[sum]bool, error) {
	live := map[sum]bool{}
	for _, l := range t.last.dirs {
		for _, e := range l.entries {
			if e.read && !e.hidden {
				live[e.sum] = true
			}
		}
	}
	turns, err := t.session("")
	if err != nil {
		return nil, err
	}
	for _, turn := range append(turns, t.unkept...) {
		for _, c := range turn.Changes {
			if t.closed(c.Path) || c.From != "" && t.closed(c.From) {
				continue
			}
			for _, f := range []*File{c.Before, c.After} {
				if f == nil {
					continue
				}
				if id, err := f.sum(); err == nil {
					live[id] = true
				}
			}
		}
	}
	return live, nil
}
