package mcp

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

func toolChecks() []Check {
	return []Check{
		{ID: "tools.inventory", Profile: Classic, Requirements: []int{8, 11}, run: checkInventory, Text: "the six tools are there, sorted by name"},
		{ID: "tools.inventory-current", Profile: Current, Requirements: []int{8, 72}, run: checkInventory, Text: "shell, write, edit, tree, read_image and analyze are there"},
		{ID: "tools.names", Requirements: []int{13}, run: checkToolNames, Text: "names are ones that clients can prefix, carry no prefix themselves, and are not answered with one"},
		{ID: "tools.schemas", Requirements: []int{8, 12}, run: checkSchemas, Text: "every tool has a description and a schema of an object whose properties have types"},
		{ID: "tools.parameters", Profile: Classic, Requirements: []int{12}, run: checkParameters, Text: "the parameters, their types and which are required are goose's"},
		{ID: "tools.parameters-current", Profile: Current, Requirements: []int{12, 72}, run: checkParameters, Text: "the parameters, their types and which are required are goose's"},
		{ID: "tools.stable", Requirements: []int{12, 13}, run: checkStable, Text: "the inventory is the same after calls and in another session"},
		{ID: "tools.unknown", Requirements: []int{9, 45, 64}, run: checkUnknownTool, Text: "an unknown tool is answered with -32602"},
		{ID: "tools.arguments", Requirements: []int{9, 45, 64}, needs: []string{"shell"}, run: checkArguments, Text: "missing and ill-typed arguments are refused, unknown ones ignored"},
	}
}

// What each profile's tools take: + marks what is required.
var parameters = map[string]map[string]map[string]string{
	Classic: {
		"shell":           {"command": "+string"},
		"text_editor":     {"path": "+string", "command": "+string", "view_range": "array", "file_text": "string", "old_str": "string", "new_str": "string", "insert_line": "integer", "diff": "string"},
		"analyze":         {"path": "+string", "focus": "string", "follow_depth": "integer", "max_depth": "integer", "ast_recursion_limit": "integer", "force": "boolean"},
		"image_processor": {"path": "+string"},
		"list_windows":    {},
		"screen_capture":  {"display": "integer", "window_title": "string"},
	},
	Current: {
		"shell":      {"command": "+string", "timeout_secs": "integer"},
		"write":      {"path": "+string", "content": "+string"},
		"edit":       {"path": "+string", "before": "+string", "after": "+string"},
		"tree":       {"path": "+string", "depth": "integer"},
		"read_image": {"source": "+string", "crop": ""},
		"analyze":    {"path": "+string", "focus": "string", "max_depth": "integer", "follow_depth": "integer", "force": "boolean"},
	},
}

func checkInventory(p *probe) {
	var names []string
	for _, t := range p.tools(p.server()) {
		names = append(names, t.Name)
	}
	for _, want := range slices.Sorted(maps.Keys(parameters[p.o.Profile])) {
		if !slices.Contains(names, want) {
			p.problem("there is no tool %s", want)
		}
	}
	if p.classic() && !slices.IsSorted(names) {
		p.problem("the tools are not sorted: %s", strings.Join(names, " "))
	}
}

var toolName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,40}$`)

func checkToolNames(p *probe) {
	tools := p.tools(p.server())
	seen := map[string]bool{}
	for _, t := range tools {
		if !toolName.MatchString(t.Name) || strings.Contains(t.Name, "__") || strings.HasPrefix(t.Name, "developer") {
			p.problem("the name %q", t.Name)
		}
		if seen[t.Name] {
			p.problem("the name %q is there twice", t.Name)
		}
		seen[t.Name] = true
	}
	if len(tools) == 0 {
		p.fail("there are no tools")
	}
	prefixed := "developer__" + tools[0].Name
	if p.facts.has("shell") {
		prefixed = "developer__shell"
	}
	if a := p.call(prefixed, args{"command": p.facts.dialect.echo("x")}); a.code != invalidParams {
		p.problem("%s is not an unknown tool: %s", prefixed, excerpt(a.words()))
	}
}

// A schema is as much of JSON Schema as tools use.
type schema struct {
	Type       any               `json:"type"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	AnyOf      []schema          `json:"anyOf"`
	Ref        string            `json:"$ref"`
}

