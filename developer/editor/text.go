package editor

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

const bom = "\ufeff"

// maxLines bounds the memory that the lines of a file take.
const maxLines = 1_000_000

// A text is a file's content, cut into lines in such a way that joining them
// gives the same bytes again: every line remembers how it ended.
type text struct {
	bom   bool
	lines []line
}

// A line is "a" and "\n", "a" and "\r\n", or at the end of a file "a" and "".
type line struct{ text, end string }

// decode cuts up a file's content. What is not text is refused with what it is.
func decode(data []byte) (text, error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return text{}, fmt.Errorf("the file is binary (byte %d is NUL)%s", i, utf16Hint(data))
	}
	if !utf8.Valid(data) {
		return text{}, fmt.Errorf("stream did not contain valid UTF-8 (first at byte %d)%s", invalidAt(data), utf16Hint(data))
	}
	if n := bytes.Count(data, []byte("\n")); n > maxLines {
		return text{}, fmt.Errorf("the file has %d lines, of which at most %d can be edited; use the shell for it", n, maxLines)
	}
	s, marked := strings.CutPrefix(string(data), bom)
	return text{bom: marked, lines: split(s)}, nil
}

func utf16Hint(data []byte) string {
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		return ": it looks like UTF-16, convert it with the shell first"
	}
	return ""
}

func invalidAt(data []byte) (n int) {
	for n < len(data) {
		r, size := utf8.DecodeRune(data[n:])
		if r == utf8.RuneError && size == 1 {
			return n
		}
		n += size
	}
	return n
}

// split cuts a text after each LF; a CR before it is part of the line's end.
func split(s string) []line {
	lines := make([]line, 0, strings.Count(s, "\n")+1)
	for s != "" {
		l, rest, found := strings.Cut(s, "\n")
		switch {
		case !found:
			lines = append(lines, line{l, ""})
		case strings.HasSuffix(l, "\r"):
			lines = append(lines, line{l[:len(l)-1], "\r\n"})
		default:
			lines = append(lines, line{l, "\n"})
		}
		s = rest
	}
	return lines
}

// splitLF cuts a text in which only LF ends lines.
func splitLF(s string) []line {
	lines := make([]line, 0, strings.Count(s, "\n")+1)
	for l := range strings.Lines(s) {
		l, ended := strings.CutSuffix(l, "\n")
		if ended {
			lines = append(lines, line{l, "\n"})
		} else {
			lines = append(lines, line{l, ""})
		}
	}
	return lines
}

// bytes is the content again.
func (t text) bytes() []byte {
	var b bytes.Buffer
	if t.bom {
		b.WriteString(bom)
	}
	for _, l := range t.lines {
		b.WriteString(l.text)
		b.WriteString(l.end)
	}
	return b.Bytes()
}

// plain is the content with LF everywhere and without a byte order mark: what a
// model is shown, and what its texts are compared with.
func (t text) plain() string {
	var b strings.Builder
	for _, l := range t.lines {
		b.WriteString(l.text)
		if l.end != "" {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// open says that the last line has no end.
func (t text) open() bool {
	return len(t.lines) > 0 && t.lines[len(t.lines)-1].end == ""
}

// splice replaces the lines from:to by those of repl, which has LF. Lines that stay the
// same keep their bytes; new ones end as their neighbours do.
func splice(lines []line, from, to int, repl string) []line {
	old, fresh := lines[from:to], splitLF(repl)
	head := 0
	for head < len(old) && head < len(fresh) && same(old[head], fresh[head]) {
		head++
	}
	tail := 0
	for tail < len(old)-head && tail < len(fresh)-head && same(old[len(old)-1-tail], fresh[len(fresh)-1-tail]) {
		tail++
	}
	out := make([]line, 0, len(lines)-len(old)+len(fresh))
	out = append(out, lines[:from+head]...)
	end := endAt(lines, from+head)
	for _, l := range fresh[head : len(fresh)-tail] {
		if l.end != "" {
			l.end = end
		}
		out = append(out, l)
	}
	return append(out, lines[to-tail:]...)
}

// same compares lines whatever the style of their ends.
func same(a, b line) bool {
	return a.text == b.text && (a.end == "") == (b.end == "")
}

// endAt is how a new line at position i ends: as the line that it replaces, else
// the one before, else one after it, else LF.
func endAt(lines []line, i int) string {
	if i < len(lines) && lines[i].end != "" {
		return lines[i].end
	}
	for j := min(i, len(lines)) - 1; j >= 0; j-- {
		if lines[j].end != "" {
			return lines[j].end
		}
	}
	for _, l := range lines[min(i, len(lines)):] {
		if l.end != "" {
			return l.end
		}
	}
	return "\n"
}

// closed gives the last line an end.
func closed(lines []line) []line {
	if n := len(lines); n > 0 && lines[n-1].end == "" {
		lines[n-1].end = endAt(lines, n-1)
	}
	return lines
}

func toLF(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }
