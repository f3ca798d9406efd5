package changes

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gander.dev/gander/sandbox/rules/ignore"
)

// The bounds of one look at a tree. What is beyond is named as not compared.
const (
	maxEntries = 2_000_000
	maxInDir   = 200_000
	maxDepth   = 200       // the rules are looked for at every level
	maxPath    = 3500      // bytes; the system's own limit is 4096
	maxPaths   = 256 << 20 // bytes of all of them
)

// noTime is why what was left is left out when the time of a look is over.
const noTime = "there was no time"

// scan is the first pass: what is there, by its stamps.
type scan struct {
	root  *root
	dir   string // of the root, for the rules
	most  int    // entries in a directory
	paths int64  // bytes of all paths
	rules *ignore.Set
	old   *manifest
	force bool // what the rules hide is decided anew
	ctx   context.Context

	entries atomic.Int64
	bytes   atomic.Int64 // of their paths
	unseen  atomic.Bool  // an entry could not be looked at

	// mu guards what follows.
	mu         sync.Mutex
	changed    sync.Cond // the queue, or who is busy
	queue      []string  // directories to list
	late       []string  // those that come last
	busy       int
	found      *manifest
	work       []reading
	twins      map[inode]bool // hidden files with several names
	hiddenDirs []string
}

// inode is a file, whatever it is called.
type inode struct{ dev, ino uint64 }

// reading is a file whose content must be read.
type reading struct {
	dir  string
	e    *entry
	late bool
}

func (t *Tree) newScan(force bool) *scan {
	old := t.last
	s := &scan{root: t.root, dir: t.o.Root, most: t.mostInDir, paths: t.mostPaths, rules: t.o.Rules, old: old, force: force, queue: []string{""}, twins: map[inode]bool{}}
	s.found = &manifest{dirs: make(map[string]*listing, len(old.dirs)+16), note: map[string]string{}, at: time.Now()}
	s.changed.L = &s.mu
	return s
}

// run lists the tree until it is done or ctx ends.
func (s *scan) run(ctx context.Context) *manifest {
	s.ctx = ctx
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 4) {
		workers.Go(func() {
			l := newLister(s.root)
			for dir, ok := s.next(); ok; dir, ok = s.next() {
				s.visit(l, dir)
			}
		})
	}
	workers.Wait()
	for _, dir := range append(s.queue, s.late...) {
		s.found.note[dir], s.found.cut = noTime, true
	}
	s.goOnWith()
	return s.found
}

// goOnWith takes what was known of the directories that were left out.
func (s *scan) goOnWith() {
	for dir, l := range s.old.dirs {
		if s.found.covers(dir) {
			s.found.dirs[dir] = l
		}
	}
}

// next takes a directory from the queue; the widest come first, so that no deep
// tree holds up the rest.
func (s *scan) next() (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) == 0 && len(s.late) == 0 && s.busy > 0 {
		s.changed.Wait()
	}
	if s.ctx.Err() != nil {
		return "", false
	}
	from := &s.queue
	if len(s.queue) == 0 {
		from = &s.late
	}
	if len(*from) == 0 {
		return "", false
	}
	dir := (*from)[0]
	*from = (*from)[1:]
	s.busy++
	return dir, true
}

