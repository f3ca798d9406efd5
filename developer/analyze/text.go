package analyze

import (
	"bytes"
	"sort"
	"strings"
)

// lineIndex finds the line of a place in a file.
type lineIndex struct {
	starts []uint32
	size   int
	open   bool // the last line has no end
}

func indexLines(src []byte) lineIndex {
	x := lineIndex{starts: []uint32{0}, size: len(src), open: len(src) > 0 && src[len(src)-1] != '\n'}
	for at := 0; ; {
		n := bytes.IndexByte(src[at:], '\n')
		if n < 0 {
			return x
		}
		at += n + 1
		x.starts = append(x.starts, uint32(at))
	}
}

// of is the line that the byte is in; the first is 1.
func (x lineIndex) of(place uint32) int {
	return sort.Search(len(x.starts), func(i int) bool { return x.starts[i] > place })
}

// count is how many lines there are; a last one without an end counts.
func (x lineIndex) count() int {
	if x.open {
		return len(x.starts)
	}
	return len(x.starts) - 1
}

// oneLine makes one line of a piece of source that may span several.
func oneLine(s string) string {
	if !strings.ContainsAny(s, "\n\r\t") {
		return s
	}
	return strings.Join(strings.Fields(s), " ")
}

// cut shortens a text to limit bytes and says so with three dots; it never splits
// a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-3], "") + "..."
}

// moduleOf is what an import statement imports, when its query does not say.
func moduleOf(statement string) string {
	s := strings.TrimSuffix(strings.TrimSpace(statement), ";")
	for _, keyword := range []string{"import", "using", "use", "@testable import"} {
		if rest, ok := strings.CutPrefix(s, keyword); ok {
			s = strings.TrimSpace(rest)
			break
		}
	}
	s, _, _ = strings.Cut(s, "::{")
	return strings.Trim(s, `"'`)
}
