package ignore

import (
	"hash/maphash"
	"strings"
	"sync"
)

// A cache remembers something about paths, so many of them as a bounded memory holds.
type cache[V any] struct {
	seed   maphash.Seed
	shards [shards]shard[V]
}

type shard[V any] struct {
	mu   sync.RWMutex // guards what is below
	m    map[string]V
	size int
}

const (
	shards = 16
	// perShard bounds a shard, in bytes; a full one begins anew. That is room for some 64
	// thousand directories in all.
	perShard = 1 << 20
	// beside are the bytes of a path's entry beside the path, about.
	beside = 200
)

func newCache[V any]() *cache[V] { return &cache[V]{seed: maphash.MakeSeed()} }

func (c *cache[V]) shard(path string) *shard[V] {
	return &c.shards[maphash.String(c.seed, path)%shards]
}

func (c *cache[V]) get(path string) (V, bool) {
	s := c.shard(path)
	s.mu.RLock()
	defer s.mu.RUnlock()
	v, ok := s.m[path]
	return v, ok
}

func (c *cache[V]) put(path string, v V) {
	s := c.shard(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil || s.size > perShard {
		s.m, s.size = map[string]V{}, 0
	}
	s.size += len(path) + beside
	s.m[strings.Clone(path)] = v // path may be a part of something long
}
