package editor

import (
	"slices"
	"sync"
)

// locks let one edit at a time work on a file.
type locks struct {
	mu   sync.Mutex // guards held
	held map[string]*lock
}

type lock struct {
	sync.Mutex
	users int // how many hold it or wait for it
}

// acquire locks the keys, in one order so that two edits cannot wait for each
// other, and returns what unlocks them.
func (l *locks) acquire(keys ...string) (release func()) {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	taken := make([]*lock, 0, len(keys))
	for _, key := range keys {
		k := l.use(key)
		k.Lock()
		taken = append(taken, k)
	}
	return func() {
		for i, k := range taken {
			k.Unlock()
			l.leave(keys[i], k)
		}
	}
}

func (l *locks) use(key string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.held[key]
	if k == nil {
		k = new(lock)
		l.held[key] = k
	}
	k.users++
	return k
}

func (l *locks) leave(key string, k *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.held, key)
	}
}
