package mcp

import (
	"fmt"
	"maps"
	"strings"
)

func editorChecks() []Check {
	editor := []string{"text_editor"}
	return []Check{
		{ID: "editor.view", Requirements: []int{69}, needs: editor, run: checkView, Text: "view shows a file with its name, numbered, in a fence with its language, to both audiences"},
		{ID: "editor.view-range", Requirements: []int{69}, needs: editor, run: checkViewRange, Text: "view_range shows those lines and names them; -1 is the end, 0 the beginning, what is beyond is cut"},
		{ID: "editor.view-errors", Requirements: []int{45, 48, 69}, needs: editor, run: checkViewErrors, Text: "missing files, ranges beyond the end and ranges that end before they begin are refused with their codes"},
		{ID: "editor.view-limits", Requirements: []int{34, 50, 69}, needs: editor, run: checkViewLimits, Text: "more than 2000 lines need a range, more than 400 KB are refused"},
		{ID: "editor.view-directory", Requirements: []int{69}, needs: editor, run: checkViewDirectory, Text: "view of a directory lists directories, then files, fifty at most"},
		{ID: "editor.view-text", Requirements: []int{48, 69}, needs: editor, run: checkViewText, Text: "a file that is no text is refused as unreadable"},
		{ID: "editor.arguments", Requirements: []int{45, 64, 69}, needs: editor, run: checkEditorArguments, Text: "unknown commands, missing arguments and numbers that are no integers are invalid parameters"},
	}
}

// edit calls text_editor.
func (p *probe) edit(command, name string, more args) answer {
	a := args{"command": command, "path": p.path(name)}
	maps.Copy(a, more)
	return p.call("text_editor", a)
}

// edited is an edit that has to work.
func (p *probe) edited(command, name string, more args) answer {
	a := p.edit(command, name, more)
	p.worked(a, "text_editor "+command, more)
	return a
}

func checkView(p *probe) {
	p.write("main.go", "package main\n\nfunc main() {}\n")
	want := "### " + p.path("main.go") + "\n```go\n1: package main\n2: \n3: func main() {}\n"
	assistant, user := p.split("view", p.edited("view", "main.go", nil), 0)
	p.equal("the view", user, assistant)
	if !strings.HasPrefix(assistant, want) || !strings.HasSuffix(assistant, "```\n") {
		p.problem("the view is %s, want %s and a closing fence", excerpt(assistant), excerpt(want))
	}
	for name, fence := range map[string]string{"x.py": "```python\n", "x.rs": "```rust\n", "x.ts": "```typescript\n", "x.sh": "```bash\n", "x.md": "```markdown\n", "x.unknown": "```\n"} {
		p.write(name, "text\n")
		p.holds("the view of "+name, p.edited("view", name, nil).text("assistant"), "\n"+fence+"1: text\n")
	}
}

// numbered makes a file of n lines: line 1, line 2, …
func (p *probe) numbered(name string, n int) {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	p.write(name, b.String())
}

func checkViewRange(p *probe) {
	p.numbered("f.txt", 10)
	for _, tt := range []struct {
		from, to int
		heading  string
		first    string
		last     string
		beyond   string
	}{
		{2, 4, " (lines 2-4)\n", "2: line 2\n", "4: line 4\n", "5: line 5"},
		{3, 3, " (lines 3-3)\n", "3: line 3\n", "3: line 3\n", "4: line 4"},
		{9, -1, " (lines 9-end)\n", "9: line 9\n", "10: line 10\n", "8: line 8"},
		{0, 2, " (lines ", "1: line 1\n", "2: line 2\n", "3: line 3"},
		{8, 99, " (lines 8-", "8: line 8\n", "10: line 10\n", "7: line 7"},
	} {
		what := fmt.Sprintf("the view of lines %d to %d", tt.from, tt.to)
		text := p.edited("view", "f.txt", args{"view_range": []int{tt.from, tt.to}}).text("assistant")
		p.holds(what, text, "### "+p.path("f.txt")+tt.heading, tt.first, tt.last)
		if strings.Contains(text, tt.beyond) {
			p.problem("%s shows %q: %s", what, tt.beyond, excerpt(text))
		}
	}
}

