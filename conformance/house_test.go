package conformance

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// What product code below cmd does not do, and where it does after all.
var forbidden = []struct {
	re     *regexp.Regexp
	why    string
	except []string // files, each with its reason beside it
}{
	{regexp.MustCompile(`\bos\.(Getenv|LookupEnv|Environ|Setenv)\(`), "only cmd reads the environment; take a value in Options", []string{
		"conformance/pictures/main.go", // a program that only make starts
	}},
	{regexp.MustCompile(`\bos\.Stdout\b|\bfmt\.Print`), "stdout belongs to the protocol", []string{
		"sandbox/inside/supervise/direct_other.go", // a supervisor's stdout is its stream to the host
	}},
	{regexp.MustCompile(`\bslog\.(Default|SetDefault|Debug|Info|Warn|Error)\(`), "a logger is passed in", nil},
	{regexp.MustCompile(`(?m)^func init\(\)`), "no init: say it where it is used", nil},
	{regexp.MustCompile(`\bos\.Exit\(|\blog\.Fatal`), "return the error; only cmd ends the process", []string{
		"sandbox/inside/supervise/supervisor_linux.go", // it is the first process of a sandbox: its exit is what ends the sandbox
		"conformance/pictures/main.go",                 // a program that only make starts
	}},
}

func TestHouseRules(t *testing.T) {
	bad, err := broken(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bad {
		t.Error(b)
	}
}

func TestBrokenFindsThem(t *testing.T) {
	bad, err := broken(fstest.MapFS{
		"acp/a.go":                   {Data: []byte("package acp\n\nvar home = os.Getenv(\"HOME\")\n")},
		"acp/b.go":                   {Data: []byte("package acp\n\nfunc init() {}\n")},
		"sandbox/drivers/local/a.go": {Data: []byte("package local\n\nfunc f() { fmt.Println() }\n")},
		"sandbox/drivers/local/b.go": {Data: []byte("package local\n\n// os.Getenv( in a comment is talk.\n")},
		"acp/a_test.go":              {Data: []byte("package acp\n\nvar home = os.Getenv(\"HOME\")\n")},
		"cmd/gander/main.go":         {Data: []byte("package main\n\nvar home = os.Getenv(\"HOME\")\n")},
		"conformance/e2e/a.go":       {Data: []byte("package e2e\n\nvar home = os.Getenv(\"HOME\")\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(bad) != 3 {
		t.Errorf("found %d, want 3:\n%s", len(bad), strings.Join(bad, "\n"))
	}
}

// broken lists the lines of product code below cmd that break a rule.
func broken(root fs.FS) ([]string, error) {
	files, err := parseTree(root)
	if err != nil {
		return nil, err
	}
	var bad []string
	for _, f := range files {
		if f.forTests() || topFolder(f.name) == "cmd" {
			continue
		}
		text, err := fs.ReadFile(root, f.name)
		if err != nil {
			return nil, err
		}
		for i, line := range strings.Split(string(text), "\n") {
			code, _, _ := strings.Cut(line, "//")
			for _, rule := range forbidden {
				if rule.re.MatchString(code) && !slices.Contains(rule.except, f.name) {
					bad = append(bad, fmt.Sprintf("%s:%d: %s: %s", f.name, i+1, strings.TrimSpace(line), rule.why))
				}
			}
		}
	}
	return bad, nil
}
