package editor

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
	"github.com/google/go-cmp/cmp"
)

// numbered lines l1 … ln
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "l%d\n", i+1)
	}
	return b.String()
}

const head = "--- a/f\n+++ b/f\n"

func TestPatchPlacesHunks(t *testing.T) {
	tests := []struct{ name, file, diff, want, note string }{
		{"exact", "a\nb\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "a\nB\nc\n", ""},
		{"two hunks", lines(9), "@@ -1,2 +1,3 @@\n l1\n+new\n l2\n@@ -8,2 +9,1 @@\n-l8\n l9\n", "l1\nnew\n" + lines(7)[3:] + "l9\n", ""},
		{"moved", lines(9), "@@ -2,3 +2,3 @@\n l5\n-l6\n+six\n l7\n", strings.Replace(lines(9), "l6", "six", 1), "Hunk 1 of f applied at line 5 instead of 2"},
		{"the second follows the first", "x\nx\n" + lines(3) + "mid\n" + lines(3), "@@ -1,3 +1,3 @@\n x\n-l1\n+one\n l2\n@@ -6,3 +6,3 @@\n-l1\n+ONE\n l2\n l3\n", "x\nx\none\nl2\nl3\nmid\nONE\nl2\nl3\n", "!"},
		{"shared context", lines(5), "@@ -1,4 +1,4 @@\n l1\n-l2\n+two\n l3\n l4\n@@ -3,3 +3,3 @@\n l3\n-l4\n+four\n l5\n", "l1\ntwo\nl3\nfour\nl5\n", ""},
		{"context that another hunk changes", lines(4), "@@ -1,2 +1,2 @@\n l1\n-l2\n+x\n@@ -2,2 +2,2 @@\n l2\n-l3\n+y\n", "l1\nx\ny\nl4\n", ""},
		{"shared context before a deletion", lines(5), "@@ -1,3 +1,4 @@\n l1\n+new\n l2\n l3\n@@ -2,4 +3,3 @@\n l2\n l3\n-l4\n l5\n", "l1\nnew\nl2\nl3\nl5\n", ""},
		{"no numbers", lines(3), "@@ ... @@\n l1\n-l2\n+two\n", "l1\ntwo\nl3\n", ""},
		{"bare marks", lines(3), "@@\n l1\n-l2\n+two\n l3\n", "l1\ntwo\nl3\n", ""},
		{"wrong counts", lines(3), "@@ -1,7 +1,9 @@\n l1\n-l2\n+two\n l3\n", "l1\ntwo\nl3\n", ""},
		{"counts too small", lines(4), "@@ -1,1 +1,1 @@\n l1\n-l2\n+two\n l3\n-l4\n", "l1\ntwo\nl3\n", ""},
		{"a context line that lost its space", "a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n", "a\n\nc\n", ""},
		{"spaces at the ends of lines", "a  \nb\nc\t\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "a  \nB\nc\t\n", "Hunk 1 of f applied with different spaces at the ends of lines"},
		{"outer context differs", "A\nb\nc\nd\n", "@@ -1,4 +1,4 @@\n a\n b\n-c\n+C\n d\n", "A\nb\nC\nd\n", "Hunk 1 of f applied with 1 outer context lines that differ"},
		{"two outer lines differ", "X\nY\nb\nc\n", "@@ -1,4 +1,4 @@\n x\n y\n b\n-c\n+C\n", "X\nY\nb\nC\n", "Hunk 1 of f applied with 2 outer context lines that differ"},
		{"out of order", lines(9), "@@ -8,1 +8,1 @@\n-l8\n+eight\n@@ -2,1 +2,1 @@\n-l2\n+two\n", "l1\ntwo\n" + lines(7)[6:] + "eight\nl9\n", ""},
		{"no context, insertion", lines(3), "@@ -2,0 +3,1 @@\n+new\n", "l1\nl2\nnew\nl3\n", ""},
		{"no context, at the top", lines(2), "@@ -0,0 +1,1 @@\n+new\n", "new\nl1\nl2\n", ""},
		{"no context, deletion", lines(3), "@@ -2,1 +1,0 @@\n-l2\n", "l1\nl3\n", ""},
		{"CRLF", "a\r\nb\r\nc\r\n", "@@ -1,3 +1,4 @@\n a\n-b\n+B\n+B2\n c\n", "a\r\nB\r\nB2\r\nc\r\n", ""},
		{"CRLF in the diff", "a\nb\n", "@@ -1,2 +1,2 @@\r\n a\r\n-b\r\n+B\r\n", "a\nB\n", ""},
		{"mixed ends", "a\r\nb\nc\r\nd\n", "@@ -1,4 +1,5 @@\n a\n b\n+x\n c\n-d\n+D\n", "a\r\nb\nx\r\nc\r\nD\n", ""},
		{"line ends on purpose", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+b\r\n", "a\nb\r\n", ""},
		{"a diff made of CRLF for a file of LF", "a\nb\n", "@@ -1,2 +1,3 @@\n a\r\n b\r\n+c\r\n", "a\nb\nc\n", ""},
		{"open last line", "a\nb", "@@ -1,2 +1,2 @@\n-a\n+A\n b\n", "A\nb", ""},
		{"open last line changed without a word", "a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n", "a\nB", ""},
		{"open last line added to", "a\nb", "@@ -1,2 +1,3 @@\n a\n b\n+c\n", "a\nb\nc", ""},
		{"open last line closed", "a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n", "a\nb\n", ""},
		{"closed last line opened", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n", "a\nb", ""},
		{"byte order mark", "\ufeffa\nb\n", "@@ -1,2 +1,2 @@\n-a\n+A\n b\n", "\ufeffA\nb\n", ""},
		{"lines that look like headers", "-- a\n++ b\n", "@@ -1,2 +1,2 @@\n--- a\n+-- A\n ++ b\n", "-- A\n++ b\n", ""},
		{"in a Markdown fence", lines(2), "@@ -1,2 +1,2 @@\n l1\n-l2\n+two\n```\n", "l1\ntwo\n", "fence"},
		{"everything", "a\n", "@@ -1 +0,0 @@\n-a\n", "", ""},
		{"into an empty file", "", "@@ -0,0 +1 @@\n+a\n", "a\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.put("f", tt.file)
			diff := head + tt.diff
			if tt.note == "fence" {
				diff, tt.note = "Here it is:\n```diff\n"+diff+"Good luck.\n", ""
			}
			s, err := b.Patch(b.fs, "f", diff)
			if err != nil {
				t.Fatal(err)
			}
			b.has("f", tt.want)
			notes := strings.ReplaceAll(strings.Join(s.Notes, "|"), b.dir+string(os.PathSeparator), "")
			if tt.note != "!" && notes != tt.note {
				t.Errorf("notes %q, want %q", notes, tt.note)
			}
			b.undo("f")
			b.has("f", tt.file)
		})
	}
}

func TestPatchRefuses(t *testing.T) {
	const no = "Hunk 1 of 1 for '$DIR/f' does not apply, and nothing was changed: "
	tests := []struct{ name, file, diff, want string }{
		{"no such context", "a\nb\n", head + "@@ -1,2 +1,2 @@\n a\n-c\n+C\n", no + "its lines are not in the file. The closest match is at lines 1-2 (1 of 2 lines differ):\nLine 2: the diff has \"c\"\n        the file has \"b\""},
		{"nothing like it", "a\nb\n", head + "@@ -1,2 +1,2 @@\n xyz\n-q\n+Q\n", no + `its lines are not in the file; they begin with "xyz"`},
		{"several places", "x\ny\nx\ny\nz\nx\n", head + "@@ -5,1 +5,1 @@\n-x\n+X\n", no + "it fits at 3 places (lines 1, 3, 6 ...), none of them where it says; add context lines"},
		{"several places after one that moved", "q\nz\nx\ny\nx\nz\nx\n", head + "@@ -1 +1 @@\n-y\n+Y\n@@ -3 +3 @@\n-x\n+X\n", "Hunk 2 of 2 for '$DIR/f' does not apply, and nothing was changed: it fits at 3 places (lines 3, 5, 7 ...), none of them where it says; add context lines"},
		{"several places with fuzz", "a\nx\na\nx\n", head + "@@ -1,2 +1,2 @@\n b\n-x\n+X\n", no + "it fits at 2 places (lines 2, 4 ...), none of them where it says; add context lines"},
		{"beyond the end", "a\n", head + "@@ -7,0 +8,1 @@\n+x\n", no + "it has no context, and line 7 is not in the file (total lines: 1)"},
		{"neither numbers nor context", "a\n", head + "@@ @@\n+x\n", no + "it has no context, and its line number cannot be relied on; add context lines"},
		{"the same lines twice", lines(3), head + "@@ -1,2 +1,2 @@\n l1\n-l2\n+x\n@@ -2,2 +2,2 @@\n-l2\n-l3\n+y\n", "Two hunks for '$DIR/f' change the same lines (at line 2). Nothing was changed."},
		{"a line without a mark", lines(3), head + "@@ -1,3 +1,3 @@\n l1\n-l2\n+x\nl3\n", `Invalid diff format: line 7: "l3" begins with neither a space, + nor -; every line of a hunk needs one of them`},
		{"no headers", "a\n", "@@ -1 +1 @@\n-a\n+--- b\n---\n+++\n", missingHeader},
		{"a binary patch", "a\n", "diff --git a/f b/f\nindex 111..222 100644\nBinary files a/f and b/f differ\n--- +++\n", "Invalid diff format: 'f' is a binary patch; only text can be patched"},
		{"only a mode", "a\n", "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n--- +++\n", "*"},
		{"a link", "a\n", "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+f\n", "Invalid diff format: 'l' is not a regular file in the diff; make links and submodules with the shell"},
		{"making what is there", "a\n", "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", "The diff creates '$DIR/f', but it exists. Nothing was changed."},
		{"deleting a part", "a\nb\n", "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "The diff deletes '$DIR/f', but 1 of its lines are not in the diff. Nothing was changed."},
		{"no change", "a\n", head + "@@ -1 +1 @@\n a\n", "*"},
		{"two names", "a\n", "diff --git a/f b/g\n--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n", "Invalid diff format: the headers name 'f' and 'g', but no rename"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.put("f", tt.file)
			_, err := b.Patch(b.fs, ".", tt.diff)
			if err == nil {
				t.Fatal("applied")
			}
			if got := strings.ReplaceAll(err.Error(), b.dir, "$DIR"); tt.want != "*" && got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
			b.has("f", tt.file)
			b.refusesUndo("f", noHistory)
		})
	}
}

// As many hunks as fit in a diff are not each looked for in all of a large file.
func TestPatchOfManyHunks(t *testing.T) {
	file := mustDecode(t, strings.Repeat("a\n", 200_000)+"b\n")
	for name, tt := range map[string]struct {
		line patchLine
		want string
	}{
		"where they say":    {patchLine{op: gitdiff.OpDelete, text: "a"}, "change the same lines"},
		"somewhere else":    {patchLine{op: gitdiff.OpDelete, text: "b"}, "too many hunks"},
		"without a context": {patchLine{op: gitdiff.OpAdd, text: "b"}, ""},
	} {
		var hunks []hunk
		for i := range 20_000 {
			hunks = append(hunks, hunk{start: 1 + i%2, lines: []patchLine{tt.line}})
		}
		began := time.Now()
		_, _, err := file.patched(hunks, "f")
		if tt.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %.300v", name, err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: it took %v", name, took)
		}
	}
}

// Which file a name in a diff means.
func TestPatchFindsFiles(t *testing.T) {
	const hunk = "@@ -1 +1 @@\n-x\n+y\n"
	tests := []struct{ name, path, headers, want string }{
		{"git's prefixes", ".", "--- a/src/f\n+++ b/src/f\n", "src/f"},
		{"git's own header", ".", "diff --git a/src/f b/src/f\n--- a/src/f\n+++ b/src/f\n", "src/f"},
		{"a directory called a", ".", "--- a/a/f\n+++ b/a/f\n", "a/f"},
		{"a directory called a, git", ".", "diff --git a/a/f b/a/f\n--- a/a/f\n+++ b/a/f\n", "a/f"},
		{"a directory called a, no prefix", ".", "--- a/f\n+++ a/f\n", "a/f"},
		{"no prefix", ".", "--- src/f\n+++ src/f\n", "src/f"},
		{"time stamps", ".", "--- src/f\t2026-01-01 00:00:00.000000000 +0000\n+++ src/f\t2026-01-02 00:00:00.000000000 +0000\n", "src/f"},
		{"a quoted name", ".", "--- \"a/sp ace\"\n+++ \"b/sp ace\"\n", "sp ace"},
		{"an absolute name", ".", "--- $DIR/src/f\n+++ $DIR/src/f\n", "src/f"},
		{"overlap with the base", "src", "--- a/src/f\n+++ b/src/f\n", "src/f"},
		{"overlap that is a real directory", "src", "--- a/src/g\n+++ b/src/g\n", "src/src/g"},
		{"beside the file", "src/f", "--- a/f\n+++ b/f\n", "src/f"},
		{"another file beside the file", "src/f", "--- a/src/h\n+++ b/src/h\n", "src/h"},
		{"the file, by its last name", "src/deep/k", "--- a/elsewhere/k\n+++ b/elsewhere/k\n", "src/deep/k"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			all := []string{"f", "a/f", "src/f", "src/h", "src/src/g", "src/deep/k", "sp ace"}
			for _, name := range all {
				b.put(name, "x\n")
			}
			if _, err := b.Patch(b.fs, tt.path, strings.ReplaceAll(tt.headers, "$DIR", b.dir)+hunk); err != nil {
				t.Fatal(err)
			}
			for _, name := range all {
				if name == tt.want {
					b.has(name, "y\n")
				} else {
					b.has(name, "x\n")
				}
			}
		})
	}
}

