package mcp

import (
	"encoding/json"
	"strings"
)

func promptChecks() []Check {
	return []Check{
		{ID: "prompts.list", Profile: Classic, Requirements: []int{10}, run: checkPromptsList, Text: "unit_test is there, with the required arguments source_code and language"},
		{ID: "prompts.get", Profile: Classic, Requirements: []int{10}, run: checkPromptsGet, Text: "prompts/get fills in both arguments, as one message of the user"},
		{ID: "prompts.refused", Profile: Classic, Requirements: []int{10, 45}, run: checkPromptsRefused, Text: "unknown prompts, missing, overlong and unsafe arguments are refused with their codes"},
	}
}

// needPrompts skips a check when prompts are not declared.
func (p *probe) needPrompts() *server {
	s := p.server()
	if _, declared := p.facts.capabilities["prompts"]; !declared {
		p.skip("the server declares no prompts")
	}
	return s
}

func checkPromptsList(p *probe) {
	f := p.frame(p.needPrompts().Ask("prompts/list", nil), "prompts/list")
	var result struct {
		Prompts []struct {
			Name      string
			Arguments []struct {
				Name     string
				Required bool
			}
		}
	}
	if f.Error != nil || json.Unmarshal(f.Result, &result) != nil {
		p.fail("prompts/list is answered with %s", excerpt(f.Raw))
	}
	for _, prompt := range result.Prompts {
		if prompt.Name != "unit_test" {
			continue
		}
		required := map[string]bool{}
		for _, a := range prompt.Arguments {
			required[a.Name] = a.Required
		}
		if !required["source_code"] || !required["language"] {
			p.problem("unit_test does not require source_code and language: %s", excerpt(f.Raw))
		}
		return
	}
	p.problem("there is no prompt unit_test")
}

func (p *probe) prompt(name string, arguments map[string]any) *frame {
	return p.frame(p.needPrompts().Ask("prompts/get", map[string]any{"name": name, "arguments": arguments}), "prompts/get")
}

func checkPromptsGet(p *probe) {
	f := p.prompt("unit_test", map[string]any{"source_code": "fn twice(x) = x + x", "language": "Gleam-42"})
	var result struct {
		Messages []struct {
			Role    string
			Content struct{ Type, Text string }
		}
	}
	if f.Error != nil || json.Unmarshal(f.Result, &result) != nil || len(result.Messages) != 1 {
		p.fail("prompts/get is answered with %s", excerpt(f.Raw))
	}
	m := result.Messages[0]
	if m.Role != "user" || m.Content.Type != "text" {
		p.problem("the message is not a text of the user: %s", excerpt(f.Raw))
	}
	p.holds("the prompt", m.Content.Text, "fn twice(x) = x + x", "Gleam-42")
	if strings.Contains(m.Content.Text, "{source_code}") || strings.Contains(m.Content.Text, "{language}") {
		p.problem("the prompt still has its placeholders")
	}
}

func checkPromptsRefused(p *probe) {
	for _, tt := range []struct {
		what, name string
		arguments  map[string]any
		code       string
		words      string
	}{
		{"an unknown prompt", "no_such_prompt", map[string]any{}, "-32603", "not found"},
		{"a prompt without its arguments", "unit_test", map[string]any{"language": "Go"}, "-32602", "source_code"},
		{"an overlong argument", "unit_test", map[string]any{"source_code": strings.Repeat("x", 1001), "language": "Go"}, "-32602", "1000"},
		{"an unsafe argument", "unit_test", map[string]any{"source_code": "../../etc/passwd", "language": "Go"}, "-32602", "unsafe"},
	} {
		f := p.prompt(tt.name, tt.arguments)
		if f.Error == nil || f.Error.Code.String() != tt.code || !strings.Contains(f.Error.Message, tt.words) {
			p.problem("%s is answered with %s, want error %s with %q", tt.what, excerpt(f.Raw), tt.code, tt.words)
		}
	}
}
