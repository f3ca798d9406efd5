package enforce

import (
	"strings"
	"sync"
)

// maxTouched bounds the names that are kept; of more nothing is known any more.
const maxTouched = 1 << 16

// touched holds the names in trees that supervised processes may have changed: what they
// opened for writing, made, removed, renamed or gave other attributes, or tried to.
type touched struct {
	// mu guards what follows.
	mu    sync.Mutex
	names map[string]bool // true: with all that is below it
	full  bool
}

// add notes a name. A directory that is renamed takes what is below it along.
func (t *touched) add(path string, below bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.names[path]; ok && (known || !below) || t.full {
		return
	}
	if t.names == nil {
		t.names = map[string]bool{}
	}
	t.names[strings.Clone(path)] = below
	if t.full = len(t.names) > maxTouched; t.full {
		t.names = nil
	}
}

// has reports whether a path is, or was, one of the names, or is below a directory that was
// renamed.
func (t *touched) has(path string) bool {
	if _, ok := t.names[path]; ok {
		return true
	}
	for i := strings.LastIndexByte(path, '/'); i > 0; i = strings.LastIndexByte(path[:i], '/') {
		if t.names[path[:i]] {
			return true
		}
	}
	return false
}

// Touched reports which files of trees, by their absolute paths, supervised processes may have
// changed since the Guard began, and false when that is not known of all.
func (g *Guard) Touched(paths []string) ([]bool, bool) {
	g.touched.mu.Lock()
	defer g.touched.mu.Unlock()
	if g.touched.full {
		return nil, false
	}
	out := make([]bool, len(paths))
	for i, path := range paths {
		out[i] = g.touched.has(path)
	}
	return out, true
}

// touches notes an entry of a directory in a tree that is about to change.
func (g *Guard) touches(at *entry, below bool) {
	if len(at.dir.trees) > 0 {
		g.touched.add(at.path(), below)
	}
}
