package developer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/developer/editor"
)

// An editorBench is a text_editor in a directory of its own.
type editorBench struct {
	t    *testing.T
	dir  string
	tool Tool
}

func newEditorBench(t *testing.T) editorBench {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	spaces := NewSpaces(SpacesOptions{WorkingDir: dir})
	t.Cleanup(func() {
		if err := spaces.Close(); err != nil {
			t.Error(err)
		}
	})
	return editorBench{t, dir, textEditorTool(editor.New(editor.Options{}), spaces)}
}

func (b editorBench) path(name string) string { return filepath.Join(b.dir, filepath.FromSlash(name)) }

func (b editorBench) file(name, content string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b editorBench) content(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(b.path(name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

func (b editorBench) call(args map[string]any) (Result, error) {
	b.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.tool.Call(b.t.Context(), Call{Arguments: raw})
}

// golden compares every byte of a result: each block as "audience priority: text".
// $DIR stands for the directory.
func (b editorBench) golden(args map[string]any, want ...string) {
	b.t.Helper()
	result, err := b.call(args)
	if err != nil {
		b.t.Fatalf("%v: %v", args, err)
	}
	var got []string
	for _, c := range result.Content {
		head := strings.Join(c.Audience, "+")
		if c.Priority != nil {
			head += fmt.Sprintf(" %.1f", *c.Priority)
		}
		got = append(got, head+": "+strings.ReplaceAll(c.Text, b.dir, "$DIR"))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("%v (-want +got):\n%s", args, diff)
	}
	if result.IsError {
		b.t.Errorf("%v: isError, which the classic server never set", args)
	}
}

// fails compares the code and every byte of the message.
func (b editorBench) fails(args map[string]any, code int, message string) {
	b.t.Helper()
	result, err := b.call(args)
	e, ok := err.(*Error)
	if !ok {
		b.t.Errorf("%v: %v, %v; want the error %d %s", args, result, err, code, message)
		return
	}
	if got := strings.ReplaceAll(e.Message, b.dir, "$DIR"); e.Code != code || got != message {
		b.t.Errorf("%v:\n got %d %s\nwant %d %s", args, e.Code, got, code, message)
	}
}

type args = map[string]any

// The layouts of developer-classic.md section 5.1.
func TestTextEditorView(t *testing.T) {
	b := newEditorBench(t)
	b.file("main.go", "package main\n\nfunc main() {}\n")
	b.file("crlf.txt", "a\r\nb\r\n")
	b.file("empty.md", "")
	b.file("open.tsx", "one\ntwo")
	b.file("bom.py", "\ufeffx = 1\n")
	both := func(text string) []string { return []string{"assistant: " + text, "user 0.0: " + text} }
	view := func(name string, r ...any) args {
		a := args{"command": "view", "path": name}
		if r != nil {
			a["view_range"] = r
		}
		return a
	}
	b.golden(view("main.go"), both("### $DIR/main.go\n```go\n1: package main\n2: \n3: func main() {}\n```\n")...)
	b.golden(view(b.path("main.go"), 1, 2), both("### $DIR/main.go (lines 1-2)\n```go\n1: package main\n2: \n```\n")...)
	b.golden(view("main.go", 0, -1), both("### $DIR/main.go (lines 0-end)\n```go\n1: package main\n2: \n3: func main() {}\n```\n")...)
	b.golden(view("main.go", 3, 3), both("### $DIR/main.go (lines 3-3)\n```go\n3: func main() {}\n```\n")...)
	b.golden(view("main.go", 2, 99), both("### $DIR/main.go (lines 2-99)\n```go\n2: \n3: func main() {}\n```\n")...)
	b.golden(view("main.go", 3, -7), both("### $DIR/main.go (lines 3--7)\n```go\n3: func main() {}\n```\n")...)
	b.golden(view("main.go", 1, 2, 3), both("### $DIR/main.go\n```go\n1: package main\n2: \n3: func main() {}\n```\n")...)
	b.golden(view("crlf.txt"), both("### $DIR/crlf.txt\n```\n1: a\n2: b\n```\n")...)
	b.golden(view("empty.md"), both("### $DIR/empty.md\n```markdown\n\n```\n")...)
	b.golden(view("open.tsx"), both("### $DIR/open.tsx\n```\n1: one\n2: two\n```\n")...)
	b.golden(view("bom.py"), both("### $DIR/bom.py\n```python\n1: x = 1\n```\n")...)

	b.fails(view("empty.md", 1, -1), InvalidParams, "Start line 1 is beyond the end of the file (total lines: 0)")
	b.fails(view("main.go", 4, 5), InvalidParams, "Start line 4 is beyond the end of the file (total lines: 3)")
	b.fails(view("main.go", -1, 2), InvalidParams, "Start line -1 is beyond the end of the file (total lines: 3)")
	b.fails(view("main.go", 3, 2), InvalidParams, "Start line 3 must be less than end line 2")
	b.fails(view("main.go", 1, 0), InvalidParams, "Start line 1 must be less than end line 0")
	b.fails(view("nowhere"), InternalError, "The path '$DIR/nowhere' does not exist or is not accessible.")
}

func TestTextEditorViewLimits(t *testing.T) {
	b := newEditorBench(t)
	b.file("long.txt", strings.Repeat("x\n", 2001))
	b.file("fits.txt", strings.Repeat("x\n", 2000))
	b.file("large.txt", strings.Repeat("x", 409601))
	b.file("full.txt", strings.Repeat("x", 409600))
	b.file("binary", "a\x00b")
	b.file("latin1", "caf\xe9\n")
	b.file("utf16", "\xff\xfea\x00")
	b.fails(args{"command": "view", "path": "long.txt"}, InternalError,
		"File '$DIR/long.txt' is 2001 lines long, recommended to read in with view_range (or searching) to get bite size content. If you do wish to read all the file, please pass in view_range with [1, 2001] to read it all at once")
	for _, name := range []string{"fits.txt", "full.txt"} {
		if _, err := b.call(args{"command": "view", "path": name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.call(args{"command": "view", "path": "long.txt", "view_range": []int{1, 2001}}); err != nil {
		t.Error(err)
	}
	b.fails(args{"command": "view", "path": "large.txt", "view_range": []int{1, 1}}, InternalError,
		"File '$DIR/large.txt' is too large (400.00KB). Maximum size is 400KB to prevent memory issues.")
	b.fails(args{"command": "view", "path": "binary"}, InternalError, "Failed to read file: the file is binary (byte 1 is NUL)")
	b.fails(args{"command": "view", "path": "latin1"}, InternalError, "Failed to read file: stream did not contain valid UTF-8 (first at byte 3)")
	b.fails(args{"command": "view", "path": "utf16"}, InternalError,
		"Failed to read file: the file is binary (byte 3 is NUL): it looks like UTF-16, convert it with the shell first")
}

func TestTextEditorDirectories(t *testing.T) {
	b := newEditorBench(t)
	for _, name := range []string{"d/z/f", "d/a/f", "d/b.txt", "d/.hidden", "only/f", "dirs/x/f"} {
		b.file(name, "")
	}
	for _, dir := range []string{"empty"} {
		if err := os.Mkdir(b.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var names strings.Builder
	for i := range 53 {
		b.file(fmt.Sprintf("many/f%02d", i), "")
		if i < 50 {
			fmt.Fprintf(&names, "  f%02d\n", i)
		}
	}
	view := func(name string) args { return args{"command": "view", "path": name, "view_range": []int{9, 1}} }
	b.golden(view("d"), ": '$DIR/d' is a directory. Contents:\n\nDirectories:\n  a/\n  z/\n\nFiles:\n  .hidden\n  b.txt\n")
	b.golden(view("only/"), ": '$DIR/only' is a directory. Contents:\n\nFiles:\n  f\n")
	b.golden(view("dirs"), ": '$DIR/dirs' is a directory. Contents:\n\nDirectories:\n  x/\n\n")
	b.golden(view("empty"), ": '$DIR/empty' is a directory. Contents:\n\n  (empty directory)\n")
	b.golden(view("many"), ": '$DIR/many' is a directory. Contents:\n\nFiles:\n"+names.String()+"\n... and 3 more items (showing first 50 items)\n")
}

// Section 5.2, and what became of its defects.
func TestTextEditorWrite(t *testing.T) {
	b := newEditorBench(t)
	b.file("crlf.txt", "a\r\nb\r\n")
	write := func(name, text string) args { return args{"command": "write", "path": name, "file_text": text} }
	wrote := func(name, tag, shown string) []string {
		return []string{"assistant: Successfully wrote to $DIR/" + name, "user 0.2: ### $DIR/" + name + "\n```" + tag + "\n" + shown + "\n```\n"}
	}
	b.golden(write("new/dir/a.go", "package a"), wrote("new/dir/a.go", "go", "package a\n")...)
	if got := b.content("new/dir/a.go"); got != "package a\n" {
		t.Errorf("a new file has %q", got)
	}
	b.golden(write("crlf.txt", "c\nd"), wrote("crlf.txt", "", "c\nd\n")...)
	if got := b.content("crlf.txt"); got != "c\r\nd\r\n" {
		t.Errorf("a file with CRLF became %q", got)
	}
	b.golden(write("empty", ""), wrote("empty", "", "")...)
	b.fails(args{"command": "write", "path": "x"}, InvalidParams, "Missing 'file_text' parameter for write command")
	b.fails(args{"command": "write", "path": "x", "file_text": nil}, InvalidParams, "Missing 'file_text' parameter for write command")
	b.fails(write(".", "x"), InternalError, "Failed to write file: Is a directory (os error 21)")
}

// Section 5.3.
func TestTextEditorReplace(t *testing.T) {
	b := newEditorBench(t)
	var lines []string
	for i := 1; i <= 30; i++ {
		lines = append(lines, fmt.Sprintf("line %02d", i))
	}
	b.file("a.py", strings.Join(lines, "\n")+"\n")
	replace := func(name, old, new string) args {
		return args{"command": "str_replace", "path": name, "old_str": old, "new_str": new}
	}
	fence := "```python\nline 11\nline 12\nline 13\nline 14\nfirst\nsecond\nline 17\nline 18\nline 19\nline 20\n```\n"
	b.golden(replace("a.py", "line 15\nline 16", "first\nsecond"),
		"assistant: The file $DIR/a.py has been edited, and the section now reads:\n"+fence+"\nReview the changes above for errors. Undo and edit the file again if necessary!\n",
		"user 0.2: "+fence)
	fence = "```python\ntop\nline 02\nline 03\nline 04\nline 05\n```\n"
	b.golden(replace("a.py", "line 01", "top"),
		"assistant: The file $DIR/a.py has been edited, and the section now reads:\n"+fence+"\nReview the changes above for errors. Undo and edit the file again if necessary!\n",
		"user 0.2: "+fence)
	b.golden(args{"command": "undo_edit", "path": "a.py"}, ": Undid the last edit")
	b.golden(args{"command": "undo_edit", "path": b.path("a.py")}, ": Undid the last edit")
	if got := b.content("a.py"); got != strings.Join(lines, "\n")+"\n" {
		t.Errorf("after undo: %q", got)
	}
	b.fails(args{"command": "undo_edit", "path": "a.py"}, InvalidParams, "No edit history available to undo")

	b.fails(replace("a.py", "line", "x"), InvalidParams, "'old_str' must appear exactly once in the file, but it appears multiple times")
	b.fails(replace("a.py", "", "x"), InvalidParams, "'old_str' must appear exactly once in the file, but it appears multiple times")
	b.fails(replace("a.py", "§§", "x"), InvalidParams,
		"'old_str' must appear exactly once in the file, but it does not appear in the file. Make sure the string exactly matches existing file content, including whitespace!")
	b.fails(replace("none.py", "a", "x"), InvalidParams, "File '$DIR/none.py' does not exist, you can write a new file with the `write` command")
	b.fails(args{"command": "str_replace", "path": "a.py", "old_str": "a"}, InvalidParams, "Missing 'new_str' parameter for str_replace command")
	b.fails(args{"command": "str_replace", "path": "a.py", "new_str": "a"}, InvalidParams, "Missing 'old_str' parameter for str_replace command")
}

// Section 5.4, with the numbers right.
func TestTextEditorInsert(t *testing.T) {
	b := newEditorBench(t)
	b.file("a.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	insert := func(name string, n int, s string) args {
		return args{"command": "insert", "path": name, "insert_line": n, "new_str": s}
	}
	text := func(line int, fence string) []string {
		fence = "```\n" + fence + "\n```\n"
		return []string{
			fmt.Sprintf("assistant: Text has been inserted at line %d in $DIR/a.txt. The section now reads:\n%s\nReview the changes above for errors. Undo and edit the file again if necessary!\n", line, fence),
			"user 0.2: " + fence,
		}
	}
	b.golden(insert("a.txt", 5, "x\ny"), text(6, "2: 2\n3: 3\n4: 4\n5: 5\n6: x\n7: y\n8: 6\n9: 7\n10: 8\n11: 9")...)
	b.golden(insert("a.txt", 0, "top"), text(1, "1: top\n2: 1\n3: 2\n4: 3\n5: 4")...)
	b.golden(insert("a.txt", -1, "end"), text(13, "9: 6\n10: 7\n11: 8\n12: 9\n13: end")...)
	b.golden(insert("a.txt", -2, "z"), text(13, "9: 6\n10: 7\n11: 8\n12: 9\n13: z\n14: end")...)
	if got, want := b.content("a.txt"), "top\n1\n2\n3\n4\n5\nx\ny\n6\n7\n8\n9\nz\nend\n"; got != want {
		t.Errorf("the file is %q, want %q", got, want)
	}
	const beyond = "Insert line %d is beyond the end of the file (total lines: 14). Use 0 to insert at the beginning or 14 to insert at the end."
	b.fails(insert("a.txt", 15, "x"), InvalidParams, fmt.Sprintf(beyond, 15))
	b.fails(insert("a.txt", -16, "x"), InvalidParams, fmt.Sprintf(beyond, -16))
	b.fails(insert("none", 0, "x"), InvalidParams, "File '$DIR/none' does not exist, you can write a new file with the `write` command")
	b.fails(args{"command": "insert", "path": "a.txt", "new_str": "x"}, InvalidParams, "Missing 'insert_line' parameter for insert command")
	b.fails(args{"command": "insert", "path": "a.txt", "insert_line": 1}, InvalidParams, "Missing 'new_str' parameter for insert command")
	for range 4 { // a failed insert leaves nothing to undo
		b.golden(args{"command": "undo_edit", "path": "a.txt"}, ": Undid the last edit")
	}
	if got := b.content("a.txt"); got != "1\n2\n3\n4\n5\n6\n7\n8\n9\n" {
		t.Errorf("after undo: %q", got)
	}
}

// Section 5.6.
func TestTextEditorDiff(t *testing.T) {
	b := newEditorBench(t)
	b.file("src/a.txt", "one\ntwo\nthree\n")
	b.file("src/b.txt", "uno\n")
	diff := func(path, diff string) args {
		return args{"command": "str_replace", "path": path, "diff": diff, "old_str": "ignored"}
	}
	single := "--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
	summary := "Successfully applied diff to $DIR/src/a.txt:\n• Lines added: 1\n• Lines removed: 1"
	b.golden(diff("src/a.txt", single), "assistant: "+summary, "user 0.2: "+summary+"\n\nUse 'undo_edit' to revert if needed.\n\n")
	if got := b.content("src/a.txt"); got != "one\n2\nthree\n" {
		t.Errorf("a.txt is %q", got)
	}
	multi := "--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,3 +1,2 @@\n one\n-2\n three\n" +
		"--- /dev/null\n+++ b/src/new.txt\n@@ -0,0 +1,2 @@\n+n1\n+n2\n" +
		"--- a/src/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-uno\n"
	summary = "Successfully applied multi-file diff:\n• Files created: 1\n• Files modified: 1\n• Files deleted: 1\n• Lines added: 2\n• Lines removed: 2"
	b.golden(diff(".", multi), "assistant: "+summary, "user 0.2: "+summary+"\n\nUse 'undo_edit' on individual files to revert if needed.\n\n")
	if _, err := os.Stat(b.path("src/b.txt")); !os.IsNotExist(err) {
		t.Errorf("b.txt is still there: %v", err)
	}
	b.golden(args{"command": "undo_edit", "path": "src/b.txt"}, ": Undid the last edit")
	b.golden(args{"command": "undo_edit", "path": "src/new.txt"}, ": Undid the last edit")
	if got := b.content("src/b.txt"); got != "uno\n" {
		t.Errorf("b.txt came back as %q", got)
	}
	if _, err := os.Stat(b.path("src/new.txt")); !os.IsNotExist(err) {
		t.Errorf("new.txt is still there: %v", err)
	}

	b.fails(diff("src", "not a diff"), InvalidParams, "The 'diff' parameter must be in unified diff format")
	b.fails(diff("src", "---\n+++\n"), InvalidParams, "Invalid diff format: Missing file header (e.g., '--- a/path/to/file')")
	b.fails(diff("src", "--- +++"+strings.Repeat("x", 1<<20)), InvalidParams, "Diff is too large (1048583 bytes). Maximum size is 1048576 bytes (1MB).")
	b.fails(diff("src", strings.Repeat(single, 101)), InvalidParams, "Too many files in diff (101). Maximum is 100 files.")
	b.fails(diff("src", strings.ReplaceAll(single, "src/a.txt", "../a.txt")), InvalidParams, "Path traversal detected: paths cannot contain '..'")
	b.fails(diff("src", strings.NewReplacer("a/src/a.txt", "/etc/passwd", "b/src/a.txt", "/etc/passwd").Replace(single)), InvalidParams, "Path '/etc/passwd' is outside the base directory")
	b.fails(diff("src", strings.ReplaceAll(single, "src/a.txt", "none.txt")), InternalError, "File '$DIR/src/none.txt' not found and patch doesn't create it")
}

func TestTextEditorCommands(t *testing.T) {
	b := newEditorBench(t)
	b.fails(args{"command": "create", "path": "x"}, InvalidParams, "Unknown command 'create'")
	b.fails(args{"path": "x"}, InvalidParams, "failed to deserialize parameters: missing field `command`")
	b.fails(args{"command": "view", "PATH": "x"}, InvalidParams, "failed to deserialize parameters: missing field `path`")
	b.file(".gooseignore", "secret\n")
	b.file("secret", "x")
	for _, command := range []string{"view", "write", "str_replace", "insert", "undo_edit", "nonsense"} {
		b.fails(args{"command": command, "path": "secret"}, InternalError, "Access to '$DIR/secret' is restricted by .gooseignore")
	}
	b.fails(args{"command": "str_replace", "path": ".", "diff": "--- a/secret\n+++ b/secret\n@@ -1 +1 @@\n-x\n+y\n"}, InternalError,
		"Access to '$DIR/secret' is restricted by .gooseignore")
}

// The working directory of a call is what relative paths are relative to.
func TestTextEditorWorkingDir(t *testing.T) {
	b := newEditorBench(t)
	b.file("session/a.txt", "here\n")
	result, err := b.tool.Call(t.Context(), Call{
		Arguments:  json.RawMessage(`{"command":"view","path":"a.txt"}`),
		WorkingDir: b.path("session"),
	})
	if err != nil || !strings.Contains(result.Content[0].Text, "1: here") {
		t.Errorf("%v, %v", result, err)
	}
}
