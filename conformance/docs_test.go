package conformance

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

func TestPackagesAreDocumented(t *testing.T) {
	files, err := parseTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range undocumented(files) {
		t.Error(v)
	}
}

func TestUndocumentedFindsThem(t *testing.T) {
	files, err := parseTree(fstest.MapFS{
		"acp/a.go":         {Data: []byte("// Package acp is the wire.\npackage acp\n")},
		"acp/b.go":         {Data: []byte("package acp\n")},
		"sessions/a.go":    {Data: []byte("// A comment, and a blank line.\n\npackage sessions\n")},
		"sandbox/a.go":     {Data: []byte("// Package sand box misspells itself.\npackage sandbox\n")},
		"cmd/gander/a.go":  {Data: []byte("// Gander is a command.\npackage main\n")},
		"mcp/a_test.go":    {Data: []byte("// Package mcp_test only tests.\npackage mcp_test\n")},
		"mcp/a_windows.go": {Data: []byte("//go:build windows\n\npackage mcp\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(undocumented(files), "\n")
	for _, dir := range []string{"mcp", "sandbox", "sessions"} {
		if !strings.Contains(got, dir+": ") {
			t.Errorf("%s was not found in:\n%s", dir, got)
		}
	}
	if n := len(undocumented(files)); n != 3 {
		t.Errorf("%d packages found, want 3:\n%s", n, got)
	}
}

// undocumented lists the packages without a package comment in one of their
// files. A folder that holds tests only says what it is in one of those.
func undocumented(files []goFile) []string {
	documented := map[string]bool{}
	for _, f := range files {
		testOnly := !slices.ContainsFunc(files, func(o goFile) bool {
			return o.dir() == f.dir() && !strings.HasSuffix(o.name, "_test.go")
		})
		counts := testOnly || !strings.HasSuffix(f.name, "_test.go")
		documented[f.dir()] = documented[f.dir()] || counts && describes(f)
	}
	var missing []string
	for _, dir := range slices.Sorted(maps.Keys(documented)) {
		if !documented[dir] {
			missing = append(missing, fmt.Sprintf("%s: no package comment: say what it is for, what one calls first, what it promises", dir))
		}
	}
	return missing
}

func describes(f goFile) bool {
	return f.doc != "" && (f.pkg == "main" || strings.HasPrefix(f.doc, "Package "+f.pkg+" "))
}

// Bounds of the documents.
const (
	longestLine    = 400     // characters
	largestPicture = 300_000 // bytes
)

// longest bounds the lines of the two documents that everybody reads.
var longest = map[string]int{"README.md": 200, "SECURITY.md": 80}

func TestDocuments(t *testing.T) {
	bad, err := flaws(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bad {
		t.Error(b)
	}
}

func TestFlawsFindsThem(t *testing.T) {
	good := "# Top\n\n[s](SECURITY.md) [a](a/README.md) [b](a/README.md#one-two) [c](#top) [d](https://x.example/y)\n"
	tests := map[string]struct {
		file, text, want string
	}{
		"nothing":            {"acp/a.md", "", ""},
		"a long README":      {"README.md", good + strings.Repeat("\n", 200), "203 lines"},
		"a long SECURITY.md": {"SECURITY.md", strings.Repeat("\n", 81), "81 lines"},
		"a long line":        {"README.md", good + strings.Repeat("ä", 401), "401 characters"},
		"a lost file":        {"a/README.md", "# One, two\n[x](gone.go)", "gone.go"},
		"a lost heading":     {"README.md", good + "[x](a/README.md#three)", "#three"},
		"a large picture":    {"a/p.png", strings.Repeat("x", 300_001), "300001 bytes"},
		"an unknown page":    {"b/README.md", "# B\n", "does not name b/README.md"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{
				"README.md":                  {Data: []byte(good)},
				"SECURITY.md":                {Data: []byte("# S\n")},
				"a/README.md":                {Data: []byte("# One, `two`\n")},
				"a/node_modules/x/README.md": {Data: []byte("[x](gone)")},
			}
			root[tt.file] = &fstest.MapFile{Data: []byte(tt.text)}
			bad, err := flaws(root)
			if err != nil {
				t.Fatal(err)
			}
			if tt.want == "" && len(bad) > 0 || tt.want != "" && (len(bad) != 1 || !strings.Contains(bad[0], tt.want)) {
				t.Errorf("flaws = %q, want one with %q", bad, tt.want)
			}
		})
	}
}

var (
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fenced   = regexp.MustCompile("(?s)```.*?```")
)

// flaws lists what is wrong with the documents and pictures of a tree: too long, links that
// lead nowhere, and READMEs of folders that the README does not name.
func flaws(root fs.FS) ([]string, error) {
	var bad []string
	pages := map[string]string{}
	err := fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && slices.Contains([]string{"node_modules", ".git", ".cache", "dist"}, e.Name()):
			return fs.SkipDir
		case path.Ext(name) == ".png":
			st, err := e.Info()
			if err == nil && st.Size() > largestPicture {
				bad = append(bad, fmt.Sprintf("%s has %d bytes, more than %d", name, st.Size(), largestPicture))
			}
			return err
		case e.Name() != "README.md" && e.Name() != "SECURITY.md":
			return nil
		}
		text, err := fs.ReadFile(root, name)
		pages[name] = string(text)
		return err
	})
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		text := pages[name]
		if name != "README.md" && !strings.Contains(pages["README.md"], "]("+name+")") {
			bad = append(bad, "README.md does not name "+name)
		}
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if at := longest[name]; at > 0 && len(lines) > at {
			bad = append(bad, fmt.Sprintf("%s has %d lines, more than %d: move what few people need to the folder that it is about", name, len(lines), at))
		}
		for i, line := range lines {
			if n := utf8.RuneCountInString(line); n > longestLine {
				bad = append(bad, fmt.Sprintf("%s:%d has %d characters, more than %d", name, i+1, n, longestLine))
			}
		}
		for _, l := range links.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			if !leads(root, pages, name, l[1]) {
				bad = append(bad, fmt.Sprintf("%s: the link %s leads nowhere", name, l[1]))
			}
		}
	}
	return bad, err
}

