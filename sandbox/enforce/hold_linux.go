package enforce

import (
	"slices"
	"sync"
	"time"
)

// moving are the calls that give a path another meaning.
var moving = []string{"rename", "renameat", "renameat2", "symlink", "symlinkat", "link", "linkat"}

// holdable makes the calls that move names wait while somebody holds them.
func (g *Guard) holdable() {
	for nr, do := range g.calls {
		if !slices.Contains(moving, g.names[nr]) {
			continue
		}
		g.calls[nr] = func(t *task) answer {
			g.moves.RLock()
			defer g.moves.RUnlock()
			return do(t)
		}
	}
}

// Hold keeps every process that is supervised from renaming anything and from making
// links, until release is called or the time is over: a path that leads through no
// link now leads through none until then. It waits for the calls that are under way,
// and for who holds already. release reports false when the time was over before.
func (g *Guard) Hold(atMost time.Duration) (release func() bool) {
	g.moves.Lock()
	end := sync.OnceFunc(g.moves.Unlock)
	late := time.AfterFunc(atMost, end)
	return func() bool {
		intime := late.Stop()
		end()
		return intime
	}
}
