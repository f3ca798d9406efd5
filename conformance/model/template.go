package model

import (
	"encoding/json"
	"regexp"
	"strings"
)

// templates are the values of {{...}} in a step.
type templates struct{ *strings.Replacer }

func newTemplates(c *completion, messages []Message) templates {
	return templates{strings.NewReplacer(
		"{{last_tool_result}}", lastToolResult(messages),
		"{{cwd}}", workingDir(messages),
		"{{model}}", c.Model,
	)}
}

func lastToolResult(messages []Message) string {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == "tool" {
			return messages[i].Content
		}
	}
	return ""
}

// mention is how the agents tell the model where they work.
var mention = regexp.MustCompile("(?im)working[ _-]?dir(?:ectory)?(?: is)?\\s*[:=>]?\\s*[\"'`]?(/[^\\s\"'`<]+|[A-Za-z]:\\\\[^\\s\"'`<]+)")

func workingDir(messages []Message) string {
	for i := len(messages) - 1; i >= 0; i-- {
		if m := messages[i]; m.Role == "assistant" || m.Role == "tool" {
			continue
		}
		if found := mention.FindStringSubmatch(messages[i].Content); found != nil {
			return found[1]
		}
	}
	return ""
}

// arguments fills in the strings of JSON arguments.
func (t templates) arguments(args json.RawMessage) string {
	if args == nil {
		return "{}"
	}
	var v any
	if !strings.Contains(string(args), "{{") || json.Unmarshal(args, &v) != nil {
		return string(args)
	}
	out, err := json.Marshal(t.fill(v))
	if err != nil {
		return string(args)
	}
	return string(out)
}

func (t templates) fill(v any) any {
	switch v := v.(type) {
	case string:
		return t.Replace(v)
	case []any:
		for i := range v {
			v[i] = t.fill(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = t.fill(v[k])
		}
	}
	return v
}
