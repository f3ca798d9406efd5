package changes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// journal is an undo on its way, on disk before it begins. New content is first
// written to a directory beside the project's files, then what is there is moved
// there, then the new content is moved out: every move can be taken back, and
// none replaces anything.
type journal struct {
	t *Tree

	Turn  string `json:"turn"`
	Stage string `json:"stage"` // the directory, in the root
	Steps []step `json:"steps"`
	// Made are directories that must be made, Gone those that are removed, with their modes.
	Made []dirMode `json:"made,omitempty"`
	Gone []dirMode `json:"gone,omitempty"`
	// Opened are directories whose owner may do everything there only meanwhile, and those
	// that get another mode, with the modes that they have before.
	Opened []dirMode `json:"opened,omitempty"`
	// Staged says that all new content is in the stage, or was: what is missing there
	// was moved out.
	Staged bool `json:"staged,omitempty"`
	// Redo says that the turn is done again, and not undone.
	Redo bool `json:"redo,omitempty"`
	// Done says that everything is in place: only what finish does is left.
	Done bool `json:"done,omitempty"`
}

// stagePrefix begins the names of stages. Nothing in a sandbox may write to files there
// (see policy.Always): some go to where nothing in it could have written them.
const stagePrefix = ".gander-undo-"

// journalName is the file with what an undo is about to do.
const journalName = "undo.json"

func (t *Tree) journalFile() string { return filepath.Join(t.store.dir, journalName) }

func (j *journal) write() error {
	raw, err := json.Marshal(j)
	if err == nil {
		err = writeFile(j.t.journalFile(), func(f *os.File) error { _, err := f.Write(raw); return err })
	}
	if err == nil {
		err = syncStore(j.t.store.dir)
	}
	if err != nil {
		return fmt.Errorf("noting the undo: %w", err)
	}
	return nil
}

// syncStore makes the names in a directory of the store last.
func syncStore(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(syncNames(f), f.Close())
}

