package ignore

import (
	"fmt"
	"regexp"
	"strings"

	gitignore "github.com/sabhiram/go-gitignore"
)

// A library is a pattern as go-gitignore matches it.
//
// go-gitignore makes a regular expression of a line, and of much that git means
// otherwise. So the line that it gets is anchored, ends with a byte that no path
// has, and contains nothing that it rewrites: no asterisk, no question mark, no
// bracket of the person's. Paths are given to it byte for byte, every byte as a
// character of Latin 1, because git compares bytes.
type library struct {
	*gitignore.GitIgnore
	// failed says that there is no expression; the library would never match.
	failed bool
}

// end closes every path, so that an expression has to match all of it.
const end = "\x00"

func newLibrary(p pattern) library {
	line := "/" + translate(p) + hex(0)
	_, err := regexp.Compile(line)
	return library{gitignore.CompileIgnoreLines(line), err != nil}
}

// matches takes what [encode] returned.
func (l library) matches(encoded string) bool { return l.MatchesPath(encoded) }

// encode makes of a path what the expressions match.
func encode(path string) string {
	if isASCII(path) {
		return path + end
	}
	b := make([]rune, 0, len(path)+1)
	for i := range len(path) {
		b = append(b, rune(path[i]))
	}
	return string(append(b, 0))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

const (
	notSlash = `[^\x{0}/]`
	anything = `[^\x{0}]{0,}`
	// further are the bytes that a character has behind its first.
	further = `[\x{80}-\x{bf}]{0,3}`
)

func translate(p pattern) string {
	var b strings.Builder
	for _, t := range p.tokens {
		switch t.kind {
		case literal:
			b.WriteString(quote(t.lit))
		case anyByte:
			b.WriteString(notSlash)
		case class:
			b.WriteString(ranges(t.set))
		case star:
			b.WriteString(notSlash + "{0,}")
		case starstar:
			b.WriteString(anything)
		case leadSlash:
			b.WriteString("(|" + anything + "/)")
		}
		// Git takes "é" for two characters; whoever wrote "?" to hide it does not.
		if p.wider && (t.kind == anyByte || t.wide) {
			b.WriteString(further)
		}
	}
	return b.String()
}

func quote(c byte) string {
	if isAlpha(c) || isDigit(c) || c == '/' {
		return string(rune(c))
	}
	return hex(int(c))
}

func hex(b int) string { return fmt.Sprintf(`\x{%x}`, b) }

// ranges is a bracket expression of the bytes in a set. An empty set matches
// nothing.
func ranges(set *byteSet) string {
	var b strings.Builder
	for from := 0; from < len(set); from++ {
		if !set[from] {
			continue
		}
		to := from
		for to+1 < len(set) && set[to+1] {
			to++
		}
		b.WriteString(hex(from) + "-" + hex(to))
		from = to
	}
	if b.Len() == 0 {
		return `[^\x{0}-\x{10ffff}]`
	}
	return "[" + b.String() + "]"
}
