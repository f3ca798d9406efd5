package developer

import (
	"errors"
	"strings"
	"testing"
)

func TestUnitTestPrompt(t *testing.T) {
	set, err := NewToolset(Table{Prompts: promptsOf(Classic)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := set.Prompt("unit_test", map[string]string{"source_code": "print('{language}')", "language": "Python", "other": "x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"for the Python source code", "```Python\nprint('{language}')\n```"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	if strings.Contains(got, "{source_code}") {
		t.Errorf("a hole is left in %s", got)
	}
	if promptsOf(Current) != nil {
		t.Error("the current profile has prompts")
	}
}

func TestPromptErrors(t *testing.T) {
	set, err := NewToolset(Table{Prompts: promptsOf(Classic)})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 1001)
	tests := []struct {
		name, prompt string
		arguments    map[string]string
		code         int
		want         string
	}{
		{"unknown", "nosuch", nil, InternalError, "Prompt 'nosuch' not found"},
		{"missing", "unit_test", map[string]string{"language": "Go"}, InvalidParams, "Missing required argument: 'source_code'"},
		{"missing the other", "unit_test", map[string]string{"source_code": "x"}, InvalidParams, "Missing required argument: 'language'"},
		{"long value", "unit_test", map[string]string{"source_code": long, "language": "Go"}, InvalidParams, "Argument values must not exceed 1000 characters"},
		{"long key", "unit_test", map[string]string{long: "x"}, InvalidParams, "Argument keys must be between 1-1000 characters"},
		{"empty key", "unit_test", map[string]string{"": "x"}, InvalidParams, "Argument keys must be between 1-1000 characters"},
		{"value", "unit_test", map[string]string{"source_code": "a // b", "language": "Go"}, InvalidParams, "Arguments contain potentially unsafe pattern: //"},
		{"key", "unit_test", map[string]string{"{{": "x"}, InvalidParams, "Arguments contain potentially unsafe pattern: {{"},
		{"parent", "unit_test", map[string]string{"source_code": "../x", "language": "Go"}, InvalidParams, "Arguments contain potentially unsafe pattern: ../"},
		{"backslashes", "unit_test", map[string]string{"source_code": `\\x`, "language": "Go"}, InvalidParams, `Arguments contain potentially unsafe pattern: \\`},
		{"script", "unit_test", map[string]string{"source_code": "<script>", "language": "Go"}, InvalidParams, "Arguments contain potentially unsafe pattern: <script>"},
		{"end", "unit_test", map[string]string{"source_code": "}}", "language": "Go"}, InvalidParams, "Arguments contain potentially unsafe pattern: }}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := set.Prompt(tt.prompt, tt.arguments)
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Code != tt.code || e.Message != tt.want {
				t.Errorf("got %v", err)
			}
		})
	}
}
