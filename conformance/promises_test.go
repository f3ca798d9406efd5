package conformance

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

const (
	promisesFile = "promises.txt"
	planned      = "planned"
	promiseWidth = 240
)

// TestPromises reads the list of promises and fails for each that no test holds.
func TestPromises(t *testing.T) {
	text, err := os.ReadFile(promisesFile)
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	all, bad := parsePromises(string(text))
	if len(all) < 100 {
		t.Errorf("only %d promises found: the test looks in the wrong place", len(all))
	}
	tree, err := newTestTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range append(bad, unheld(all, tree, string(makefile))...) {
		t.Error(promisesFile + ":" + b)
	}
	tests := map[string]bool{}
	waiting := 0
	for _, p := range all {
		for _, name := range p.tests {
			tests[name] = true
		}
		if p.tests == nil {
			waiting++
		}
	}
	t.Logf("%d promises: %d held by %d tests, %d planned", len(all), len(all)-waiting, len(tests), waiting)
}

// A promise is one line of the list.
type promise struct {
	line                   int
	id, text, soak, source string
	tests                  []string // nil: planned
}

func (p promise) problem(format string, a ...any) string {
	return fmt.Sprintf("%d: %s: %s", p.line, p.id, fmt.Sprintf(format, a...))
}

var (
	promiseID     = regexp.MustCompile(`^[a-z][a-z0-9-]*([.][a-z0-9-]+)+$`)
	promiseSource = regexp.MustCompile(`^(README|SECURITY|contract)\b`)
)

// parsePromises returns the promises of the list and what is wrong with its lines.
func parsePromises(text string) (all []promise, bad []string) {
	lines := map[string]int{} // where an id is
	texts := map[string]int{}
	last := ""
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if line == "" {
			continue
		}
		if strings.HasPrefix(line, "#") {
			last = ""
			continue
		}
		p, why := parsePromise(line)
		p.line = i + 1
		switch {
		case why != "":
		case lines[p.id] != 0:
			why = fmt.Sprintf("line %d has this id already", lines[p.id])
		case texts[p.text] != 0:
			why = fmt.Sprintf("line %d says the same", texts[p.text])
		case p.id < last:
			why = "the ids of a section are sorted; this one comes before " + last
		}
		if why != "" {
			bad = append(bad, p.problem("%s", why))
			continue
		}
		lines[p.id], texts[p.text], last = p.line, p.line, p.id
		all = append(all, p)
	}
	return all, bad
}

// parsePromise returns the promise of a line, or why the line is none.
func parsePromise(line string) (p promise, why string) {
	columns := strings.Split(line, "|")
	for i := range columns {
		columns[i] = strings.TrimSpace(columns[i])
	}
	p.id = columns[0]
	if n := utf8.RuneCountInString(line); n > promiseWidth {
		return p, fmt.Sprintf("the line has %d characters, more than %d", n, promiseWidth)
	}
	if len(columns) != 5 {
		return p, fmt.Sprintf("%d columns; there are five: id, promise, check, soak, source", len(columns))
	}
	p.text, p.source = columns[1], columns[4]
	check, isCheck := strings.CutPrefix(columns[2], "check: ")
	soak, isSoak := strings.CutPrefix(columns[3], "soak: ")
	p.soak = soak
	switch {
	case !promiseID.MatchString(p.id):
		return p, "an id is made of small letters, digits and dashes, with a dot behind the section"
	case p.text == "":
		return p, "it promises nothing"
	case !isCheck && columns[2] != planned:
		return p, `the third column begins with "check: ", or is "planned"`
	case !isSoak || soak == "":
		return p, `the fourth column begins with "soak: ", and is "soak: -" where soak runs no more than check`
	case !promiseSource.MatchString(p.source):
		return p, "the source is README, SECURITY or contract, and where in it"
	}
	if isCheck {
		for name := range strings.SplitSeq(check, ",") {
			p.tests = append(p.tests, strings.TrimSpace(name))
		}
	}
	return p, ""
}

// soakSetting finds what the list says of soak, as in CANCEL_RUNS=2000, and makeSetting what the
// Makefile sets, also in the tests' own names of variables.
var (
	soakSetting = regexp.MustCompile(`\b[A-Z_]+=[0-9]+\b`)
	makeSetting = regexp.MustCompile(`\b(?:GANDER_)?([A-Z_]+) *[?:]?= *([0-9]+)\b`)
)

