package developer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gander.dev/gander/developer/editor"
)

// currentBench is an editorBench with the tools of goose 1.52.
type currentBench struct {
	editorBench
	tools map[string]Tool
}

func newCurrentBench(t *testing.T) currentBench {
	t.Helper()
	b := newEditorBench(t)
	spaces := NewSpaces(SpacesOptions{WorkingDir: b.dir})
	t.Cleanup(func() {
		if err := spaces.Close(); err != nil {
			t.Error(err)
		}
	})
	e := editor.New(editor.Options{})
	c := currentBench{b, map[string]Tool{}}
	for _, tool := range []Tool{writeTool(e, spaces), editTool(e, spaces), treeTool(spaces)} {
		c.tools[tool.Name] = tool
	}
	return c
}

// says compares every byte of an answer. A leading "!" means that it is a failure;
// $DIR stands for the directory.
func (c currentBench) says(tool, arguments, want string) {
	c.t.Helper()
	arguments = strings.ReplaceAll(arguments, "$DIR", filepath.ToSlash(c.dir))
	result, err := c.tools[tool].Call(c.t.Context(), Call{Arguments: json.RawMessage(arguments)})
	if err != nil || len(result.Content) != 1 {
		c.t.Errorf("%s %s: %v, %v", tool, arguments, result, err)
		return
	}
	content := result.Content[0]
	got := strings.ReplaceAll(content.Text, c.dir, "$DIR")
	if result.IsError {
		got = "!" + got
	}
	if got != want {
		c.t.Errorf("%s %s:\n got %q\nwant %q", tool, arguments, got, want)
	}
	if content.Priority == nil || *content.Priority != 0 || content.Audience != nil {
		c.t.Errorf("%s %s: annotations %v %v", tool, arguments, content.Priority, content.Audience)
	}
}

