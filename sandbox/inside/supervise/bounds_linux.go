package supervise

import (
	"slices"
	"strings"
)

// treeBounds say which part of a tree may be written at all.
type treeBounds struct {
	// narrow are the directories of the tree that may be; empty is all of it.
	narrow []string
	// isGit says that the tree is a git directory, and own which directory of it is that of the
	// work tree that is shown: "." where nobody else has one.
	isGit bool
	own   string
}

// bounded reports whether there is anything that may not.
func (b treeBounds) bounded() bool { return len(b.narrow) > 0 || b.own != "." }

// shared are the entries of a git directory that all of its work trees write.
func shared() []string {
	return []string{
		"objects", "refs", "logs", "packed-refs", "packed-refs.lock", "packed-refs.new", "shallow", "shallow.lock", "info", "lfs", "rr-cache",
		"svn", "reftable", "gc.pid", "gc.pid.lock", "gc.log", "gc.log.lock", "worktrees", "hooks", "config", "config.lock",
	}
}

// keeps says why an entry can only be read; empty where it may be written, as far as that
// depends on where it is.
func (b treeBounds) keeps(rel string) string {
	under := func(dir string) bool { return rel == dir || strings.HasPrefix(rel, dir+"/") }
	switch first, rest, _ := strings.Cut(rel, "/"); {
	case len(b.narrow) > 0 && !slices.ContainsFunc(b.narrow, under):
		return "it is in the repository that the project is a directory of, outside of the project"
	case b.own == ".", under(b.own):
		return ""
	case !slices.Contains(shared(), first), first == "worktrees" && rest != "", slices.ContainsFunc([]string{"logs/HEAD", "info/sparse-checkout", "refs/bisect", "refs/rewritten", "refs/worktree"}, under):
		return "it belongs to another work tree of the repository, and a sandbox of that one or of the main one may write it"
	}
	return ""
}