func TestPatchStaysInside(t *testing.T) {
	b := newBench(t)
	b.put("out/f", "x\n")
	b.put("base/f", "x\n")
	b.ok(os.Symlink(b.path("out"), b.path("base/dir")))
	b.ok(os.Symlink("f", b.path("base/link")))
	b.ok(os.Symlink(b.path("out/f"), b.path("base/away")))
	b.ok(os.Symlink(b.path("out/none"), b.path("base/dangling")))
	diff := func(name string) string { return fmt.Sprintf("--- %s\n+++ %s\n@@ -1 +1 @@\n-x\n+y\n", name, name) }
	add := func(name string) string { return fmt.Sprintf("--- /dev/null\n+++ %s\n@@ -0,0 +1 @@\n+y\n", name) }
	for diff, want := range map[string]string{
		diff("../out/f"):          "Path traversal detected: paths cannot contain '..'",
		diff("a/../../out/f"):     "Path traversal detected: paths cannot contain '..'",
		diff(" "):                 "Path '' is outside the base directory",
		diff(b.path("out/f")):     "Path '$DIR/out/f' is outside the base directory",
		diff("dir/f"):             "Path '$DIR/base/dir/f' would be outside the base directory",
		add("dir/new"):            "Path '$DIR/base/dir/new' would be outside the base directory",
		add("dir/sub/new"):        "Path '$DIR/base/dir/sub/new' would be outside the base directory",
		diff("link"):              "Cannot modify symlink '$DIR/base/link'. Please operate on the actual file.",
		diff("away"):              "Cannot modify symlink '$DIR/base/away'. Please operate on the actual file.",
		add("dangling"):           "Cannot modify symlink '$DIR/base/dangling'. Please operate on the actual file.",
		diff("f") + diff("dir/f"): "Path '$DIR/base/dir/f' would be outside the base directory",
		"diff --git a/f b/f\nrename from f\nrename to ../out/g\n\n--- +++\n": "Path traversal detected: paths cannot contain '..'",
		"diff --git a/f b/f\nrename from f\nrename to dir/g\n\n--- +++\n":    "Path '$DIR/base/dir/g' would be outside the base directory",
	} {
		_, err := b.Patch(b.fs, "base", diff)
		if err == nil || strings.ReplaceAll(err.Error(), b.dir, "$DIR") != want {
			t.Errorf("%s: %v, want %s", diff, err, want)
		}
	}
	b.has("out/f", "x\n")
	b.has("base/f", "x\n")
	b.has("out/none", "-")
	b.has("out/new", "-")
	b.has("out/g", "-")
}

func TestPatchMakesMovesAndRemoves(t *testing.T) {
	b := newBench(t)
	b.put("old", "1\n2\n3\n")
	s, err := b.Patch(b.fs, ".", "diff --git a/old b/sub/moved\nsimilarity index 60%\nrename from old\nrename to sub/moved\n--- a/old\n+++ b/sub/moved\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n")
	b.ok(err)
	b.has("old", "-")
	b.has("sub/moved", "1\ntwo\n3\n")
	if diff := cmp.Diff(Summary{Path: b.dir, Files: 1, Modified: 1, Added: 1, Removed: 1}, s); diff != "" {
		t.Error(diff)
	}
	b.undo("old")
	b.undo("sub/moved")
	b.has("old", "1\n2\n3\n")
	b.has("sub/moved", "-")

	// The path may be the file that the diff makes; two patches of one file add up.
	_, err = b.Patch(b.fs, "new/x", "--- /dev/null\n+++ b/new/x\n@@ -0,0 +1 @@\n+1\n")
	b.ok(err)
	b.has("new/x", "1\n")
	_, err = b.Patch(b.fs, "new", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-2\n+3\n")
	b.ok(err)
	b.has("new/x", "3\n")
	b.undo("new/x")
	b.has("new/x", "1\n")
}
