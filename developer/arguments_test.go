package developer

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestSchemaCheck(t *testing.T) {
	s, err := parseSchema(json.RawMessage(`{
		"type": "object", "required": ["path"],
		"properties": {
			"path": {"type": "string"},
			"line": {"type": ["integer", "null"]},
			"depth": {"type": "integer", "minimum": 0},
			"range": {"type": ["array", "null"], "items": {"type": "integer"}},
			"ratio": {"type": "number"},
			"force": {"type": "boolean"},
			"mode": {"type": "string", "enum": ["fast", "slow"]},
			"crop": {"anyOf": [{"$ref": "#/$defs/Crop"}, {"type": "null"}]}
		},
		"$defs": {"Crop": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ arguments, want string }{
		{`{"path": "a"}`, ""},
		{`{"path": "a", "unknown": [1]}`, ""},
		{`{"path": "a", "line": null, "range": null, "crop": null}`, ""},
		{`{"path": "a", "line": -9223372036854775809123, "range": [1, -1], "ratio": 1, "force": true, "mode": "f\u0061st", "crop": {"x": 1}}`, ""},
		{`{"path": "a", "ratio": 1e400}`, ""},
		{``, "missing field `path`"},
		{`null`, "missing field `path`"},
		{` {} `, "missing field `path`"},
		{`[]`, "invalid type: sequence, expected an object"},
		{`{"path": null}`, "invalid type: null, expected a string in the argument `path`"},
		{`{"path": 5}`, "invalid type: integer `5`, expected a string in the argument `path`"},
		{`{"path": {"a": 1}}`, "invalid type: map, expected a string in the argument `path`"},
		{`{"path": "a", "line": 1.0}`, "invalid type: floating point `1.0`, expected an integer in the argument `line`"},
		{`{"path": "a", "line": "1"}`, "invalid type: string \"1\", expected an integer in the argument `line`"},
		{`{"path": "a", "depth": -1}`, "invalid value: integer `-1`, expected 0 or more in the argument `depth`"},
		{`{"path": "a", "depth": -1e400}`, "invalid type: floating point `-1e400`, expected an integer in the argument `depth`"},
		{`{"path": "a", "depth": 100000000000000000000000000000000}`, ""}, // the tool says so
		{`{"path": "a", "range": 3}`, "invalid type: integer `3`, expected an array in the argument `range`"},
		{`{"path": "a", "range": [1, "2"]}`, "invalid type: string \"2\", expected an integer in the argument `range[1]`"},
		{`{"path": "a", "ratio": true}`, "invalid type: boolean `true`, expected a number in the argument `ratio`"},
		{`{"path": "a", "force": null}`, "invalid type: null, expected a boolean in the argument `force`"},
		{`{"path": "a", "mode": "loud"}`, "unknown variant string \"loud\", expected one of `fast`, `slow` in the argument `mode`"},
		{`{"path": "a", "crop": {}}`, "missing field `x` in the argument `crop`"},
		{`{"path": "a", "crop": 1}`, "invalid type: integer `1`, expected an object in the argument `crop`"},
		{`{"depth": -1, "path": 7}`, "invalid value: integer `-1`, expected 0 or more in the argument `depth`"}, // the first by name
	}
	for _, tt := range tests {
		got := ""
		if err := s.check(json.RawMessage(tt.arguments)); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s\n got %q\nwant %q", tt.arguments, got, tt.want)
		}
	}
	long := `{"path": "a", "line": "` + strings.Repeat("x", 10_000) + `"}`
	if err := s.check(json.RawMessage(long)); err == nil || len(err.Error()) > 300 {
		t.Errorf("a long value: %.400v", err)
	}
	began := time.Now()
	if err := s.check(json.RawMessage(`{"path": "a", "depth": -` + strings.Repeat("9", 2<<20) + `}`)); err == nil || time.Since(began) > 5*time.Second {
		t.Errorf("a number of millions of digits: %.400v, after %v", err, time.Since(began))
	}
}

func TestParseSchemaErrors(t *testing.T) {
	for _, raw := range []string{``, `[]`, `{}`, `{"type": "string"}`, `{"type": 7}`, `{"type": "object", "properties": 7}`} {
		if _, err := parseSchema(json.RawMessage(raw)); err == nil {
			t.Errorf("%s was taken", raw)
		}
	}
}
