package developer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// schema is the part of JSON Schema that input schemas of tools use. What it does
// not know it does not check; unknown arguments are let through, as goose did.
type schema struct {
	Type       types              `json:"type"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Items      *schema            `json:"items"`
	Enum       []json.RawMessage  `json:"enum"`
	Minimum    *float64           `json:"minimum"`
	AnyOf      []*schema          `json:"anyOf"`
	Ref        string             `json:"$ref"`
	Defs       map[string]*schema `json:"$defs"`
}

// types is a schema's "type": a name or several.
type types []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *types) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		*t = make(types, 1)
		return json.Unmarshal(raw, &(*t)[0])
	}
	return json.Unmarshal(raw, (*[]string)(t))
}

func parseSchema(raw json.RawMessage) (*schema, error) {
	s := new(schema)
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, err
	}
	if !slices.Equal(s.Type, types{"object"}) {
		return nil, errors.New(`"type" is not "object"`)
	}
	return s, nil
}

// check says what is wrong with the arguments of a call, in the words that goose's
// decoder used, and with the argument's name.
func (s *schema) check(arguments json.RawMessage) error {
	arguments = bytes.TrimSpace(arguments)
	if len(arguments) == 0 || string(arguments) == "null" {
		arguments = []byte("{}")
	}
	return s.checkValue(arguments, "", s)
}

func (s *schema) checkValue(raw json.RawMessage, path string, root *schema) error {
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok && root.Defs[name] != nil {
		return root.Defs[name].checkValue(raw, path, root)
	}
	if len(s.AnyOf) > 0 {
		return s.checkAny(raw, path, root)
	}
	if err := s.checkType(raw, path); err != nil {
		return err
	}
	switch kindOf(raw) {
	case "object":
		return s.checkObject(raw, path, root)
	case "array":
		return s.checkItems(raw, path, root)
	case "number", "integer":
		return s.checkMinimum(raw, path)
	}
	return s.checkEnum(raw, path)
}

// checkAny wants one of several to fit; the complaint is that of the first.
func (s *schema) checkAny(raw json.RawMessage, path string, root *schema) (first error) {
	for _, option := range s.AnyOf {
		err := option.checkValue(raw, path, root)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func (s *schema) checkType(raw json.RawMessage, path string) error {
	kind := kindOf(raw)
	if len(s.Type) == 0 || slices.Contains(s.Type, kind) || kind == "integer" && slices.Contains(s.Type, "number") {
		return nil
	}
	var wanted []string
	for _, t := range s.Type {
		if t != "null" {
			wanted = append(wanted, article(t))
		}
	}
	return fmt.Errorf("invalid type: %s, expected %s%s", describe(raw), strings.Join(wanted, " or "), place(path))
}

func (s *schema) checkObject(raw json.RawMessage, path string, root *schema) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	for _, name := range s.Required {
		if _, ok := members[name]; !ok {
			return fmt.Errorf("missing field `%s`%s", name, place(path))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		value, ok := members[name]
		if !ok {
			continue
		}
		if err := s.Properties[name].checkValue(value, join(path, name), root); err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) checkItems(raw json.RawMessage, path string, root *schema) error {
	if s.Items == nil {
		return nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return err
	}
	for i, item := range items {
		if err := s.Items.checkValue(item, fmt.Sprintf("%s[%d]", path, i), root); err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) checkMinimum(raw json.RawMessage, path string) error {
	if s.Minimum == nil {
		return nil
	}
	value, _ := strconv.ParseFloat(string(raw), 64) // beyond any number it is an infinite one
	if value < *s.Minimum {
		return fmt.Errorf("invalid value: %s, expected %v or more%s", describe(raw), *s.Minimum, place(path))
	}
	return nil
}

func (s *schema) checkEnum(raw json.RawMessage, path string) error {
	if len(s.Enum) == 0 || slices.ContainsFunc(s.Enum, func(e json.RawMessage) bool { return sameText(e, raw) }) {
		return nil
	}
	var variants []string
	for _, e := range s.Enum {
		if string(e) != "null" {
			variants = append(variants, "`"+strings.Trim(string(e), `"`)+"`")
		}
	}
	return fmt.Errorf("unknown variant %s, expected one of %s%s", describe(raw), strings.Join(variants, ", "), place(path))
}

// sameText compares two scalars, whatever way their strings are escaped.
func sameText(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && x == y
}

// kindOf is the JSON Schema type of a value. A number counts as an integer only
// when it is written as one: 1.0 is refused, as goose's decoder did.
func kindOf(raw json.RawMessage) string {
	switch raw[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	if bytes.ContainsAny(raw, ".eE") {
		return "number"
	}
	return "integer"
}

// describe names a value as goose's decoder did.
func describe(raw json.RawMessage) string {
	text := clip(string(raw))
	switch kindOf(raw) {
	case "object":
		return "map"
	case "array":
		return "sequence"
	case "string":
		return "string " + text
	case "boolean":
		return "boolean `" + text + "`"
	case "null":
		return "null"
	case "number":
		return "floating point `" + text + "`"
	}
	return "integer `" + text + "`"
}

func article(kind string) string {
	switch kind {
	case "object", "array", "integer":
		return "an " + kind
	}
	return "a " + kind
}

func place(path string) string {
	if path == "" {
		return ""
	}
	return " in the argument `" + path + "`"
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
