package analyze

import (
	"container/list"
	"crypto/sha256"
	"sync"
)

// cacheKey is a file's content, and the language that it was read as.
type cacheKey struct {
	language string
	content  [sha256.Size]byte
}

// cache remembers the facts about contents, the least recently used ones are
// forgotten first. Names and times play no part: a file that was moved is known,
// one that was changed within a clock tick is not.
type cache struct {
	limit int

	mu     sync.Mutex // guards what is below
	weight int
	order  *list.List // of *cached, the most recently used first
	byKey  map[cacheKey]*list.Element
}

type cached struct {
	key   cacheKey
	facts *facts
}

func newCache(limit int) *cache {
	return &cache{limit: limit, order: list.New(), byKey: map[cacheKey]*list.Element{}}
}

func (c *cache) get(key cacheKey) *facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[key]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).facts
}

func (c *cache) put(key cacheKey, f *facts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey[key] != nil || f.weight() > c.limit {
		return
	}
	c.byKey[key] = c.order.PushFront(&cached{key, f})
	for c.weight += f.weight(); c.weight > c.limit; {
		last := c.order.Remove(c.order.Back()).(*cached)
		delete(c.byKey, last.key)
		c.weight -= last.facts.weight()
	}
}
