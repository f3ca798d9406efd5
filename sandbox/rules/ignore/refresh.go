package ignore

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"time"
)

// The most rules files below a root, and the size of rules, that are followed. An
// agent can make many; beyond, a directory's rules count as unreadable.
const (
	maxFiles = 4096
	maxTotal = 16 << 20
)

// current is the Matcher for what is in a directory, after a look at the rules
// that hold there.
func (s *Set) current(dir string) *Matcher {
	if s.o.MaxAge > 0 {
		if last, ok := s.recent.get(dir); ok && time.Since(last.at) < s.o.MaxAge && last.moves == s.moves.begun.Load() {
			return s.Matcher()
		}
	}
	now := time.Now()
	moves, still := s.moves.now()
	if stale := s.stale(dir); len(stale) > 0 {
		s.update(stale)
	}
	if s.o.MaxAge > 0 && still && s.readable(dir) {
		s.recent.put(dir, look{now, moves})
	}
	return s.Matcher()
}

// look is when a directory's rules were looked at, and after how many moves.
type look struct {
	at    time.Time
	moves uint64
}

// moves counts those of directories, by which a path becomes that of other rules.
type moves struct{ begun, over atomic.Uint64 }

// now is how many have begun, and whether they are all over.
func (m *moves) now() (begun uint64, over bool) {
	begun = m.begun.Load()
	return begun, begun == m.over.Load()
}

// Moving says that a directory is about to get another name, until over is called. What
// was seen of rules before that is not relied on after it.
func (s *Set) Moving() (over func()) {
	s.moves.begun.Add(1)
	return func() { s.moves.over.Add(1) }
}

// readable reports whether the rules for what is in a directory could be read. Those that
// could not are looked at again each time: a program that has just been given the
// permission goes on at once.
func (s *Set) readable(dir string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for {
		if f := s.files[dir]; f != nil && f.err != nil {
			return false
		}
		if dir == "" {
			return true
		}
		dir = parent(dir)
	}
}

// Refresh looks at all rules files that are known.
func (s *Set) Refresh() {
	s.mu.RLock()
	var stale []*rulesFile
	for _, f := range s.all() {
		if f.stale() {
			stale = append(stale, f)
		}
	}
	s.mu.RUnlock()
	if len(stale) > 0 {
		s.update(stale)
	}
}

// stale lists the rules files on the way to a directory, and in it, that have
// changed or appeared.
func (s *Set) stale(dir string) []*rulesFile {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var stale []*rulesFile
	for _, f := range []*rulesFile{s.global, s.files[""]} {
		if f.stale() {
			stale = append(stale, f)
		}
	}
	for ; dir != ""; dir = parent(dir) {
		f := s.files[dir]
		if f == nil {
			f = &rulesFile{dir: dir, path: s.roots[0] + string(filepath.Separator) + filepath.FromSlash(dir) + string(filepath.Separator) + FileName}
		}
		if f.stale() {
			stale = append(stale, f)
		}
	}
	return stale
}

// update reads files again, and makes a new Matcher when that changed a rule.
func (s *Set) update(stale []*rulesFile) {
	s.mu.Lock()
	changed := false
	for _, f := range stale {
		if s.reread(f) {
			changed = true
		}
	}
	if changed {
		s.rebuild()
	}
	s.mu.Unlock()
	if changed && s.o.OnChange != nil {
		s.o.OnChange()
	}
}

// reread brings one file up to date. s.mu is held.
func (s *Set) reread(f *rulesFile) bool {
	if !f.global {
		if s.files[f.dir] == nil {
			s.files[f.dir] = s.newFile(f.dir)
		}
		f = s.files[f.dir]
	}
	if !f.stale() {
		return false // somebody else did it meanwhile
	}
	failed, was := f.err, f.size()
	changed := f.update(s.names, s.pause)
	more := f.there && f.dir != "" && (changed || f.size() > was)
	if more && (len(s.files) > maxFiles || s.size-was+f.size() > maxTotal) {
		f.err = errors.New("there are too many rules below " + s.roots[0])
		f.text, f.rules = hideAll, f.closed(f.err, s.names)
	}
	s.size += f.size() - was
	if changed || f.err != nil && failed == nil {
		s.tell(f)
	}
	if !f.there && f.dir != "" {
		delete(s.files, f.dir)
	}
	if changed && s.o.Watcher != nil {
		s.o.Watcher.extend(s)
	}
	return changed
}
