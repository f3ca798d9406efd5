package ignore

import (
	"hash/maphash"
	"strings"
	"sync"
)

// A cache remembers something about paths, a bounded number of them.
type cache[V any] struct {
	seed   maphash.Seed
	shards [shards]shard[V]
}

type shard[V any] struct {
	mu sync.RWMutex // guards m
	m  map[string]V
}

const (
	shards = 16
	// perShard bounds a shard; a full one begins anew. 64 thousand directories in
	// all are some ten megabytes.
	perShard = 4096
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
	if s.m == nil || len(s.m) >= perShard {
		s.m = map[string]V{}
	}
	s.m[strings.Clone(path)] = v // path may be a part of something long
}