// leads reports whether a link of a page leads to a file of the tree, and to a heading of it.
func leads(root fs.FS, pages map[string]string, page, link string) bool {
	if strings.Contains(link, "://") {
		return true
	}
	file, anchor, _ := strings.Cut(link, "#")
	target := page
	if file != "" {
		target = path.Join(path.Dir(page), file)
	}
	if _, err := fs.Stat(root, target); err != nil {
		return false
	}
	return anchor == "" || slices.ContainsFunc(headings.FindAllStringSubmatch(fenced.ReplaceAllString(pages[target], ""), -1),
		func(h []string) bool { return anchorOf(h[1]) == anchor })
}

// The tables of what to touch, as in "To add an agent", name files that are there.
func TestTablesOfChanges(t *testing.T) {
	root, sections := os.DirFS(".."), 0
	for _, page := range []string{"acp", "developer", "sandbox", "sandbox/rules", "sandbox/unattended"} {
		text, err := fs.ReadFile(root, page+"/README.md")
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range strings.Split(string(text), "\n## ")[1:] {
			if !strings.HasPrefix(section, "To add ") {
				continue
			}
			sections++
			for _, row := range regexp.MustCompile(`(?m)^\| (`+"`"+`.*?) \|`).FindAllStringSubmatch(section, -1) {
				for file := range strings.SplitSeq(row[1], ", ") {
					if _, err := fs.Stat(root, strings.Trim(file, "`")); err != nil {
						t.Errorf("%s/README.md: %v", page, err)
					}
				}
			}
		}
	}
	if sections != 6 {
		t.Errorf("there are %d tables, want those of an agent, a driver, a method, a tool, a panel and a key", sections)
	}
}

// anchorOf returns the anchor that GitHub gives a heading.
func anchorOf(heading string) string {
	return regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ReplaceAll(strings.ToLower(heading), " ", "-"), "")
}
