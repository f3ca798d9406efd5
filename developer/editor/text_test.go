package editor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func mustDecode(t *testing.T, s string) text {
	t.Helper()
	d, err := decode([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDecodeKeepsEveryByte(t *testing.T) {
	for _, s := range []string{
		"", "\n", "\r\n", "\r", "a", "a\n", "a\r\n", "a\nb", "a\r\nb\n", "a\r\r\nb", "\n\n", "\ufeff", "\ufeffa\n", "a\rb\n", "\ufeff\ufeffa",
	} {
		if got := string(mustDecode(t, s).bytes()); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func TestDecodeNamesWhatIsNoText(t *testing.T) {
	for data, want := range map[string]string{
		"ab\x00":        "the file is binary (byte 2 is NUL)",
		"ab\xff":        "stream did not contain valid UTF-8 (first at byte 2)",
		"\xff\xfea\x00": "the file is binary (byte 3 is NUL): it looks like UTF-16, convert it with the shell first",
		"\xfe\xffab":    "stream did not contain valid UTF-8 (first at byte 0): it looks like UTF-16, convert it with the shell first",
	} {
		if _, err := decode([]byte(data)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", data, err, want)
		}
	}
}

// The style of a file survives: line ends of untouched lines, byte order mark,
// open or closed last line.
func TestReplaceKeepsStyle(t *testing.T) {
	tests := []struct{ name, file, old, new, want string }{
		{"LF", "a\nb\nc\n", "b", "x\ny", "a\nx\ny\nc\n"},
		{"CRLF", "a\r\nb\r\nc\r\n", "b", "x\ny", "a\r\nx\r\ny\r\nc\r\n"},
		{"CRLF given as LF", "a\r\nb\r\nc\r\n", "a\nb\n", "x\n", "x\r\nc\r\n"},
		{"LF given as CRLF", "a\nb\nc\n", "a\r\nb", "x\r\ny", "x\ny\nc\n"},
		{"mixed, change in the CRLF part", "a\r\nb\r\nc\nd\n", "b", "x\ny", "a\r\nx\r\ny\r\nc\nd\n"},
		{"mixed, change in the LF part", "a\r\nb\r\nc\nd\n", "c", "x\ny", "a\r\nb\r\nx\ny\nd\n"},
		{"mixed, unchanged lines inside", "a\r\nb\nc\r\nd\n", "a\nb\nc\nd", "a\nb\nX\nd", "a\r\nb\nX\r\nd\n"},
		{"only once with these ends", "a\r\nb\r\na\nb\n", "a\nb", "x\ny", "a\r\nb\r\nx\ny\n"},
		{"only once with those ends", "a\nb\na\r\nb\r\n", "a\r\nb", "x\ny", "a\nb\nx\r\ny\r\n"},
		{"once from the middle of an end", "x\r\na\r\nb\nx\na\nb\n", "\na\r\nb", "\ny", "x\r\ny\r\nx\na\nb\n"},
		{"open last line", "a\nb", "a", "x", "x\nb"},
		{"open last line changed", "a\nb", "b", "x", "a\nx"},
		{"open last line closed on purpose", "a\nb", "b", "x\n", "a\nx\n"},
		{"closed last line stays closed", "a\nb\n", "b\n", "x", "a\nx\n"},
		{"closed last line removed", "a\nb\n", "b\n", "", "a\n"},
		{"everything removed", "a\nb\n", "a\nb\n", "", ""},
		{"line feed removed", "a\nb\nc\n", "a\nb", "a b", "a b\nc\n"},
		{"byte order mark", "\ufeffa\nb\n", "a", "x", "\ufeffx\nb\n"},
		{"byte order mark given", "\ufeffa\nb\n", "\ufeffa", "x", "\ufeffx\nb\n"},
		{"part of a line", "one two three\n", "two", "2", "one 2 three\n"},
		{"carriage returns of old Macs", "a\rb\rc\n", "b\r", "x\r", "a\rx\rc\n"},
		{"two carriage returns", "a\r\r\nb\r\r\nc\n", "b", "x", "a\r\r\nx\r\r\nc\n"},
		{"same again", "a\r\nb\n", "a\nb", "a\nb", "a\r\nb\n"},
		{"into an empty file", "", "", "x", "x\n"},
		{"multi-byte", "ä\r\nöü\r\n", "ö", "€\n€", "ä\r\n€\r\n€ü\r\n"},
		{"overlapping itself", "aaa\n", "aa", "x", "xa\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, _, err := mustDecode(t, tt.file).replace(tt.old, tt.new)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(out.bytes())); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestInsertKeepsStyle(t *testing.T) {
	tests := []struct {
		name, file string
		line       int64
		s, want    string
		at         int
	}{
		{"first", "a\nb\n", 0, "x", "x\na\nb\n", 0},
		{"middle", "a\nb\n", 1, "x\ny", "a\nx\ny\nb\n", 1},
		{"end", "a\nb\n", 2, "x", "a\nb\nx\n", 2},
		{"end by -1", "a\nb\n", -1, "x", "a\nb\nx\n", 2},
		{"before the last by -2", "a\nb\n", -2, "x", "a\nx\nb\n", 1},
		{"first by the least", "a\nb\n", -3, "x", "x\na\nb\n", 0},
		{"a line feed at the end is a line", "a\nb\n", 1, "x\n", "a\nx\n\nb\n", 1},
		{"but not at the end", "a\nb\n", 2, "x\n", "a\nb\nx\n", 2},
		{"nothing at the end", "a\nb\n", 2, "", "a\nb\n", 2},
		{"nothing is a line", "a\n", 0, "", "\na\n", 0},
		{"CRLF", "a\r\nb\r\n", 1, "x\ny", "a\r\nx\r\ny\r\nb\r\n", 1},
		{"CRLF into LF", "a\nb\n", 1, "x\r\ny", "a\nx\ny\nb\n", 1},
		{"CRLF at the end", "a\r\nb\r\n", 2, "x", "a\r\nb\r\nx\r\n", 2},
		{"open last line stays open", "a\nb", 2, "x", "a\nb\nx", 2},
		{"before an open last line", "a\nb", 1, "x", "a\nx\nb", 1},
		{"open CRLF", "a\r\nb", 2, "x", "a\r\nb\r\nx", 2},
		{"empty file", "", 0, "x", "x\n", 0},
		{"byte order mark", "\ufeffa\n", 0, "x", "\ufeffx\na\n", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, at, err := mustDecode(t, tt.file).insert(tt.line, tt.s)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(out.bytes()); got != tt.want || at != tt.at {
				t.Errorf("%q at %d, want %q at %d", got, at, tt.want, tt.at)
			}
		})
	}
}

func TestWriteKeepsStyle(t *testing.T) {
	tests := []struct{ name, file, content, want string }{
		{"new", "", "a", "a\n"},
		{"new and closed", "", "a\n", "a\n"},
		{"new and empty", "", "", ""},
		{"new with CRLF", "", "a\r\nb", "a\r\nb\r\n"},
		{"CRLF", "a\r\nb\r\n", "x\ny", "x\r\ny\r\n"},
		{"CRLF on purpose", "a\nb\n", "x\r\ny\r\n", "x\r\ny\r\n"},
		{"mixed", "a\r\nb\nc\r\n", "a\nb\nx\nc\n", "a\r\nb\nx\r\nc\r\n"},
		{"open", "a\nb", "x\ny", "x\ny"},
		{"open, closed on purpose", "a\nb", "x\ny\n", "x\ny\n"},
		{"closed", "a\nb\n", "x\ny", "x\ny\n"},
		{"byte order mark", "\ufeffa\n", "x\n", "\ufeffx\n"},
		{"byte order mark on purpose", "a\n", "\ufeffx\n", "\ufeffx\n"},
		{"over a binary file", "a\x00b", "x", "x\n"},
		{"over Latin-1", "caf\xe9\r\n", "x", "x\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(restyle([]byte(tt.file), tt.content).bytes()); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestNearMiss(t *testing.T) {
	file := "package a\n\nfunc one() {\n\treturn 1\n}\n\nfunc two() {\n\treturn 2\n}\n"
	tests := []struct{ name, file, old, want string }{
		{"tabs and spaces", file, "func two() {\n    return 2\n}", `The closest match is at lines 7-9 (1 of 3 lines differ, only in whitespace):
Line 8: old_str has "    return 2"
        the file has "\treturn 2"`},
		{"a word", file, "func one() {\n\treturn 3\n}\n", `The closest match is at lines 3-5 (1 of 3 lines differ):
Line 4: old_str has "\treturn 3"
        the file has "\treturn 1"`},
		{"one line", file, "\tretrun 2", `The closest match is at line 8:
Line 8: old_str has "\tretrun 2"
        the file has "\treturn 2"`},
		{"one line, spaces", "if  x {\n}\n", "if x {", `The closest match is at line 1 (it differs only in whitespace):
Line 1: old_str has "if x {"
        the file has "if  x {"`},
		{"the end of the file", "a long line\nlast", "a long line\nlast\nmore", `The closest match is at lines 1-3 (1 of 3 lines differ):
Line 3: old_str has "more"
the file ends before it`},
		{"no last line feed", "a long line\nlast", "last\n", "The text is at line 2, but the file ends there without a line feed."},
		{"numbers of view", file, "3: func one() {\n4: \treturn 1", "The lines of old_str begin with the line numbers that view shows; they are not part of the file. Without them it is at line 3."},
		{"nothing alike", file, "zzz qqq", ""},
		{"empty file", "", "abc", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := mustDecode(t, tt.file).replace(tt.old, "x")
			if err == nil {
				t.Fatal("found")
			}
			got := strings.TrimPrefix(err.Error(), notThere)
			if diff := cmp.Diff(tt.want, strings.TrimPrefix(got, "\n\n")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A file of the worst kind costs no more than one pass.
func TestNearMissIsBounded(t *testing.T) {
	same := strings.Repeat("the same line\n", 500_000)
	d := mustDecode(t, same)
	for _, old := range []string{
		strings.Repeat("the same line\n", 1999) + "another",
		strings.Repeat("x", 1<<20),
		strings.Repeat("the same lime\n", 1999),
		strings.Repeat("\n", 5000) + "y",
	} {
		msg := notFound(d.lines, old)
		if !strings.HasPrefix(msg, notThere) || len(msg) > 4000 {
			t.Errorf("%d bytes: %.300s", len(msg), msg)
		}
	}
}
