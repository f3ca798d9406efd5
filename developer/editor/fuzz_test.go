package editor

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"testing"
)

// memory is what an edit may be made on without a disk: a file, its editor's
// history, and what the edit made of it.
func undoes(t *testing.T, before, after []byte) {
	t.Helper()
	e := New(Options{})
	was := file{data: before}
	e.history.push("f", was, file{data: after})
	v, ok := e.history.last("f")
	if !ok || !v.matches(file{data: after}) || !bytes.Equal(v.before.data, before) {
		t.Fatalf("undo of %q to %q: %v %v", before, after, v, ok)
	}
}

// outside checks that an edit kept the bytes of the lines before and after the
// lines that it was about.
func outside(t *testing.T, before, after text, head, tail int) {
	t.Helper()
	if head+tail > len(after.lines) {
		t.Fatalf("%d lines are left of %d+%d that were not touched", len(after.lines), head, tail)
	}
	for i := range head {
		if before.lines[i] != after.lines[i] && before.lines[i].end != "" {
			t.Fatalf("line %d was %q and is %q", i+1, before.lines[i], after.lines[i])
		}
	}
	for i := range tail {
		was, is := before.lines[len(before.lines)-1-i], after.lines[len(after.lines)-1-i]
		if was != is {
			t.Fatalf("line %d from the end was %q and is %q", i+1, was, is)
		}
	}
}

func FuzzReplace(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), "b", "x")
	f.Add([]byte("a\r\nb\r\nc"), "b\nc", "x\r\ny")
	f.Add([]byte("\ufeffa\nb\r\nc\n"), "a\nb", "")
	f.Add([]byte("a\r\r\nb\r"), "\r", "\r\n")
	f.Add([]byte("a\r\nb\na\nb\n"), "a\nb", "x")
	f.Add([]byte("a\nb\na\r\nb\r\n"), "a\r\nb", "x")
	f.Add([]byte(""), "", "x")
	f.Add([]byte("ä\xff"), "ä", "x")
	f.Add([]byte("func a() {\n\treturn\n}\n"), "func a() {\n    return\n}", "x")
	f.Fuzz(func(t *testing.T, data []byte, old, new string) {
		before, err := decode(data)
		if err != nil {
			return
		}
		if !bytes.Equal(before.bytes(), data) {
			t.Fatalf("%q became %q", data, before.bytes())
		}
		after, at, err := before.replace(old, new)
		if !bytes.Equal(before.bytes(), data) {
			t.Fatalf("the original became %q", before.bytes())
		}
		if err != nil {
			if !bytes.Equal(after.bytes(), data) || len(err.Error()) > 5000 {
				t.Fatalf("an error with a change, or a long one: %v", err)
			}
			return
		}
		find := toLF(old)
		if before.bom {
			find = strings.TrimPrefix(find, bom)
		}
		plain := before.plain()
		offset, n := before.locate(plain, old)
		if before.bom {
			offset, n = before.locate(plain, strings.TrimPrefix(old, bom))
		}
		if n != 1 || !strings.HasPrefix(plain[offset:], find) {
			t.Fatalf("%q is %d times in %q, at %d", old, n, data, offset)
		}
		want := plain[:offset] + toLF(new) + plain[offset+len(find):]
		if got := after.plain(); got != want && (before.open() || got != want+"\n") {
			t.Fatalf("%q with %q for %q is %q", data, new, old, got)
		}
		if before.bom != after.bom {
			t.Fatal("the byte order mark")
		}
		touched := strings.Count(find, "\n") + 1
		outside(t, before, after, at, max(0, len(before.lines)-at-touched))
		after.snippet(at, 1+strings.Count(new, "\n"), true)
		undoes(t, data, after.bytes())
	})
}

func FuzzInsert(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), int64(1), "x")
	f.Add([]byte("a\r\nb"), int64(-1), "x\ny\n")
	f.Add([]byte(""), int64(0), "")
	f.Add([]byte("\ufeff"), int64(-9223372036854775808), "\r\n")
	f.Fuzz(func(t *testing.T, data []byte, n int64, s string) {
		before, err := decode(data)
		if err != nil {
			return
		}
		after, at, err := before.insert(n, s)
		if !bytes.Equal(before.bytes(), data) {
			t.Fatalf("the original became %q", before.bytes())
		}
		total := int64(len(before.lines))
		if inside := n <= total && n >= -total-1; inside != (err == nil) {
			t.Fatalf("line %d of %d: %v", n, total, err)
		}
		if err != nil {
			return
		}
		want := strings.Count(toLF(s), "\n") + 1
		if at == len(before.lines) && (s == "" || strings.HasSuffix(s, "\n")) {
			want--
		}
		if added := len(after.lines) - len(before.lines); added != want {
			t.Fatalf("%q is %d lines, want %d", s, added, want)
		}
		outside(t, before, after, at, len(before.lines)-at)
		after.snippet(at, 1+strings.Count(s, "\n"), true)
		undoes(t, data, after.bytes())
	})
}

