package acp

import (
	"encoding/json"
	"strings"
	"testing"
)

// Every requirement is shown by a check.
func TestRequirementsAreShown(t *testing.T) {
	shown, ids := map[int]bool{}, map[string]bool{}
	for _, c := range Checks() {
		if ids[c.ID] || c.Text == "" || len(c.Requirements) == 0 {
			t.Errorf("%s is there twice, or says nothing", c.ID)
		}
		ids[c.ID] = true
		for _, n := range c.Requirements {
			if requirement(n).Text == "" {
				t.Errorf("%s: there is no requirement %d", c.ID, n)
			}
			shown[n] = true
		}
	}
	for i, r := range Requirements() {
		if r.Number != i+1 || r.Section == "" {
			t.Errorf("requirement %d is at place %d, section %q", r.Number, i+1, r.Section)
		}
		if !shown[r.Number] {
			t.Errorf("R%d is shown nowhere: %s", r.Number, r.Text)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	for want, o := range map[string]Options{
		"no command": {},
		"no check":   {Command: []string{"x"}, Only: []string{"no.such"}},
		"/no/such":   {Command: []string{"/no/such/agent"}},
	} {
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

// Every kind that a shape names is there: a mistake in the notation would let
// anything pass.
func TestShapesAreClosed(t *testing.T) {
	g := readShapes(shapes)
	known := func(kind string) bool {
		kind = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(kind, "?"), "["), "]")
		switch kind {
		case "string", "path", "bool", "any", "object", "number", "int", "uint16", "uint32", "uint64":
			return true
		}
		_, ok := g[kind]
		return ok || strings.HasPrefix(kind, "(")
	}
	for name, s := range g {
		for field, f := range s.fields {
			if !known(f.kind) {
				t.Errorf("%s.%s is of the unknown kind %q", name, field, f.kind)
			}
		}
		for tag, branch := range s.branches {
			if !known(branch) {
				t.Errorf("%s %s is the unknown shape %q", name, tag, branch)
			}
		}
		for _, branch := range s.either {
			if !known(branch) {
				t.Errorf("%s is either the unknown shape %q", name, branch)
			}
		}
	}
	for method, shape := range results() {
		if !known(shape) {
			t.Errorf("the result of %s has the unknown shape %q", method, shape)
		}
	}
}

func TestShapes(t *testing.T) {
	g := readShapes(shapes)
	for _, tt := range []struct{ name, shape, text, want string }{
		{"an update", "Update", `{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}`, ""},
		{"null for what may be null", "Session", `{"sessionId":"s","modes":null,"configOptions":null,"_meta":null}`, ""},
		{"null for what may not", "Session", `{"sessionId":null}`, ".sessionId is null, want string"},
		{"a missing field", "Update", `{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk"}}`, ".update.content is missing"},
		{"no object", "Update", `[]`, "want an object"},
		{"no JSON", "Update", `{`, "want an object"},
		{"an unknown branch", "Update", `{"sessionId":"s","update":{"sessionUpdate":"brand_new"}}`, `is "brand_new", which is none of the protocol's`},
		{"an unknown word", "Prompt", `{"stopReason":"error"}`, "want one of"},
		{"a number that is too large", "Initialize", `{"protocolVersion":65536}`, "want uint16"},
		{"a negative number", "Used", `{"used":-1,"size":1}`, "want uint64"},
		{"a fraction", "Used", `{"used":1.5,"size":1}`, "want uint64"},
		{"an item of a list", "Plan", `{"entries":[{"content":"x","priority":"high","status":"pending"},5]}`, ".entries[1] is 5"},
		{"groups of values", "Options", `{"configOptions":[{"id":"m","name":"M","type":"select","currentValue":"a","options":[{"group":"g","name":"G","options":[{"value":"a","name":"A"}]}]}]}`, ""},
		{"a switch with a text", "Options", `{"configOptions":[{"id":"m","name":"M","type":"boolean","currentValue":"yes"}]}`, "want bool"},
		{"a blob", "Resource", `{"type":"resource","resource":{"uri":"x","blob":"eA=="}}`, ""},
		{"a relative path", "Location", `{"path":"a/b"}`, "not absolute"},
		{"a Windows path", "Location", `{"path":"C:\\a"}`, ""},
		{"line 0", "Location", `{"path":"/a","line":0}`, "lines count from 1"},
		{"a field of one's own", "Location", `{"path":"/a","mine":1}`, ".mine is no field of the protocol"},
		{"meta that is none", "Location", `{"path":"/a","_meta":5}`, "._meta is 5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			judge{g, func(_ objection, where, what string) { got = append(got, where+" "+what) }}.message(json.RawMessage(tt.text), tt.shape)
			if (len(got) == 0) != (tt.want == "") || !strings.Contains(strings.Join(got, "; "), tt.want) {
				t.Errorf("objections %q, want %q", got, tt.want)
			}
		})
	}
}
