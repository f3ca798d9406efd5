package supervise

import (
	"io/fs"
	"path/filepath"
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