// FuzzPatch applies any text as a diff to any file.
func FuzzPatch(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n")
	f.Add([]byte("a\r\nb\r\n"), "--- f\n+++ f\n@@ @@\n-b\n+x\n+y\n")
	f.Add([]byte("a"), "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+b\n+c\n")
	f.Add([]byte("x\ny\n"), "```diff\n--- a/f\n+++ b/f\n@@ -9,9 +9 @@\n x\n\n-y\n```")
	f.Add([]byte(""), "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n")
	f.Add([]byte("a\n"), "diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to g\n--- +++\n@@")
	f.Fuzz(func(t *testing.T, data []byte, diff string) {
		before, err := decode(data)
		if err != nil {
			return
		}
		patches, err := parseDiff(diff)
		if err != nil {
			return
		}
		for _, p := range patches {
			if p.old == "" && p.new == "" {
				t.Fatal("a patch of nothing")
			}
			after, _, err := before.patched(p.hunks, "f")
			if !bytes.Equal(before.bytes(), data) {
				t.Fatalf("the original became %q", before.bytes())
			}
			if err != nil {
				if !bytes.Equal(after.bytes(), data) {
					t.Fatalf("an error with a change: %v", err)
				}
				continue
			}
			balance(t, before, after, p.hunks)
			undoes(t, data, after.bytes())
		}
	})
}

// balance checks that a patch took away and added what it says, and nothing else.
func balance(t *testing.T, before, after text, hunks []hunk) {
	t.Helper()
	count := map[string]int{}
	for _, l := range before.lines {
		count[strings.TrimRight(l.text, " \t\r")]++
	}
	for _, h := range hunks {
		for _, l := range h.lines {
			switch l.op.String() {
			case "+":
				count[strings.TrimRight(l.text, " \t\r")]++
			case "-":
				count[strings.TrimRight(l.text, " \t\r")]--
			}
		}
	}
	for _, l := range after.lines {
		count[strings.TrimRight(l.text, " \t\r")]--
	}
	for l, n := range count {
		if n != 0 {
			t.Fatalf("%q is off by %d: %q became %q", l, n, before.bytes(), after.bytes())
		}
	}
}

// FuzzDiff makes a diff of two texts, spoils its numbers, and applies it.
func FuzzDiff(f *testing.F) {
	f.Add("a\nb\nc\nd\ne\nf\n", "a\nb\nX\nd\ne\nf\n", 0)
	f.Add("a\nb", "a\nb\nc", 3)
	f.Add("", "a\n", 0)
	f.Add("--- a\n+++ b\n@@ -1 +1 @@\n", "--- a\n+++ b\n@@ -2 +2 @@\n", -1)
	f.Add("a @@\r", "b", 0)
	f.Fuzz(func(t *testing.T, old, new string, moved int) {
		before, err := decode([]byte(old))
		after, err2 := decode([]byte(new))
		if err != nil || err2 != nil || before.bom || after.bom || old == new {
			return
		}
		patches, err := parseDiff(diffOf(before, after, moved))
		if err != nil || len(patches) != 1 {
			t.Fatalf("%q to %q: %v", old, new, err)
		}
		got, notes, err := before.patched(patches[0].hunks, "f")
		if moved == 0 {
			if err != nil || string(got.bytes()) != new || notes != nil {
				t.Fatalf("%q to %q gave %q, %q, %v", old, new, got.bytes(), notes, err)
			}
			return
		}
		if err == nil && moved > 0 {
			balance(t, before, got, patches[0].hunks) // it may fit elsewhere too, but only as a whole
		}
	})
}

// diffOf is a unified diff of one hunk with three lines of context.
func diffOf(old, new text, moved int) string {
	head := 0
	for head < len(old.lines) && head < len(new.lines) && old.lines[head] == new.lines[head] {
		head++
	}
	tail := 0
	for tail < len(old.lines)-head && tail < len(new.lines)-head && old.lines[len(old.lines)-1-tail] == new.lines[len(new.lines)-1-tail] {
		tail++
	}
	from, after := max(0, head-3), min(tail, 3)
	var body strings.Builder
	put := func(mark string, lines []line) {
		for _, l := range lines {
			body.WriteString(mark + l.text + cmp.Or(l.end, "\n"))
			if l.end == "" {
				body.WriteString("\\ No newline at end of file\n")
			}
		}
	}
	put(" ", old.lines[from:head])
	put("-", old.lines[head:len(old.lines)-tail])
	put("+", new.lines[head:len(new.lines)-tail])
	put(" ", old.lines[len(old.lines)-tail:len(old.lines)-tail+after])
	oldCount, newCount := len(old.lines)-tail+after-from, len(new.lines)-tail+after-from
	start := func(count int) int {
		if count == 0 {
			return from
		}
		return max(0, from+1+moved%1000)
	}
	return fmt.Sprintf("--- a/f\n+++ b/f\n@@ -%d,%d +%d,%d @@\n%s", start(oldCount), oldCount, start(newCount), newCount, body.String())
}
