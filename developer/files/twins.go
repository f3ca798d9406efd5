package files

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// twins find hidden files behind their other names. A file with several names (a
// hard link) is hidden when one of its names below the working directory is; the
// names elsewhere cannot be found.
//
// The hidden files with several names are searched for when the first file with
// several names is used, and again when such a file was linked, or renamed, after
// the last search, or the rules have changed. A directory that was renamed so that
// what is in it is hidden now is noticed at the next search. A tree too large to
// be searched leaves its rest unknown: that, as all that programs do, is for the
// kernel layer.
type twins struct {
	top   string
	rules Rules

	mu      sync.Mutex // guards what is below
	known   map[inode]bool
	at      time.Time // of the search
	version uint64
}

// The bounds of a search.
const (
	maxSearched = 500_000 // entries
	searchTime  = 5 * time.Second
)

// hides says that a file has another name that is hidden.
func (t *twins) hides(info fs.FileInfo) bool {
	if t.rules == nil || !info.Mode().IsRegular() {
		return false
	}
	id, links, changed := inodeOf(info)
	if links < 2 {
		return false
	}
	var version uint64
	if v, ok := t.rules.(interface{ Version() uint64 }); ok {
		version = v.Version()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || version != t.version || !changed.Before(t.at.Add(-time.Second)) {
		t.version = version
		t.search()
	}
	return t.known[id]
}

// search finds the hidden files with several names. t.mu is held.
func (t *twins) search() {
	t.known, t.at = map[inode]bool{}, time.Now()
	deadline, left := t.at.Add(searchTime), maxSearched
	var visit func(dir string, hidden bool) bool
	visit = func(dir string, hidden bool) bool {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return true // what cannot be listed cannot be opened by a name in it
		}
		ignored := lister(t.rules, dir)
		for _, e := range entries {
			if left--; left < 0 || left%1000 == 0 && time.Now().After(deadline) {
				return false
			}
			is := hidden || ignored(e.Name(), e.IsDir())
			if e.IsDir() {
				if !visit(filepath.Join(dir, e.Name()), is) {
					return false
				}
			} else if is && e.Type().IsRegular() {
				t.add(e)
			}
		}
		return true
	}
	visit(t.top, false)
}

func (t *twins) add(e fs.DirEntry) {
	info, err := e.Info()
	if err != nil {
		return // gone
	}
	if id, links, _ := inodeOf(info); links > 1 {
		t.known[id] = true
	}
}

// lister decides about the entries of a directory, cheaper where the rules can.
func lister(r Rules, dir string) func(name string, isDir bool) bool {
	if r == nil {
		return func(string, bool) bool { return false }
	}
	if l, ok := r.(interface {
		List(abs string) func(name string, dir bool) bool
	}); ok {
		return l.List(dir)
	}
	return func(name string, isDir bool) bool { return r.Ignored(filepath.Join(dir, name), isDir) }
}
