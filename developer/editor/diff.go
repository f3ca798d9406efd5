package editor

import "github.com/bluekeyes/go-gitdiff/gitdiff"

// A Summary is what a diff did.
type Summary struct {
	Path                       string // that of the call, absolute
	Files                      int    // named in the diff
	Created, Modified, Deleted int
	Added, Removed             int // lines
	// Notes name the hunks that did not fit where the diff said, and how they were placed.
	Notes []string
}

// Patch applies a unified diff to a file, or to the files below a directory: all
// of it or nothing.
func (e *Editor) Patch(f Files, name, diff string) (Summary, error) {
	if err := f.CheckChange(name); err != nil {
		return Summary{}, err
	}
	patches, err := parseDiff(diff)
	if err != nil {
		return Summary{}, err
	}
	base, err := baseOf(f, name, patches)
	if err != nil {
		return Summary{}, err
	}
	targets := make([]target, 0, len(patches))
	var keys []string
	for _, p := range patches {
		t, err := base.target(f, p)
		if err != nil {
			return Summary{}, err
		}
		targets = append(targets, t)
		keys = append(keys, resolve(t.old), resolve(t.new))
	}
	defer e.locks.acquire(keys...)()
	w := work{files: f, index: map[string]int{}, summary: Summary{Path: f.Abs(name), Files: len(patches)}}
	for _, t := range targets {
		if err := w.add(t); err != nil {
			return Summary{}, err
		}
	}
	return w.summary, e.commit(f, w.changes)
}

// work is the changes that a diff makes, computed before the first is made.
type work struct {
	files   Files
	changes []change
	index   map[string]int // of the files in changes, by key
	summary Summary
}

// state is a file as the diff has it so far.
func (w *work) state(path string) (*change, error) {
	key := resolve(path)
	if i, ok := w.index[key]; ok {
		return &w.changes[i], nil
	}
	now, err := read(w.files, path)
	if err != nil {
		return nil, unprocessed(path, err)
	}
	w.index[key] = len(w.changes)
	w.changes = append(w.changes, change{path, key, now, now})
	return &w.changes[len(w.changes)-1], nil
}

// unprocessed says which file of a diff cannot be read.
func unprocessed(path string, err error) error {
	if refused(err) {
		return err
	}
	return literally("Failed to process '%s': %s", path, Reason(err))
}

// add computes what one patch does.
func (w *work) add(t target) error {
	from, err := w.state(t.old)
	if err != nil {
		return err
	}
	was := from.after
	switch {
	case was.missing && !t.creates():
		return literally("File '%s' not found and patch doesn't create it", t.old)
	case !was.missing && t.patch.old == "" && len(was.data) > 0:
		return invalid("The diff creates '%s', but it exists. Nothing was changed.", t.old)
	}
	before, err := decode(was.data)
	if err != nil {
		return unprocessed(t.old, err)
	}
	after, notes, err := before.patched(t.patch.hunks, t.old)
	if err != nil {
		return err
	}
	if t.patch.new == "" && len(after.lines) > 0 {
		return invalid("The diff deletes '%s', but %d of its lines are not in the diff. Nothing was changed.", t.old, len(after.lines))
	}
	w.count(t, was.missing, notes)
	result := file{data: after.bytes(), perm: was.perm, missing: t.patch.new == ""}
	if was.missing {
		result.perm = t.patch.perm
	}
	if t.old != t.new {
		return w.move(from, t, result)
	}
	from.after = result
	return nil
}

// move puts what a patch makes of a file under its new name.
func (w *work) move(from *change, t target, result file) error {
	from.after = file{missing: true, perm: result.perm}
	to, err := w.state(t.new)
	if err != nil {
		return err
	}
	if !to.after.missing {
		return invalid("The diff renames '%s' to '%s', which exists. Nothing was changed.", t.old, t.new)
	}
	to.after = result
	return nil
}

func (w *work) count(t target, creates bool, notes []string) {
	switch {
	case t.patch.new == "":
		w.summary.Deleted++
	case creates:
		w.summary.Created++
	default:
		w.summary.Modified++
	}
	w.summary.Notes = append(w.summary.Notes, notes...)
	for _, h := range t.patch.hunks {
		for _, l := range h.lines {
			switch l.op {
			case gitdiff.OpAdd:
				w.summary.Added++
			case gitdiff.OpDelete:
				w.summary.Removed++
			}
		}
	}
}
