package developer

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Prompt is a text with holes that a client fills in for a person.
type Prompt struct {
	Name        string
	Description string
	Arguments   []PromptArgument
	// Template has {name} where an argument goes.
	Template string
}

// A PromptArgument is one hole of a [Prompt].
type PromptArgument struct {
	Name, Description string
	Required          bool
}

//go:embed prompts/unit_test.md
var unitTestTemplate string

// unitTest is the one prompt of the classic profile. Its description is the whole
// template, as goose had it: clients show it as a preview.
func unitTest() Prompt {
	return Prompt{
		Name:        "unit_test",
		Description: unitTestTemplate,
		Arguments: []PromptArgument{
			{"source_code", "The source code file content to be tested", true},
			{"language", "The programming language of the source code", true},
		},
		Template: unitTestTemplate,
	}
}

// Prompts lists the prompts.
func (t *Toolset) Prompts() []Prompt { return t.table.Prompts }

// Prompt fills in a prompt. The rules for arguments, and the texts and codes of
// its errors, are the classic extension's.
func (t *Toolset) Prompt(name string, arguments map[string]string) (string, error) {
	i := slices.IndexFunc(t.table.Prompts, func(p Prompt) bool { return p.Name == name })
	if i < 0 {
		return "", &Error{InternalError, fmt.Sprintf("Prompt '%s' not found", clip(name))}
	}
	return t.table.Prompts[i].fill(arguments)
}

func (p Prompt) fill(arguments map[string]string) (string, error) {
	for _, key := range slices.Sorted(maps.Keys(arguments)) {
		if err := checkArgument(key, arguments[key]); err != nil {
			return "", err
		}
	}
	var pairs []string
	for _, a := range p.Arguments {
		value, ok := arguments[a.Name]
		if !ok && a.Required {
			return "", &Error{InvalidParams, fmt.Sprintf("Missing required argument: '%s'", a.Name)}
		}
		pairs = append(pairs, "{"+a.Name+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(p.Template), nil // once: a value's own {…} stays
}

// maxArgument bounds the keys and values of a prompt's arguments, in bytes.
const maxArgument = 1000

func checkArgument(key, value string) error {
	switch {
	case key == "" || len(key) > maxArgument:
		return &Error{InvalidParams, fmt.Sprintf("Argument keys must be between 1-%d characters", maxArgument)}
	case len(value) > maxArgument:
		return &Error{InvalidParams, fmt.Sprintf("Argument values must not exceed %d characters", maxArgument)}
	}
	for _, pattern := range []string{"../", "//", `\\`, "<script>", "{{", "}}"} {
		if strings.Contains(key, pattern) || strings.Contains(value, pattern) {
			return &Error{InvalidParams, "Arguments contain potentially unsafe pattern: " + pattern}
		}
	}
	return nil
}
