package ignore

import (
	"slices"
	"strings"
)

// A Decision is what the rules say about a file, and why.
type Decision struct {
	Ignored bool
	// Rule is the line that decided; the zero value when none matched.
	Rule Rule
	// Path is what it matched: the file, or a directory that it is in. Relative
	// to the root, or absolute for a file outside.
	Path string
}

// Ignored says whether a file of the root is hidden. rel is its path from the
// root, slash-separated and clean; dir says that it is a directory. The root
// itself is not hidden.
func (m *Matcher) Ignored(rel string, dir bool) bool { return m.Explain(rel, dir).Ignored }

// Explain says whether a file is hidden, and by which line.
func (m *Matcher) Explain(rel string, dir bool) Decision {
	v := m.explain(rel, dir)
	if !v.Ignored && m.wide != nil {
		if wide := m.wide.explain(rel, dir); wide.Ignored {
			return wide.Decision
		}
	}
	return v.Decision
}

// A verdict is a decision and what it took.
type verdict struct {
	Decision
	work work // for the directories above, too
}

func (m *Matcher) explain(rel string, dir bool) verdict {
	rel = m.o.clean(rel)
	switch {
	case rel == "" || m.empty():
		return verdict{}
	case rel == ".." || strings.HasPrefix(rel, "../") || strings.Contains(rel, end):
		return verdict{Decision: Decision{Ignored: true, Path: rel}} // not a path of the root at all
	case dir:
		return m.remember(m.directories, rel, true)
	case m.slow:
		return m.remember(m.files, rel, false)
	}
	return m.decide(rel, false)
}

func (m *Matcher) empty() bool { return m.root == nil && len(m.nested) == 0 }

func (m *Matcher) remember(verdicts *cache[verdict], rel string, dir bool) verdict {
	if v, ok := verdicts.get(rel); ok {
		return v
	}
	v := m.decide(rel, dir)
	verdicts.put(rel, v)
	return v
}

// decide asks for the directory first: what is in a hidden one is hidden.
func (m *Matcher) decide(rel string, dir bool) verdict {
	var above verdict
	if i := strings.LastIndexByte(rel, '/'); i >= 0 {
		if above = m.remember(m.directories, rel[:i], true); above.Ignored {
			return above
		}
	}
	return m.own(rel, dir, above.work)
}

// own is what the rules say about a path itself, as if it were in no directory:
// the deepest rules file with a word to say decides. The work of its directories is added to.
func (m *Matcher) own(rel string, dir bool, w work) verdict {
	var r *rule
	if len(m.nested) > 0 {
		for at := parent(rel); at != "" && r == nil; at = parent(at) {
			r = m.nested[at].last(rel, dir, &w)
		}
	}
	if r == nil {
		r = m.root.last(rel, dir, &w)
	}
	return verdict{r.decision(rel), w}
}

// parent is the directory that a path is in, "" at the top.
func parent(rel string) string { return rel[:max(strings.LastIndexByte(rel, '/'), 0)] }

// decision is what the last rule that matches means; nil is none.
func (r *rule) decision(path string) Decision {
	if r == nil {
		return Decision{}
	}
	return Decision{Ignored: !r.negative, Rule: r.Rule, Path: path}
}

// Leads reports whether rules name a directory of the root, by its path, on the way to
// something that they hide: what is hidden depends on its path there.
func (m *Matcher) Leads(rel string) bool {
	rel = m.o.clean(rel)
	for at := parent(rel); at != ""; at = parent(at) {
		if m.nested[at].leads(rel) {
			return true
		}
	}
	return rel != "" && m.root.leads(rel)
}

// A Listing decides about the entries of one directory.
type Listing struct {
	m     *Matcher
	rel   string
	above verdict // about the directory
	wide  *Listing
}

// In is for deciding about all that is in a directory, which is cheaper than to
// ask for every path. rel is as for [Matcher.Ignored]; "" is the root.
func (m *Matcher) In(rel string) Listing {
	l := Listing{m: m, rel: m.o.clean(rel), above: m.explain(rel, true)}
	if m.wide != nil {
		wide := m.wide.In(rel)
		l.wide = &wide
	}
	return l
}

// Ignored says whether an entry of the directory is hidden.
func (l Listing) Ignored(name string, dir bool) bool {
	if l.above.Ignored || l.wide != nil && l.wide.Ignored(name, dir) {
		return true
	}
	if l.m.empty() {
		return false
	}
	name = l.m.o.clean(name)
	if l.rel != "" && l.m.placed() {
		name = l.rel + "/" + name
	}
	return l.m.own(name, dir, l.above.work).Ignored
}

// placed says that more than the name of a file decides.
func (m *Matcher) placed() bool { return len(m.nested) > 0 || m.root.placed }

// Outside says whether a file outside of the root is hidden. abs is absolute,
// slash-separated and clean. Lines that are tied to a place hold in the root
// only; those of the root's own file hide what matches itself, so that a project's
// "bin/" does not hide the system's programs.
func (m *Matcher) Outside(abs string, dir bool) Decision {
	d := m.outOfRoot(abs, dir)
	if !d.Ignored && m.wide != nil {
		if w := m.wide.outOfRoot(abs, dir); w.Ignored {
			return w
		}
	}
	return d
}

func (m *Matcher) outOfRoot(abs string, dir bool) Decision {
	rel := m.o.clean(strings.TrimLeft(abs, "/"))
	if rel == "" || m.empty() {
		return Decision{}
	}
	var w work
	for i := range len(rel) {
		if rel[i] != '/' {
			continue
		}
		if d := m.anywhere.last(rel[:i], true, &w).decision("/" + rel[:i]); d.Ignored {
			return d
		}
	}
	return m.outside.last(rel, dir, &w).decision("/" + rel)
}

// BasenameOnly says that whether a file is hidden depends only on the names of
// itself and its directories, not on where they are: a directory that is not
// hidden before and after it was renamed hides the same files.
func (m *Matcher) BasenameOnly() bool { return m.empty() || !m.placed() }

// Problems are the lines that do not mean what they seem to.
func (m *Matcher) Problems() []Problem { return slices.Clone(m.problems) }