// syncNames makes the names in an open directory last, where the file system can.
func syncNames(dir *os.File) error {
	err := dir.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

func (j *journal) newName(i int) string { return j.Stage + "/new-" + strconv.Itoa(i) }
func (j *journal) oldName(i int) string { return j.Stage + "/old-" + strconv.Itoa(i) }

// run does everything up to the point where nothing can fail any more. It heeds ctx until
// files are put in place.
func (j *journal) run(ctx context.Context) error {
	j.directories()
	if err := errors.Join(j.t.store.sync(), j.write()); err != nil {
		return err
	}
	for _, phase := range j.phases(ctx) {
		if err := phase.do(); err != nil {
			return err
		}
	}
	j.Done = true
	return j.write()
}

type phase struct {
	name string
	do   func() error
}

// phases are what an undo does, in order.
func (j *journal) phases(ctx context.Context) []phase {
	return []phase{
		{"openDirs", j.openDirs},
		{"stage", func() error { return j.stage(ctx) }},
		{"takeAway", func() error { return j.takeAway(ctx) }},
		{"dropDirs", j.dropDirs},
		{"makeDirs", j.makeDirs},
		{"place", j.place},
		{"giveModes", j.giveModes},
	}
}

// directories finds which must be made, which go, and which modes are others meanwhile.
func (j *journal) directories() {
	asked := map[Path]bool{}
	need := func(p Path, mode string) {
		if p == "." || asked[p] {
			return
		}
		asked[p] = true
		if in, err := j.t.root.lookup(string(p)); err == nil && in.kind == kindDir {
			return
		}
		j.Made = append(j.Made, dirMode{p, mode})
	}
	for _, s := range j.Steps {
		if s.Put != nil && s.Put.Type == TypeDir {
			need(s.Path, s.Put.Mode)
		}
		if s.Want != nil && s.Want.Type == TypeDir && (s.Put == nil || s.Put.Type != TypeDir) {
			j.Gone = append(j.Gone, dirMode{s.Path, s.Want.Mode})
		}
	}
	for _, s := range j.Steps {
		if s.Put == nil {
			continue
		}
		for p := path.Dir(string(s.Path)); p != "." && !asked[Path(p)]; p = path.Dir(p) {
			need(Path(p), "0755")
		}
	}
	byPath := func(a, b dirMode) int { return strings.Compare(string(a.Path), string(b.Path)) }
	slices.SortFunc(j.Made, byPath)
	slices.SortFunc(j.Gone, func(a, b dirMode) int { return byPath(b, a) })
	j.noteModes()
}

// stage writes what is put back into the stage, and notes that all of it is there. For
// want of room it ends here.
func (j *journal) stage(ctx context.Context) error {
	if err := j.t.root.mkdir(j.Stage, 0o700); err != nil {
		return fmt.Errorf("making room for the undo: %w", err)
	}
	for i, s := range j.Steps {
		if s.Put == nil || s.Put.Type == TypeDir {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := j.stageOne(i, s); err != nil {
			return fmt.Errorf("writing what %s was: %w", s.Path, err)
		}
	}
	if err := j.t.root.syncDir(j.Stage); err != nil {
		return fmt.Errorf("writing what files were: %w", err)
	}
	j.Staged = true
	if err := j.write(); err != nil {
		j.Staged = false
		return err
	}
	return nil
}

func (j *journal) stageOne(i int, s step) error {
	data, err := j.t.content(s.Put)
	if err != nil {
		return err
	}
	if s.Put.Type == TypeLink {
		return j.t.root.symlink(string(data), j.newName(i))
	}
	f, err := j.t.root.create(j.newName(i))
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, setMode(f, s.Put.mode(), j.t.ownerOfNew), f.Sync(), f.Close())
}

// ownerOfNew is whom a new file is given to when root works for the project's owner.
func (t *Tree) ownerOfNew() (uid, gid int, ok bool) {
	return int(t.owner), int(t.group), t.asRoot && t.owner != 0
}

// takeAway moves what is there into the stage, and looks at it there, where nobody
// saves it any more: it must be what the turn left.
func (j *journal) takeAway(ctx context.Context) error {
	for i, s := range j.Steps {
		if s.Want == nil || s.Want.Type == TypeDir {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := j.t.root.move(string(s.Path), j.oldName(i)); err != nil {
			return fmt.Errorf("moving %s away: %w", s.Path, err)
		}
		if !j.t.is(Path(j.oldName(i)), s.Want) {
			return &ConflictError{Paths: []Path{s.Path}}
		}
	}
	return ctx.Err()
}

// dropDirs removes directories that the turn made. One that is not empty stays,
// unless something else must take its place.
func (j *journal) dropDirs() error {
	for _, d := range j.Gone {
		err := j.t.root.rmdir(string(d.Path))
		inTheWay := slices.ContainsFunc(j.Steps, func(s step) bool { return s.Path == d.Path && s.Put != nil })
		if err != nil && inTheWay {
			return &ConflictError{Paths: []Path{d.Path}}
		}
	}
	return nil
}

func (j *journal) makeDirs() error {
	for _, d := range j.Made {
		if err := j.t.root.mkdir(string(d.Path), 0o700); err != nil {
			return fmt.Errorf("making the directory %s again: %w", d.Path, err)
		}
		if err := j.t.giveDir(string(d.Path)); err != nil {
			return fmt.Errorf("making the directory %s again: %w", d.Path, err)
		}
	}
	return nil
}

// place moves what is put back to where it was.
func (j *journal) place() error {
	for i, s := range j.Steps {
		if s.Put == nil || s.Put.Type == TypeDir {
			continue
		}
		err := j.t.root.move(j.newName(i), string(s.Path))
		if errors.Is(err, fs.ErrExist) {
			return &ConflictError{Paths: []Path{s.Path}}
		}
		if err != nil {
			return fmt.Errorf("putting %s back: %w", s.Path, err)
		}
	}
	return nil
}

// finish removes what is left of an undo that is done.
func (j *journal) finish() error {
	for i := range j.Steps {
		for _, name := range []string{j.newName(i), j.oldName(i)} {
			if err := j.t.root.remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("removing what an undo left: %w", err)
			}
		}
	}
	if err := j.t.root.rmdir(j.Stage); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing what an undo left: %w", err)
	}
	if mode, ok := modesOf(j.Opened)["."]; ok {
		if err := j.t.setDirMode(".", mode); err != nil {
			return err
		}
	}
	if err := os.Remove(j.t.journalFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("ending the undo: %w", err)
	}
	return nil
}

