package ignore

import (
	"slices"
	"strings"
)

// A Matcher is compiled rules. The zero value hides nothing.
type Matcher struct {
	o        Options
	root     *layer            // nil without rules there
	nested   map[string]*layer // those of the directories below, by path
	slow     bool              // some rules are expressions, so verdicts are kept
	outside  *layer            // the rules that hold outside of the root
	anywhere *layer            // those of them that hold with what is in a directory
	problems []Problem
	// wide is the same rules where case is folded in all scripts; nil where it is
	// not. Both have to let a file pass: what a file system takes for the same name
	// is not known that well, and a line with "!" must not reach too far.
	wide *Matcher

	directories *cache[verdict]
	files       *cache[verdict]
}

// Compile makes a Matcher of rules files. Later ones win, those of deeper
// directories over all others. Problems are for people; they never stop it.
func Compile(sources []Source, o Options) *Matcher {
	return assemble(compileAll(sources, o, dialect{fold: o.FoldCase}), o)
}

func compileAll(sources []Source, o Options, d dialect) []*compiled {
	var all []*compiled
	for _, s := range sources {
		all = append(all, compileSource(s, o, d))
	}
	return all
}

// compiled is a rules file, made once and used by many Matchers.
type compiled struct {
	dir        string
	everywhere bool
	rules      []*rule
	problems   []Problem
	size       int    // what the rules take, beside that of others: see [rule.size]
	tooMany    bool   // rules, or too large ones; the rest of the file was not read
	alone      *layer // the rules, when no other file shares the directory
	wide       *compiled
}

// maxRules bounds the rules of one file, and maxRulesSize their size.
const (
	maxRules     = 50_000
	maxRulesSize = 2 * maxSize
)

func compileSource(s Source, o Options, d dialect) *compiled {
	c := &compiled{dir: o.clean(s.Dir), everywhere: s.Everywhere}
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(s.Text, "\ufeff")) {
		n++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		rules, problems := compileLine(Rule{File: s.File, Line: n, Text: line}, d)
		c.rules = append(c.rules, rules...)
		c.problems = append(c.problems, problems...)
		for _, r := range rules {
			c.size += r.size()
		}
		if c.tooMany = len(c.rules) > maxRules || c.size > maxRulesSize; c.tooMany {
			break
		}
	}
	c.alone = newLayer(c.dir, c.rules)
	if d.fold && !d.wide && !d.exact {
		o.wide, d.wide = true, true
		c.wide = compileSource(s, o, d)
	}
	return c
}

// assemble makes the Matcher of files in their order.
func assemble(files []*compiled, o Options) *Matcher {
	m := &Matcher{o: o, nested: map[string]*layer{}, directories: newCache[verdict](), files: newCache[verdict]()}
	var outside, anywhere []*rule
	for _, f := range files {
		m.problems = append(m.problems, f.problems...)
		m.slow = m.slow || f.alone.slow
		switch have := m.nested[f.dir]; {
		case len(f.rules) == 0:
		case have == nil:
			m.nested[f.dir] = f.alone
		default:
			m.nested[f.dir] = newLayer(f.dir, slices.Concat(have.rules, f.rules))
		}
		if f.dir == "" {
			outside = append(outside, floating(f.rules)...)
		}
		if f.everywhere {
			anywhere = append(anywhere, floating(f.rules)...)
		}
	}
	m.root = m.nested[""]
	delete(m.nested, "")
	m.outside, m.anywhere = newLayer("", outside), newLayer("", anywhere)
	if o.FoldCase && !o.wide {
		m.wide = assembleWide(files, o)
	}
	return m
}

func assembleWide(files []*compiled, o Options) *Matcher {
	var wide []*compiled
	for _, f := range files {
		if f.wide != nil {
			wide = append(wide, f.wide)
		}
	}
	o.wide = true
	return assemble(wide, o)
}

// floating are the rules that are not tied to a place.
func floating(rules []*rule) []*rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r *rule) bool { return !r.floats() })
}
