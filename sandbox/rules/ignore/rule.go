package ignore

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"sync"
)

// A Rule is a line of a rules file, for explanations.
type Rule struct {
	// File is the name of the rules file as its [Source] gives it, Line counts
	// from 1. The built-in rules have no file, and line 0 is for a rule that stands
	// for a whole file.
	File string
	Line int
	// Text is the line itself.
	Text string
}

// String is "file:line: text", the way compilers and editors write places.
func (r Rule) String() string {
	if r.File == "" {
		return "built-in rule: " + r.Text
	}
	return fmt.Sprintf("%s:%d: %s", r.File, r.Line, r.Text)
}

// By says in a few words what closes a file, and where that is a built-in rule, what opens it.
func (r Rule) By(file string) string {
	switch {
	case r.File == "":
		return fmt.Sprintf("gander's default rules; `!%s` in %s opens it, and that file takes the place of these rules", path.Base(filepath.ToSlash(file)), FileName)
	case r.Line == 0:
		return r.File
	}
	return fmt.Sprintf("%s, line %d", r.File, r.Line)
}

// A Problem is a line that does not mean what it seems to. The line still hides
// at least what git would let it hide.
type Problem struct {
	Rule
	Message string
}

func (p Problem) String() string { return p.Rule.String() + ": " + p.Message }

// A matcher of one pattern. Most patterns are plain names, prefixes and suffixes,
// which need no expression.
type rule struct {
	Rule
	pattern
	how  how
	text string         // what the name or path is compared with
	runs []string       // of an expression: the texts that must be there, in this order
	lib  func() library // compiled at its first use
}

type how uint8

const (
	exactly how = iota
	hasPrefix
	hasSuffix
	byLibrary
)

func newRule(r Rule, p pattern) *rule {
	c := &rule{Rule: r, pattern: p}
	if c.how, c.text = classify(p); c.how == byLibrary {
		c.runs = literalRuns(p.tokens)
	}
	c.lib = sync.OnceValue(func() library { return newLibrary(p) })
	return c
}

// size is about what a rule takes of memory, in the bytes of a plain line that would take as
// much: an expression needs some 300 bytes for each of its elements, a plain byte some 30, and
// the rule itself some 300.
func (r *rule) size() int {
	if r.how == byLibrary {
		return 10 + 10*len(r.tokens)
	}
	return 10 + len(r.tokens)
}

// classify finds the patterns that are compared without an expression.
func classify(p pattern) (how, string) {
	if text, ok := literalTokens(p.tokens); ok {
		return exactly, text
	}
	if last := len(p.tokens) - 1; p.basename && last > 0 {
		if text, ok := literalTokens(p.tokens[1:]); ok && p.tokens[0].kind == star {
			return hasSuffix, text
		}
		if text, ok := literalTokens(p.tokens[:last]); ok && p.tokens[last].kind == star {
			return hasPrefix, text
		}
	}
	return byLibrary, ""
}

// literalRuns are the plain texts between the wildcards. The first is empty unless the
// pattern begins with one, the last unless it ends with one.
func literalRuns(tokens []token) []string {
	runs, run := []string{}, []byte{}
	for _, t := range tokens {
		switch {
		case t.kind == literal:
			run = append(run, t.lit)
		case len(run) > 0 || len(runs) == 0:
			runs, run = append(runs, string(run)), run[:0]
		}
	}
	return append(runs, string(run))
}

// mayMatch is false for most of what the rule's expression does not match, and costs little.
func (r *rule) mayMatch(s string) bool {
	last := len(r.runs) - 1
	s, ok := strings.CutPrefix(s, r.runs[0])
	for i := 1; ok && i < last; i++ {
		_, s, ok = strings.Cut(s, r.runs[i])
	}
	return ok && strings.HasSuffix(s, r.runs[last])
}

// A subject is a name or path that is matched, in the forms that rules need.
type subject struct {
	plain   string
	encoded string // [encode], when a rule asks
}

func (s *subject) forLibrary() string {
	if s.encoded == "" {
		s.encoded = encode(s.plain)
	}
	return s.encoded
}

// floats says that the rule is not tied to a place.
func (r *rule) floats() bool { return r.basename || r.tokens[0].kind == leadSlash }

func (r *rule) matches(s *subject, w *work) bool {
	w.begin()
	switch r.how {
	case exactly:
		return s.plain == r.text
	case hasPrefix:
		return strings.HasPrefix(s.plain, r.text)
	case hasSuffix:
		return strings.HasSuffix(s.plain, r.text)
	}
	w.look(s.plain)
	if !r.mayMatch(s.plain) {
		return false
	}
	w.compare(s.plain, r.tokens)
	if w.tooMuch() {
		return true // the caller asks, too
	}
	lib := r.lib()
	if lib.failed {
		return !r.negative // what cannot be matched hides everything
	}
	return lib.matches(s.forLibrary())
}
