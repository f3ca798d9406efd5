package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
)

// An undo works in directories whose modes keep their owner out: the turn, or the person,
// gave them such. So it opens them to their owner first, and gives all directories their
// modes when everything is in place.

// ownerDoesAll are the bits of a directory's mode that let its owner do everything there.
const ownerDoesAll = 0o700

type dirMode struct {
	Path Path   `json:"path"`
	Mode string `json:"mode"`
}

// modesOf are the modes of directories; those of later lists hold.
func modesOf(lists ...[]dirMode) map[Path]string {
	modes := map[Path]string{}
	for _, d := range slices.Concat(lists...) {
		modes[d.Path] = d.Mode
	}
	return modes
}

// noteModes finds which directories must be opened, and which get another mode.
func (j *journal) noteModes() {
	noted := map[Path]bool{}
	note := func(p Path, then *File) {
		in, err := j.t.root.lookup(string(p))
		other := in.mode&ownerDoesAll != ownerDoesAll || then != nil && then.Type == TypeDir && then.mode() != in.mode
		if err == nil && in.kind == kindDir && other && !noted[p] {
			noted[p] = true
			j.Opened = append(j.Opened, dirMode{p, modeText(in.mode)})
		}
	}
	note(".", nil)
	for _, s := range j.Steps {
		note(Path(path.Dir(string(s.Path))), nil)
		note(s.Path, s.Put)
	}
}

// openDirs lets the owner do everything in every directory that the undo works in, as far
// as they are there. What is somebody else's stays as it is: it may do.
func (j *journal) openDirs() error {
	for _, p := range slices.Sorted(maps.Keys(modesOf(j.Opened, j.Made, j.Gone))) {
		err := j.t.changeMode(p, func(mode fs.FileMode) fs.FileMode { return mode | ownerDoesAll })
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("opening %s for the undo: %w", p, err)
		}
	}
	return nil
}

// giveModes gives every directory the mode that it has after the undo.
func (j *journal) giveModes() error {
	modes := modesOf(j.Opened, j.Made)
	for _, s := range j.Steps {
		if s.Put != nil && s.Put.Type == TypeDir {
			modes[s.Path] = s.Put.Mode
		}
	}
	return j.t.setModes(modes)
}

// setModes gives directories their modes, what is in a directory before it. The root's
// own comes last, when nothing is left to do there: see finish.
func (t *Tree) setModes(modes map[Path]string) error {
	var errs []error
	for _, p := range slices.Backward(slices.Sorted(maps.Keys(modes))) {
		if p != "." {
			errs = append(errs, t.setDirMode(p, modes[p]))
		}
	}
	return errors.Join(errs...)
}

func (t *Tree) setDirMode(p Path, mode string) error {
	want := (&File{Mode: mode}).mode()
	if err := t.changeMode(p, func(fs.FileMode) fs.FileMode { return want }); err != nil {
		return fmt.Errorf("giving %s its mode back: %w", p, err)
	}
	return nil
}

// changeMode gives a directory another mode. What is not there any more needs none.
func (t *Tree) changeMode(p Path, other func(fs.FileMode) fs.FileMode) error {
	in, err := t.root.lookup(string(p))
	if isGone(err) || err == nil && (in.kind != kindDir || other(in.mode) == in.mode) {
		return nil
	}
	if err == nil {
		err = t.root.chmodDir(string(p), other(in.mode))
	}
	return err
}