// rollBack takes everything back, wherever it ended. What somebody saved to a path
// meanwhile stays; the stage is kept then, with what was there before.
func (j *journal) rollBack() error {
	if err := j.takeBack(); err != nil {
		return err
	}
	return j.finish()
}

// takeBack leaves in the stage only what was to be put back.
func (j *journal) takeBack() error {
	j.Done = false
	errs := []error{j.openDirs()}
	if j.isStaged() {
		errs = append(errs, j.moveBack())
	}
	errs = append(errs, j.t.setModes(modesOf(j.Made, j.Gone, j.Opened)))
	err := errors.Join(errs...)
	switch {
	case err != nil && j.hasOld():
		return fmt.Errorf("%w; what was there is in %s", err, path.Join(j.t.o.Root, j.Stage))
	case err != nil:
		return err
	case j.Staged: // what finish removes was not placed
		j.Staged = false
		return j.write()
	}
	return nil
}

// isStaged says that everything was in the stage once: before that nothing else was done.
// Where something was taken away it was; the note of an older gander does not say more.
func (j *journal) isStaged() bool { return j.has(j.Stage) && (j.Staged || j.hasOld()) }

// hasOld says that the stage holds something that was taken away.
func (j *journal) hasOld() bool {
	for i := range j.Steps {
		if j.has(j.oldName(i)) {
			return true
		}
	}
	return false
}

// has says that something is at a path, or cannot be looked at.
func (j *journal) has(rel string) bool {
	_, err := j.t.root.lookup(rel)
	return !errors.Is(err, fs.ErrNotExist)
}

// isPlaced says that a step's new content was moved out of the stage, where all was. The
// same content without these signs is the person's, who put it back by hand.
func (j *journal) isPlaced(i int, s step) bool {
	if s.Put == nil || s.Put.Type == TypeDir || j.has(j.newName(i)) {
		return false
	}
	wasFree := s.Want == nil || s.Want.Type == TypeDir
	return (wasFree || j.has(j.oldName(i))) && j.t.is(s.Path, s.Put)
}

// moveBack takes back what was done after staging.
func (j *journal) moveBack() error {
	var errs []error
	for i, s := range slices.Backward(j.Steps) {
		if j.isPlaced(i, s) {
			errs = append(errs, j.t.root.move(string(s.Path), j.newName(i)))
		}
	}
	for _, d := range slices.Backward(j.Made) {
		_ = j.t.root.rmdir(string(d.Path)) // not empty: somebody uses it
	}
	for _, d := range slices.Backward(j.Gone) {
		err := j.t.root.mkdir(string(d.Path), 0o700)
		if err == nil {
			err = j.t.giveDir(string(d.Path))
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			errs = append(errs, err)
		}
	}
	for i, s := range j.Steps {
		if !j.has(j.oldName(i)) {
			continue
		}
		if err := j.t.root.move(j.oldName(i), string(s.Path)); err != nil {
			errs = append(errs, fmt.Errorf("moving %s back: %w", s.Path, err))
		}
	}
	return errors.Join(errs...)
}

// mendAlone is mend when no other process is at it.
func (t *Tree) mendAlone() error {
	if _, err := os.Stat(t.journalFile()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	ctx, done := context.WithTimeout(context.Background(), t.o.Time)
	defer done()
	release, err := t.store.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	return t.mend()
}

// mend ends an undo that a crash cut short: forward when everything was in place,
// back otherwise.
func (t *Tree) mend() error {
	raw, err := os.ReadFile(t.journalFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	j := &journal{t: t}
	if err == nil {
		err = json.Unmarshal(raw, j)
	}
	if err == nil && (!strings.HasPrefix(j.Stage, stagePrefix) || strings.Contains(j.Stage, "/")) {
		err = fmt.Errorf("the note of it in %s is damaged; remove that file", t.journalFile())
	}
	if err != nil {
		return err
	}
	if !j.Done {
		return j.rollBack()
	}
	if turn, err := t.Turn(j.Turn); err == nil && (turn.Undone == nil) != j.Redo {
		if err := j.mark(turn); err != nil {
			return err
		}
	}
	return j.finish()
}

// mark notes that a turn is undone, or done again.
func (j *journal) mark(turn *Turn) error {
	turn.Undone = nil
	if !j.Redo {
		now := time.Now()
		turn.Undone = &now
	}
	return j.t.writeTurn(turn)
}
