package mcp

import (
	"os"
	"strings"
)

func editorChangeChecks() []Check {
	editor := []string{"text_editor"}
	return []Check{
		{ID: "editor.write", Requirements: []int{69}, needs: editor, run: checkWrite, Text: "write makes or replaces a file, with the directories above it and a final newline, and says so"},
		{ID: "editor.str-replace", Requirements: []int{69}, needs: editor, run: checkReplace, Text: "str_replace replaces the one place, shows it, and deletes with an empty new_str"},
		{ID: "editor.str-replace-errors", Requirements: []int{45, 69}, needs: editor, run: checkReplaceErrors, Text: "no place, several places and a missing file are refused, and nothing is changed"},
		{ID: "editor.insert", Requirements: []int{69}, needs: editor, run: checkInsert, Text: "insert puts text behind a line: 0 is the beginning, -1 the end"},
		{ID: "editor.insert-errors", Requirements: []int{45, 69}, needs: editor, run: checkInsertErrors, Text: "a line beyond the end is refused, and nothing is changed"},
		{ID: "editor.undo", Requirements: []int{69}, needs: editor, run: checkUndo, Text: "undo_edit takes back one change after the other, of whatever kind, and then says that there is none"},
		{ID: "editor.line-endings", Requirements: []int{43, 69}, needs: editor, run: checkEndings, Text: "a change keeps the line endings of the rest of the file"},
		{ID: "editor.hard-links", Platform: "unix", Requirements: []int{69}, needs: editor, run: checkHardLinks, Text: "a change of a file with two names (a hard link) is seen by both"},
		{ID: "editor.mode", Platform: "unix", Requirements: []int{69}, needs: editor, run: checkMode, Text: "a change keeps a file's permissions, and leaves no other file behind"},
	}
}

func checkWrite(p *probe) {
	assistant, user := p.split("write", p.edited("write", "deep/new/f.go", args{"file_text": "package f"}), 0.2)
	p.equal("the answer to write", assistant, "Successfully wrote to "+p.path("deep", "new", "f.go"))
	p.holds("what the user sees of write", user, "### "+p.path("deep", "new", "f.go"), "```go\npackage f\n")
	p.equal("the file", lf(p.read("deep/new/f.go")), "package f\n")
	p.edited("write", "deep/new/f.go", args{"file_text": "package g\n"})
	p.equal("the file, written again", lf(p.read("deep/new/f.go")), "package g\n")
}

func checkReplace(p *probe) {
	p.write("f.go", "package f\n\nvar a = 1\nvar b = 2\nvar c = 3\n")
	assistant, user := p.split("str_replace", p.edited("str_replace", "f.go", args{"old_str": "var b = 2", "new_str": "var b = 20\nvar bb = 21"}), 0.2)
	p.holds("the answer to str_replace", assistant, "The file "+p.path("f.go")+" has been edited, and the section now reads:", "var b = 20\nvar bb = 21", "Review the changes above for errors.")
	p.holds("what the user sees of str_replace", user, "```go\n", "var b = 20\nvar bb = 21")
	p.equal("the file", p.read("f.go"), "package f\n\nvar a = 1\nvar b = 20\nvar bb = 21\nvar c = 3\n")
	p.edited("str_replace", "f.go", args{"old_str": "var a = 1\n", "new_str": ""})
	p.equal("the file after a deletion", p.read("f.go"), "package f\n\nvar b = 20\nvar bb = 21\nvar c = 3\n")
}

func checkReplaceErrors(p *probe) {
	p.write("f.txt", "one\ntwo\none\n")
	p.refused("str_replace of what is there twice", p.edit("str_replace", "f.txt", args{"old_str": "one", "new_str": "x"}), invalidParams,
		"'old_str' must appear exactly once in the file, but it appears multiple times")
	p.refused("str_replace of what is not there", p.edit("str_replace", "f.txt", args{"old_str": "three", "new_str": "x"}), invalidParams,
		"'old_str' must appear exactly once in the file, but it does not appear in the file.")
	p.refused("str_replace of nothing", p.edit("str_replace", "f.txt", args{"old_str": "", "new_str": "x"}), invalidParams)
	p.refused("str_replace in a missing file", p.edit("str_replace", "missing.txt", args{"old_str": "a", "new_str": "b"}), invalidParams,
		"does not exist, you can write a new file with the `write` command")
	p.equal("the file", p.read("f.txt"), "one\ntwo\none\n")
}