// unheld lists the promises whose tests are not there, or whose settings soak does not have.
func unheld(all []promise, tree *testTree, makefile string) (bad []string) {
	var settings []string
	for _, m := range makeSetting.FindAllStringSubmatch(makefile, -1) {
		settings = append(settings, m[1]+"="+m[2])
	}
	for _, p := range all {
		for _, name := range p.tests {
			if why := tree.missing(name); why != "" {
				bad = append(bad, p.problem("%s: %s", name, why))
			}
		}
		for _, s := range soakSetting.FindAllString(p.soak, -1) {
			if !slices.Contains(settings, s) {
				bad = append(bad, p.problem("the Makefile's soak does not set %s", s))
			}
		}
	}
	return bad
}

// A testTree finds tests by their names in a repository.
type testTree struct {
	root     fs.FS
	packages map[string][]goFile // by folder
	known    map[string]testNames
}

// testNames are the tests of a folder, the texts that subtests may be named by, and the tests
// that check skips and soak runs.
type testNames struct {
	tests, texts, skipped map[string]bool
}

func newTestTree(root fs.FS) (*testTree, error) {
	files, err := parseTree(root)
	if err != nil {
		return nil, err
	}
	t := &testTree{root: root, packages: map[string][]goFile{}, known: map[string]testNames{}}
	for _, f := range files {
		t.packages[f.dir()] = append(t.packages[f.dir()], f)
	}
	return t, nil
}

var testName = regexp.MustCompile(`^(.+)[.]((?:Test|Fuzz)[^/]*)(?:/(.+))?$`)

// missing says why there is no test of a name, as in local.TestRules/links. A package is
// named by its folder, or by as much of the end of that as no other one has. A subtest is
// looked for as a text of the package or of one that its tests import, or as a script in
// testdata.
func (t *testTree) missing(name string) string {
	parts := testName.FindStringSubmatch(name)
	if parts == nil {
		return "a test is named as in local.TestRules, or local.TestRules/links"
	}
	dir, why := t.folder(parts[1])
	if why != "" {
		return why
	}
	names, err := t.names(dir)
	if err != nil {
		return err.Error()
	}
	switch {
	case !names.tests[parts[2]]:
		return dir + " has no such test on Linux"
	case names.skipped[parts[2]]:
		return "soak runs it, and check does not"
	}
	for sub := range strings.SplitSeq(parts[3], "/") {
		if sub != "" && !names.texts[sub] {
			return fmt.Sprintf("neither %s nor a package that its tests import has the text %q, and there is no such script", dir, sub)
		}
	}
	return ""
}

// folder returns the folder of a package, or why there is not exactly one.
func (t *testTree) folder(pkg string) (dir, why string) {
	if t.packages[pkg] != nil {
		return pkg, ""
	}
	var found []string
	for _, dir := range slices.Sorted(maps.Keys(t.packages)) {
		if strings.HasSuffix(dir, "/"+pkg) {
			found = append(found, dir)
		}
	}
	switch len(found) {
	case 0:
		return "", "there is no package " + pkg
	case 1:
		return found[0], ""
	}
	return "", "several packages are named so: " + strings.Join(found, ", ")
}

// names returns the tests of a folder on Linux, and the texts that their subtests may have as names.
func (t *testTree) names(dir string) (testNames, error) {
	if n, ok := t.known[dir]; ok {
		return n, nil
	}
	n := testNames{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	imports := map[string]bool{}
	for _, f := range t.packages[dir] {
		if !strings.HasSuffix(f.name, "_test.go") || !t.onLinux(f.name) {
			continue
		}
		tree, err := t.parse(f.name)
		if err != nil {
			return n, err
		}
		for _, d := range tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && isTest(f) {
				n.tests[f.Name.Name] = true
			}
		}
		addSkipped(n.skipped, tree)
		addTexts(n.texts, tree)
		for _, p := range f.imports {
			if ours, ok := strings.CutPrefix(p, module+"/"); ok {
				imports[ours] = true
			}
		}
	}
	for from := range imports {
		for _, f := range t.packages[from] {
			tree, err := t.parse(f.name)
			if err != nil {
				return n, err
			}
			addTexts(n.texts, tree)
		}
	}
	scripts, err := fs.Glob(t.root, dir+"/testdata/*/*.txtar")
	if err != nil {
		return n, err
	}
	for _, s := range scripts {
		n.texts[strings.TrimSuffix(path.Base(s), ".txtar")] = true
	}
	t.known[dir] = n
	return n, nil
}

