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
	"gander.dev/gander/sandbox/inside/enforce"
	"gander.dev/gander/sandbox/rules/policy"
)

// guarded is a tree with what is protected in it.
type guarded struct {
	tree  string
	root  bool             // see Rules.Roots
	isGit bool             // the tree is a git directory
	git   policy.GitPlaces // guarded by closure.naming
	now   *atomic.Pointer[treePolicy]
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
	whole, above := c.partLinks(known.links)
	ends, on, err := c.linked(r, whole)
	if err != nil {
		return found, err
	}
	closed, onClosed, err := c.linked(r, known.closedLinks)
	if err != nil {
		return found, err
	}
	beyond, onAbove := c.beyond(r, above)
	linked := slices.Concat(ends, on, closed, onClosed, onAbove)
	for i := range c.guarded {
		tree := c.guarded[i].tree
		c.guarded[i].closeLinked(below(tree, closed...))
		more := policy.GitPlaces{Dirs: r.dirsIn(tree), Works: below(tree, r.works...), Files: below(tree, r.named...), Linked: below(tree, linked...), Beyond: beyond[tree]}
		if err := c.protectPlaces(&c.guarded[i], more); err != nil {
			return found, err
		}
	}
	return atMost(known.repositories, false), cmp.Or(unknown, r.err)
}

// partLinks parts links that are protected, or where git writes, from those that others are
// only below.
func (c *closure) partLinks(links []string) (whole []string, above map[string][]string) {
	above = map[string][]string{}
	for _, link := range links {
		for _, g := range c.guarded {
			for _, rel := range below(g.tree, link) {
				p := g.now.Load().protection
				patterns, part := p.Inside(rel)
				if _, ok := p.Protects(rel); ok || !part {
					whole = append(whole, link)
					continue
				}
				above[link] = append(above[link], patterns...)
			}
		}
	}
	return whole, above
}

// beyond are the patterns of what is protected where links lead to that it is below, by tree,
// and the links on the way.
func (c *closure) beyond(r *gitReader, above map[string][]string) (patterns map[string][]string, on []string) {
	patterns = map[string][]string{}
	for link, inside := range above {
		to, ok := c.leadsTo(r, link, &on)
		for _, g := range c.guarded {
			if !ok || !isIn(to, g.tree) {
				continue
			}
			for _, p := range inside {
				r.linked(filepath.Join(to, p))
				patterns[g.tree] = append(patterns[g.tree], policy.Anchor(nameIn(g.tree, to), p))
			}
		}
	}
	return patterns, on
}

// leadsTo is where a link leads to, if that is in a tree, and adds the links on the way.
func (c *closure) leadsTo(r *gitReader, link string, on *[]string) (string, bool) {
	to, ok := r.follow(link, func(link string) { *on = append(*on, link) })
	if !ok { // by another name of a directory, perhaps
		var err error
		to, err = filepath.EvalSymlinks(link)
		ok = err == nil && slices.ContainsFunc(c.guarded, func(g guarded) bool { return isIn(to, g.tree) })
	}
	return to, ok
}

// linked are where some links lead to, and the links on the way.
func (c *closure) linked(r *gitReader, links []string) (ends, on []string, err error) {
	for _, link := range links {
		to, ok := c.leadsTo(r, link, &on)
		if !ok {
			continue
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
	add := func(all *[]string, more []string) (added bool) {
		before := len(*all)
		known := map[string]bool{}
		for _, rel := range *all {
			known[rel] = true
		}
		for _, rel := range more {
			if !known[rel] {
				*all, known[rel] = append(*all, rel), true
			}
		}
		return len(*all) > before
	}
	git := &g.git
	added := []bool{add(&git.Dirs, more.Dirs), add(&git.Works, more.Works), add(&git.Files, more.Files), add(&git.Linked, more.Linked), add(&git.Beyond, more.Beyond)}
	switch {
	case len(git.Files)+len(git.Linked)+len(git.Beyond) > maxGitNamed:
		return errNamed
	case !slices.Contains(added, true):
		return nil
	}
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

// touched implements keeper.
func (c *closure) touched(paths []string) ([]bool, error) {
	touched, known := c.guard.Touched(paths)
	if !known {
		return nil, errTouchedTooMuch
	}
	return touched, nil
}

// closedBy says what closes a path of a tree; empty when nothing does.
func (c *closure) closedBy(tree int, path string) string {
	for _, dir := range []bool{false, true} {
		if d := c.sets[tree].Explain(path, dir); d.Ignored {
			d.Rule.File = nameIn(c.project(), d.Rule.File)
			return d.Rule.By(d.Path)
		}
	}
	return ""
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
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		if by := c.closedBy(i, d.Path); by != "" {
			out.By = by
			continue
		}
		if v := g.now.Load().git; v.closes(filepath.ToSlash(rel)) {
			out.Rule, out.Why = sandbox.DeniedByGit, "it keeps content of closed files"
			return out, !v.current() || !v.there[rel]
		}
		if r, ok := g.now.Load().protection.Protects(filepath.ToSlash(rel)); ok {
			if d.Operation == "rmdir" && r.Pattern == ".git" {
				return out, false // git tries it wherever a directory becomes empty, and at the top
			}
			out.Rule, out.Why = r.Name(), r.Why
			if d.Reason != "" {
				out.Why = d.Reason
			}
			if !r.Fixed {
				out.Allow = r.Entry()
			}
			return out, true
		}
		if why := g.now.Load().keeps(filepath.ToSlash(rel)); why != "" {
			out.Rule, out.Why = sandbox.DeniedByPlace, why
			out.Setting = sandbox.NoSandbox
			if len(g.now.Load().narrow) > 0 {
				out.Setting = sandbox.WholeRepository
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
