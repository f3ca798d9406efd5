// Package gitconfig reads git's configuration without running git, and writes it. It
// accepts a strict subset of git's grammar, so that what it has read is what git reads,
// and chooses what of a person's configuration counts in a sandbox: see [Read].
package gitconfig

import (
	"errors"
	"fmt"
	"strings"
)

// Setting is a setting of a configuration.
type Setting struct {
	// Section and Key are in small letters. Subsection is as it is.
	Section, Subsection, Key string
	Value                    string
	// Bare says that there is no value, which git takes for true.
	Bare bool
	Line int
}

// Name is the setting's name as git prints it.
func (s Setting) Name() string {
	if s.Subsection == "" {
		return s.Section + "." + s.Key
	}
	return s.Section + "." + s.Subsection + "." + s.Key
}

// Parse reads a configuration. It fails at what git fails at, and at a few things more.
func Parse(text []byte) ([]Setting, error) {
	if strings.IndexByte(string(text), 0) >= 0 {
		return nil, errors.New("it has a zero byte")
	}
	p := parser{rest: strings.ReplaceAll(strings.TrimPrefix(string(text), "\ufeff"), "\r\n", "\n"), line: 1}
	if !strings.HasSuffix(p.rest, "\n") {
		p.rest += "\n" // as git reads the end of a file
	}
	if err := p.all(); err != nil {
		return nil, fmt.Errorf("line %d: %w", p.line, err)
	}
	return p.found, nil
}

type parser struct {
	rest                string // ends with a line
	line                int
	section, subsection string
	found               []Setting
}

// space holds the bytes that git takes for white space.
const space = " \t\r\n"

// next takes a byte; there is one.
func (p *parser) next() byte {
	c := p.rest[0]
	if p.rest = p.rest[1:]; c == '\n' {
		p.line++
	}
	return c
}

func (p *parser) all() error {
	for p.rest != "" {
		switch c := p.rest[0]; {
		case strings.IndexByte(space, c) >= 0:
			p.next()
		case c == '#', c == ';':
			for p.next() != '\n' { //nolint:revive // a comment
			}
		case c == '[':
			p.next()
			if err := p.header(); err != nil {
				return err
			}
		case !isLetter(c):
			return fmt.Errorf("%q begins no setting", c)
		case p.section == "":
			return errors.New("a setting before the first section")
		default:
			if err := p.setting(); err != nil {
				return err
			}
		}
	}
	return nil
}

// header reads a section's name, whose bracket is read.
func (p *parser) header() error {
	end := strings.IndexFunc(p.rest, func(r rune) bool { return r >= 0x80 || !isKey(byte(r)) && r != '.' })
	name := strings.ToLower(p.rest[:end])
	p.rest = p.rest[end:]
	if strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") || name == "" {
		return errors.New("a section without a name")
	}
	p.section, p.subsection, _ = strings.Cut(name, ".")
	blank := false
	for p.rest[0] != '\n' && strings.IndexByte(space, p.rest[0]) >= 0 {
		p.next()
		blank = true
	}
	if blank && p.rest[0] == '"' {
		p.next()
		sub, err := p.quoted()
		if err != nil {
			return err
		}
		p.subsection = strings.TrimPrefix(p.subsection+"."+sub, ".")
	} else if blank {
		return errors.New("a section's name that does not end")
	}
	if p.next() != ']' {
		return errors.New("a section's name that does not end")
	}
	return nil
}

// quoted reads a subsection, whose first quote is read. An empty one is refused: git takes
// it for another than none.
func (p *parser) quoted() (string, error) {
	var b strings.Builder
	for {
		c := p.next()
		if c == '"' && b.Len() > 0 {
			return b.String(), nil
		}
		isEnd := c == '"'
		if c == '\\' {
			c = p.next()
		}
		if isEnd || c == '\n' {
			return "", errors.New("a subsection that is empty or does not end")
		}
		b.WriteByte(c)
	}
}

func (p *parser) setting() error {
	s := Setting{Section: p.section, Subsection: p.subsection, Line: p.line}
	end := strings.IndexFunc(p.rest, func(r rune) bool { return r >= 0x80 || !isKey(byte(r)) })
	s.Key = strings.ToLower(p.rest[:end])
	p.rest = strings.TrimLeft(p.rest[end:], " \t")
	switch p.next() {
	case '\n':
		s.Bare = true
	case '=':
		var err error
		if s.Value, err = p.value(); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s.%s is followed by neither a value nor the end of the line", s.Section, s.Key)
	}
	p.found = append(p.found, s)
	return nil
}

// value reads a value with the end of its line.
func (p *parser) value() (string, error) {
	var b strings.Builder
	quoted, end := false, 0 // without white space at the end
	for {
		c := p.next()
		switch {
		case c == '\n' && quoted:
			return "", errors.New("a quote that does not end")
		case c == '\n':
			return b.String()[:end], nil
		case !quoted && (c == '#' || c == ';'):
			for p.next() != '\n' { //nolint:revive // a comment
			}
			return b.String()[:end], nil
		case !quoted && strings.IndexByte(space, c) >= 0:
			if b.Len() > 0 {
				b.WriteByte(c)
			}
			continue
		case c == '"':
			quoted = !quoted
			continue
		case c == '\\':
			c = p.next()
			if c == '\n' {
				if p.rest == "" {
					return "", errors.New("a line that goes on after the end")
				}
				continue
			}
			i := strings.IndexByte(`tnb\"`, c)
			if i < 0 {
				return "", fmt.Errorf("\\%c, which means nothing", c)
			}
			c = "\t\n\b\\\""[i]
		}
		b.WriteByte(c)
		end = b.Len()
	}
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isKey(c byte) bool { return isLetter(c) || '0' <= c && c <= '9' || c == '-' }

var (
	escapeValue      = strings.NewReplacer("\\", `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`)
	escapeSubsection = strings.NewReplacer("\\", `\\`, `"`, `\"`)
)

// Format writes settings so that git reads them as they are.
func Format(all []Setting) []byte {
	var b strings.Builder
	last := ""
	for _, s := range all {
		head := "[" + s.Section + "]\n"
		if s.Subsection != "" {
			head = "[" + s.Section + ` "` + escapeSubsection.Replace(s.Subsection) + "\"]\n"
		}
		if head != last {
			b.WriteString(head)
			last = head
		}
		b.WriteString("\t" + s.Key)
		if !s.Bare {
			b.WriteString(` = "` + escapeValue.Replace(s.Value) + `"`)
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}
