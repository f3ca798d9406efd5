package shell

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"unicode/utf8"
)

// Output is what a command printed. Stdout and Stderr are there only when they
// were asked for.
type Output struct {
	Merged, Stdout, Stderr Text
}

// Text is the part of an output that is shown, and where the rest is.
type Text struct {
	// Shown is all of it, or the end, as [Limits] say. It is valid UTF-8; what is
	// not was replaced.
	Shown string
	// Bytes and Lines are the size of all of it; an unfinished last line counts.
	Bytes, Lines int64
	// Cut says that Shown is not all: of FirstLine it may be only the end, and
	// lines in between that are very long lack their middle, which is marked.
	Cut       bool
	FirstLine int64
	// File has the whole text; empty when there is no file, because all is shown or
	// because of Fault.
	File string
	// Missing is how many bytes of the middle the file lacks, where a line marks them.
	Missing int64
	// Fault is why there is no file, or why it ends early.
	Fault error
}

// Limits say how much of an output is shown.
type Limits struct {
	// Lines and Bytes are how much is shown whole.
	Lines, Bytes int
	// LastLines and LastBytes are how much of the end is shown of what is longer;
	// marks of what was cut out come on top.
	LastLines, LastBytes int
}

// defaultLimits keep to the hundred lines of the classic shell, and to fewer bytes
// than any client is known to cut off once more.
var defaultLimits = Limits{Lines: 100, Bytes: 40_000, LastLines: 100, LastBytes: 40_000}

// maxLine is how long a line may be where not everything is shown, in bytes.
const maxLine = 4_000

// text renders the record. When it goes on there is a file also when all is shown;
// otherwise the file is complete now.
func (r *record) text(l Limits, goesOn bool) Text {
	t := Text{Bytes: r.bytes, Lines: r.lines, FirstLine: 1}
	if !r.ended() {
		t.Lines++
	}
	t.Cut = t.Lines > int64(l.Lines) || t.Bytes > int64(l.Bytes)
	if !t.Cut {
		t.Shown = valid(r.tail)
		t.Cut = len(t.Shown) > l.Bytes // what is not UTF-8 got longer
	}
	if t.Cut {
		var count int64
		t.Shown, count = lastLines(r.tail, l.LastLines, l.LastBytes, int64(len(r.tail)) == r.bytes)
		t.FirstLine = t.Lines - count + 1
	}
	if runtime.GOOS == "windows" { // its line ends are for its programs
		t.Shown = strings.ReplaceAll(t.Shown, "\r\n", "\n")
	}
	if t.Cut || goesOn {
		r.spool()
		t.Fault = r.fault
	}
	if !goesOn {
		r.close()
	}
	if r.spooling {
		t.File, t.Missing, t.Fault = r.file.status()
	}
	return t
}

// lastLines renders the last lines of a text, in at most maxBytes and a little for
// the marks of what was cut, and says how many they are. whole says that tail begins
// where the text does. The line end of the last line is left out.
func lastLines(tail []byte, maxLines, maxBytes int, whole bool) (shown string, count int64) {
	rest := bytes.TrimSuffix(tail, []byte{'\n'})
	var lines []string
	size := 0
	for len(lines) < maxLines && size < maxBytes {
		begin := bytes.LastIndexByte(rest, '\n') + 1
		line := shorten(rest[begin:], min(maxLine, maxBytes-size), begin > 0 || whole)
		lines = append(lines, line)
		size += len(line) + 1
		if begin == 0 {
			break
		}
		rest = rest[:begin-1]
	}
	for i, j := 0, len(lines)-1; i < j; i, j = i+1, j-1 {
		lines[i], lines[j] = lines[j], lines[i]
	}
	return strings.Join(lines, "\n"), int64(len(lines))
}

// shorten makes a line valid and cuts its middle out when it is longer than limit;
// its beginning when that is not known.
func shorten(line []byte, limit int, complete bool) string {
	text := valid(line)
	if len(text) <= limit && complete {
		return text
	}
	if !complete {
		return "[the line's beginning is left out]" + text[after(text, max(len(text)-limit, 0)):]
	}
	head, tail := before(text, limit/2), after(text, len(text)-limit/2)
	return fmt.Sprintf("%s[%d bytes of this line are left out]%s", text[:head], tail-head, text[tail:])
}

// before and after are the ends of whole characters next to i.
func before(s string, i int) int {
	for i > 0 && i < len(s) && !utf8.RuneStart(s[i]) {
		i--
	}
	return i
}

func after(s string, i int) int {
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return i
}

// valid replaces what is not UTF-8.
func valid(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return string(bytes.ToValidUTF8(b, []byte("\uFFFD")))
}
