//go:build unix

package supervise

import (
	"sync"

	"golang.org/x/sys/unix"
)

// processGroup is a command's process group, and those of its descendants that
// were seen outside of it. One that leaves the group and its parents between two
// looks is not found again: that is the limit of macOS, for which it is. It is built on
// Linux for its tests alone.
type processGroup struct {
	leader int
	// list lists every process of the machine.
	list func() ([]proc, error)

	// mu guards seen.
	mu   sync.Mutex
	seen snapshot
}

func newProcessGroup(leader int, list func() ([]proc, error)) *processGroup {
	return &processGroup{leader: leader, list: list, seen: snapshot{}}
}

// maxMisses bounds the looks at a group that is there and shows nobody: its leader may be
// dead and not waited for.
const maxMisses = 4

func (g *processGroup) members() []proc {
	found := g.look()
	for miss := 1; miss < maxMisses && len(found) == 0 && unix.Kill(-g.leader, 0) == nil; miss++ {
		found = g.lookStopped()
	}
	return found
}

// lookStopped finds what look may not: a list of processes is not made at one stroke, and
// what replaces itself by a child all the time may not be in it. What is stopped is. When
// the leader ends just then, the system lets the others go on (POSIX, "orphaned process
// group"), and they may be missed again.
func (g *processGroup) lookStopped() []proc {
	_ = unix.Kill(-g.leader, unix.SIGSTOP)
	defer func() { _ = unix.Kill(-g.leader, unix.SIGCONT) }()
	return g.look()
}

func (g *processGroup) look() []proc {
	all, err := g.list()
	if err != nil {
		return g.unlisted()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	byPID := map[int]proc{}
	for _, p := range all {
		byPID[p.pid] = p
	}
	var found []proc
	seen := snapshot{}
	for _, p := range all {
		if !g.owns(p, byPID) {
			continue
		}
		seen[p.procID] = struct{}{}
		if !p.dead {
			found = append(found, p)
		}
	}
	g.seen = seen
	return found
}

// owns says whether p is in the group, was seen below it, or descends from such a one.
func (g *processGroup) owns(p proc, byPID map[int]proc) bool {
	for range len(byPID) {
		if _, seen := g.seen[p.procID]; seen || p.group == g.leader || p.pid == g.leader {
			return true
		}
		up, ok := byPID[p.parent]
		if !ok || p.parent <= 1 {
			return false
		}
		p = up
	}
	return false
}

// unlisted is for a system whose processes cannot be listed: the group is one thing.
func (g *processGroup) unlisted() []proc {
	if unix.Kill(-g.leader, 0) != nil {
		return nil
	}
	return []proc{{procID: procID{pid: g.leader}, group: g.leader}}
}

// maxFreezes bounds the looks of freeze, against what makes processes faster than it looks.
const maxFreezes = 100

// freeze stops the members, until a look finds none that runs: what is stopped makes no
// more processes, and is there for its children to be found by. It returns all of them,
// and of them those that had been stopped before.
func (g *processGroup) freeze() (found []proc, before snapshot) {
	before = snapshot{}
	for _, p := range g.members() {
		if p.stopped {
			before[p.procID] = struct{}{}
		}
	}
	asked := snapshot{}
	for range maxFreezes {
		_ = unix.Kill(-g.leader, unix.SIGSTOP) // at one stroke, whatever it starts meanwhile
		found = g.look()
		fresh := false
		for _, p := range found {
			if _, old := asked[p.procID]; !old {
				signalProc(p.procID, unix.SIGSTOP)
				asked[p.procID], fresh = struct{}{}, true
			}
		}
		if !fresh {
			break
		}
	}
	return found, before
}

func (g *processGroup) terminate() { g.cull(func(proc) bool { return false }) }

func (g *processGroup) cull(spare func(proc) bool) (killed []proc) {
	found, before := g.freeze()
	for _, p := range found {
		if !spare(p) {
			killProc(p.procID)
			killed = append(killed, p)
		}
	}
	for _, p := range found {
		if _, stopped := before[p.procID]; spare(p) && !stopped {
			signalProc(p.procID, unix.SIGCONT)
		}
	}
	return killed
}
