package analyze_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"gander.dev/gander/developer/analyze"
	"gander.dev/gander/developer/files"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// space is the file system with no rules but those given, by base name.
func space(t testing.TB, dir string, hidden ...string) *files.Space {
	t.Helper()
	s, err := files.New(files.Options{WorkingDir: dir, Rules: rules(hidden)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type rules []string

func (r rules) Ignored(abs string, _ bool) bool {
	for _, name := range r {
		if strings.Contains(abs+"/", "/"+name+"/") {
			return true
		}
	}
	return false
}

// ask asks in both styles; what is refused is an answer, too.
func ask(t testing.TB, a *analyze.Analyzer, s *files.Space, r analyze.Request) (classic, current string) {
	t.Helper()
	classic, _, err := a.Classic(t.Context(), s, r)
	if err != nil {
		t.Fatal(err)
	}
	current, err = a.Current(t.Context(), s, r)
	if refused, ok := errors.AsType[*analyze.RefusedError](err); ok {
		return classic, "REFUSED: " + refused.Reason + "\n"
	}
	if err != nil {
		t.Fatal(err)
	}
	return classic, current
}

// write makes files below a new directory.
func write(t testing.TB, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range contents {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestGolden(t *testing.T) {
	a := analyze.New(analyze.Options{})
	if len(a.Missing()) > 0 {
		t.Skip("this build has no tree-sitter")
	}
	shop, err := filepath.Abs("testdata/shop")
	if err != nil {
		t.Fatal(err)
	}
	s := space(t, shop)
	requests := map[string]analyze.Request{"overview": {Path: shop, Dir: true, MaxDepth: 3}}
	entries, err := os.ReadDir(shop)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		requests[e.Name()] = analyze.Request{Path: filepath.Join(shop, e.Name())}
	}
	for _, focus := range []string{"sum_up", "sumUp", "Order", "total", "main", "deliver", "load", "Limit", "nowhere"} {
		requests["focus-"+focus] = analyze.Request{Path: shop, Dir: true, Focus: focus, FollowDepth: 2, MaxDepth: 3}
	}
	requests["focus-depth0"] = analyze.Request{Path: shop, Dir: true, Focus: "sum_up", MaxDepth: 3}
	requests["focus-depth5"] = analyze.Request{Path: shop, Dir: true, Focus: "check", FollowDepth: 5, MaxDepth: 3}
	requests["focus-file"] = analyze.Request{Path: filepath.Join(shop, "orders.go"), Focus: "NewOrder", FollowDepth: 2}
	for name, r := range requests {
		t.Run(name, func(t *testing.T) {
			classic, current := ask(t, a, s, r)
			got := "-- classic --\n" + classic + "-- current --\n" + current
			got = strings.ReplaceAll(got, shop, "/shop")
			golden := filepath.Join("testdata", "golden", name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// The project that the reference for both styles was made with. What is current
// was compared with goose 1.52; what is classic has true lines where goose was one off.
var fixture = map[string]string{
	"main.go": `package main

import (
	"fmt"
	"os"
)

const Limit = 10

type Server struct {
	name string
	log  Logger
}

type Logger struct{}

func (s *Server) Run() {
	helper(s.name)
	_ = os.Args
}

func helper(n string) {
	fmt.Println(n, Limit)
}

func main() {
	s := &Server{}
	s.Run()
	helper("a")
	helper("b")
	helper("c")
}
`,
	"pkg/util.py": "import os\n\nX = 1\n\nclass Foo:\n    def bar(self):\n        return baz(X)\n\ndef baz(n):\n    return n\n\n",
}

func TestFixture(t *testing.T) {
	a := analyze.New(analyze.Options{})
	if len(a.Missing()) > 0 {
		t.Skip("this build has no tree-sitter")
	}
	dir := write(t, fixture)
	s := space(t, dir)
	tests := []struct {
		name             string
		request          analyze.Request
		classic, current string
	}{
		{
			"structure",
			analyze.Request{Path: dir, Dir: true, MaxDepth: 3},
			`SUMMARY:
Shown: 2 files, 43L, 6F, 4C (max_depth=3)
Languages: go (74%), python (25%)

PATH [LOC, FUNCTIONS, CLASSES] <FLAGS>
main.go [32L, 4F, 2C] main:26
pkg/
  util.py [11L, 2F, 2C]
`,
			`2 files, 43L, 5F, 3C (depth=3)
go 74% | python 25%

pkg/
  util.py [11L, 2F, 1C]
main.go [32L, 3F, 2C]
`,
		},
		{
			"file",
			analyze.Request{Path: filepath.Join(dir, "main.go")},
			`FILE: /main.go [32L, 4F, 2C]

C: Server:10 Logger:15

F: Limit:8 Run:17 helper:22•4 main:26

I: import (
	"fmt"
	"os"
)

R: methods[Run(Server)]; types[Server]; fields[Logger string]
`,
			`main.go [32L, 3F, 2C]

C: Server:10{name,log} Logger:15
F: Server.Run(s *Server):17 helper(n string):22•4 main:26
I: (
	"fmt"
	"os"
)
`,
		},
		{
			"focus",
			analyze.Request{Path: dir, Dir: true, Focus: "helper", FollowDepth: 2, MaxDepth: 3},
			`FOCUSED ANALYSIS: helper

DEFINITIONS:
main.go:22 - helper

INCOMING CALL CHAINS (depth=2):
main.go:28 (main -> Run) -> main.go:18 (Run -> helper)
main.go:29 (main -> helper)
main.go:30 (main -> helper)
main.go:31 (main -> helper)

OUTGOING CALL CHAINS (depth=2):
main.go:23 (helper -> Limit)
main.go:23 (helper -> Println)
main.go:23 (helper -> n)

STATISTICS:
  Files analyzed: 2
  Definitions found: 1
  Incoming chains: 4
  Outgoing chains: 3
  Follow depth: 2

FILES:
`,
			`FOCUS: helper (1 defs, 2 refs)

DEF main.go:helper:22

IN:
  main.go:helper:22 → main.go:Run:17 → main.go:main:26
  main.go:helper:22 → main.go:main:26

2 files analyzed
`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			classic, current := ask(t, a, s, tt.request)
			if diff := cmp.Diff(tt.classic, strings.ReplaceAll(classic, dir, "")); diff != "" {
				t.Errorf("classic, -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tt.current, current); diff != "" {
				t.Errorf("current, -want +got:\n%s", diff)
			}
		})
	}
}

// The answers are those of goose 1.52 to the same questions about the same files:
// names are looked for in the own file first, then in the language; a definition
// is in a chain once, but one that calls itself begins with itself.
func TestCurrentChains(t *testing.T) {
	a := analyze.New(analyze.Options{})
	if len(a.Missing()) > 0 {
		t.Skip("this build has no tree-sitter")
	}
	dir := write(t, map[string]string{
		"one.py": `def shared(x):
    return leaf(x)

def only_one():
    shared(1)
    shared(2)
    rec()

def rec():
    rec()
    other()

class K:
    def m(self):
        self.n()
    def n(self): pass

class K2:
    def m(self):
        self.n()
`,
		"two.py": `from one import shared
def leaf(x): return x
def user():
    shared(3)
    K().m()
def other():
    only_one()
`,
		"three.js": "function shared() { leaf(); }\nfunction jsuser() { shared(); user(); }\n",
	})
	s := space(t, dir)
	for _, tt := range []struct {
		focus string
		depth uint32
		want  string
	}{
		{"shared", 4, `FOCUS: shared (2 defs, 4 refs)

DEF one.py:shared:1
DEF three.js:shared:1

IN:
  one.py:shared:1 → one.py:only_one:4 → two.py:other:6 → one.py:rec:9
  one.py:shared:1 → two.py:user:3
  three.js:shared:1 → three.js:jsuser:2

OUT:
  one.py:shared:1 → two.py:leaf:2

3 files analyzed
`},
		{"rec", 5, `FOCUS: rec (1 defs, 4 refs)

DEF one.py:rec:9

IN:
  one.py:rec:9 → one.py:only_one:4 → two.py:other:6
  one.py:rec:9 → one.py:rec:9 → one.py:only_one:4 → two.py:other:6

OUT:
  one.py:rec:9 → one.py:rec:9 → two.py:other:6 → one.py:only_one:4 → one.py:shared:1 → two.py:leaf:2
  one.py:rec:9 → two.py:other:6 → one.py:only_one:4 → one.py:shared:1 → two.py:leaf:2

3 files analyzed
`},
		{"n", 2, `FOCUS: n (1 defs, 2 refs)

DEF one.py:n:16

IN:
  one.py:n:16 → one.py:m:14 → two.py:user:3
  one.py:n:16 → one.py:m:19 → two.py:user:3

3 files analyzed
`},
	} {
		_, current := ask(t, a, s, analyze.Request{Path: dir, Dir: true, Focus: tt.focus, FollowDepth: tt.depth, MaxDepth: 3})
		if diff := cmp.Diff(tt.want, current); diff != "" {
			t.Errorf("%s, -want +got:\n%s", tt.focus, diff)
		}
	}
}

func TestLeftOut(t *testing.T) {
	const source = "package a\n\nfunc F() {}\n"
	dir := write(t, map[string]string{
		"a.go": source, ".git/b.go": source, "node_modules/x/c.go": source, "vendor/d.go": source,
		"target/CACHEDIR.TAG": "Signature", "target/e.go": source, "secret/f.go": source, "sub/secret/g.go": source,
		".gitignore": "build/\n*.gen.go\n!keep.gen.go\n", "build/h.go": source, "i.gen.go": source, "keep.gen.go": source,
		"sub/.gitignore": "*.go\n!j.go\n", "sub/j.go": source, "sub/k.go": source, "sub/deep/deeper/l.go": source,
		"notes.txt": "not source",
	})
	a := analyze.New(analyze.Options{})
	s := space(t, dir, "secret")
	classic, current := ask(t, a, s, analyze.Request{Path: dir, Dir: true, MaxDepth: 3})
	for name, text := range map[string]string{"classic": classic, "current": current} {
		for _, want := range []string{"a.go", "keep.gen.go", "j.go"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %s is missing:\n%s", name, want, text)
			}
		}
		if n := strings.Count(text, ".go ["); n != 3 {
			t.Errorf("%s: %d files, want 3:\n%s", name, n, text)
		}
	}
	// What is asked for by its path is shown, whatever directory it is.
	for _, sub := range []string{"node_modules", "vendor", "build", "target"} {
		_, current := ask(t, a, s, analyze.Request{Path: filepath.Join(dir, sub), Dir: true, MaxDepth: 3})
		if !strings.HasPrefix(current, "1 files") {
			t.Errorf("%s: %s", sub, current)
		}
	}
	for depth, files := range map[uint32]int{1: 2, 2: 3, 0: 3} {
		_, current := ask(t, a, s, analyze.Request{Path: dir, Dir: true, MaxDepth: depth})
		if !strings.HasPrefix(current, fmt.Sprintf("%d files", files)) {
			t.Errorf("depth %d: %s", depth, current)
		}
	}
}

func TestProblems(t *testing.T) {
	dir := write(t, map[string]string{
		"good.go": "package a\n\nfunc Good() {}\n", "broken.go": "package a\n\nfunc Half(a int) {\n\tx := = a\n}\n\nfunc Whole() {}\n",
		"binary.go": "package a\x00\n", "latin1.go": "package a // caf\xe9\n", "empty.go": "",
		"large.go": "package a\n" + strings.Repeat("// a comment that goes on\n", 1000),
	})
	a := analyze.New(analyze.Options{FileBytes: 1000})
	s := space(t, dir)
	classic, current := ask(t, a, s, analyze.Request{Path: dir, Dir: true, MaxDepth: 3})
	for _, want := range []string{
		"good.go [3L, 1F]\n", "syntax errors\n", "binary.go [0L] not analyzed: not text\n", "latin1.go [0L] not analyzed: not text\n", "large.go [0L] not analyzed: too large\n",
	} {
		if !strings.Contains(classic, want) {
			t.Errorf("classic: no %q in:\n%s", want, classic)
		}
	}
	for _, want := range []string{"good.go [3L, 1F]\n", "broken.go [7L, 2F]\n", "(3 files not analyzed: binary.go: not text, large.go: too large, latin1.go: not text)\n"} {
		if !strings.Contains(current, want) {
			t.Errorf("current: no %q in:\n%s", want, current)
		}
	}
	classic, current = ask(t, a, s, analyze.Request{Path: filepath.Join(dir, "large.go")})
	if !strings.Contains(classic, "NOTE: not analyzed: too large\n") || !strings.Contains(current, "could not analyze "+filepath.Join(dir, "large.go")+" (too large)") {
		t.Errorf("a large file:\n%s\n%s", classic, current)
	}
}

// Deep and endless sources are what a parser can be brought down with.
func TestHostileSources(t *testing.T) {
	a := analyze.New(analyze.Options{FileTime: 200 * time.Millisecond})
	defer a.Wait()
	const n = 2500 // enough to be given up; what runs on has to end with the test
	sources := map[string]string{}
	for _, ext := range []string{"c", "cpp", "cs", "go", "java", "js", "kt", "php", "py", "rb", "rs", "swift", "ts", "tsx"} {
		head := map[string]string{"php": "<?php\n", "go": "package a\nvar x = "}[ext]
		for name, text := range map[string]string{
			"round": "(", "square": "[", "curly": "{", "calls": "f(", "quotes": "\"'`", "less": "a<", "strings": "\"${", "here": "<<A <<~'B' <<<C\n",
		} {
			sources[name+"."+ext] = head + strings.Repeat(text, n)
		}
		sources["indent."+ext] = head + deepBlocks(300)
	}
	sources["deep.go"] = "package a\nvar x = " + strings.Repeat("(", 500_000)
	dir := write(t, sources)
	s := space(t, dir)
	classic, _, err := a.Classic(t.Context(), s, analyze.Request{Path: dir, Dir: true, Force: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(classic, "L"); got < len(sources) {
		t.Errorf("%d of %d files are in the answer", got, len(sources))
	}
	t.Logf("%d files, %d given up", len(sources), strings.Count(classic, "not analyzed"))
}

// deepBlocks indents deeper with every line.
func deepBlocks(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "if x:\n")
	}
	return b.String()
}

func TestTimeIsBounded(t *testing.T) {
	a := analyze.New(analyze.Options{FileTime: time.Nanosecond})
	defer a.Wait()
	if len(a.Missing()) > 0 {
		t.Skip("this build has no tree-sitter")
	}
	dir := write(t, map[string]string{"a.py": strings.Repeat("def f(a, b):\n    return g(a) + h(b)\n", 3000)})
	classic, current := ask(t, a, space(t, dir), analyze.Request{Path: filepath.Join(dir, "a.py")})
	if !strings.Contains(classic, "takes too long to parse") || !strings.Contains(current, "takes too long to parse") {
		t.Errorf("a nanosecond was enough:\n%.200s\n%.200s", classic, current)
	}
	// The next file finds a parser that works.
	classic, _ = ask(t, analyze.New(analyze.Options{}), space(t, dir), analyze.Request{Path: filepath.Join(dir, "a.py")})
	if !strings.Contains(classic, "[6000L, 3000F, 0C]") && !strings.Contains(classic, "LARGE OUTPUT") {
		t.Errorf("with time: %.200s", classic)
	}
}

func TestCancel(t *testing.T) {
	contents := map[string]string{}
	for i := range 50 {
		contents[fmt.Sprintf("f%d.py", i)] = fmt.Sprintf("# %d\n", i) + strings.Repeat("def f(a, b):\n    return g(a) + h(b)\n", 5000)
	}
	dir := write(t, contents)
	s := space(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	for _, focus := range []string{"", "f"} {
		_, _, err := analyze.New(analyze.Options{}).Classic(ctx, s, analyze.Request{Path: dir, Dir: true, Focus: focus, FollowDepth: 3})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("focus %q: %v", focus, err)
		}
	}
}

// Everybody calls everybody: there are more chains than atoms.
func TestChainsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("package a\n")
	const n = 40
	for i := range n {
		fmt.Fprintf(&b, "func f%d() {\n", i)
		for j := range n {
			fmt.Fprintf(&b, "\tf%d()\n", j)
		}
		b.WriteString("}\n")
	}
	dir := write(t, map[string]string{"a.go": b.String()})
	a, s := analyze.New(analyze.Options{}), space(t, dir)
	classic, current := ask(t, a, s, analyze.Request{Path: dir, Dir: true, Focus: "f0", FollowDepth: 1 << 30, Force: true})
	if len(classic) > 50<<20 || len(current) > 50<<20 {
		t.Errorf("answers of %d and %d bytes", len(classic), len(current))
	}
	if !strings.Contains(current, "there are more: ask for a smaller follow_depth") {
		t.Error("nothing says that there are more chains")
	}
}

func TestLargeAnswers(t *testing.T) {
	contents := map[string]string{}
	for i := range 1100 {
		contents[fmt.Sprintf("a_file_with_quite_a_long_name_%04d.go", i)] = "package a\n\nfunc F() {}\n"
	}
	dir := write(t, contents)
	a, s := analyze.New(analyze.Options{}), space(t, dir)
	r := analyze.Request{Path: dir, Dir: true, MaxDepth: 3}
	text, large, err := a.Classic(t.Context(), s, r)
	if err != nil || !large || !strings.HasPrefix(text, "LARGE OUTPUT WARNING\n") || !strings.Contains(text, "1105 lines") || !strings.Contains(text, "force=true") {
		t.Errorf("classic: %v %v %s", err, large, text)
	}
	_, current := ask(t, a, s, r)
	if want := "REFUSED: Output too large ("; !strings.HasPrefix(current, want) || !strings.HasSuffix(current, "chars, limit 50000). Use `force: true` to override, or narrow scope with max_depth/focus.\n") {
		t.Errorf("current: %.200s", current)
	}
	r.Force = true
	classic, current := ask(t, a, s, r)
	if strings.Count(classic, "\n") != 1105 || len(current) < 50_000 {
		t.Errorf("forced: %d lines and %d bytes", strings.Count(classic, "\n"), len(current))
	}
}

func TestConcurrent(t *testing.T) {
	a := analyze.New(analyze.Options{Workers: 4, CacheSymbols: 200})
	shop, err := filepath.Abs("testdata/shop")
	if err != nil {
		t.Fatal(err)
	}
	s := space(t, shop)
	r := analyze.Request{Path: shop, Dir: true, Focus: "main", FollowDepth: 2}
	wantClassic, wantCurrent := ask(t, a, s, r)
	t.Run("group", func(t *testing.T) {
		for range 8 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for range 5 {
					if classic, current := ask(t, a, s, r); classic != wantClassic || current != wantCurrent {
						t.Error("another answer to the same question")
					}
				}
			})
		}
	})
}

func TestMissing(t *testing.T) {
	a := analyze.New(analyze.Options{})
	if len(a.Missing()) == 0 {
		return
	}
	if len(a.Missing()) != 13 {
		t.Errorf("missing = %q, want all but go", a.Missing())
	}
	dir := write(t, map[string]string{"a.py": "def f(): pass\n"})
	classic, current := ask(t, a, space(t, dir), analyze.Request{Path: filepath.Join(dir, "a.py")})
	if !strings.Contains(classic, "made without cgo") || !strings.Contains(current, "made without cgo") {
		t.Errorf("nothing says why: %s%s", classic, current)
	}
}
