package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// verbs matches what is filled into a message.
var verbs = regexp.MustCompile(`%(\[\d+\])?[-+#0-9.]*[a-zA-Z]`)

// apostrophes are any character in scripts, whose words stand between them.
var apostrophes = strings.NewReplacer("'", ".")

// TestMessagesAreComplete looks for each message of an error below internal in the table of
// messages and in the scripts. One that is in neither has a row in testdata/unreached.txt, below
// the reason why no script gets there.
func TestMessagesAreComplete(t *testing.T) {
	seen := apostrophes.Replace(readFiles(t, messagesFile) + strings.ReplaceAll(readFiles(t, "testdata/script/*.txtar"), `\`, ""))
	rows := strings.Split(readFiles(t, "testdata/unreached.txt"), "\n")
	known := map[string]bool{}
	reason := ""
	for _, row := range rows {
		switch {
		case strings.HasPrefix(row, "# "):
			reason = row
		case row != "" && reason == "":
			t.Errorf("testdata/unreached.txt: no reason for %s", row)
		case row != "":
			known[row] = true
		}
	}
	used := map[string]bool{}
	all := messages(t)
	for _, m := range all {
		row := m.file + ": " + m.text
		used[row] = true
		switch is := reached(m.text, seen); {
		case is && known[row]:
			t.Errorf("testdata/unreached.txt: a script or the table reaches\n%s", row)
		case !is && !known[row]:
			t.Errorf("no row of %s and no script reaches\n%s\n(add one, or a row with the reason to testdata/unreached.txt)", messagesFile, row)
		}
	}
	for row := range known {
		if !used[row] {
			t.Errorf("testdata/unreached.txt: there is no message\n%s", row)
		}
	}
	t.Logf("%d messages, %d of them unreached", len(all), len(known))
	if len(all) < 300 {
		t.Error("too few messages: the test looks in the wrong place")
	}
}

// reached reports whether a text has a message, or in a script the beginning of its first long part.
func reached(message, seen string) bool {
	parts := verbs.Split(apostrophes.Replace(message), -1)
	for _, part := range parts {
		if part = strings.Trim(part, " ⏎:;,"); len(part) >= 12 {
			if strings.Contains(seen, part[:min(len(part), 16)]) {
				return true
			}
			break
		}
	}
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile(strings.Join(parts, ".+")).MatchString(seen)
}

// message is the text of an error in a file below internal.
type message struct{ file, text string }

// messages returns the messages with words of their own.
func messages(t *testing.T) (all []message) {
	t.Helper()
	err := filepath.WalkDir("internal", func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && makesError(call) {
				if i := slices.IndexFunc(call.Args, isText); i >= 0 {
					text, _ := strconv.Unquote(call.Args[i].(*ast.BasicLit).Value)
					if regexp.MustCompile(`[a-zA-Z' ]{8}`).MatchString(verbs.ReplaceAllString(text, "%")) {
						all = append(all, message{filepath.ToSlash(path), strings.ReplaceAll(text, "\n", " ⏎ ")})
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func isText(e ast.Expr) bool {
	literal, ok := e.(*ast.BasicLit)
	return ok && literal.Kind == token.STRING
}

// makesError reports whether a call makes an error for a person.
func makesError(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name == "UsageError"
	case *ast.SelectorExpr:
		x, _ := f.X.(*ast.Ident)
		return x != nil && slices.Contains([]string{"cli.UsageError", "fmt.Errorf", "errors.New", "d.fail"}, fmt.Sprint(x.Name, ".", f.Sel.Name))
	}
	return false
}

// readFiles returns what files that match a pattern hold.
func readFiles(t *testing.T, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: no files, %v", pattern, err)
	}
	var all strings.Builder
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(raw)
	}
	return all.String()
}
