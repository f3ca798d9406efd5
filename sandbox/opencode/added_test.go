package opencode

import (
	"strings"
	"testing"
)

func TestAdded(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 8)
	tests := []struct{ name, before, now, want string }{
		{"the first", "", "one\n", "one\n"},
		{"more", "one\n", "one\ntwo\n", "two\n"},
		{"nothing new", "one\n", "one\n", ""},
		{"the window moved", long + "A", long[16:] + "A" + "B", "B"},
		{"the last answer has a heading", "tail of the output\n", "...truncated...\n\ntail of the output\nend\n", "end\n"},
		{"a moved window below a heading", "xx" + long, "Full output: file\n" + long + "end", gap + "Full output: file\n" + long + "end"},
		{"all of it came and went", "one\n", "two\n", gap + "two\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := added(tt.before, tt.now); got != tt.want {
				t.Errorf("added = %q, want %q", got, tt.want)
			}
		})
	}
}

// overlap finds what trying all lengths finds.
func FuzzOverlap(f *testing.F) {
	for _, seed := range [][2]string{{"abab", "abab"}, {"aab", "ab"}, {"", "a"}, {"a", ""}, {"aaaa", "aa"}, {"xaba", "abac"}, {"x", "y"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		want := 0
		for n := range min(len(a), len(b)) + 1 {
			if a[len(a)-n:] == b[:n] {
				want = n
			}
		}
		if got := overlap(a, b); got != want {
			t.Errorf("overlap(%q, %q) = %d, want %d", a, b, got, want)
		}
		if fresh := added(a, b); !strings.HasSuffix(gap+b, fresh) {
			t.Errorf("added(%q, %q) = %q, which is not at the end", a, b, fresh)
		}
	})
}