func checkInsert(p *probe) {
	for _, tt := range []struct {
		line int
		want string
		at   string
	}{
		{0, "new\na\nb\nc\n", "line 1 "}, {1, "a\nnew\nb\nc\n", "line 2 "}, {3, "a\nb\nc\nnew\n", "line 4 "}, {-1, "a\nb\nc\nnew\n", "line 4 "}, {-2, "a\nb\nnew\nc\n", "line 3 "},
	} {
		p.write("f.txt", "a\nb\nc\n")
		assistant, _ := p.split("insert", p.edited("insert", "f.txt", args{"insert_line": tt.line, "new_str": "new"}), 0.2)
		p.holds("the answer to insert", assistant, "Text has been inserted at "+tt.at+"in "+p.path("f.txt")+". The section now reads:", ": new\n")
		p.equal("the file after an insert", p.read("f.txt"), tt.want)
	}
}

func checkInsertErrors(p *probe) {
	p.write("f.txt", "a\nb\nc\n")
	for _, line := range []int{4, 99, -5, -100} {
		p.refused("insert", p.edit("insert", "f.txt", args{"insert_line": line, "new_str": "x"}), invalidParams, "is beyond the end of the file (total lines: 3).")
	}
	p.refused("insert into a missing file", p.edit("insert", "missing.txt", args{"insert_line": 0, "new_str": "x"}), invalidParams, "does not exist, you can write a new file with the `write` command")
	p.equal("the file", p.read("f.txt"), "a\nb\nc\n")
}

func checkUndo(p *probe) {
	p.write("f.txt", "zero\n")
	states := []string{"zero\n"}
	change := func(command string, more args) {
		p.edited(command, "f.txt", more)
		states = append(states, p.read("f.txt"))
	}
	change("write", args{"file_text": "a\nb\n"})
	change("insert", args{"insert_line": 2, "new_str": "c"})
	change("str_replace", args{"old_str": "b", "new_str": "B"})
	change("str_replace", args{"diff": diffOf("f.txt", "a", "A")})
	for i := len(states) - 2; i >= 0; i-- {
		a := p.edited("undo_edit", "f.txt", nil)
		p.holds("the answer to undo_edit", a.text("assistant"), "Undid the last edit")
		p.equal("the file after undo_edit", p.read("f.txt"), states[i])
	}
	p.refused("undo_edit of nothing", p.edit("undo_edit", "f.txt", nil), invalidParams, "No edit history available to undo")
}

func checkEndings(p *probe) {
	p.write("crlf.txt", "one\r\ntwo\r\nthree\r\n")
	p.edited("str_replace", "crlf.txt", args{"old_str": "two", "new_str": "2"})
	p.equal("a file with CRLF after str_replace", p.read("crlf.txt"), "one\r\n2\r\nthree\r\n")
	p.edited("str_replace", "crlf.txt", args{"old_str": "one\n2", "new_str": "1\n2"})
	p.equal("a file with CRLF after a match over two lines", p.read("crlf.txt"), "1\r\n2\r\nthree\r\n")
	p.write("lf.txt", "one\ntwo\n")
	p.edited("str_replace", "lf.txt", args{"old_str": "two", "new_str": "2"})
	p.equal("a file with LF after str_replace", p.read("lf.txt"), "one\n2\n")
}

func checkMode(p *probe) {
	p.write("run.sh", "echo one\n")
	if err := os.Chmod(p.host("run.sh"), 0o750); err != nil {
		p.fail("%v", err)
	}
	p.edited("str_replace", "run.sh", args{"old_str": "one", "new_str": "two"})
	p.edited("write", "run.sh", args{"file_text": "echo three\n"})
	info, err := os.Stat(p.host("run.sh"))
	if err != nil || info.Mode().Perm() != 0o750 {
		p.problem("the file's mode is %v, want rwxr-x---", info.Mode().Perm())
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil || len(entries) != 1 {
		p.problem("edits left other files: %v", strings.TrimSpace(strings.Join(names(entries), " ")))
	}
}

func names(entries []os.DirEntry) []string {
	all := make([]string, len(entries))
	for i, e := range entries {
		all[i] = e.Name()
	}
	return all
}
