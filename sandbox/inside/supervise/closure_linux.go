package supervise

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/inside/enforce"
	"gander.dev/gander/sandbox/rules/ignore"
	"gander.dev/gander/sandbox/rules/policy"
)

// rulesAge is how long the rules of a directory are taken for current without a
// look at the disk.
const rulesAge = 50 * time.Millisecond

// ownName is what the person's own rules are called in explanations.
const ownName = "your own " + ignore.FileName

// closure keeps Setup.Rules: it knows the rules, and has the kernel ask.
type closure struct {
	guard   *enforce.Guard
	watcher *ignore.Watcher
	sets    []*ignore.Set
	guarded []guarded
	own     *ignore.Text // the person's own rules
	// gitStore is the directory with object stores for inside; empty without.
	gitStore string
	hidden   atomic.Bool // that git's objects are hidden was told
	writes   policy.Writes
	place    string // see Rules.Project
	// gitWrites holds what programs inside have had written to configurations of git.
	gitWrites *configWrites
	agent     int // the user that commands run as

	// naming guards what is known of git's repositories.
	naming sync.Mutex
	known  *census // that repositories found last
}

// newClosure reads the rules. What it takes stays for as long as the process. Where files
// may be changed mounts say, if they are the sandbox's own.
func (l *linux) newClosure(s Setup, denied func(sandbox.Denial)) (*closure, error) {
	r := *s.Rules
	if err := enforce.Supported(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRules, err)
	}
	c := &closure{watcher: ignore.NewWatcher(l.log), own: &ignore.Text{}, gitStore: r.GitStore, writes: r.Writes, place: r.Project, agent: os.Geteuid()}
	c.own.Set(r.Own, r.HasOwn)
	reports := newDenials(denied)
	c.gitWrites = newConfigWrites(reports.add)
	o := enforce.Options{
		Inside: l.inside, StaticMounts: r.OwnMounts, OwnNetwork: r.OwnNetwork, Public: r.Public, Machine: s.KeepPrivileges, Log: l.log,
		Denied: func(d enforce.Denial) {
			if explained, tell := c.explain(d); tell {
				reports.add(explained)
			}
		},
	}
	if r.OwnNetwork {
		o.Lead = func(to netip.AddrPort) netip.AddrPort {
			if road := l.road.Load(); road != nil {
				return road.lead(to)
			}
			return to
		}
	}
	if !r.OwnMounts {
		o.Writable = s.Writable
	}
	if l.identity != nil {
		o.Identity = &enforce.Identity{UID: l.identity.UID, GID: l.identity.GID}
		c.agent = l.identity.UID
	}
	for i, t := range r.Trees {
		bounds := treeBounds{own: "."}
		if i == 0 {
			bounds.narrow = below(t, r.Narrow...)
		}
		if own, ok := r.Gits[t]; ok {
			bounds.isGit, bounds.own = true, filepath.ToSlash(nameIn(t, own))
		}
		policy, err := c.newPolicy(t, bounds, l.log)
		if err != nil {
			return nil, err
		}
		c.guarded[i].root = i == 0 || slices.Contains(r.Roots, t)
		o.Trees = append(o.Trees, enforce.Tree{Path: t, Policy: policy})
	}
	if r.GitStore != "" {
		o.Trees = append(o.Trees, enforce.Tree{Path: r.GitStore, Policy: func() enforce.Policy { return storePolicy{c} }})
	}
	guard, err := enforce.New(o)
	if err != nil {
		return nil, fmt.Errorf("keeping the rules for files: %w", err)
	}
	c.guard = guard
	return c, nil
}

// newPolicy follows the rules of a tree.
func (c *closure) newPolicy(tree string, bounds treeBounds, log *slog.Logger) (func() enforce.Policy, error) {
	git, err := gitPlaces(tree, "")
	if err != nil { // protectNamed fails with it, too, before anything runs
		log.Warn("looking for what git runs", "tree", tree, "err", err)
	}
	protection, err := policy.NewProtection(c.writes, git)
	if err != nil {
		return nil, fmt.Errorf("protecting files of %s: %w", tree, err)
	}
	var now atomic.Pointer[treePolicy]
	set, err := ignore.NewSet(ignore.SetOptions{
		Root: tree, Shared: true, Global: ownName, Text: c.own, MaxAge: rulesAge, Watcher: c.watcher, Logger: log,
		OnChange: func() { renew(&now, func(*treePolicy) {}) },
	})
	if err != nil {
		return nil, fmt.Errorf("reading the rules of %s: %w", tree, err)
	}
	c.sets = append(c.sets, set)
	c.guarded = append(c.guarded, guarded{tree: tree, isGit: bounds.isGit, git: git, now: &now})
	now.Store(&treePolicy{treeBounds: bounds, tree: tree, writes: c.gitWrites, below: strings.TrimSuffix(tree, "/") + "/", set: set, protection: protection})
	return func() enforce.Policy {
		if p := now.Load(); p.git != nil {
			return gitPolicy{p}
		}
		return now.Load()
	}, nil
}