func (t *testTree) parse(name string) (*ast.File, error) {
	src, err := fs.ReadFile(t.root, name)
	if err != nil {
		return nil, err
	}
	return parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
}

// onLinux reports whether a file is compiled where check runs, with the tag of released builds or without.
func (t *testTree) onLinux(name string) bool {
	linux := build.Default
	linux.GOOS, linux.CgoEnabled = "linux", true
	linux.JoinPath = path.Join
	linux.OpenFile = func(name string) (io.ReadCloser, error) { return t.root.Open(name) }
	return slices.ContainsFunc([][]string{nil, {"embedded"}}, func(tags []string) bool {
		linux.BuildTags = tags
		match, err := linux.MatchFile(path.Dir(name), path.Base(name))
		return match && err == nil
	})
}

// isTest reports whether a function takes a *testing.T or a *testing.F and no more.
func isTest(f *ast.FuncDecl) bool {
	if f.Recv != nil || len(f.Type.Params.List) != 1 {
		return false
	}
	star, ok := f.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	sel, ok := star.X.(*ast.SelectorExpr)
	return ok && (sel.Sel.Name == "T" || sel.Sel.Name == "F")
}

// addSkipped adds the tests of a file that check skips: those that call OnlyEverywhere, and those that have no cells for check in the table of the end-to-end tests.
func addSkipped(skipped map[string]bool, tree *ast.File) {
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Body != nil && slices.ContainsFunc(n.Body.List, callsOnlyEverywhere) {
				skipped[n.Name.Name] = true
			}
		case *ast.KeyValueExpr:
			name, isText := n.Key.(*ast.BasicLit)
			row, isRow := n.Value.(*ast.CompositeLit)
			if !isText || !isRow || len(row.Elts) == 0 {
				break
			}
			if check, ok := row.Elts[0].(*ast.Ident); ok && check.Name == "nil" {
				skipped[strings.Trim(name.Value, `"`)] = true
			}
		}
		return true
	})
}

// callsOnlyEverywhere reports whether a statement skips the rest of its test in check.
func callsOnlyEverywhere(s ast.Stmt) bool {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	return ok && f.Sel.Name == "OnlyEverywhere"
}

// addTexts adds what is written in quotes in a file.
func addTexts(texts map[string]bool, tree *ast.File) {
	ast.Inspect(tree, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				texts[s] = true
			}
		}
		return true
	})
}

