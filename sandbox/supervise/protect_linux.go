package supervise

import (
	"path/filepath"
	"strings"
	"sync/atomic"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/enforce"
	"gander.dev/gander/sandbox/policy"
)

// guarded is a tree with what is protected in it.
type guarded struct {
	tree       string
	root       bool // see Rules.Roots
	protection *policy.Protection
	now        *atomic.Pointer[treePolicy]
}

// explain adds to a denial the rule that it is by. Git tries all its files, those that
// there is another store in the place of, too: tell is false for these.
func (c *closure) explain(d enforce.Denial) (out sandbox.Denial, tell bool) {
	out = sandbox.Denial{Operation: d.Operation, Path: d.Path, PID: d.PID}
	for i, g := range c.guarded {
		rel, err := filepath.Rel(g.tree, d.Path)
		if err != nil || !filepath.IsLocal(rel) || c.sets[i].Ignored(d.Path, false) || c.sets[i].Ignored(d.Path, true) {
			continue
		}
		if v := g.now.Load().git; v.closes(filepath.ToSlash(rel)) {
			out.Rule, out.Why = sandbox.DeniedByGit, "it keeps content of closed files"
			return out, !v.current() || !v.there[rel]
		}
		if r, ok := g.protection.Protects(filepath.ToSlash(rel)); ok {
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
	if _, ok := strings.CutPrefix(d.Path, c.gitStore+"/"); ok && c.gitStore != "" {
		out.Rule, out.Why = sandbox.DeniedByGit, "it was made by rules that have changed"
		return out, !c.guarded[0].now.Load().git.current()
	}
	return out, true
}
