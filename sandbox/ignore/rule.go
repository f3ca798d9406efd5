package ignore

import (
	"fmt"
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
	c.how, c.text = classify(p)
	c.lib = sync.OnceValue(func() library { return newLibrary(p) })
	return c
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

func (r *rule) matches(s *subject) bool {
	switch r.how {
	case exactly:
		return s.plain == r.text
	case hasPrefix:
		return strings.HasPrefix(s.plain, r.text)
	case hasSuffix:
		return strings.HasSuffix(s.plain, r.text)
	}
	lib := r.lib()
	if lib.failed {
		return !r.negative // what cannot be matched hides everything
	}
	return lib.matches(s.forLibrary())
}
