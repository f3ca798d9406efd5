package acp

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// decode reads raw, valid JSON into the struct v points to, the way ACP's schema
// asks of a receiver: a field of the wrong type counts as absent, a wrong item
// of an array is dropped, unless the field's acp tag says otherwise:
//
//	required  must be there and of its type
//	list      is required, but null counts as an empty list
//	strict    may be absent or null, but not of another type, items included
//	object    raw JSON that counts as absent unless it is an object
func decode(raw []byte, v any) error {
	return decodeValue(raw, reflect.ValueOf(v).Elem(), "", false)
}

// Decode reads a raw JSON object, valid as everything is that came over a connection, into
// the struct that v points to, by the exact names of its members as other programs do:
// encoding/json takes "Path" for "path". A member of the wrong type counts as absent.
func Decode(object json.RawMessage, v any) error { return decode(object, v) }

// decodeParams is decode for a request's parameters; its error is -32602.
func decodeParams(raw []byte, v any) error {
	if raw == nil {
		raw = []byte("{}")
	}
	err := decode(raw, v)
	if c, ok := v.(interface{ check() error }); ok && err == nil {
		err = c.check()
	}
	if err != nil {
		return InvalidParams("Invalid params: "+err.Error(), nil)
	}
	return nil
}

func decodeValue(raw []byte, v reflect.Value, path string, strict bool) error {
	switch {
	case v.Kind() == reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		if err := decodeValue(raw, p.Elem(), path, strict); err != nil {
			return err
		}
		v.Set(p)
		return nil
	case v.Kind() == reflect.Struct:
		return decodeStruct(raw, v, path)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		return decodeSlice(raw, v, path, strict)
	case v.Kind() == reflect.Slice: // json.RawMessage
		v.SetBytes(raw)
		return nil
	}
	if err := json.Unmarshal(raw, v.Addr().Interface()); err != nil {
		return wrongType(path, v.Type(), raw)
	}
	return nil
}

func decodeStruct(raw []byte, v reflect.Value, path string) error {
	if !isKind(raw, '{') {
		return wrongType(path, v.Type(), raw)
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Anonymous { // its members are those of the whole
			if err := decodeStruct(raw, v.Field(i), path); err != nil {
				return err
			}
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if err := decodeField(member(raw, name), v.Field(i), join(path, name), field.Tag.Get("acp")); err != nil {
			return err
		}
	}
	return nil
}

func decodeField(raw []byte, v reflect.Value, path, rule string) error {
	if raw == nil || isNull(raw) && rule != "list" {
		if rule == "required" || rule == "list" {
			return fmt.Errorf("%s is missing", path)
		}
		return nil
	}
	if isNull(raw) || (rule == "object" || strings.HasSuffix(path, "_meta")) && !isKind(raw, '{') {
		return nil
	}
	lenient := rule == "" || rule == "object"
	fresh := reflect.New(v.Type()).Elem()
	if err := decodeValue(raw, fresh, path, !lenient); err != nil {
		if lenient {
			return nil
		}
		return err
	}
	v.Set(fresh)
	return nil
}

func decodeSlice(raw []byte, v reflect.Value, path string, strict bool) error {
	if !isKind(raw, '[') {
		return wrongType(path, v.Type(), raw)
	}
	out := reflect.MakeSlice(v.Type(), 0, 4)
	n := 0
	for item := range array(raw) {
		e := reflect.New(v.Type().Elem()).Elem()
		err := decodeValue(item, e, fmt.Sprintf("%s[%d]", path, n), strict)
		n++
		switch {
		case err == nil:
			out = reflect.Append(out, e)
		case strict:
			return err
		}
	}
	v.Set(out)
	return nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func wrongType(path string, want reflect.Type, raw []byte) error {
	if path == "" {
		path = "the value"
	}
	return fmt.Errorf("%s must be %s, not %s", path, typeName(want), describe(raw))
}

func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Slice:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "an integer"
}

// describe names what raw is, for an error message of bounded length.
func describe(raw []byte) string {
	switch {
	case isKind(raw, '{'):
		return "an object"
	case isKind(raw, '['):
		return "an array"
	case len(raw) > 40:
		return "a long value"
	}
	return string(raw)
}
