package ignore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"
)

// A rulesFile is what is known about one rules file.
type rulesFile struct {
	root   string // that it is read within; empty for the person's own
	dir    string // that its lines are relative to, from the root
	path   string // empty when the person has none
	global bool
	shared bool  // see SetOptions
	memory *Text // where it is, when it is not on a disk

	reading // the last one that could be used, but for what follows
	err     error
	good    bool      // it could be read once
	rules   *compiled // nil when it is not there
}

// A reading is one look at a file.
type reading struct {
	signature
	at   time.Time
	text string
}

func newRulesFile(root, dir string) *rulesFile {
	return &rulesFile{root: root, dir: dir, path: filepath.Join(root, filepath.FromSlash(dir), FileName)}
}

// settle is how long rules that hide less must stay the same before they hold: an
// editor may have emptied or renamed the file and not yet written the new one.
const settle = 50 * time.Millisecond

// stale says that the file may have changed since it was read.
func (f *rulesFile) stale() bool {
	return f.path != "" && (f.fresh(f.at) || f.look() != f.signature)
}

// look is the signature of the file now.
func (f *rulesFile) look() signature {
	if f.memory != nil {
		return f.memory.sign()
	}
	return sign(f.path, f.global)
}

// update reads the file again and says whether the rules are others now. It takes
// a moment when they would hide less, and keeps the old ones while the file does
// not come to rest.
func (f *rulesFile) update(names Options, pause func()) bool {
	r, err := f.read()
	for range 5 {
		if err != nil || f.memory != nil || Tightens(f.meaning(f.reading), f.meaning(r)) {
			return f.apply(r, err, names)
		}
		pause()
		again, err2 := f.read()
		if err2 == nil && again.text == r.text && again.signature == r.signature {
			return f.apply(again, nil, names)
		}
		r, err = again, err2
	}
	return false
}

// meaning is the rules that a reading stands for, so far as the file itself knows.
func (f *rulesFile) meaning(r reading) string {
	if !r.there && f.dir == "" {
		return Defaults
	}
	return r.text
}

// read looks at the file until it is the same before and after.
func (f *rulesFile) read() (reading, error) {
	if f.path == "" {
		return reading{}, nil
	}
	var r reading
	var err error
	for range 5 {
		r = reading{signature: f.look(), at: time.Now()}
		switch {
		case f.memory != nil:
			r.text = f.memory.String()
		case f.global:
			r.text, err = readFile(f.path)
		default:
			r.text, err = readIn(f.root, filepath.Join(filepath.FromSlash(f.dir), FileName))
		}
		if f.look() == r.signature {
			break
		}
	}
	switch {
	case !r.there:
		return reading{at: r.at}, nil // what cannot be looked at is not there, whatever reading said
	case errors.Is(err, errBehindLink):
		return reading{signature: r.signature, at: r.at}, nil
	case r.unseen && (err == nil || errors.Is(err, fs.ErrNotExist)):
		return r, errors.New("it cannot be looked at, as in a directory whose path is too long")
	case errors.Is(err, fs.ErrNotExist):
		return r, errors.New("it is a link to nothing")
	case err == nil && f.shared && r.mode&fs.ModeSymlink != 0 && !leadsUp(f.path):
		return r, errors.New("it is a link to what can be written; put the rules in its place")
	}
	return r, err
}

// apply makes a reading the one that holds, and says whether the rules changed.
func (f *rulesFile) apply(r reading, err error, names Options) bool {
	before, had, failed := f.text, f.rules != nil, f.err != nil
	var rules *compiled
	if err == nil && r.there {
		rules = compileSource(Source{File: f.path, Dir: f.dir, Text: r.text, Everywhere: f.global}, names, dialect{fold: names.FoldCase})
		if rules.tooMany {
			err = fmt.Errorf("it has more than %d rules, or wildcards and braces that become too many", maxRules)
		}
	}
	f.err = err
	switch {
	case err != nil && f.good:
		f.signature, f.at = r.signature, r.at // the old text holds
		return false
	case err != nil:
		f.reading, f.rules = r, f.closed(err, names)
		return !failed
	}
	f.reading, f.good, f.rules = r, r.there, rules
	return failed || had != r.there || before != r.text
}

// hideAll are rules that hide everything in their directory but themselves.
const hideAll = "/*\n!/" + FileName + "\n"

// closed are the rules in place of those that cannot be read: hide everything.
func (f *rulesFile) closed(err error, names Options) *compiled {
	text := hideAll
	if f.global {
		text = "*\n"
	}
	c := compileSource(Source{Dir: f.dir, Text: text, Everywhere: f.global}, names, dialect{fold: names.FoldCase})
	for _, r := range c.rules {
		r.Rule = Rule{File: f.path, Text: "everything, because the rules cannot be read: " + err.Error()}
	}
	return c
}

// size is about the memory that the file takes, as [rule.size] counts.
func (f *rulesFile) size() int {
	if f.rules == nil {
		return len(f.text)
	}
	return len(f.text) + f.rules.size
}

// instead says in words what holds while the file cannot be read.
func (f *rulesFile) instead() string {
	if f.good {
		return "the rules before it hold"
	}
	return "everything in its directory is hidden"
}

// open is the first reading.
func (f *rulesFile) open(names Options) {
	r, err := f.read()
	f.apply(r, err, names)
}