// visit lists one directory.
func (s *scan) visit(l *lister, dir string) {
	d := directory{s: s, dir: dir, old: s.old.dirs[dir], heavy: heavyTop(dir) != ""}
	var err error
	if len(dir) > maxPath || strings.Count(dir, "/") >= maxDepth {
		err = errors.New("its path is too long")
	} else {
		err = l.list(dir, d.entry)
	}
	if err == nil && d.n == 0 {
		err = d.unseen // its names can be listed, and nothing else
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Broadcast()
	s.busy--
	switch {
	case d.cut != "":
		s.found.note[dir], s.found.cut = d.cut, s.found.cut || d.cut == noTime
	case errors.Is(err, fs.ErrNotExist): // gone meanwhile
	case err != nil:
		s.found.note[dir] = reason(err)
	default:
		s.take(&d)
	}
}

// reason is an error without the path, which is said beside it.
func reason(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return err.Error()
}

// take adds a directory to what was found. mu is held.
func (s *scan) take(d *directory) {
	l := d.result()
	s.found.dirs[d.dir] = l
	for i := range l.entries {
		e := &l.entries[i]
		switch {
		case e.hidden && e.kind == kindDir:
			s.hiddenDirs = append(s.hiddenDirs, join(d.dir, e.name))
		case e.hidden && e.kind == kindFile && e.names > 1:
			s.twins[inode{e.dev, e.ino}] = true
		case e.hidden:
		case e.kind == kindDir && (isHeavy(e.name) || d.heavy):
			s.late = append(s.late, join(d.dir, e.name))
		case e.kind == kindDir:
			s.queue = append(s.queue, join(d.dir, e.name))
		case d.heavy:
		case e.kind == kindFile || e.kind == kindLink:
			if !e.read || e.racy {
				s.work = append(s.work, reading{d.dir, e, slices.ContainsFunc(strings.Split(d.dir, "/"), isOutput)})
			}
		}
	}
}

// directory is one directory while it is listed. As long as everything is as it
// was, nothing is copied.
type directory struct {
	s      *scan
	dir    string
	old    *listing
	heavy  bool
	hides  func(name string, dir bool) bool
	byOld  map[string]*entry // the old entries, once the order differs
	n      int
	fresh  []entry // nil as long as all is as it was
	other  bool    // something is not
	unseen error   // of an entry that could not be looked at
	cut    string  // why the listing ended early
}

// entry takes a name; see [lister.list].
func (d *directory) entry(name []byte, ask func(string) (info, error)) bool {
	if d.n%512 == 511 && d.s.ctx.Err() != nil {
		d.cut = noTime
		return false
	}
	if d.n >= d.s.most || d.s.entries.Add(1) > maxEntries || d.s.bytes.Add(int64(len(d.dir)+len(name))) > d.s.paths {
		d.cut = "there are too many files"
		return false
	}
	prev := d.previous(name)
	var text string
	if prev != nil {
		text = prev.name
	} else if text = string(name); !looksInto(d.dir, text) {
		return true
	}
	in, err := ask(text)
	switch {
	case errors.Is(err, fs.ErrNotExist): // gone meanwhile
		return true
	case err != nil: // as where somebody else's file system is mounted
		d.unseen = err
		d.s.unseen.Store(true)
		return true
	}
	e := entry{name: text, info: in}
	if prev != nil && prev.kind == in.kind && !d.s.force {
		e.hidden = prev.hidden
	} else {
		e.hidden = d.isHidden(text, in.kind == kindDir)
	}
	if prev != nil && prev.kind == in.kind && prev.stamp == in.stamp && !e.hidden && (!d.s.force || in.names == 1) {
		e.read, e.racy, e.sum = prev.read, prev.racy, prev.sum
	}
	d.add(e, prev)
	return true
}

// previous is what was known of a name.
func (d *directory) previous(name []byte) *entry {
	if d.old == nil {
		return nil
	}
	if d.n < len(d.old.entries) && d.old.entries[d.n].name == string(name) {
		return &d.old.entries[d.n]
	}
	if d.byOld == nil {
		d.byOld = d.old.byName()
	}
	return d.byOld[string(name)]
}

func (d *directory) isHidden(name string, dir bool) bool {
	if d.s.rules == nil {
		return false
	}
	if d.hides == nil {
		d.hides = d.s.rules.List(filepath.Join(d.s.dir, filepath.FromSlash(d.dir)))
	}
	return d.hides(name, dir)
}

func (d *directory) add(e entry, prev *entry) {
	if !d.other {
		if prev != nil && d.n < len(d.old.entries) && prev == &d.old.entries[d.n] && !e.racy && e == *prev {
			d.n++
			return
		}
		d.other = true
		if d.old != nil {
			d.fresh = append(make([]entry, 0, len(d.old.entries)+8), d.old.entries[:d.n]...)
		}
	}
	d.fresh = append(d.fresh, e)
	d.n++
}

// result is the directory's listing: the old one when it is the same.
func (d *directory) result() *listing {
	if !d.other && d.old != nil {
		if d.n == len(d.old.entries) {
			if !slices.ContainsFunc(d.old.entries, func(e entry) bool { return e.kind == kindFile && !e.hidden && !e.read && !d.heavy }) {
				return d.old
			}
		}
		return &listing{entries: slices.Clone(d.old.entries[:d.n])}
	}
	return &listing{entries: d.fresh}
}

// findTwins adds the files of hidden directories to the twins. It is false when
// not all directories could be listed, these or others: any file of several names may
// have a hidden one there.
func (s *scan) findTwins(ctx context.Context) bool {
	if len(s.found.note) > 0 || s.unseen.Load() {
		return false
	}
	l := newLister(s.root)
	left := maxInDir
	for len(s.hiddenDirs) > 0 {
		dir := s.hiddenDirs[len(s.hiddenDirs)-1]
		s.hiddenDirs = s.hiddenDirs[:len(s.hiddenDirs)-1]
		err := l.list(dir, func(name []byte, ask func(string) (info, error)) bool {
			left--
			in, err := ask(string(name))
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				left = 0
			case in.kind == kindDir:
				s.hiddenDirs = append(s.hiddenDirs, join(dir, string(name)))
			case in.kind == kindFile && in.names > 1:
				s.twins[inode{in.dev, in.ino}] = true
			}
			return left > 0
		})
		if left <= 0 || ctx.Err() != nil || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// order puts what is read in the order of its worth: what people write first.
func order(work []reading) {
	slices.SortStableFunc(work, func(a, b reading) int {
		return cmp.Or(compareBool(a.late, b.late), cmp.Compare(min(a.e.size, 1<<20), min(b.e.size, 1<<20)))
	})
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// notCompared says which directories were left out of one of both looks and why, a few by name.
func notCompared(before, after *manifest) []string {
	const most = 20
	note := map[string]string{}
	maps.Copy(note, before.note)
	maps.Copy(note, after.note)
	left := slices.Sorted(maps.Keys(note))
	var out []string
	for _, dir := range left[:min(len(left), most)] {
		out = append(out, Path(path.Join(".", dir)).String()+": "+note[dir])
	}
	if more := len(left) - most; more > 0 {
		out = append(out, "and "+plural(more, "directory", "directories")+" more")
	}
	return out
}
