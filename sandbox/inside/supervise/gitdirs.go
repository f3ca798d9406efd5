package supervise

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gander.dev/gander/sandbox/rules/policy"
)

// Protection are the files of a tree, by its path without links, that nothing in a
// sandbox may write, with those that git uses under names of its own choice in this tree.
// Of the repositories below it those count that the path toward, relative to it, is in.
func Protection(tree, toward string, w policy.Writes) (*policy.Protection, error) {
	git, err := gitPlaces(tree, toward)
	if err != nil {
		return nil, err
	}
	p, err := policy.NewProtection(w, git)
	if err != nil {
		return nil, fmt.Errorf("protecting files of %s: %w", tree, err)
	}
	return p, nil
}

// gitPlaces are directories and files of a tree that git takes its configuration or
// hooks from, or runs, although their names do not say so: where .git leads to as a
// link or a file, the tree itself when it is a bare repository, and what the
// configuration names, of the tree's own repository and of those that a path in it is
// in. Git itself is not asked, and nothing outside of the tree is read. With an error
// there may be more.
func gitPlaces(tree, toward string) (found policy.GitPlaces, err error) {
	g, err := openGit(tree)
	if err != nil {
		return found, fmt.Errorf("reading git's configuration in %s: %w", tree, err)
	}
	defer g.close()
	g.repository(g.gitDir(tree), tree)
	if g.has(tree, "HEAD") && g.has(tree, "objects") && g.has(tree, "refs") {
		g.repository(tree, tree)
		found.Dirs = append(found.Dirs, "")
	}
	for at := filepath.Dir(toward); at != "."; at = filepath.Dir(at) {
		if work := filepath.Join(tree, at); g.has(work, ".git") {
			g.repository(g.gitDir(work), work)
		}
	}
	entry, _ := g.real(filepath.Join(tree, ".git"))
	found.Dirs = append(found.Dirs, below(tree, entry)...)
	found.Dirs = slices.DeleteFunc(append(found.Dirs, g.dirsIn(tree)...), isByName)
	slices.Sort(found.Dirs)
	found.Dirs = slices.Compact(found.Dirs)
	found.Works, found.Files = below(tree, g.works...), below(tree, g.named...)
	if g.err != nil {
		return found, fmt.Errorf("reading git's configuration: %w", g.err)
	}
	return found, nil
}

// dirsIn are the git directories in a tree that have work trees and are not known by their
// names, relative to it.
func (g *gitReader) dirsIn(tree string) []string {
	var paths []string
	for _, dir := range g.dirs {
		real, _ := g.real(dir)
		paths = append(paths, dir, real)
	}
	return slices.DeleteFunc(below(tree, paths...), isByName)
}

// isByName reports whether a path is that of a git directory by its name: ".git", or one of
// those for submodules and work trees in it.
func isByName(rel string) bool {
	names := strings.Split(rel, "/")
	i := slices.Index(names, ".git")
	return i >= 0 && (i == len(names)-1 || names[i+1] == "modules" || names[i+1] == "worktrees")
}

// below are those of some paths that are in a tree, relative to it, each once.
func below(tree string, paths ...string) (rels []string) {
	seen := map[string]bool{}
	for _, path := range paths {
		rel, err := filepath.Rel(tree, path)
		if rel = filepath.ToSlash(rel); err == nil && rel != "." && filepath.IsLocal(rel) && !seen[rel] {
			seen[rel] = true
			rels = append(rels, rel)
		}
	}
	return rels
}

// from is a path of git's, which may be relative to a directory. A home is taken for
// the one that the directory is in, whose name it has then: a sandbox does not know it.
func from(dir, path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		for i := range rest {
			if rest[i] == '/' && strings.HasSuffix(filepath.ToSlash(dir), "/"+rest[:i]) {
				return filepath.Join(dir, rest[i:])
			}
		}
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
