package router

import (
	"slices"
	"sync"
)

// A Crowd knows the sandboxes in which something may run, of all routers that have it.
type Crowd struct {
	// holding is held for reading while names are held: no further sandbox is populated then.
	holding sync.RWMutex

	// mu guards populated, in whose order names are held.
	mu        sync.Mutex
	populated []*backend
}

// populate notes that something may run in b's sandbox from now on.
func (c *Crowd) populate(b *backend) {
	c.holding.Lock()
	defer c.holding.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.populated = append(c.populated, b)
}

// depopulate notes that b's sandbox is closed.
func (c *Crowd) depopulate(b *backend) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.populated = slices.DeleteFunc(c.populated, func(p *backend) bool { return p == b })
}