// The texts that the real goose 1.52 answered to these calls.
func TestCurrentWrite(t *testing.T) {
	c := newCurrentBench(t)
	c.file("z.txt", "a\n")
	c.file("perm/x", "a\n")
	c.says("write", `{"path":"new/dir/f.txt","content":"a\nb\n"}`, "Created new/dir/f.txt (2 lines)")
	c.says("write", `{"path":"z.txt","content":"q"}`, "Wrote z.txt (1 lines)")
	c.says("write", `{"path":"z.txt","content":""}`, "Wrote z.txt (0 lines)")
	c.says("write", `{"path":"w1"}`, "!Error: Failed to parse arguments: missing field `content`")
	c.says("write", `{"path":"$DIR/abs.txt","content":"1\n2\n3\n"}`, "Created "+filepath.ToSlash("$DIR/abs.txt")+" (3 lines)")
	c.says("write", `{"path":"perm/x","content":"b\r\nc\r\n"}`, "Wrote perm/x (2 lines)")
	for name, want := range map[string]string{"new/dir/f.txt": "a\nb\n", "z.txt": "", "perm/x": "b\r\nc\r\n", "abs.txt": "1\n2\n3\n"} {
		if got := c.content(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if runtime.GOOS != "windows" { // which has other words and numbers
		c.says("write", `{"path":"perm","content":"x"}`, "!Failed to write perm: Is a directory (os error 21)")
	}
}

func TestCurrentEdit(t *testing.T) {
	c := newCurrentBench(t)
	c.file("e.txt", "alpha\nbeta gamma\ndelta\n")
	c.file("dup.txt", "dup\ndup\ndup\n")
	c.file("g.go", "func main() {\n\tfoo()\n\tbar()\n}\n")
	c.file("crlf.txt", "r1\r\nr2\r\n")
	c.file("nonl.txt", "x")
	c.file("empty.txt", "")
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintln(&b, i+1)
	}
	forty := b.String()
	c.file("forty.txt", forty)
	c.file("k.txt", forty)
	c.says("edit", `{"path":"e.txt","before":"beta","after":"BETA"}`, "Edited e.txt (1 lines -> 1 lines)")
	c.says("edit", `{"path":"e.txt","before":"nope nothing","after":"x"}`,
		"!No match found for the specified text.\n\nFile preview:\n```\n   1: alpha\n   2: BETA gamma\n   3: delta\n```")
	c.says("edit", `{"path":"e.txt","before":"","after":"x"}`,
		"!Found 24 matches. Please provide more context to identify a unique match:\n\nMatch 1 (line 1):\n```\nalpha\nBETA gamma\n```\nMatch 2 (line 1):\n```\nalpha\nBETA gamma\n```\n\n...and 22 more")
	c.says("edit", `{"path":"dup.txt","before":"dup","after":"x"}`,
		"!Found 3 matches. Please provide more context to identify a unique match:\n\nMatch 1 (line 1):\n```\ndup\ndup\n```\nMatch 2 (line 2):\n```\ndup\ndup\ndup\n```\n\n...and 1 more")
	c.says("edit", `{"path":"dup.txt","before":"dup\ndup","after":"x"}`, "Edited dup.txt (2 lines -> 1 lines)")
	c.says("edit", `{"path":"crlf.txt","before":"r1","after":"x\ny\nz"}`, "Edited crlf.txt (1 lines -> 3 lines)")
	c.says("edit", `{"path":"forty.txt","before":"15\n17","after":"x"}`,
		"!No match found for the specified text.\n\nDid you mean:\n```\n1\n2\n3\n```\n\nFile preview:\n```\n   1: 1\n   2: 2\n   3: 3\n   4: 4\n   5: 5\n   6: 6\n   7: 7\n   8: 8\n   9: 9\n  10: 10\n  11: 11\n  12: 12\n  13: 13\n  14: 14\n  15: 15\n  16: 16\n  17: 17\n  18: 18\n  19: 19\n  20: 20\n... (20 more lines)\n```")
	c.says("edit", `{"path":"g.go","before":"  foo()\n  bar()","after":"x"}`,
		"!No match found for the specified text.\n\nDid you mean:\n```\nfunc main() {\n\tfoo()\n\tbar()\n}\n```\n\nFile preview:\n```\n   1: func main() {\n   2: \tfoo()\n   3: \tbar()\n   4: }\n```")
	c.says("edit", `{"path":"g.go","before":"func main() {\n    foo()\n","after":"x"}`,
		"!No match found for the specified text.\n\nDid you mean:\n```\nfunc main() {\n\tfoo()\n\tbar()\n```\n\nFile preview:\n```\n   1: func main() {\n   2: \tfoo()\n   3: \tbar()\n   4: }\n```")
	c.says("edit", `{"path":"g.go","before":"foo()","after":""}`, "Edited g.go (1 lines -> 0 lines)")
	c.says("edit", `{"path":"k.txt","before":"39\n40\n","after":""}`, "Edited k.txt (2 lines -> 0 lines)")
	c.says("edit", `{"path":"e.txt","before":"alpha","after":"alpha"}`, "Edited e.txt (1 lines -> 1 lines)")
	c.says("edit", `{"path":"nonl.txt","before":"x","after":"y\n"}`, "Edited nonl.txt (1 lines -> 1 lines)")
	c.says("edit", `{"path":"e.txt","before":"BETA"}`, "!Error: Failed to parse arguments: missing field `after`")
	c.file("gap.txt", "a\n\nb\n")
	c.says("edit", `{"path":"gap.txt","before":"zzz","after":"y"}`, "!No match found for the specified text.\n\nFile preview:\n```\n   1: a\n   2: \n   3: b\n```")
	c.says("edit", `{"path":"empty.txt","before":"x","after":"y"}`, "!No match found for the specified text.\n\nFile preview:\n```\n(file is empty)\n```")
	if runtime.GOOS != "windows" {
		c.says("edit", `{"path":"missing.txt","before":"a","after":"x"}`, "!Failed to read missing.txt: No such file or directory (os error 2)")
		c.says("edit", `{"path":".","before":"a","after":"x"}`, "!Failed to read .: Is a directory (os error 21)")
	}
	for name, want := range map[string]string{
		"e.txt": "alpha\nBETA gamma\ndelta\n", "dup.txt": "x\ndup\n", "g.go": "func main() {\n\t\n\tbar()\n}\n",
		"crlf.txt": "x\r\ny\r\nz\r\nr2\r\n", "nonl.txt": "y\n", "k.txt": strings.TrimSuffix(forty, "39\n40\n"),
	} {
		if got := c.content(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// What the real goose 1.52 listed of such a directory.
func TestCurrentTree(t *testing.T) {
	c := newCurrentBench(t)
	seq := func(n int) string { return strings.Repeat("1\n", n) }
	for name, content := range map[string]string{
		"z.txt": "a\nb\nc\n", "nonl.txt": "x", "zero.txt": "", "k.txt": seq(1000), "k9.txt": seq(999), "big.txt": seq(2600),
		"bin.dat": "\x00\x01\xff\n\n", "ig.txt": "ignored\n", ".gitignore": "ig.txt\n", "sub/deep/deeper/f": "hi\n", "sub/one": "hi\n",
		".hidden": "x\n", "Upper.txt": "B\n", ".hid/x": "h\n", "perm/x": "a\n",
	} {
		c.file(name, content)
	}
	for _, dir := range []string{"empty", "node_modules/x"} {
		if err := os.MkdirAll(c.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("z.txt", c.path("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sub", c.path("dlink")); err != nil {
		t.Fatal(err)
	}
	const files = "Upper.txt  [1]\nbig.txt  [2K]\nbin.dat  [0]\nk.txt  [1K]\nk9.txt  [999]\nnonl.txt  [1]\nz.txt  [3]\nzero.txt  [0]\n"
	const head = "empty/  [0]\nnode_modules/  [0]\n  x/  [0]\nperm/  [1]\n  x  [1]\n"
	two := head + "sub/  [1]\n  deep/  [0]\n    deeper/  [0]\n  one  [1]\n" + files
	c.says("tree", `{"path":"."}`, two)
	c.says("tree", `{"path":""}`, two)
	c.says("tree", `{"path":".","depth":0}`, head+"sub/  [2]\n  deep/  [1]\n    deeper/  [1]\n      f  [1]\n  one  [1]\n"+files)
	c.says("tree", `{"path":".","depth":1}`, head+"sub/  [1]\n  deep/  [0]\n  one  [1]\n"+files)
	c.says("tree", `{"path":"empty"}`, "(empty directory)")
	c.says("tree", `{"path":"nope"}`, "!Path does not exist: "+filepath.FromSlash("$DIR/nope"))
	c.says("tree", `{"path":"z.txt"}`, "!Path is not a directory: "+filepath.FromSlash("$DIR/z.txt"))
	c.says("tree", `{"path":"$DIR/sub","depth":1}`, "deep/  [0]\n  deeper/  [0]\none  [1]\n")
	c.says("tree", `{"path":"dlink"}`, "deep/  [1]\n  deeper/  [1]\n    f  [1]\none  [1]\n")
	c.says("tree", `{}`, "!Error: Failed to parse arguments: missing field `path`")
}

func TestCurrentTreeRules(t *testing.T) {
	c := newCurrentBench(t)
	for name, content := range map[string]string{
		".git/info/exclude": "excluded\n", ".gitignore": "build/\n*.log\n/only-top\n", ".gooseignore": "secret\n", ".ignore": "!kept.log\n",
		"a/.gitignore": "inner\n!b.log\n", "a/inner": "x", "a/b.log": "x", "a/c.log": "x", "a/only-top": "x",
		"build/x": "x", "excluded": "x", "kept.log": "x", "only-top": "x", "secret": "x", "seen": "x", "inner": "x",
	} {
		c.file(name, content)
	}
	c.says("tree", `{"path":"."}`, "a/  [2]\n  b.log  [1]\n  only-top  [1]\ninner  [1]\nkept.log  [1]\nseen  [1]\n")
	c.says("tree", `{"path":"a"}`, "b.log  [1]\nonly-top  [1]\n")
	c.says("tree", `{"path":"build"}`, "x  [1]\n")
	c.says("tree", `{"path":"secret"}`, "!Access to '"+filepath.FromSlash("$DIR/secret")+"' is restricted by .gooseignore")
}

// Lines are counted in pieces, and what is no text has none, wherever that shows.
func TestTreeCountsLines(t *testing.T) {
	c := newCurrentBench(t)
	const piece = 64 << 10
	for name, content := range map[string]string{
		"a": strings.Repeat("ä", piece) + "\nb",          // runes across pieces
		"b": strings.Repeat("x", piece-1) + "\n",         // ends with a piece
		"c": strings.Repeat("x\n", piece) + "\xc3",       // half a rune at the end
		"d": strings.Repeat("x", piece-1) + "\xc3x\ny\n", // half a rune between pieces
		"e": "x" + strings.Repeat("€\n", piece),
	} {
		c.file(name, content)
	}
	c.says("tree", `{"path":"."}`, "a  [2]\nb  [1]\nc  [0]\nd  [0]\ne  [65K]\n")
}
