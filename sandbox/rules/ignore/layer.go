package ignore

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// A layer holds the rules that are relative to one directory, in order.
type layer struct {
	base  string // the directory, "" for the root
	rules []*rule

	names map[string][]int // rules that are exactly one name, by name; ascending
	paths map[string][]int // and those that are exactly one path below base
	rest  []int            // the others, descending
	slow  bool             // some of them are expressions
	// placed says that some rules look at more than the name of a file.
	placed bool
	// ways are the rules' paths up to each of their slashes; false when they are too many.
	ways func() ([]*rule, bool)
}

func newLayer(base string, rules []*rule) *layer {
	l := &layer{base: base, rules: rules, names: map[string][]int{}, paths: map[string][]int{}}
	for i, r := range rules {
		l.placed = l.placed || !r.basename
		switch {
		case r.how == exactly && r.basename:
			l.names[r.text] = append(l.names[r.text], i)
		case r.how == exactly:
			l.paths[r.text] = append(l.paths[r.text], i)
		default:
			l.rest = append(l.rest, i)
			l.slow = l.slow || r.how == byLibrary
		}
	}
	slices.Reverse(l.rest)
	l.ways = sync.OnceValues(func() ([]*rule, bool) { return ways(rules) })
	return l
}

// ways are paths of directories that rules name on the way to what they hide.
func ways(rules []*rule) (found []*rule, ok bool) {
	size := 0
	for _, r := range rules {
		for i, t := range r.tokens {
			if t.kind == literal && t.lit == '/' && i > 0 && !r.basename && !r.negative {
				way := r.pattern
				way.tokens = r.tokens[:i]
				found = append(found, newRule(r.Rule, way))
				size += found[len(found)-1].size()
			}
		}
		if size > maxRulesSize {
			return nil, false
		}
	}
	return found, true
}

// leads reports whether a directory at a path is on the way to what a rule hides, or that
// this takes too long to tell. The path is below the layer's directory.
func (l *layer) leads(rel string) bool {
	if l == nil {
		return false
	}
	if l.base != "" {
		rel = rel[len(l.base)+1:]
	}
	ways, ok := l.ways()
	var w work
	s := subject{plain: rel}
	return !ok || slices.ContainsFunc(ways, func(r *rule) bool { return r.matches(&s, &w) || w.tooMuch() })
}

// last is the last rule that matches a path itself, nil when there is none. The
// path is below the layer's directory. A nil layer has no rules.
func (l *layer) last(rel string, dir bool, w *work) *rule {
	if l == nil {
		return nil
	}
	if l.base != "" {
		rel = rel[len(l.base)+1:]
	}
	name := rel[strings.LastIndexByte(rel, '/')+1:]
	best := l.best(l.names[name], dir)
	if len(l.paths) > 0 {
		best = max(best, l.best(l.paths[rel], dir))
	}
	byName, byPath := subject{plain: name}, subject{plain: rel}
	for _, i := range l.rest {
		r := l.rules[i]
		if i < best {
			break
		}
		s := &byPath
		if r.basename {
			s = &byName
		}
		matches := (dir || !r.dirOnly) && r.matches(s, w)
		if w.tooMuch() {
			return tooMuchWork(r)
		}
		if matches {
			return r
		}
	}
	if best < 0 {
		return nil
	}
	return l.rules[best]
}

// best is the last of some rules that holds for the kind of file, or -1.
func (l *layer) best(candidates []int, dir bool) int {
	for _, i := range slices.Backward(candidates) {
		if dir || !l.rules[i].dirOnly {
			return i
		}
	}
	return -1
}

// clean makes of a relative path what the layers compare.
func (o Options) clean(rel string) string {
	if o.WindowsNames {
		rel = windowsName(rel)
	}
	if o.wide {
		rel = foldWide(rel)
	}
	if o.FoldCase {
		rel = foldASCII(rel)
	}
	if strings.Contains(rel, "//") || strings.HasSuffix(rel, "/") || strings.HasPrefix(rel, ".") {
		rel = path.Clean(rel)
	}
	if rel == "." {
		return ""
	}
	return rel
}
