package shell

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func recordOf(text string, piece int) *record {
	r := &record{}
	for b := []byte(text); len(b) > 0; {
		n := min(piece, len(b))
		r.write(b[:n])
		b = b[n:]
	}
	return r
}

func TestText(t *testing.T) {
	small := Limits{Lines: 3, Bytes: 20, LastLines: 2, LastBytes: 10}
	tests := []struct {
		name, text, shown string
		lines, first      int64
		cut               bool
	}{
		{"nothing", "", "", 0, 1, false},
		{"as it is", "a\nb\n", "a\nb\n", 2, 1, false},
		{"just the limit", "1\n2\n3\n", "1\n2\n3\n", 3, 1, false},
		{"a line too many", "1\n2\n3\n4\n", "3\n4", 4, 3, true},
		{"an unfinished one too many", "1\n2\n3\n4", "3\n4", 4, 3, true},
		{"blank lines", "1\n\n\n\n", "\n", 4, 3, true},
		{"too many bytes", "0123456789\n0123456789\n", "0123456789", 2, 2, true},
		{"a long line", "0123456789012345678901234", "01234[15 bytes of this line are left out]01234", 1, 1, true},
		{"a cut within characters", "äöüäöüäöüäöü", "äö[16 bytes of this line are left out]öü", 1, 1, true},
		{"no text", "\xff\xfe\n", "\uFFFD\n", 1, 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := recordOf(tt.text, 7).text(small, false)
			if got.Shown != tt.shown || got.Lines != tt.lines || got.FirstLine != tt.first || got.Cut != tt.cut || got.Bytes != int64(len(tt.text)) {
				t.Errorf("got %q, lines %d from %d, cut %v; want %q, %d from %d, %v",
					got.Shown, got.Lines, got.FirstLine, got.Cut, tt.shown, tt.lines, tt.first, tt.cut)
			}
		})
	}
}

// FuzzText cuts any text anywhere.
func FuzzText(f *testing.F) {
	f.Add("a\nb\nc\n", 3, 2, 10)
	f.Add("äöü€𝄞\xff\xf0\x9d\r\n\x00", 1, 1, 5)
	f.Add(strings.Repeat("x", 5000)+"\n"+strings.Repeat("€", 3000), 1000, 100, 4000)
	f.Fuzz(func(t *testing.T, text string, piece, lines, size int) {
		l := Limits{Lines: max(lines, -lines, 0) % 200, Bytes: max(size, -size, 0) % 50_000, LastLines: 1 + max(lines, -lines, 0)%200, LastBytes: 1 + max(size, -size, 0)%50_000}
		got := recordOf(text, 1+max(piece, -piece, 0)%100_000).text(l, false)
		if !utf8.ValidString(got.Shown) {
			t.Errorf("not valid: %q", got.Shown)
		}
		if got.Bytes != int64(len(text)) || got.FirstLine < 1 || got.FirstLine > got.Lines+1 {
			t.Errorf("%d bytes of %d, first line %d of %d", got.Bytes, len(text), got.FirstLine, got.Lines)
		}
		if !got.Cut && got.Shown != valid([]byte(text)) {
			t.Errorf("%q became %q", text, got.Shown)
		}
		marks := strings.Count(got.Shown, " left out]") * 60
		if got.Cut && (len(got.Shown) > l.LastBytes+marks || strings.Count(got.Shown, "\n") >= l.LastLines) {
			t.Errorf("%d bytes and %d line ends are shown, limits %+v", len(got.Shown), strings.Count(got.Shown, "\n"), l)
		}
		if got.Cut && marks == 0 && !strings.HasSuffix(strings.TrimSuffix(valid([]byte(text)), "\n"), got.Shown) {
			t.Errorf("%q does not end with %q", text, got.Shown)
		}
	})
}

// FuzzCapture: however two streams come in pieces, no byte is lost, each stream's
// lines stay whole and in order.
func FuzzCapture(f *testing.F) {
	f.Add("a\nb", "x\ny\n", uint8(1), uint8(2))
	f.Fuzz(func(t *testing.T, a, b string, pa, pb uint8) {
		a, b = mark("a", a), mark("b", b)
		c := newCapture(nil, false, &live{emit: func(_, text string) {
			if !utf8.ValidString(text) {
				t.Errorf("live is not valid: %q", text)
			}
		}})
		rest := [streams]string{a, b}
		for rest[stdout]+rest[stderr] != "" {
			for s, n := range []int{int(pa) + 1, int(pb) + 1} {
				n = min(n, len(rest[s]))
				if n > 0 {
					c.write(stream(s), []byte(rest[s][:n]))
				}
				rest[s] = rest[s][n:]
			}
		}
		c.end(stdout)
		c.end(stderr)
		c.live.stop()
		if len(a)+len(b) > maxTail/2 {
			return
		}
		if got := only("a", string(c.all.tail)); got != finished(a) {
			t.Errorf("stdout %q became %q", a, got)
		}
		if got := only("b", string(c.all.tail)); got != finished(b) {
			t.Errorf("stderr %q became %q", b, got)
		}
	})
}

// mark begins every line with the name of its stream.
func mark(name, text string) string {
	if text == "" {
		return ""
	}
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return name + strings.Join(lines, name)
}

func only(name, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, name) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func finished(text string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}
