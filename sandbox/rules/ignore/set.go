package ignore

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// SetOptions describe the rules of one directory.
type SetOptions struct {
	// Root is the directory: that of a call, or the project's. Absolute.
	Root string
	// Global is the path of the person's own rules file; empty means none.
	Global string
	// Text, when set, has the person's own rules instead of the file, which then only
	// names them.
	Text *Text
	// Names says what the file system takes for the same name; nil asks it
	// ([DetectOptions]).
	Names *Options
	// Shared says that who the rules keep from files may write others. Rules cannot be read
	// then where they are a link, but to those of a directory above: they would be what is
	// written to what the link leads to.
	Shared bool
	// MaxAge is how long a directory's rules are taken for current without looking
	// again; 0 looks before every decision.
	MaxAge time.Duration
	// Watcher tells of changes at once, also while nobody asks; nil means that they
	// are found by looking.
	Watcher *Watcher
	// OnChange is called after the rules have changed. Of the Set it may call
	// [Set.Matcher] only.
	OnChange func()
	// Logger hears of rules that cannot be read or do not mean what they seem to;
	// nil means nobody does.
	Logger *slog.Logger
}

// A Set is the rules that hold in a directory, now. It is safe for concurrent
// use. Close it when a Watcher was given.
type Set struct {
	o     SetOptions
	names Options
	roots []string // the root as it was named, and without links
	log   *slog.Logger
	pause func() // for [settle]

	matcher atomic.Pointer[Matcher]
	version atomic.Uint64
	recent  *cache[look] // at a directory's rules
	moves   moves

	mu     sync.RWMutex // guards what is below
	global *rulesFile
	files  map[string]*rulesFile // by directory; the root's is always there
	size   int                   // of all of them
}

// NewSet reads the rules of a directory. It fails only when the directory is no
// absolute path; for rules that cannot be read see [Set.Err].
func NewSet(o SetOptions) (*Set, error) {
	if !filepath.IsAbs(o.Root) {
		return nil, fmt.Errorf("the directory '%s' is not an absolute path; name it from the root of the file system", o.Root)
	}
	s := &Set{o: o, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), recent: newCache[look](), files: map[string]*rulesFile{}}
	s.pause = func() { time.Sleep(settle) }
	s.roots = []string{filepath.Clean(o.Root)}
	if real, err := filepath.EvalSymlinks(o.Root); err == nil && real != s.roots[0] {
		s.roots = append(s.roots, real)
	}
	if s.names = DetectOptions(o.Root); o.Names != nil {
		s.names = *o.Names
	}
	s.global = &rulesFile{path: o.Global, global: true, memory: o.Text}
	s.files[""] = s.newFile("")
	for _, f := range []*rulesFile{s.global, s.files[""]} {
		f.open(s.names)
		s.size += f.size()
		s.tell(f)
	}
	s.rebuild()
	if o.Watcher != nil {
		o.Watcher.follow(s)
	}
	return s, nil
}

// newFile is the rules file of a directory, before it is read.
func (s *Set) newFile(dir string) *rulesFile {
	f := newRulesFile(s.roots[0], dir)
	f.shared = s.o.Shared
	return f
}

// Close ends the watching. What was decided stays.
func (s *Set) Close() error {
	if s.o.Watcher != nil {
		s.o.Watcher.forget(s)
	}
	return nil
}

// Matcher is the rules as they are known now, without looking at the disk.
func (s *Set) Matcher() *Matcher { return s.matcher.Load() }

// Version is another number after every change of the rules.
func (s *Set) Version() uint64 { return s.version.Load() }

// Ignored says whether a file is hidden: abs is its absolute, clean path, dir that
// it is a directory. The rules are looked at first. Links are not followed: ask
// for both names.
func (s *Set) Ignored(abs string, dir bool) bool { return s.Explain(abs, dir).Ignored }

