package ignore

import "strings"

// A pattern is one line of a rules file, read the way git reads it.
type pattern struct {
	negative bool // begins with "!"
	dirOnly  bool // ends with "/"
	basename bool // has no other slash: holds for a name in any directory
	wider    bool // in doubt it matches more than git does
	glob     string
	tokens   []token
}

// A token is one element of a glob. The zero kind is a literal byte.
type token struct {
	kind kind
	lit  byte
	set  *byteSet // of a class
	wide bool     // the class may also mean characters of several bytes
}

type kind uint8

const (
	literal kind = iota
	anyByte
	class
	star      // any bytes but slashes
	starstar  // any bytes
	leadSlash // nothing, or any bytes that end with a slash
)

// byteSet holds the bytes that a class stands for. Git compares bytes.
type byteSet [256]bool

// parsePattern reads a line without its end; ok is false when it holds no rule.
// git's parse_path_pattern.
func parsePattern(line string) (p pattern, ok bool) {
	line, _, _ = strings.Cut(line, "\x00") // git's strings end there
	if strings.HasPrefix(line, "#") {
		return p, false
	}
	line = trimTrailingSpaces(line)
	if line, p.negative = strings.CutPrefix(line, "!"); line == "" {
		return p, false
	}
	if line, p.dirOnly = strings.CutSuffix(line, "/"); line == "" {
		return p, false
	}
	p.basename = !strings.Contains(line, "/")
	p.glob = strings.TrimPrefix(line, "/")
	for rest := p.glob; strings.HasPrefix(rest, "**/"); {
		rest = strings.TrimPrefix(rest, "**/")
		if !strings.Contains(rest, "/") && rest != "" {
			p.glob, p.basename = rest, true // "**/name" is "name"
		}
	}
	return p, p.glob != ""
}

// trimTrailingSpaces removes spaces at the end that no backslash protects.
func trimTrailingSpaces(s string) string {
	end := 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 == len(s):
			return s
		case s[i] == '\\':
			i++
			end = i + 1
		case s[i] != ' ':
			end = i + 1
		}
	}
	return s[:end]
}

// parse fills the tokens; it fails on a glob that git never matches: a class
// without end or with an unknown name, a backslash at the end.
func (p *pattern) parse(d dialect) bool {
	s := scanner{glob: p.glob, basename: p.basename, fold: d.fold, wider: !d.exact && !p.negative}
	if !p.basename {
		// git compares what precedes the first special character by itself and
		// begins to match behind it, so that "**" there counts as a component of
		// its own: "a**/b" matches "ab".
		n := strings.IndexAny(p.glob, `*?[\`)
		if n < 0 {
			n = len(p.glob)
		}
		for i := range n {
			s.literal(p.glob[i])
		}
		s.glob = p.glob[n:]
	}
	ok := s.run()
	p.tokens, p.wider = s.tokens, s.wider
	return ok
}

// literalTokens are tokens as plain text, when they are nothing else.
func literalTokens(tokens []token) (string, bool) {
	b := make([]byte, 0, len(tokens))
	for _, t := range tokens {
		if t.kind != literal {
			return "", false
		}
		b = append(b, t.lit)
	}
	return string(b), true
}

// literally makes the glob mean nothing but its own characters.
func (p *pattern) literally(d dialect) {
	s := scanner{fold: d.fold}
	for i := range len(p.glob) {
		s.literal(p.glob[i])
	}
	p.tokens = s.tokens
}
