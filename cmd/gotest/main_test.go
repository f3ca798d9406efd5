package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestConvert runs tests of all kinds of ends in another module.
func TestConvert(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module x\n\ngo 1.26\n",
		"bad/bad_test.go": `package bad
import "testing"
func TestBad(t *testing.T) {
	t.Run("good", func(t *testing.T) { t.Log("it is good") })
	t.Run("bad", func(t *testing.T) { t.Error("it is bad") })
}
func TestGood(t *testing.T) { t.Log("it is good") }
func TestSkipped(t *testing.T) { t.Skip("it is skipped") }`,
		"broken/broken_test.go": "package broken\nfunc TestBroken(",
		"good/good_test.go":     "package good\nimport \"testing\"\nfunc TestGood(t *testing.T) { t.Log(`--- FAIL: TestFake`) }",
		"stuck/stuck_test.go":   "package stuck\nimport \"os\"\nimport \"testing\"\nfunc TestStuck(t *testing.T) { t.Log(`it ends the program`); os.Exit(3) }",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-json", "-count=1", "-vet=off", "-p", "1", "./...")
	cmd.Dir = dir
	events, err := cmd.Output()
	if err == nil {
		t.Fatal("the tests have not failed")
	}
	var out, times strings.Builder
	if err := convert(strings.NewReader(string(events)), &out, &times); err != nil {
		t.Fatal(err)
	}
	seconds := regexp.MustCompile(`[0-9.]+s\b`)
	want := `# x/broken
broken/broken_test.go:2:17: expected ')', found 'EOF'
FAIL	x/broken [setup failed]
    bad_test.go:5: it is bad
--- FAIL: TestBad/bad (S)
--- FAIL: TestBad (S)
FAIL
FAIL	x/bad	S
ok  	x/good	S
    stuck_test.go:4: it ends the program
FAIL	x/stuck	S
`
	if diff := cmp.Diff(want, seconds.ReplaceAllString(out.String(), "S")); diff != "" {
		t.Error(diff)
	}
	if got := strings.Fields(times.String()); len(got) != 12 || got[1] != "x/bad" || got[2] != "TestBad" {
		t.Errorf("the times are %q", got)
	}
}

// TestConvertFails: what is no event is an error.
func TestConvertFails(t *testing.T) {
	if err := convert(strings.NewReader("hello"), &strings.Builder{}, &strings.Builder{}); err == nil {
		t.Error("it was taken for an event")
	}
}
