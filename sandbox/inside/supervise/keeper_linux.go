package supervise

import (
	"cmp"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/ignore"
)

// How long and how far closed looks.
const (
	closedTime     = time.Second
	closedExamples = 5
)

// project is the directory that relative paths begin in.
func (c *closure) project() string { return cmp.Or(c.place, c.guarded[0].tree) }

// roots are the directories that somebody works in, without those in others.
func (c *closure) roots() (dirs []string) {
	var all []string
	for _, g := range c.guarded {
		if g.root && !slices.Contains(all, g.tree) {
			all = append(all, g.tree)
		}
	}
	for _, dir := range all {
		if !slices.ContainsFunc(all, func(other string) bool { return other != dir && isIn(dir, other) }) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// nameIn is a path as people and the host know it: relative to the project, if it is in it.
func nameIn(project, path string) string {
	if rel, err := filepath.Rel(project, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// placeIn is the path of such a name.
func placeIn(project, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(project, name)
}

// ignored reports whether the rules of any tree close a path.
func (c *closure) ignored(path string, dir bool) bool {
	for i, g := range c.guarded {
		if isIn(path, g.tree) && c.sets[i].Ignored(path, dir) {
			return true
		}
		if rels := below(g.tree, path); len(rels) > 0 && g.now.Load().isLinked(rels[0]) {
			return true
		}
	}
	return false
}

// closed implements keeper.
func (c *closure) closed() (found sandbox.ClosedFiles) {
	begin := time.Now()
	found.Default = !slices.ContainsFunc(c.sets, func(s *ignore.Set) bool { return !s.Default() })
	for _, root := range c.roots() {
		if !slices.ContainsFunc(c.guarded, func(g guarded) bool { return g.tree == root && g.isGit }) {
			c.closedIn(root, begin, &found)
		}
	}
	return found
}

// closedIn adds what is closed in a directory.
func (c *closure) closedIn(root string, begin time.Time, found *sandbox.ClosedFiles) {
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case path == root || err != nil:
			return nil // what cannot be looked at cannot be read inside either
		case time.Since(begin) > closedTime:
			found.Partial = true
			return fs.SkipAll
		case d.Name() == ".git" && d.IsDir():
			return fs.SkipDir
		case !c.ignored(path, d.IsDir()):
			return nil
		}
		found.Count++
		if len(found.Examples) < closedExamples {
			found.Examples = append(found.Examples, nameIn(c.project(), path))
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}

// judge implements keeper.
func (c *closure) judge(paths []string) []bool {
	out := make([]bool, len(paths))
	for i, name := range paths {
		out[i] = c.ignored(placeIn(c.project(), name), false)
	}
	return out
}

// ownRules implements keeper.
func (c *closure) ownRules(text string, there bool) {
	c.own.Set(text, there)
	for _, set := range c.sets {
		set.Refresh()
	}
}