// Explain says whether a file is hidden, and by which line.
func (s *Set) Explain(abs string, dir bool) Decision {
	inside := false
	var d Decision
	for _, root := range s.roots {
		rel, ok := s.below(abs, root)
		if !ok {
			continue
		}
		inside = true
		if d = s.current(parent(rel)).Explain(rel, dir); d.Ignored {
			return d
		}
	}
	if inside {
		return d
	}
	return s.current("").Outside(filepath.ToSlash(strings.TrimPrefix(abs, filepath.VolumeName(abs))), dir)
}

// List is for deciding about all that is in a directory, which is cheaper than to
// ask for every path. The rules are looked at once.
func (s *Set) List(abs string) func(name string, dir bool) bool {
	for _, root := range s.roots {
		if rel, ok := s.below(abs, root); ok {
			return s.current(rel).In(rel).Ignored
		}
	}
	return func(name string, dir bool) bool { return s.Ignored(filepath.Join(abs, name), dir) }
}

// below is the path from the root, slash-separated; "" is the root itself.
func (s *Set) below(abs, root string) (string, bool) {
	if !s.names.FoldCase && len(abs) > len(root) && abs[len(root)] == filepath.Separator && strings.HasPrefix(abs, root) {
		return filepath.ToSlash(abs[len(root)+1:]), true
	}
	rel, err := filepath.Rel(root, abs)
	if err != nil {
		return "", false
	}
	if s.names.FoldCase && strings.HasPrefix(rel, "..") {
		if rel, err = filepath.Rel(fold(root), fold(abs)); err != nil {
			return "", false
		}
	}
	if rel = filepath.ToSlash(rel); rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	if rel == "." {
		rel = ""
	}
	return rel, true
}

// Err says which rules cannot be read, or nil. What they would have decided is
// decided by those before them, or everything in their directory is hidden.
func (s *Set) Err() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var errs []error
	for _, f := range s.all() {
		if f.err != nil {
			errs = append(errs, fmt.Errorf("the rules in %s cannot be read: %w; mend or remove the file", f.path, f.err))
		}
	}
	return errors.Join(errs...)
}

// all are the rules files in the order of their say. s.mu is held.
func (s *Set) all() []*rulesFile {
	files := []*rulesFile{s.global}
	dirs := make([]string, 0, len(s.files))
	for dir := range s.files {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	for _, dir := range dirs {
		files = append(files, s.files[dir])
	}
	return files
}

// Default reports whether there is no rules file, and the built-in rules hold.
func (s *Set) Default() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return !s.global.there && !s.files[""].there
}

// rebuild makes the Matcher of what is known. s.mu is held, or nobody knows s yet.
func (s *Set) rebuild() {
	var files []*compiled
	if !s.global.there && !s.files[""].there {
		files = append(files, compileSource(Source{Text: Defaults, Everywhere: true}, s.names, dialect{fold: s.names.FoldCase}))
	}
	for _, f := range s.all() {
		if f.rules != nil {
			files = append(files, f.rules)
		}
	}
	s.matcher.Store(assemble(files, s.names))
	s.version.Add(1)
}

// tell logs what is wrong with a file that was read.
func (s *Set) tell(f *rulesFile) {
	if f.err != nil {
		s.log.Warn("ignore rules cannot be read", "file", f.path, "error", f.err, "instead", f.instead())
	}
	if f.rules != nil {
		for _, p := range f.rules.problems {
			s.log.Warn("an ignore rule does not mean what it seems to", "at", p.Rule.String(), "problem", p.Message)
		}
	}
}

// Closed is nil, or says why everything is hidden: the rules of the root or the
// person's own are there and could never be read. They are looked at first.
func (s *Set) Closed() error {
	s.current("")
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, f := range []*rulesFile{s.global, s.files[""]} {
		if f.err != nil && !f.good {
			return fmt.Errorf("the ignore rules in %s cannot be read: %w; mend or remove that file", f.path, f.err)
		}
	}
	return nil
}
