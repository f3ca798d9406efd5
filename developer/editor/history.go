package editor

import (
	"crypto/sha256"
	"io/fs"
	"sync"
)

// A version is what a change replaced, and what it left.
type version struct {
	before file
	after  [sha256.Size]byte
	gone   bool // the change removed the file
	number uint64
}

// A file is one state of a file on disk.
type file struct {
	missing bool
	data    []byte
	perm    fs.FileMode
}

// matches says whether the file is still as the change left it.
func (v version) matches(now file) bool {
	if v.gone || now.missing {
		return v.gone == now.missing
	}
	return sha256.Sum256(now.data) == v.after
}

// A history keeps the last versions of files, the newest last, in bounded memory:
// when there is too much, the oldest of all are forgotten.
type history struct {
	limit int64 // bytes; below 0: keep nothing

	mu       sync.Mutex // guards what is below
	versions map[string][]version
	bytes    int64
	count    uint64
}

// overhead is what a version costs besides its content, roughly.
const overhead = 512

func cost(v version) int64 { return int64(len(v.before.data)) + overhead }

// push remembers a change.
func (h *history) push(key string, before, after file) {
	if h.limit < 0 {
		return
	}
	v := version{before: before, gone: after.missing}
	if !after.missing {
		v.after = sha256.Sum256(after.data)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count++
	v.number = h.count
	h.versions[key] = append(h.versions[key], v)
	h.bytes += cost(v)
	for h.bytes > h.limit && h.forgetOldest() {
	}
}

// forgetOldest drops the oldest version, but never the newest.
func (h *history) forgetOldest() bool {
	oldest, number := "", h.count
	for key, vs := range h.versions {
		if vs[0].number < number {
			oldest, number = key, vs[0].number
		}
	}
	if number == h.count {
		return false
	}
	h.take(oldest, 0)
	return true
}

// take removes one version of a file. The caller holds mu.
func (h *history) take(key string, i int) {
	vs := h.versions[key]
	h.bytes -= cost(vs[i])
	if len(vs) == 1 {
		delete(h.versions, key)
		return
	}
	kept := make([]version, 0, len(vs)-1)
	h.versions[key] = append(append(kept, vs[:i]...), vs[i+1:]...)
}

// last is the newest version of a file.
func (h *history) last(key string) (version, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	vs := h.versions[key]
	if len(vs) == 0 {
		return version{}, false
	}
	return vs[len(vs)-1], true
}

// drop forgets the newest version of a file, when it is still this one.
func (h *history) drop(key string, v version) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if vs := h.versions[key]; len(vs) > 0 && vs[len(vs)-1].number == v.number {
		h.take(key, len(vs)-1)
	}
}
