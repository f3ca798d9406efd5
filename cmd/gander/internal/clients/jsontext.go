package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

// indentOf is the white space between the last line break before a value and the
// value; ok is false when the value begins on the line of what is before it.
func indentOf(extra hujson.Extra) (indent string, ok bool) {
	i := bytes.LastIndexByte(extra, '\n')
	rest := string(extra[i+1:])
	return rest, i >= 0 && strings.TrimLeft(rest, " \t") == ""
}

// split divides what is before or after a value into comments and the white space
// from the last line break on.
func split(extra hujson.Extra) (comments, space hujson.Extra) {
	i := bytes.LastIndexByte(extra, '\n')
	if i > 0 && extra[i-1] == '\r' {
		i--
	}
	if i < 0 || len(bytes.TrimSpace(extra[i:])) > 0 {
		trimmed := bytes.TrimRight(extra, " \t\r\n")
		return trimmed, extra[len(trimmed):]
	}
	return extra[:i], extra[i:]
}

// memberIndent is the indentation of an object's members, where the object is a
// member that is indented by outer; "" for the document's own.
func (d *jsonDocument) memberIndent(o *hujson.Object, outer string) string {
	if len(o.Members) > 0 {
		if indent, ok := indentOf(o.Members[0].Name.BeforeExtra); ok {
			return indent
		}
	}
	return outer + d.unit
}

// insert appends a member to an object that is indented by outer. Comments at the
// end of the object stay with what they were written behind.
func (d *jsonDocument) insert(o *hujson.Object, outer, key string, value any) {
	comments, space := split(o.AfterExtra)
	oneLine := len(o.Members) > 0 && !bytes.ContainsRune(space, '\n')
	indent := d.memberIndent(o, outer)
	m := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(key)}, Value: d.value(value, indent)}
	m.Value.BeforeExtra = hujson.Extra(" ")
	if oneLine {
		m.Name.BeforeExtra = append(bytes.Clone(comments), ' ')
		m.Value.Value = compact(m.Value)
	} else {
		m.Name.BeforeExtra = append(bytes.Clone(comments), d.newline+indent...)
		space = hujson.Extra(d.newline + outer)
	}
	if n := len(o.Members); n > 0 && o.Members[n-1].Value.AfterExtra != nil {
		m.Value.AfterExtra = hujson.Extra{} // a comma at the end, as before
	}
	o.Members = append(o.Members, m)
	o.AfterExtra = space
}

// compact is a value on one line.
func compact(v hujson.Value) hujson.ValueTrimmed {
	v = v.Clone()
	v.Minimize()
	return v.Value
}

// take takes out the entry at path, and the objects that are empty then, unless
// keep had them. It returns how long the path to what was taken is.
func (d *jsonDocument) take(path []string, keep *jsonDocument) (depth int) {
	for depth = len(path); depth > 0; depth-- {
		o := d.find(path[:depth-1]).Value.(*hujson.Object)
		remove(o, index(o, path[depth-1]))
		had := keep != nil && keep.find(path[:depth-1]) != nil
		if len(o.Members) > 0 || had || len(bytes.TrimSpace(o.AfterExtra)) > 0 || depth == 1 {
			return depth
		}
	}
	return depth
}

// remove takes a member out of an object. Comments stay.
func remove(o *hujson.Object, i int) {
	gone := o.Members[i]
	comments, _ := split(gone.Name.BeforeExtra)
	last := i == len(o.Members)-1
	o.Members = append(o.Members[:i:i], o.Members[i+1:]...)
	switch {
	case len(o.Members) == 0:
		o.Members = nil
		o.AfterExtra = append(bytes.Clone(comments), o.AfterExtra...)
		if len(bytes.TrimSpace(o.AfterExtra)) == 0 {
			o.AfterExtra = nil
		}
	case !last:
		next := &o.Members[i].Name
		if len(bytes.TrimSpace(next.BeforeExtra)) == 0 {
			next.BeforeExtra = gone.Name.BeforeExtra
		} else {
			next.BeforeExtra = append(bytes.Clone(comments), next.BeforeExtra...)
		}
	default:
		before := &o.Members[i-1].Value
		if gone.Value.AfterExtra != nil { // a comma was at the end
			before.AfterExtra = append(hujson.Extra{}, before.AfterExtra...)
		} else {
			comments = append(bytes.Clone(before.AfterExtra), comments...)
			before.AfterExtra = nil
		}
		o.AfterExtra = append(bytes.Clone(comments), o.AfterExtra...)
	}
}

// value is a value as the document writes it, in a member that is indented by indent.
func (d *jsonDocument) value(v any, indent string) hujson.Value {
	out, err := hujson.Parse(d.text(v, indent))
	if err != nil {
		panic(err) // text makes JSON
	}
	return out
}

func (d *jsonDocument) text(v any, indent string) []byte {
	o, ok := v.(object)
	if !ok || len(o) == 0 {
		return plain(v)
	}
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%s%s%s: %s", d.newline, indent+d.unit, plain(m.key), d.text(m.value, indent+d.unit))
	}
	fmt.Fprintf(&out, "%s%s}", d.newline, indent)
	return out.Bytes()
}

// plain is a value as JSON on one line.
func plain(v any) []byte {
	switch v := v.(type) {
	case object:
		parts := make([]string, len(v))
		for i, m := range v {
			parts[i] = string(plain(m.key)) + ": " + string(plain(m.value))
		}
		return []byte("{" + strings.Join(parts, ", ") + "}")
	case []string:
		parts := make([]string, len(v))
		for i, s := range v {
			parts[i] = string(plain(s))
		}
		return []byte("[" + strings.Join(parts, ", ") + "]")
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // strings, numbers and booleans can be written
	}
	return bytes.TrimSpace(out.Bytes())
}
