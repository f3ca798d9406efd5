package supervise

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/enforce"
	"gander.dev/gander/sandbox/policy"
)

// guarded is a tree with what is protected in it.
type guarded struct {
	tree string
	root bool             // see Rules.Roots
	git  policy.GitPlaces // guarded by closure.naming
	now  *atomic.Pointer[treePolicy]
}

// protectNamed implements keeper: what the configuration of repositories names now is
// protected from now on, and what it named before still is. Nothing inside moves a
// repository meanwhile.
func (c *closure) protectNamed() (found sandbox.Repositories, err error) {
	release := c.guard.Hold(2 * protectTime)
	defer func() {
		if !release() && err == nil {
			err = errors.New("looking for what git's configuration names took too long")
		}
	}()
	c.naming.Lock()
	defer c.naming.Unlock()
	known, unknown := c.takeKnown()
	r, err := openGit(c.roots()...)
	if err != nil {
		return found, fmt.Errorf("reading git's configuration: %w", err)
	}
	defer r.close()
	for _, root := range c.roots() {
		r.repository(r.gitDir(root), root)
	}
	for _, repo := range known.repositories {
		r.repository(placeIn(c.project(), repo.Dir), placeIn(c.project(), repo.Tree))
	}
	ends, on, err := c.linked(r, known.links)
	if err != nil {
		return found, err
	}
	closed, onClosed, err := c.linked(r, known.closedLinks)
	if err != nil {
		return found, err
	}
	linked := slices.Concat(ends, on, closed, onClosed)
	for i := range c.guarded {
		tree := c.guarded[i].tree
		c.guarded[i].closeLinked(below(tree, closed...))
		if err := c.protectPlaces(&c.guarded[i], policy.GitPlaces{Dirs: r.dirsIn(tree), Files: below(tree, r.named...), Linked: below(tree, linked...)}); err != nil {
			return found, err
		}
	}
	return atMost(known.repositories, false), cmp.Or(unknown, r.err)
}

// linked are where some links lead to, and the links on the way.
func (c *closure) linked(r *gitReader, links []string) (ends, on []string, err error) {
	for _, link := range links {
		to, ok := r.follow(link, func(link string) { on = append(on, link) })
		if !ok { // by another name of a directory, perhaps
			var err error
			if to, err = filepath.EvalSymlinks(link); err != nil || !slices.ContainsFunc(c.guarded, func(g guarded) bool { return isIn(to, g.tree) }) {
				continue
			}
		}
		if !slices.ContainsFunc(c.guarded, func(g guarded) bool { return len(below(g.tree, to)) > 0 }) {
			return nil, nil, fmt.Errorf("%s is a link to all of %s, where nothing could be written then; remove it", link, to)
		}
		ends = append(ends, to)
	}
	return ends, on, nil
}

// closeLinked closes what closed links lead to, and nothing else for being that.
func (g *guarded) closeLinked(rels []string) {
	now := map[string]bool{}
	for _, rel := range rels {
		now[rel] = true
	}
	if !maps.Equal(now, g.now.Load().linked) {
		renew(g.now, func(t *treePolicy) { t.linked = now })
	}
}

// isLinked reports whether a closed link leads to an entry of the tree, or to a directory
// that it is in.
func (p *treePolicy) isLinked(rel string) bool {
	if len(p.linked) == 0 {
		return false
	}
	for at := filepath.ToSlash(rel); at != "."; at = path.Dir(at) {
		if p.linked[at] {
			return true
		}
	}
	return false
}

// protectPlaces protects places of a tree besides those that are protected.
func (c *closure) protectPlaces(g *guarded, more policy.GitPlaces) error {
	known := map[string]bool{}
	for _, rel := range slices.Concat(g.git.Files, g.git.Linked) {
		known[rel] = true
	}
	isKnown := func(rel string) bool { return known[rel] }
	files, linked := slices.DeleteFunc(more.Files, isKnown), slices.DeleteFunc(more.Linked, isKnown)
	dirs := slices.DeleteFunc(more.Dirs, func(rel string) bool { return slices.Contains(g.git.Dirs, rel) })
	switch {
	case len(files)+len(linked)+len(dirs) == 0:
		return nil
	case len(files)+len(linked)+len(known) > maxGitNamed:
		return errNamed
	}
	g.git.Dirs, g.git.Files, g.git.Linked = append(g.git.Dirs, dirs...), append(g.git.Files, files...), append(g.git.Linked, linked...)
	p, err := policy.NewProtection(c.writes, g.git)
	if err != nil {
		return fmt.Errorf("protecting files of %s: %w", g.tree, err)
	}
	renew(g.now, func(t *treePolicy) { t.protection = p })
	return nil
}

// mayWrite implements keeper.
func (c *closure) mayWrite(path string) bool {
	for _, g := range c.guarded {
		if rel, err := filepath.Rel(g.tree, path); err == nil && filepath.IsLocal(rel) && g.now.Load().Access(rel, false) != enforce.Full {
			return false
		}
	}
	return true
}

// explain adds to a denial the rule that it is by. Git tries all its files, those that
// there is another store in the place of, too: tell is false for these. Of what that store
// lacks the first denial is told.
func (c *closure) explain(d enforce.Denial) (out sandbox.Denial, tell bool) {
	out = sandbox.Denial{Operation: d.Operation, Path: d.Path, PID: d.PID}
	if d.Unheard {
		out.Rule, out.Why = sandbox.DeniedUnheard, "nobody in the sandbox listens there"
		return out, true
	}
	for i, g := range c.guarded {
		rel, err := filepath.Rel(g.tree, d.Path)
		if err != nil || !filepath.IsLocal(rel) || c.sets[i].Ignored(d.Path, false) || c.sets[i].Ignored(d.Path, true) {
			continue
		}
		if v := g.now.Load().git; v.closes(filepath.ToSlash(rel)) {
			out.Rule, out.Why = sandbox.DeniedByGit, "it keeps content of closed files"
			return out, !v.current() || !v.there[rel]
		}
		if r, ok := g.now.Load().protection.Protects(filepath.ToSlash(rel)); ok {
			out.Rule, out.Why = r.Name(), r.Why
			if !r.Fixed {
				out.Allow = r.Entry()
			}
			return out, true
		}
		if strings.HasPrefix(d.Operation, "rename") || strings.HasPrefix(d.Operation, "symlink") {
			out.Rule, out.Why = "directories with protected files", "a directory or link there could become a protected one"
		}
	}
	if rel, ok := strings.CutPrefix(d.Path, c.gitStore+"/"); ok && c.gitStore != "" {
		if isLeftOut(rel) && c.guarded[0].now.Load().git.current() {
			out.Rule, out.Why = sandbox.HiddenByGit, "it is content of closed files"
			return out, !c.hidden.Swap(true)
		}
		out.Rule, out.Why = sandbox.DeniedByGit, "it was made by rules that have changed"
		return out, !c.guarded[0].now.Load().git.current()
	}
	return out, true
}