// types are the types a schema allows.
func (s schema) types() []string {
	var all []string
	switch t := s.Type.(type) {
	case string:
		all = append(all, t)
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok {
				all = append(all, name)
			}
		}
	}
	for _, alternative := range s.AnyOf {
		all = append(all, alternative.types()...)
	}
	if s.Ref != "" {
		all = append(all, "object")
	}
	return all
}

func checkSchemas(p *probe) {
	known := []string{"string", "integer", "number", "boolean", "array", "object", "null"}
	for _, t := range p.tools(p.server()) {
		var s schema
		if err := json.Unmarshal(t.InputSchema, &s); err != nil || !slices.Equal(s.types(), []string{"object"}) {
			p.problem("the schema of %s is not one of an object: %s", t.Name, excerpt(t.InputSchema))
			continue
		}
		if t.Description == "" {
			p.problem("%s has no description", t.Name)
		}
		for _, name := range s.Required {
			if _, ok := s.Properties[name]; !ok {
				p.problem("%s requires %s and does not describe it", t.Name, name)
			}
		}
		for name, property := range s.Properties {
			types := property.types()
			if len(types) == 0 || slices.ContainsFunc(types, func(t string) bool { return !slices.Contains(known, t) }) {
				p.problem("%s of %s has the types %q", name, t.Name, types)
			}
		}
	}
}

func checkParameters(p *probe) {
	tools := p.tools(p.server())
	for name, want := range parameters[p.o.Profile] {
		i := slices.IndexFunc(tools, func(t tool) bool { return t.Name == name })
		if i < 0 {
			continue // tools.inventory says so
		}
		var s schema
		_ = json.Unmarshal(tools[i].InputSchema, &s) // tools.schemas says so
		for parameter, kind := range want {
			kind, required := strings.CutPrefix(kind, "+")
			property, ok := s.Properties[parameter]
			switch {
			case !ok:
				p.problem("%s has no %s", name, parameter)
			case kind != "" && !slices.Contains(property.types(), kind):
				p.problem("%s of %s has the types %q, want %s", parameter, name, property.types(), kind)
			case required != slices.Contains(s.Required, parameter):
				p.problem("%s of %s is required: %v, want %v", parameter, name, !required, required)
			}
		}
	}
}

func checkStable(p *probe) {
	list := func(s *server) string {
		f := p.frame(s.Ask("tools/list", nil), "tools/list")
		text, err := canonical(f.Result)
		if err != nil {
			p.fail("tools/list is answered with %s", excerpt(f.Raw))
		}
		return string(text)
	}
	s := p.begin(launch{})
	first := list(s)
	if p.facts.has("shell") {
		p.callOn(s, "shell", args{"command": p.facts.dialect.echo("x")})
		p.callOn(s, "shell", args{"command": ""})
	}
	p.equal("the inventory after calls", list(s), first)
	p.equal("the inventory of another session", list(p.begin(launch{})), first)
}

func checkUnknownTool(p *probe) {
	for _, name := range []string{"no_such_tool", "", "SHELL"} {
		if a := p.call(name, args{}); a.code != invalidParams {
			p.problem("the tool %q is answered with %s, want error %d", name, excerpt(a.words()), invalidParams)
		}
	}
}

func checkArguments(p *probe) {
	for _, bad := range []args{{}, {"command": 5}, {"command": nil}, {"command": []string{"x"}}, {"command": map[string]any{}}, nil} {
		p.refused("shell "+marshal(bad), p.call("shell", bad), invalidParams)
	}
	a := p.ok("shell", args{"command": p.facts.dialect.echo("fine"), "nobody_knows": map[string]any{"x": []int{1}}})
	p.holds("the output", a.text("assistant"), "fine")
}
