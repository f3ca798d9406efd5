package supervise

import (
	"errors"
	"fmt"
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
	c.Works = func(to string) bool { return p.worksIn(path.Dir(target), to) }
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

// Points implements enforce.Writer.
func (p *treePolicy) Points(rel string) bool {
	return p.protection.Points(rel) && p.keeps(rel) == "" && !p.Closed(rel, false)
}

// AcceptPointer implements enforce.Writer. What leads from a work tree to a git directory, and
// back, leads to places in the tree whose configuration is protected, and only from where git has
// it.
func (p *treePolicy) AcceptPointer(rel string, now, next []byte, fresh bool) error {
	to, err := p.pointsTo(rel, next)
	if err != nil {
		return err
	}
	switch dir := path.Dir(rel); {
	case now != nil && !fresh:
		if was, err := p.pointsTo(rel, now); err != nil || was != to {
			return errors.New("it leads elsewhere now, and was there before")
		}
	case path.Base(rel) == ".git" && p.protection.IsGitOf(to, "worktrees"):
		if back, err := p.pointsTo(to+"/gitdir", p.readFor(to+"/gitdir")); err != nil || back != dir {
			return fmt.Errorf("%s is not for a work tree here", to)
		}
	}
	return nil
}

// pointsTo returns the directory of the tree that a pointer leads to: a git directory from a work
// tree, a work tree from its git directory. An error says why it may not.
func (p *treePolicy) pointsTo(rel string, text []byte) (string, error) {
	to, ok := strings.CutSuffix(string(text), "\n")
	dir, name := path.Dir(rel), path.Base(rel)
	if !ok || strings.ContainsFunc(to, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", errors.New("it is not one line with a path")
	}
	switch name {
	case "commondir":
		if to != "../.." {
			return "", fmt.Errorf("it leads to %s, and not to the git directory that it is in", to)
		}
		return path.Dir(path.Dir(dir)), nil
	case ".git":
		if to, ok = strings.CutPrefix(to, "gitdir: "); !ok {
			return "", errors.New("it is not one line with the path of a git directory")
		}
	}
	at, err := p.inTree(dir, to)
	if err != nil {
		return "", err
	}
	isGit := p.protection.IsGitOf(at, "worktrees") || p.protection.IsGitOf(at, "modules")
	switch {
	case name == ".git" && !isGit:
		return "", fmt.Errorf("it leads to %s, which is not where git keeps a work tree's or a submodule's data", at)
	case name == "gitdir" && (path.Base(at) != ".git" || at == ".git" || p.protection.InGit(path.Dir(at))):
		return "", fmt.Errorf("it leads to %s, which is not the .git of a work tree in the project", at)
	case name == "gitdir":
		at = path.Dir(at)
	}
	return at, nil
}

// inTree returns a path in the tree, which is absolute or begins in a directory, relative to the
// top. Only at its beginning it may lead up: a link may be on the way.
func (p *treePolicy) inTree(dir, to string) (string, error) {
	if path.Clean(to) != to {
		return "", fmt.Errorf("it leads to %s, which is not the shortest way", to)
	}
	if !path.IsAbs(to) {
		to = path.Join(p.tree, dir, to)
	}
	at, err := filepath.Rel(p.tree, to)
	if at = filepath.ToSlash(at); err != nil || at == "." || !filepath.IsLocal(at) {
		return "", fmt.Errorf("it leads to %s, which is not in the project", to)
	}
	return at, nil
}

// worksIn reports whether a path is that of a work tree in the tree which leads back to a git
// directory that was made inside.
func (p *treePolicy) worksIn(gitDir, to string) bool {
	work, err := p.inTree(gitDir, to)
	if err != nil || p.protection.InGit(work) {
		return false
	}
	back, err := p.pointsTo(work+"/.git", p.readFor(work+"/.git"))
	return err == nil && back == gitDir
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
