package ignore

import "strings"

// A scanner turns a glob into tokens. It follows git's wildmatch.c statement by
// statement where the two could differ; FuzzAgainstGit holds it to that.
type scanner struct {
	glob     string
	basename bool // matched against a name: "*" and "**" are the same
	fold     bool // names are compared in lower case
	wider    bool // in doubt the rule matches more than git does
	pos      int
	tokens   []token
}

func (s *scanner) literal(c byte) {
	if s.fold {
		c = lower(c)
	}
	s.tokens = append(s.tokens, token{lit: c})
}

// escaped adds a byte that had a backslash, whose case git forgets to fold.
func (s *scanner) escaped(c byte) {
	if s.fold && s.wider {
		c = lower(c)
	}
	s.tokens = append(s.tokens, token{lit: c})
}

// run reports whether the glob is well formed.
func (s *scanner) run() bool {
	for s.pos < len(s.glob) {
		c := s.glob[s.pos]
		s.pos++
		switch c {
		case '\\':
			if s.pos == len(s.glob) {
				return false
			}
			s.escaped(s.glob[s.pos])
			s.pos++
		case '?':
			s.tokens = append(s.tokens, token{kind: anyByte})
		case '*':
			s.stars()
		case '[':
			if !s.class() {
				return false
			}
		default:
			s.literal(c)
		}
	}
	return true
}

// stars reads a run of asterisks, the first of which is behind s.pos. Two or more
// cross slashes when they stand alone between slashes.
func (s *scanner) stars() {
	first := s.pos - 1
	for s.pos < len(s.glob) && s.glob[s.pos] == '*' {
		s.pos++
	}
	rest := s.glob[s.pos:]
	alone := (first == 0 || s.glob[first-1] == '/') &&
		(rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`))
	switch {
	case s.basename || s.pos-first == 1 || !alone:
		s.tokens = append(s.tokens, token{kind: star})
	case rest != "" && rest[0] == '/':
		s.pos++
		s.tokens = append(s.tokens, token{kind: leadSlash})
	default:
		s.tokens = append(s.tokens, token{kind: starstar})
	}
}

// class reads a bracket expression behind its "[".
func (s *scanner) class() bool {
	c := classScanner{scanner: s}
	negated := s.pos < len(s.glob) && (s.glob[s.pos] == '!' || s.glob[s.pos] == '^')
	if negated {
		s.pos++
	}
	for first := true; first || s.at(s.pos) != ']'; first = false {
		if s.pos >= len(s.glob) || !c.member() {
			return false
		}
	}
	s.pos++
	if s.fold && s.wider && !negated {
		for b := byte('A'); b <= 'Z'; b++ {
			c.set[lower(b)] = c.set[lower(b)] || c.set[b] // git forgets it
		}
	}
	t := token{kind: class, set: &c.set}
	for b := range c.set {
		c.set[b] = c.set[b] != negated
		t.wide = t.wide || c.set[b] && b >= 0x80
	}
	c.set[0], c.set['/'] = false, false
	s.tokens = append(s.tokens, t)
	return true
}

// at is the byte at a position, or 0 behind the end.
func (s *scanner) at(i int) byte {
	if i >= len(s.glob) {
		return 0
	}
	return s.glob[i]
}

// classScanner collects the members of one bracket expression.
type classScanner struct {
	*scanner
	set  byteSet
	prev byte // begins a range; 0 where none can begin
}

// member reads one member and moves behind it.
func (c *classScanner) member() bool {
	b := c.glob[c.pos]
	c.pos++
	switch {
	case b == '\\':
		if b = c.at(c.pos); b == 0 {
			return false
		}
		c.pos++
		c.set[b] = true
		c.prev = b
		return true
	case b == '-' && c.prev != 0 && c.at(c.pos) != 0 && c.at(c.pos) != ']':
		return c.span()
	case b == '[' && c.at(c.pos) == ':':
		return c.named()
	}
	c.set[b] = true
	c.prev = b
	return true
}

// span reads the end of a range.
func (c *classScanner) span() bool {
	last := c.glob[c.pos]
	c.pos++
	if last == '\\' {
		if last = c.at(c.pos); last == 0 {
			return false
		}
		c.pos++
	}
	for b := int(c.prev); b <= int(last); b++ {
		c.set[b] = true
		if c.fold {
			c.set[lower(byte(b))] = true
		}
	}
	c.prev = 0
	return true
}

// named reads a class like [:alpha:] whose "[" is read.
func (c *classScanner) named() bool {
	start := c.pos + 1
	end := strings.IndexByte(c.glob[start:], ']')
	if end < 0 {
		return false
	}
	if end += start; end == start || c.glob[end-1] != ':' {
		c.set['['] = true // an ordinary member after all
		c.prev = '['
		return true
	}
	is, ok := namedClasses[c.glob[start:end-1]]
	if !ok {
		return false
	}
	for b := range 128 {
		c.set[b] = c.set[b] || is(byte(b)) || c.fold && is(upper(byte(b)))
	}
	c.pos = end + 1
	c.prev = 0
	return true
}

// The classes of POSIX, for ASCII only, as in git.
var namedClasses = map[string]func(byte) bool{
	"alnum":  func(b byte) bool { return isAlpha(b) || isDigit(b) },
	"alpha":  isAlpha,
	"blank":  func(b byte) bool { return b == ' ' || b == '\t' },
	"cntrl":  func(b byte) bool { return b < ' ' || b == 0x7f },
	"digit":  isDigit,
	"graph":  func(b byte) bool { return b > ' ' && b < 0x7f },
	"lower":  func(b byte) bool { return b >= 'a' && b <= 'z' },
	"print":  func(b byte) bool { return b >= ' ' && b < 0x7f },
	"punct":  func(b byte) bool { return b > ' ' && b < 0x7f && !isAlpha(b) && !isDigit(b) },
	"space":  func(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }, // git's
	"upper":  func(b byte) bool { return b >= 'A' && b <= 'Z' },
	"xdigit": func(b byte) bool { return isDigit(b) || lower(b) >= 'a' && lower(b) <= 'f' },
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }
func isAlpha(b byte) bool { return lower(b) >= 'a' && lower(b) <= 'z' }

func lower(b byte) byte {
	if b >= 'A' && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

func upper(b byte) byte {
	if b >= 'a' && b <= 'z' {
		return b - 'a' + 'A'
	}
	return b
}
