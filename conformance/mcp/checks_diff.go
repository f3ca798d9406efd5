package mcp

import (
	"fmt"
	"strings"
)

func diffChecks() []Check {
	editor := []string{"text_editor"}
	return []Check{
		{ID: "diff.apply", Requirements: []int{69}, needs: editor, run: checkDiff, Text: "a diff of one file is applied, to the file or from its directory, and its lines counted"},
		{ID: "diff.several-files", Requirements: []int{69}, needs: editor, run: checkDiffFiles, Text: "a diff of several files is applied, and makes new ones"},
		{ID: "diff.atomic", Requirements: []int{48, 69}, needs: editor, run: checkDiffAtomic, Text: "a hunk that does not fit is an error, and nothing of the diff is applied"},
		{ID: "diff.invalid", Requirements: []int{45, 69}, needs: editor, run: checkDiffInvalid, Text: "what is no diff, too large or of too many files is refused"},
	}
}

func checkDiff(p *probe) {
	p.write("f.txt", "one\ntwo\nthree\n")
	diff := "--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2.5\n three\n"
	assistant, user := p.split("the diff", p.edited("str_replace", "f.txt", args{"diff": diff}), 0.2)
	p.holds("the answer to a diff", assistant, "Successfully applied diff to ", "Lines added: 2", "Lines removed: 1")
	p.holds("what the user sees of a diff", user, "Lines added: 2", "undo_edit")
	p.equal("the file", p.read("f.txt"), "one\n2\n2.5\nthree\n")
	p.edited("str_replace", "", args{"diff": "```diff\n" + diffOf("f.txt", "one", "1") + "```\n"})
	p.equal("the file after a fenced diff from its directory", p.read("f.txt"), "1\n2\n2.5\nthree\n")
}

func checkDiffFiles(p *probe) {
	p.write("a.txt", "a\n")
	p.write("sub/b.txt", "b\n")
	diff := diffOf("a.txt", "a", "A") + diffOf("sub/b.txt", "b", "B") + "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n"
	a := p.edited("str_replace", "", args{"diff": diff})
	p.holds("the answer to a diff of three files", a.text("assistant"), "Successfully applied multi-file diff:", "Files created: 1", "Files modified: 2", "Lines added: 3", "Lines removed: 2")
	for name, want := range map[string]string{"a.txt": "A\n", "sub/b.txt": "B\n", "new.txt": "new\n"} {
		p.equal(name, lf(p.read(name)), want)
	}
}

func checkDiffAtomic(p *probe) {
	p.write("a.txt", "a\n")
	p.write("b.txt", "b\n")
	if a := p.edit("str_replace", "", args{"diff": diffOf("a.txt", "a", "A") + diffOf("b.txt", "something else entirely", "B")}); !a.failed() {
		p.problem("a hunk that does not fit works: %s", excerpt(a.words()))
	}
	p.equal("the file that does not fit", p.read("b.txt"), "b\n")
	p.equal("the file before it", p.read("a.txt"), "a\n")
}

func checkDiffInvalid(p *probe) {
	p.write("f.txt", "one\n")
	var many strings.Builder
	for i := range 101 {
		many.WriteString(diffOf(fmt.Sprintf("f%d.txt", i), "one", "two"))
	}
	for _, tt := range []struct{ what, diff, words string }{
		{"no diff", "replace one by two, please", "The 'diff' parameter must be in unified diff format"},
		{"a large diff", diffOf("f.txt", "one", strings.Repeat("x", 1<<20)), "Maximum size is 1048576 bytes (1MB)."},
		{"a diff of 101 files", many.String(), "Too many files in diff (101). Maximum is 100 files."},
	} {
		p.refused(tt.what, p.edit("str_replace", "", args{"diff": tt.diff}), invalidParams, tt.words)
	}
	p.equal("the file", p.read("f.txt"), "one\n")
}