func checkViewErrors(p *probe) {
	p.numbered("f.txt", 10)
	p.refused("view of a missing file", p.edit("view", "missing.txt", nil), internalError, "The path '"+p.path("missing.txt")+"' does not exist or is not accessible.")
	p.refused("view beyond the end", p.edit("view", "f.txt", args{"view_range": []int{11, 12}}), invalidParams, "Start line 11 is beyond the end of the file (total lines: 10)")
	p.refused("view backwards", p.edit("view", "f.txt", args{"view_range": []int{5, 3}}), invalidParams, "Start line 5 must be less than end line 3")
}

func checkViewLimits(p *probe) {
	p.numbered("long.txt", 2001)
	p.refused("view of 2001 lines", p.edit("view", "long.txt", nil), internalError, "2001 lines long", "view_range", "[1, 2001]")
	p.holds("the view of all 2001 lines", p.edited("view", "long.txt", args{"view_range": []int{1, 2001}}).text("assistant"), "2001: line 2001")
	p.numbered("enough.txt", 2000)
	p.holds("the view of 2000 lines", p.edited("view", "enough.txt", nil).text("assistant"), "2000: line 2000")
	p.write("large.txt", strings.Repeat(strings.Repeat("x", 99)+"\n", 4200))
	p.refused("view of 420000 bytes", p.edit("view", "large.txt", args{"view_range": []int{1, 2}}), internalError, "is too large", "KB). Maximum size is 400KB")
}

func checkViewDirectory(p *probe) {
	p.write("dir/b.txt", "x")
	p.write("dir/a.txt", "x")
	p.write("dir/sub/c.txt", "x")
	p.write("dir/.hidden", "x")
	text := p.edited("view", "dir", nil).text("assistant")
	p.holds("the view of a directory", text, "'"+p.path("dir")+"' is a directory. Contents:\n\n", "Directories:\n  sub/\n", "Files:\n  .hidden\n  a.txt\n  b.txt\n")
	for i := range 60 {
		p.write(fmt.Sprintf("many/f%02d.txt", i), "x")
	}
	text = p.edited("view", "many", nil).text("assistant")
	p.holds("the view of a full directory", text, "... and 10 more items (showing first 50 items)")
	if n := strings.Count(text, ".txt"); n != 50 {
		p.problem("%d of 60 files are listed, want 50", n)
	}
}

func checkViewText(p *probe) {
	p.write("binary", "\xff\xfe\x00\x01binary")
	p.refused("view of a file that is no text", p.edit("view", "binary", nil), internalError, "Failed to read file")
}

func checkEditorArguments(p *probe) {
	p.write("f.txt", "one\ntwo\n")
	for _, tt := range []struct {
		command string
		more    args
		words   string
	}{
		{"destroy", nil, "Unknown command 'destroy'"},
		{"write", nil, "Missing 'file_text' parameter for write command"},
		{"str_replace", args{"new_str": "x"}, "Missing 'old_str' parameter for str_replace command"},
		{"str_replace", args{"old_str": "one"}, "Missing 'new_str' parameter for str_replace command"},
		{"insert", args{"new_str": "x"}, "Missing 'insert_line' parameter for insert command"},
		{"insert", args{"insert_line": 1}, "Missing 'new_str' parameter for insert command"},
		{"insert", args{"insert_line": 1.5, "new_str": "x"}, ""},
		{"insert", args{"insert_line": "1", "new_str": "x"}, ""},
		{"view", args{"view_range": "1-2"}, ""},
		{"write", args{"file_text": 5}, ""},
	} {
		p.refused(tt.command+" "+marshal(tt.more), p.edit(tt.command, "f.txt", tt.more), invalidParams, tt.words)
	}
	p.refused("text_editor without a path", p.call("text_editor", args{"command": "view"}), invalidParams)
	p.refused("text_editor without a command", p.call("text_editor", args{"path": p.path("f.txt")}), invalidParams)
	p.equal("the file", p.read("f.txt"), "one\ntwo\n")
}
