package config

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// A decoder puts nodes into a Config. It goes on behind an error, so that a
// person sees all of them at once.
type decoder struct {
	file    string
	project bool     // the file is a project's
	team    []string // the names of manifests
	data    []byte
	errs    []error
	places  map[string]int // offset of each value that was set, by path
}

// maxErrors is how many errors of a file are told: a project's could be made of them.
const maxErrors = 20

func (d *decoder) fail(offset int, path, format string, args ...any) {
	switch len(d.errs) {
	case maxErrors:
		d.errs = append(d.errs, &Error{File: d.file, Reason: "and more; mend these first"})
		return
	case maxErrors + 1:
		return
	}
	e := &Error{File: d.file, Path: path, Reason: fmt.Sprintf(format, args...)}
	e.Line, e.Column = position(d.data, offset)
	d.errs = append(d.errs, e)
}

// decode sets v, which is addressable, from n. enum lists the values of a string.
func (d *decoder) decode(n *node, path string, v reflect.Value, tag reflect.StructTag) {
	d.places[path] = n.offset
	switch {
	case v.Type() == reflect.TypeFor[Duration]():
		d.duration(n, path, v)
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		v.SetBytes(slices.Clone(d.data[n.offset:n.end]))
	case v.Addr().Type().Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		d.unmarshal(n, path, v)
	case v.Kind() == reflect.Int64 || v.Kind() == reflect.Float64:
		d.number(n, path, v)
	case v.Kind() == reflect.Bool:
		if d.want("boolean", n, path) {
			v.SetBool(n.value.(bool))
		}
	case v.Kind() == reflect.String:
		d.text(n, path, v, tag.Get("enum"))
	case v.Kind() == reflect.Slice:
		d.list(n, path, v, tag)
	case v.Kind() == reflect.Map:
		d.table(n, path, v)
	case v.Kind() == reflect.Struct:
		d.object(n, path, v)
	}
}

// want fails unless n is of the kind.
func (d *decoder) want(kind string, n *node, path string) bool {
	if n.kind != kind {
		d.fail(n.offset, path, "want %s, got %s", article(kind), article(n.kind))
	}
	return n.kind == kind
}

func article(kind string) string {
	switch kind {
	case "object", "array":
		return "an " + kind
	case "null":
		return kind
	}
	return "a " + kind
}

func (d *decoder) text(n *node, path string, v reflect.Value, enum string) {
	if !d.want("string", n, path) {
		return
	}
	s := n.value.(string)
	if why := notOneOf(s, enum); why != "" {
		d.fail(n.offset, path, "%s", why)
		return
	}
	v.SetString(s)
}

// notOneOf says what is wrong with a value that is not in the enumeration.
func notOneOf(s, enum string) string {
	values := strings.Split(enum, ",")
	if enum == "" || slices.Contains(values, s) {
		return ""
	}
	return fmt.Sprintf("%q is not one of %s", s, strings.Join(values, ", "))
}

func (d *decoder) duration(n *node, path string, v reflect.Value) {
	if !d.want("string", n, path) {
		return
	}
	length, err := time.ParseDuration(n.value.(string))
	if err != nil {
		d.fail(n.offset, path, `%q is not a duration; write it like "2s" or "500ms"`, n.value)
		return
	}
	v.SetInt(int64(length))
}

// unmarshal sets a value that reads its own text.
func (d *decoder) unmarshal(n *node, path string, v reflect.Value) {
	if !d.want("string", n, path) {
		return
	}
	u, _ := v.Addr().Interface().(encoding.TextUnmarshaler)
	if err := u.UnmarshalText([]byte(n.value.(string))); err != nil {
		d.fail(n.offset, path, "%s", err)
	}
}

// number sets a number, none of which is negative in the files.
func (d *decoder) number(n *node, path string, v reflect.Value) {
	if !d.want("number", n, path) {
		return
	}
	text := n.value.(json.Number)
	if v.Kind() == reflect.Float64 {
		f, err := text.Float64()
		if err != nil || f < 0 {
			d.fail(n.offset, path, "%s is not a number from 0", text)
			return
		}
		v.SetFloat(f)
		return
	}
	i, err := text.Int64()
	if err != nil || i < 0 {
		d.fail(n.offset, path, "%s is not a whole number from 0", text)
		return
	}
	v.SetInt(i)
}

// list sets a list; what its tag says is for the items.
func (d *decoder) list(n *node, path string, v reflect.Value, tag reflect.StructTag) {
	if _, ok := v.Interface().(OneOrMany); ok && n.kind != "array" {
		list := reflect.MakeSlice(v.Type(), 1, 1)
		d.decode(n, path, list.Index(0), tag)
		v.Set(list)
		return
	}
	if !d.want("array", n, path) {
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
	for i, item := range n.items {
		d.decode(item, fmt.Sprintf("%s[%d]", path, i), list.Index(i), tag)
	}
	v.Set(list)
}

// table sets the keys of a map that are in n; others stay as they are.
func (d *decoder) table(n *node, path string, v reflect.Value) {
	if !d.want("object", n, path) {
		return
	}
	merged := reflect.MakeMap(v.Type()) // v's map may be shared
	for _, key := range v.MapKeys() {
		merged.SetMapIndex(key, v.MapIndex(key))
	}
	for _, m := range n.members {
		value := reflect.New(v.Type().Elem()).Elem()
		old := merged.MapIndex(reflect.ValueOf(m.key))
		if old.IsValid() {
			value.Set(old)
		} else if path == "agents" && !d.mayBeAgent(m) {
			continue
		}
		d.decode(m.value, join(path, m.key), value, "")
		merged.SetMapIndex(reflect.ValueOf(m.key), value)
	}
	v.Set(merged)
}

func (d *decoder) object(n *node, path string, v reflect.Value) {
	if !d.want("object", n, path) {
		return
	}
	fields := jsonFields(v.Type())
	for _, m := range n.members {
		if path == "" && m.key == "$schema" { // for editors
			continue
		}
		i := slices.IndexFunc(fields, func(f reflect.StructField) bool { return f.Tag.Get("json") == m.key })
		if i < 0 {
			var names []string
			for _, f := range fields {
				names = append(names, f.Tag.Get("json"))
			}
			d.unknown(m, path, names)
			continue
		}
		d.decode(m.value, join(path, m.key), v.FieldByIndex(fields[i].Index), fields[i].Tag)
	}
}

// jsonFields are the fields of a struct that are in the files.
func jsonFields(t reflect.Type) []reflect.StructField {
	var fields []reflect.StructField
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("json"); name != "" && name != "-" {
			fields = append(fields, f)
		}
	}
	return fields
}

func (d *decoder) unknown(m member, path string, known []string) {
	if d.project {
		known = slices.DeleteFunc(known, func(key string) bool { return !projectMaySet(join(path, key)) })
	}
	if len(known) == 0 {
		d.fail(m.offset, join(path, m.key), "unknown key; a project's file sets nothing here")
		return
	}
	if near := nearest(m.key, known); near != "" {
		d.fail(m.offset, join(path, m.key), "unknown key; did you mean %q?", near)
		return
	}
	d.fail(m.offset, join(path, m.key), "unknown key; known here: %s", strings.Join(known, ", "))
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// nearest is the name most like s, when one is like it at all.
func nearest(s string, names []string) string {
	best, bestDistance := "", max(2, len(s)/3)+1
	for _, name := range names {
		if d := distance(strings.ToLower(s), strings.ToLower(name)); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// distance is the number of characters to insert, delete or replace to make a of b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
