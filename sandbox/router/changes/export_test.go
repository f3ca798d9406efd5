package changes

import (
	"context"
	"encoding/json"
	"errors"
	"os"
)

// LimitDirs bounds how many entries of a directory are compared.
func LimitDirs(t *Tree, entries int) { t.mostInDir = entries }

// LimitPaths bounds the bytes of all paths that are compared.
func LimitPaths(t *Tree, bytes int64) { t.mostPaths = bytes }

// LimitTurns bounds the bytes of all lists of what turns did.
func LimitTurns(t *Tree, bytes int64) { t.mostTurns = bytes }

// TrustClock takes a file for unchanged however young it is.
func TrustClock(t *Tree) { t.window = 0 }

// UndoFailingAt undoes the last turn and fails after a phase.
func UndoFailingAt(t *Tree, session, phase string) error {
	j := begun(t, session)
	err := j.runUntil(phase)
	if err == nil {
		err = errors.New("made to fail")
	}
	j.Done = false
	return errors.Join(err, j.rollBack())
}

// CrashUndoAt undoes the last turn and ends in the middle, as if killed.
func CrashUndoAt(t *Tree, session, phase string) {
	if err := begun(t, session).runUntil(phase); err != nil {
		panic(err)
	}
}

// CrashWhileStaging ends an undo when n files are staged, as if killed.
func CrashWhileStaging(t *Tree, session string, n int) {
	j := begun(t, session)
	if err := j.runUntil("openDirs"); err != nil {
		panic(err)
	}
	err := t.root.mkdir(j.Stage, 0o700)
	for i := range n {
		err = errors.Join(err, j.stageOne(i, j.Steps[i]))
	}
	if err != nil {
		panic(err)
	}
}

// CrashTakingBackAt ends an undo after a phase, takes everything back and ends while the
// stage is removed, as if killed.
func CrashTakingBackAt(t *Tree, session, phase string) {
	j := begun(t, session)
	err := errors.Join(j.runUntil(phase), j.takeBack())
	for i := range j.Steps {
		_ = t.root.remove(j.newName(i)) // of a directory there is none
	}
	if err != nil {
		panic(err)
	}
}

// AsNotedBefore makes of the note of an undo one of a gander that did not note what is staged.
func AsNotedBefore(t *Tree) {
	j := &journal{t: t}
	raw, err := os.ReadFile(t.journalFile())
	if err == nil {
		err = json.Unmarshal(raw, j)
	}
	j.Staged = false
	if err = errors.Join(err, j.write()); err != nil {
		panic(err)
	}
}

func begun(t *Tree, session string) *journal {
	turns, err := t.Session(session)
	if err != nil {
		panic(err)
	}
	u := &Undone{Turn: turns[0]}
	return &journal{t: t, Turn: turns[0].ID, Stage: ".gander-undo-test", Steps: t.plan(u)}
}

func (j *journal) runUntil(phase string) error {
	j.directories()
	if err := j.write(); err != nil {
		return err
	}
	for _, p := range j.phases(context.Background()) {
		if err := p.do(); err != nil || p.name == phase {
			return err
		}
	}
	j.Done = true
	return j.write()
}

// UndoMeanwhile undoes the last turn as if nobody had looked whether files
// changed since, and calls meanwhile before a phase.
func UndoMeanwhile(t *Tree, session, before string, meanwhile func()) error {
	j := begun(t, session)
	j.directories()
	if err := j.write(); err != nil {
		return err
	}
	for _, p := range j.phases(context.Background()) {
		if p.name == before {
			meanwhile()
		}
		if err := p.do(); err != nil {
			return errors.Join(err, j.rollBack())
		}
	}
	j.Done = true
	return errors.Join(j.write(), j.finish())
}

// Rewrite replaces what is kept of a turn.
func Rewrite(t *Tree, turn *Turn) error { return t.writeTurn(turn) }
