package editor

import (
	"sort"
	"strings"
)

// replace puts new in the place of the only occurrence of old. at is the line,
// from 0, in which the replaced part begins. Line ends of both are taken for LF;
// the file keeps its own.
func (t text) replace(old, new string) (out text, at int, err error) {
	plain := t.plain()
	if t.bom {
		old = strings.TrimPrefix(old, bom)
	}
	switch offset, n := t.locate(plain, old); n {
	case 1:
		return t.replaceAt(plain, offset, len(toLF(old)), toLF(new))
	case 0:
		return t, 0, invalid("%s", notFound(t.lines, toLF(old)))
	default:
		return t, 0, invalid("'old_str' must appear exactly once in the file, but it appears multiple times")
	}
}

// locate says where a text is in the plain text, and how often. Line ends count
// only when the text is there several times, and once with just these ends.
func (t text) locate(plain, s string) (offset, n int) {
	lf := toLF(s)
	if n = strings.Count(plain, lf); n < 2 {
		return strings.Index(plain, lf), n
	}
	exact := strings.TrimPrefix(string(t.bytes()), bom)
	if len(exact) == len(plain) || strings.Count(exact, s) != 1 {
		return 0, n
	}
	offset = strings.Index(exact, s)
	if offset > 0 && exact[offset-1] == '\r' && exact[offset] == '\n' {
		offset-- // in the middle of an end: that end is meant
	}
	offset -= strings.Count(exact[:offset], "\r\n")
	if !strings.HasPrefix(plain[offset:], lf) {
		return 0, n // it ends in the middle of an end
	}
	return offset, 1
}

// replaceAt replaces n bytes of the plain text from offset on.
func (t text) replaceAt(plain string, offset, n int, new string) (out text, at int, err error) {
	starts := lineStarts(t.lines)
	first, last := lineOf(starts, offset), lineOf(starts, offset+n)
	from, to := starts[first], len(plain)
	if last < len(t.lines) {
		to = starts[last] + len(t.lines[last].text) + min(1, len(t.lines[last].end))
		last++
	}
	repl := plain[from:offset] + new + plain[offset+n:to]
	out = text{t.bom, splice(t.lines, first, last, repl)}
	if !t.open() {
		out.lines = closed(out.lines)
	}
	return out, first, nil
}

// lineStarts are the offsets of the lines in the plain text, and its length.
func lineStarts(lines []line) []int {
	starts := make([]int, 0, len(lines)+1)
	n := 0
	for _, l := range lines {
		starts = append(starts, n)
		n += len(l.text) + min(1, len(l.end))
	}
	return append(starts, n)
}

// lineOf is the line that an offset is in; the end of the text is in the line after
// the last.
func lineOf(starts []int, offset int) int {
	i := sort.SearchInts(starts, offset+1) - 1
	return max(i, 0)
}
