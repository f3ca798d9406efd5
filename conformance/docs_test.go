package conformance

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
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
