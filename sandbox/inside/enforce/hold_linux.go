package enforce

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// moving are the calls that give a path another meaning.
var moving = []string{"rename", "renameat", "renameat2", "symlink", "symlinkat", "link", "linkat"}

// changing are other calls that make and remove entries. A file is made by open, which
// sees to it itself.
var changing = []string{"mkdir", "mkdirat", "mknod", "mknodat", "symlink", "symlinkat", "link", "linkat", "unlink", "unlinkat", "rmdir"}

// order makes the calls that move names wait while somebody holds them, and lets nothing
// be made, removed or moved between a rename's judgement and the rename: it is of names.
func (g *Guard) order() {
	for nr, do := range g.calls {
		name := g.names[nr]
		var locks []sync.Locker
		if slices.Contains(moving, name) {
			locks = append(locks, g.moves.RLocker())
		}
		switch {
		case strings.HasPrefix(name, "rename"):
			locks = append(locks, &g.entries)
		case slices.Contains(changing, name):
			locks = append(locks, g.entries.RLocker())
		}
		if len(locks) == 0 {
			continue
		}
		g.calls[nr] = func(t *task) answer {
			for _, l := range locks {
				l.Lock()
				defer l.Unlock()
			}
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
