package supervise

import (
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"gander.dev/gander/sandbox"
)

// How long and how far closed looks.
const (
	closedTime     = time.Second
	closedExamples = 5
)

// closed implements keeper. It counts in the project, which is the first tree.
func (c *closure) closed() (found sandbox.ClosedFiles) {
	tree, set, begin := c.guarded[0].tree, c.sets[0], time.Now()
	_ = filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		switch {
		case path == tree || err != nil:
			return nil // what cannot be looked at cannot be read inside either
		case time.Since(begin) > closedTime:
			found.Partial = true
			return fs.SkipAll
		case d.Name() == ".git" && d.IsDir():
			return fs.SkipDir
		case !set.Ignored(path, d.IsDir()):
			return nil
		}
		found.Count++
		if rel, err := filepath.Rel(tree, path); err == nil && len(found.Examples) < closedExamples {
			found.Examples = append(found.Examples, rel)
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return found
}

// judge implements keeper.
func (c *closure) judge(paths []string) []bool {
	out := make([]bool, len(paths))
	for i, rel := range paths {
		out[i] = filepath.IsLocal(rel) && c.sets[0].Ignored(filepath.Join(c.guarded[0].tree, rel), false)
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

// gitObjects are files of git's object stores that are closed, relative to a tree.
type gitObjects struct{ files map[string]bool }

// closes reports whether a file is one of them. Sets of objects that git makes of
// them anew hold what could be read.
func (o *gitObjects) closes(rel string) bool { return o != nil && o.files[rel] }

// closeGit implements keeper.
func (c *closure) closeGit() error {
	for _, g := range c.guarded {
		o := &gitObjects{files: map[string]bool{}}
		err := filepath.WalkDir(g.tree, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if rel, err := filepath.Rel(g.tree, path); err == nil && isObject(rel) {
				o.files[rel] = true
			}
			return nil
		})
		if err != nil {
			return err
		}
		renew(g.now, func(p *treePolicy) { p.git = o })
	}
	return nil
}

// isObject reports whether a path is a pack or an object of git's by its name,
// wherever it is: a store may be anywhere.
func isObject(rel string) bool {
	dir, name := filepath.Split(rel)
	switch {
	case strings.HasSuffix(name, ".pack"):
		return true
	case len(name) != 38 && len(name) != 62: // of SHA-1 and SHA-256, without the directory
		return false
	}
	dir = filepath.Base(dir)
	return len(dir) == 2 && strings.Trim(dir+name, "0123456789abcdef") == ""
}
