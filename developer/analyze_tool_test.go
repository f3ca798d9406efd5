package developer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/developer/analyze"
)

// project is a directory with a file of Go, one below, and one that is hidden.
func project(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.go": "package main\n\nfunc main() { helper() }\n\nfunc helper() {}\n", "sub/a.go": "package sub\n", ".gooseignore": "hidden.go\n", "hidden.go": "package main\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAnalyzeTool(t *testing.T) {
	dir := project(t)
	s := NewSpaces(SpacesOptions{WorkingDir: t.TempDir()})
	defer s.Close()
	tool := analyzeTool(analyze.New(analyze.Options{}), s)
	call := func(arguments string) (Result, error) {
		return tool.Call(t.Context(), Call{Arguments: []byte(arguments), WorkingDir: dir})
	}
	for _, arguments := range []string{`{"path":"main.go"}`, `{"path":"main.go","focus":null,"ast_recursion_limit":null}`} {
		result, err := call(arguments)
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Content) != 2 || result.Content[0].Text != result.Content[1].Text || result.Content[0].Audience[0] != "assistant" ||
			result.Content[1].Audience[0] != "user" || *result.Content[1].Priority != 0 || result.Content[0].Priority != nil {
			t.Errorf("the blocks are %+v", result.Content)
		}
		if want := "FILE: " + filepath.Join(dir, "main.go") + " [5L, 2F, 0C]\n"; !strings.HasPrefix(result.Content[0].Text, want) {
			t.Errorf("%s, want %s", result.Content[0].Text, want)
		}
	}
	result, err := call(`{"path":".","max_depth":1}`)
	if err != nil || !strings.Contains(result.Content[0].Text, "Shown: 1 files, 5L, 2F, 0C (max_depth=1)") {
		t.Errorf("one level: %+v, %v", result, err)
	}
	result, err = call(`{"path":".","focus":"helper","follow_depth":0}`)
	if err != nil || !strings.Contains(result.Content[0].Text, "DEFINITIONS:\nmain.go:5 - helper\n") {
		t.Errorf("a focus: %+v, %v", result, err)
	}
	for arguments, want := range map[string]string{
		`{"path":"nowhere"}`:                  "Path '" + filepath.Join(dir, "nowhere") + "' does not exist",
		`{"path":"hidden.go"}`:                "Access to '" + filepath.Join(dir, "hidden.go") + "' is restricted by .gooseignore",
		`{}`:                                  "failed to deserialize parameters: missing field `path`",
		`{"path":".","max_depth":-1}`:         "failed to deserialize parameters: ",
		`{"path":".","max_depth":4294967296}`: "failed to deserialize parameters: ",
	} {
		_, err := call(arguments)
		if e, ok := err.(*Error); !ok || e.Code != InvalidParams || !strings.HasPrefix(e.Message, want) {
			t.Errorf("%s: %v, want %s", arguments, err, want)
		}
	}
}

func TestAnalyzeToolLarge(t *testing.T) {
	dir := t.TempDir()
	for i := range 1001 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.go", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := NewSpaces(SpacesOptions{WorkingDir: dir})
	defer s.Close()
	result, err := analyzeTool(analyze.New(analyze.Options{}), s).Call(t.Context(), Call{Arguments: []byte(`{"path":"."}`)})
	if err != nil || len(result.Content) != 1 || result.Content[0].Audience != nil || !strings.HasPrefix(result.Content[0].Text, "LARGE OUTPUT WARNING") {
		t.Errorf("a large answer: %+v, %v", result, err)
	}
}

func TestCurrentAnalyzeTool(t *testing.T) {
	dir := project(t)
	s := NewSpaces(SpacesOptions{WorkingDir: dir})
	defer s.Close()
	tool := currentAnalyzeTool(analyze.New(analyze.Options{}), s)
	for _, tt := range []struct {
		arguments, want string
		failed          bool
	}{
		{`{"path":"main.go"}`, "main.go [5L, 2F]\n\nF: main:3 helper:5\n", false},
		{`{"path":".","focus":"helper"}`, "FOCUS: helper (1 defs, 1 refs)\n\nDEF main.go:helper:5\n\nIN:\n  main.go:helper:5 → main.go:main:3\n\n2 files analyzed\n", false},
		{`{"path":".","focus":"nobody"}`, "Symbol 'nobody' not found in 2 analyzed files.\n", false},
		{`{"path":"nowhere"}`, "Error: path not found: " + filepath.Join(dir, "nowhere"), true},
		{`{"path":".gooseignore"}`, "Error: could not analyze " + filepath.Join(dir, ".gooseignore") + " (unsupported language or binary file)", true},
		{`{"path":"hidden.go"}`, "Error: Access to '" + filepath.Join(dir, "hidden.go") + "' is restricted by .gooseignore", true},
	} {
		result, err := tool.Call(t.Context(), Call{Arguments: []byte(tt.arguments)})
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Content) != 1 || *result.Content[0].Priority != 0 || result.IsError != tt.failed || result.Content[0].Text != tt.want {
			t.Errorf("%s: %+v, want %q", tt.arguments, result, tt.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if result, err := tool.Call(ctx, Call{Arguments: []byte(`{"path":"."}`)}); err == nil {
		t.Errorf("a cancelled call: %+v", result)
	}
}