func TestPromisesObject(t *testing.T) {
	tree, err := newTestTree(fstest.MapFS{
		"sandbox/drivers/local/a_test.go": {Data: []byte("package local_test\n\nimport _ \"" + module + "/sandbox/trials/sandboxtest\"\n\n" +
			"func TestRules(t *testing.T) { t.Run(\"root's project\", nil) }\n\nfunc TestMain(m *testing.M) {}\n")},
		"sandbox/drivers/local/a_windows_test.go": {Data: []byte("package local_test\n\nfunc TestWindows(t *testing.T) {}\n")},
		"sandbox/drivers/local/b_test.go":         {Data: []byte("//go:build darwin\n\npackage local_test\n\nfunc TestMac(t *testing.T) {}\n")},
		"sandbox/trials/sandboxtest/a.go":         {Data: []byte("package sandboxtest\n\nfunc TestRules(t *testing.T, owner int) { t.Run(\"links\", nil) }\n")},
		"sandbox/drivers/docker/a_test.go": {Data: []byte("package docker_test\n\n" +
			"func TestWrites(t *testing.T) { needDaemon(t); sandboxtest.OnlyEverywhere(t) }\n")},
		"conformance/e2e/a_test.go": {Data: []byte("package e2e\n\nvar table = map[string]row{\"TestWine\": {nil, all}, \"TestPrompt\": {all, all}}\n\n" +
			"func TestWine(t *testing.T) {}\n\nfunc TestPrompt(t *testing.T) {}\n")},
		"cmd/gander/a_test.go":                  {Data: []byte("package main\n\nfunc TestScripts(t *testing.T) {}\n")},
		"cmd/gander/testdata/script/exec.txtar": {},
		"acp/a_test.go":                         {Data: []byte("package acp\n\nfunc TestCancel(t *testing.T) {}\n\nfunc FuzzStream(f *testing.F) {}\n")},
		"conformance/acp/a_test.go":             {Data: []byte("package acp\n\nfunc TestGood(t *testing.T) {}\n")},
		"conformance/local/acp/a_test.go":       {Data: []byte("package acp\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	const (
		good = "a.a | x | check: acp.TestCancel | soak: - | README"
		mk   = "\t$(MAKE) e2e CANCEL_RUNS=2000\nproofs: export GANDER_RACE_ROUNDS := 10000\n"
	)
	for _, tt := range []struct{ name, text, want string }{
		{"a good list", "# A\n" + good + "\na.b | y | planned | soak: - | contract §5.9\n\n# B\na.c|z|check: local.TestRules/root's project/links, gander.TestScripts/exec|soak: CANCEL_RUNS=2000; RACE_ROUNDS=10000|SECURITY 1\n", ""},
		{"an id twice", good + "\na.a | y | planned | soak: - | README\n", "2: a.a: line 1 has this id"},
		{"a promise twice", good + "\na.b | x | planned | soak: - | README\n", "2: a.b: line 1 says the same"},
		{"out of order", "a.b | y | planned | soak: - | README\n" + good, "2: a.a: the ids of a section are sorted"},
		{"a column more", good + " | more", "6 columns"},
		{"a column less", "a.a | x | planned | README", "4 columns"},
		{"an unknown column", "a.a | x | test: acp.TestCancel | soak: - | README", "the third column"},
		{"no soak", "a.a | x | planned | - | README", "the fourth column"},
		{"an unknown source", "a.a | x | planned | soak: - | hearsay", "the source is"},
		{"no section", "a | x | planned | soak: - | README", "an id is made of"},
		{"no words", "a.a |  | planned | soak: - | README", "promises nothing"},
		{"no test", "a.a | x | check: | soak: - | README", "the third column"},
		{"a long line", "a.a | " + strings.Repeat("x", promiseWidth) + " | planned | soak: - | README", "more than 240"},
		{"a fuzz target", "a.a | x | check: acp.FuzzStream | soak: - | README", ""},
		{"a test that is gone", "a.a | x | check: acp.TestCancel, acp.TestGone | soak: - | README", "acp.TestGone: acp has no such test"},
		{"a test of a package for tests", "a.a | x | check: sandboxtest.TestRules | soak: - | README", "no such test"},
		{"a test of Windows", "a.a | x | check: local.TestWindows | soak: - | README", "no such test"},
		{"a test of macOS", "a.a | x | check: local.TestMac | soak: - | README", "no such test"},
		{"no test at all", "a.a | x | check: local.TestMain | soak: - | README", "no such test"},
		{"a package that is gone", "a.a | x | check: nowhere.TestRules | soak: - | README", "there is no package nowhere"},
		{"a package by half of its name", "a.a | x | check: ocal.TestRules | soak: - | README", "there is no package ocal"},
		{"a package of several", "a.a | x | check: conformance/acp.TestGood, local/acp.TestGood | soak: - | README", "conformance/local/acp has no such test"},
		{"a subtest that is gone", "a.a | x | check: local.TestRules/nobody | soak: - | README", `has the text "nobody"`},
		{"a script that is gone", "a.a | x | check: gander.TestScripts/nothing | soak: - | README", `has the text "nothing"`},
		{"a test that only soak runs", "a.a | x | check: docker.TestWrites | soak: - | README", "soak runs it, and check does not"},
		{"a test without cells in check", "a.a | x | check: e2e.TestPrompt, e2e.TestWine | soak: - | README", "e2e.TestWine: soak runs it"},
		{"a setting that is gone", "a.a | x | check: acp.TestCancel | soak: CANCEL_RUNS=20 | README", "does not set CANCEL_RUNS=20"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all, bad := parsePromises(tt.text)
			got := strings.Join(append(bad, unheld(all, tree, mk)...), "\n")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
