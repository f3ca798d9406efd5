package ignore

import (
	"io/fs"
	"path/filepath"
	"strings"
)

// Tightens says whether a rules file may become this without hiding less: rules
// that hide are added anywhere, and rules that bring back are removed. It may say
// no to a change that hides no less; it never says yes to one that does.
func Tightens(before, after string) bool {
	old := ruleLines(before)
	for _, line := range ruleLines(after) {
		for len(old) > 0 && old[0] != line && strings.HasPrefix(old[0], "!") {
			old = old[1:] // removed
		}
		switch {
		case len(old) > 0 && old[0] == line:
			old = old[1:]
		case strings.HasPrefix(line, "!"):
			return false
		}
	}
	for _, line := range old {
		if !strings.HasPrefix(line, "!") {
			return false
		}
	}
	return true
}

// ruleLines are the lines that hold a rule.
func ruleLines(text string) []string {
	var lines []string
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if p, ok := parsePattern(line); ok && p.glob != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// Loosens says that a rules file of this Set, the person's own and those behind
// links included, would hide less with this text than it does, or that this cannot
// be told. abs is the file's path without links; of a file that holds no rules of
// this Set it says false.
func (s *Set) Loosens(abs, text string) bool {
	dir, named := "", false
	for _, root := range s.roots {
		if rel, ok := s.below(abs, root); ok && !named {
			dir, named = parent(rel), fold(filepath.Base(abs)) == FileName
		}
	}
	s.current(dir)
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, f := range s.all() {
		if f.leadsTo(abs) {
			return f.loosens(text)
		}
	}
	if !named {
		return false
	}
	switch f := s.files[dir]; {
	case f == nil, dir == "" && !f.there && s.global.there:
		return !Tightens("", text)
	default:
		return f.loosens(text)
	}
}

// leadsTo says that a rules file is a link, or the person's own, and this is where
// its text is.
func (f *rulesFile) leadsTo(abs string) bool {
	if !f.global && f.mode&fs.ModeSymlink == 0 || f.path == "" {
		return false
	}
	if f.path == abs {
		return true
	}
	real, err := filepath.EvalSymlinks(f.path)
	return err == nil && real == abs
}

// loosens compares with what the file itself says now.
func (f *rulesFile) loosens(text string) bool {
	return f.err != nil || !Tightens(f.meaning(f.reading), text)
}