func (c *closure) filter() *enforce.Filter {
	f := c.guard.Filter()
	return &f
}

// treePolicy is the rules of a tree as they were when they last changed. A new one
// takes its place with each change, by which the Guard knows.
type treePolicy struct {
	treeBounds
	tree       string
	below      string // what paths in it begin with
	set        *ignore.Set
	protection *policy.Protection
	writes     *configWrites   // to configurations of git
	linked     map[string]bool // where closed links lead to
	git        *gitView        // nil while git's objects are open
}

// renew puts a changed policy in the place of the one that holds, if there is one.
func renew(now *atomic.Pointer[treePolicy], change func(*treePolicy)) {
	for before := now.Load(); before != nil; before = now.Load() {
		next := *before
		change(&next)
		if now.CompareAndSwap(before, &next) {
			return
		}
	}
}

// Access implements enforce.Policy. What is protected is only for reading; rules
// files always are: who could change them could open everything.
func (p *treePolicy) Access(rel string, dir bool) enforce.Access {
	if p.Closed(rel, dir) {
		return enforce.None
	}
	if _, ok := p.protection.Protects(rel); ok || p.keeps(rel) != "" {
		return enforce.ReadOnly
	}
	return enforce.Full
}

// Closed implements enforce.Policy.
func (p *treePolicy) Closed(rel string, dir bool) bool {
	return p.set.Ignored(p.below+rel, dir) || !dir && p.git.closes(rel) || p.isLinked(rel)
}

// ByName implements enforce.Policy. Git's objects are closed where they are, so that
// no directory of them may move.
func (p *treePolicy) ByName() bool {
	return p.git == nil && !p.bounded() && p.set.Matcher().BasenameOnly()
}

// MayMove implements enforce.Policy.
func (p *treePolicy) MayMove(from, to string) bool { return p.protection.MayMove(from, to) }

// Moving implements enforce.Policy.
func (p *treePolicy) Moving() (over func()) { return p.set.Moving() }

// MayLink implements enforce.Policy. No link is made where a directory would be closed, or
// would be on the way to something closed: what comes there later would be elsewhere, and open.
func (p *treePolicy) MayLink(rel string) bool {
	return p.protection.MayLink(rel) && !p.Closed(rel, true) && !p.set.Matcher().Leads(rel)
}

// inside reports whether a process, or thread, is of a command that is not private, or
// descends from a command. What has lost its shepherd is not inside any more: it is about
// to be killed, and may be private.
func (l *linux) inside(id int) bool {
	f := l.flock.Load()
	if f == nil { // no command has run
		return false
	}
	pid, err := processOf(id)
	if err != nil {
		return false
	}
	if p, err := readProc(pid); err != nil || f.isPrivate(p) {
		return false
	}
	for pid > 1 && pid != l.pid && pid != l.launcher {
		p, err := readProc(pid)
		if err != nil || l.isShepherd(p) { // when it is the first that is looked at
			return false
		}
		if f.herd(p.parent) != nil {
			return true
		}
		pid = p.parent
	}
	return false
}

// How many denials are passed on in one interval: one of a thread's path and operation, and so many
// of all.
const (
	denialInterval = time.Minute
	denialsInAll   = 20
)

// denials passes on a bounded number of denials.
type denials struct {
	tell func(sandbox.Denial)

	// mu guards the fields below.
	mu    sync.Mutex
	since time.Time
	told  map[sandbox.Denial]bool
}

func newDenials(tell func(sandbox.Denial)) *denials { return &denials{tell: tell} }

// add must be quick: a process waits.
func (n *denials) add(d sandbox.Denial) {
	key := sandbox.Denial{Operation: d.Operation, Path: d.Path, Why: d.Why, PID: d.PID} // git says no more than that something failed: each is told
	n.mu.Lock()
	if now := time.Now(); now.Sub(n.since) > denialInterval {
		n.since, n.told = now, map[sandbox.Denial]bool{}
	}
	fresh := !n.told[key] && len(n.told) < denialsInAll
	if fresh {
		n.told[key] = true
	}
	n.mu.Unlock()
	if fresh {
		go n.tell(d) // the stream to the host may be slow; bounded by the counts
	}
}
