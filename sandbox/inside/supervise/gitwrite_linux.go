package supervise

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/inside/enforce"
	"gander.dev/gander/sandbox/rules/gitconfig"
)

// configWrites holds what programs inside have had written to configurations of git, by the paths of
// these.
type configWrites struct {
	tell func(sandbox.Denial)

	// mu guards the fields below.
	mu      sync.Mutex
	made    map[string]bool
	remotes map[string]map[string]bool // added, by name
}

func newConfigWrites(tell func(sandbox.Denial)) *configWrites {
	return &configWrites{tell: tell, made: map[string]bool{}, remotes: map[string]map[string]bool{}}
}

var _ enforce.Writer = (*treePolicy)(nil)

// Locks implements enforce.Writer.
func (p *treePolicy) Locks(rel string) string {
	target := p.protection.Locks(rel)
	if target == "" || p.keeps(rel) != "" || p.Closed(target, false) {
		return ""
	}
	return target
}

// MayBegin implements enforce.Writer.
func (p *treePolicy) MayBegin(rel string, dir, fresh bool) bool {
	return p.keeps(rel) == "" && !p.Closed(rel, dir) && p.protection.MayBegin(rel, dir, fresh)
}

// MayRemove implements enforce.Writer.
func (p *treePolicy) MayRemove(rel string) bool {
	return p.keeps(rel) == "" && p.protection.MayRemove(rel)
}

// Accept implements enforce.Writer: what git's configuration gets.
func (p *treePolicy) Accept(target string, now, next []byte) ([]byte, error) {
	at := filepath.Join(p.tree, target)
	w := p.writes
	w.mu.Lock()
	defer w.mu.Unlock()
	c := gitconfig.Change{Old: now, New: next, Worktree: path.Base(target) == "config.worktree", Added: w.remotes[at]}
	other := "config.worktree"
	if c.Worktree {
		other = "config"
	}
	c.Other = p.readFor(path.Join(path.Dir(target), other))
	c.Made = !c.Worktree && (now == nil || w.made[at])
	if path.Base(path.Dir(target)) == ".git" {
		c.Modules = p.readFor(path.Join(path.Dir(path.Dir(target)), ".gitmodules"))
	}
	a, err := c.Accept()
	if err != nil {
		return nil, err
	}
	if c.Made {
		w.made[at] = true
	}
	if w.remotes[at] == nil {
		w.remotes[at] = map[string]bool{}
	}
	for _, name := range a.Remotes {
		w.remotes[at][name] = true
	}
	if a.Dropped != "" {
		w.tell(sandbox.Denial{Operation: "rename", Path: at, Rule: ".git/config of @git", Why: a.Dropped, Allow: "@git"})
	}
	return a.Text, nil
}

// readFor reads a file of the tree; what cannot be read is empty.
func (p *treePolicy) readFor(rel string) []byte {
	root, err := os.OpenRoot(p.tree)
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }()
	if info, err := root.Lstat(rel); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	text, err := readPlain(func(flags int) (*os.File, error) { return root.OpenFile(strings.TrimPrefix(rel, "/"), flags, 0) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return text
}
