package analyze

import (
	"path/filepath"

	"gander.dev/gander/developer/files"
	"gander.dev/gander/sandbox/rules/ignore"
)

// gitIgnore leaves out of a walk what a project keeps out of git: what was built,
// downloaded or generated. It is a courtesy to the reader, not a rule about access.
type gitIgnore struct {
	space *files.Space
	// top is the outermost directory whose .gitignore counts.
	top   string
	rules map[string]*ignore.Matcher // by directory; nil for none
}

// newGitIgnore is for walks of base. Rules from further up count when base is in a
// repository, unless they hide base itself: who asks for it gets it.
func newGitIgnore(space *files.Space, base string) *gitIgnore {
	g := &gitIgnore{space: space, top: base, rules: map[string]*ignore.Matcher{}}
	for dir := base; ; dir = filepath.Dir(dir) {
		if _, err := space.Stat(filepath.Join(dir, ".git")); err == nil {
			g.top = dir
			break
		}
		if dir == filepath.Dir(dir) {
			return g
		}
	}
	if base != g.top && g.hides(base, true) {
		g.top = base
	}
	return g
}

// hides asks the rules of the directories around a path; the innermost with an
// opinion decides.
func (g *gitIgnore) hides(path string, dir bool) bool {
	for at := filepath.Dir(path); ; at = filepath.Dir(at) {
		if m := g.in(at); m != nil {
			rel, err := filepath.Rel(at, path)
			if err != nil {
				return false
			}
			if d := m.Explain(filepath.ToSlash(rel), dir); d.Rule != (ignore.Rule{}) {
				return d.Ignored
			}
		}
		if at == g.top || at == filepath.Dir(at) {
			return false
		}
	}
}

func (g *gitIgnore) in(dir string) *ignore.Matcher {
	const limit = 1 << 20
	m, known := g.rules[dir]
	if !known {
		if text, _, err := g.space.ReadFile(filepath.Join(dir, ".gitignore"), limit); err == nil {
			m = ignore.Compile([]ignore.Source{{File: ".gitignore", Text: string(text)}}, ignore.Options{})
		}
		g.rules[dir] = m
	}
	return m
}
