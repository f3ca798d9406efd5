package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// A member of an entry. With keep, the value is the person's once it is there.
type member struct {
	key   string
	value any // string, bool, int, []string or object
	keep  bool
}

// object is an object's members in their order.
type object []member

// jsonFormat is a file of JSON, with or without comments and trailing commas,
// where the entry is an object at a path of keys.
type jsonFormat struct {
	path    func(Entry) []string
	members func(Entry) []member
}

func (f jsonFormat) document(e Entry) []byte {
	out, err := f.put(nil, e)
	if err != nil {
		panic(err) // an empty document takes every entry
	}
	return out
}

func (f jsonFormat) put(old []byte, e Entry) ([]byte, error) {
	path, members := f.path(e), f.members(e)
	d, err := parseJSON(old)
	if err != nil {
		return nil, err
	}
	if entry := d.find(path); entry != nil && !f.starts(*entry, e) {
		if o, ok := entry.Value.(*hujson.Object); ok && len(o.Members) > 0 {
			return nil, taken(e.Name)
		}
	}
	if err := d.put(path, members); err != nil {
		return nil, err
	}
	out := d.pack()
	return out, sameBut(old, out, path, members)
}

func (f jsonFormat) take(old, before []byte, e Entry) ([]byte, error) {
	path := f.path(e)
	d, err := parseJSON(old)
	if err != nil {
		return nil, err
	}
	entry := d.find(path)
	if entry == nil {
		return old, nil
	}
	if !f.starts(*entry, e) {
		return nil, notOurs(e.Name)
	}
	keep, err := parseJSON(before)
	if err != nil {
		keep = nil // what was there before is not known
	}
	depth := d.take(path, keep)
	if d.root.Value.(*hujson.Object).Members == nil && before == nil && d.bare() {
		return nil, nil
	}
	out := d.pack()
	return out, sameBut(old, out, path[:depth], nil)
}

func (f jsonFormat) programs(old []byte) (found []string, err error) {
	d, err := parseJSON(old)
	if err != nil {
		return nil, err
	}
	path := f.path(Entry{})
	entries := d.find(path[:len(path)-1])
	if entries == nil {
		return nil, nil
	}
	if o, ok := entries.Value.(*hujson.Object); ok {
		for _, m := range o.Members {
			if command := commandOf(m.Value); isGander(command, Entry{}) {
				found = append(found, command)
			}
		}
	}
	return found, nil
}

// starts reports whether an entry's command is gander.
func (f jsonFormat) starts(entry hujson.Value, e Entry) bool {
	return isGander(commandOf(entry), e)
}

// commandOf returns the program of an entry, whose command is a text or begins with one;
// empty when there is none.
func commandOf(entry hujson.Value) string {
	command := entry.Find("/command")
	if command == nil {
		return ""
	}
	if list, ok := command.Value.(*hujson.Array); ok && len(list.Elements) > 0 {
		command = &list.Elements[0]
	}
	if word, ok := command.Value.(hujson.Literal); ok && word.Kind() == '"' {
		return word.String()
	}
	return ""
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// jsonDocument is a document that is edited: the syntax tree, and the habits of
// the person who wrote it.
type jsonDocument struct {
	root    hujson.Value
	mark    bool // begins with a byte order mark
	newline string
	unit    string // one level of indentation
}

// parseJSON reads a document whose value is an object; one that is empty, or has nothing but
// comments, is an empty object.
func parseJSON(data []byte) (*jsonDocument, error) {
	d := &jsonDocument{newline: "\n", unit: "  "}
	data, d.mark = bytes.CutPrefix(data, byteOrderMark)
	if bytes.Contains(data, []byte("\r\n")) {
		d.newline = "\r\n"
	}
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{}" + d.newline)
	}
	root, err := hujson.Parse(bytes.Clone(data))
	if err != nil { // it may have comments only, behind which there is room for an object
		if with, again := hujson.Parse(d.withObject(data)); again == nil {
			root, err = with, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %v; correct the file first", strings.TrimPrefix(err.Error(), "hujson: "))
	}
	d.root = root
	o, ok := root.Value.(*hujson.Object)
	if !ok {
		return nil, errors.New("it is JSON but no object, which a configuration is; correct the file first")
	}
	if len(o.Members) > 0 {
		if indent, ok := indentOf(o.Members[0].Name.BeforeExtra); ok && indent != "" {
			d.unit = indent
		}
	}
	return d, nil
}

// withObject is a text with an empty object on a line of its own behind it.
func (d *jsonDocument) withObject(text []byte) []byte {
	out := bytes.Clone(text)
	if !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, d.newline...)
	}
	return append(out, "{}"+d.newline...)
}

func (d *jsonDocument) pack() []byte {
	out := d.root.Pack()
	if d.mark {
		out = append(slices.Clone(byteOrderMark), out...)
	}
	return out
}

// bare reports whether there is no comment around the document's value.
func (d *jsonDocument) bare() bool {
	o := d.root.Value.(*hujson.Object)
	return len(bytes.TrimSpace(d.root.BeforeExtra)) == 0 && len(bytes.TrimSpace(d.root.AfterExtra)) == 0 && len(bytes.TrimSpace(o.AfterExtra)) == 0
}

// find is the value at a path; nil when there is none.
func (d *jsonDocument) find(path []string) *hujson.Value {
	v := &d.root
	for _, key := range path {
		o, ok := v.Value.(*hujson.Object)
		if !ok {
			return nil
		}
		i := index(o, key)
		if i < 0 {
			return nil
		}
		v = &o.Members[i].Value
	}
	return v
}

func index(o *hujson.Object, key string) int {
	return slices.IndexFunc(o.Members, func(m hujson.ObjectMember) bool { return m.Name.Value.(hujson.Literal).String() == key })
}

// put puts members at the path, and makes what is missing of it.
func (d *jsonDocument) put(path []string, members []member) error {
	v, indent := &d.root, ""
	for i, key := range path {
		o, err := d.object(v, path[:i], key)
		if err != nil {
			return err
		}
		at := index(o, key)
		if at < 0 {
			missing := object(members)
			for _, k := range slices.Backward(path[i+1:]) {
				missing = object{{key: k, value: missing}}
			}
			d.insert(o, indent, key, missing)
			return nil
		}
		indent = d.memberIndent(o, indent)
		v = &o.Members[at].Value
	}
	o, err := d.object(v, path, "")
	if err != nil {
		return err
	}
	for _, m := range members {
		switch at := index(o, m.key); {
		case at < 0:
			d.insert(o, indent, m.key, m.value)
		case !m.keep && !same(o.Members[at].Value, m.value):
			o.Members[at].Value.Value = d.value(m.value, d.memberIndent(o, indent)).Value
		}
	}
	return nil
}

// object is v as an object in which a key is there once at most.
func (d *jsonDocument) object(v *hujson.Value, path []string, key string) (*hujson.Object, error) {
	o, ok := v.Value.(*hujson.Object)
	where := strings.Join(path, ".")
	if !ok {
		return nil, fmt.Errorf("%s is not an object, so the entry has no place in it; correct the file first", where)
	}
	seen := 0
	for _, m := range o.Members {
		if m.Name.Value.(hujson.Literal).String() == key {
			seen++
		}
	}
	if seen > 1 {
		return nil, fmt.Errorf("the key %q is there twice; take one out first", strings.TrimPrefix(where+"."+key, "."))
	}
	return o, nil
}

// same reports whether a value means what it should.
func same(v hujson.Value, want any) bool {
	v = v.Clone()
	v.Standardize()
	have, err := decoded(v.Pack())
	return err == nil && sameValue(have, want)
}

// sameBut makes sure that two documents differ in the entry at path alone: with
// members it is there, without it is not.
func sameBut(old, edited []byte, path []string, members []member) error {
	was, err := meaning(old)
	if err != nil {
		return err
	}
	is, err := meaning(edited)
	if err != nil {
		return fmt.Errorf("internal: the edited file would not be JSON any more: %w", err)
	}
	entry, _ := at(is, path).(map[string]any)
	for _, m := range members {
		if have, ok := entry[m.key]; !ok || !m.keep && !sameValue(have, m.value) {
			return fmt.Errorf("internal: %s would not be as it should in the edited file", m.key)
		}
	}
	cut(was, path)
	cut(is, path)
	return sameRest(was, is)
}

// sameRest compares what should not have changed.
func sameRest(was, is any) error {
	if !reflect.DeepEqual(was, is) {
		return errors.New("internal: the edit would change more than it should; nothing was written")
	}
	return nil
}

// sameValue compares what was read with what should have been written.
func sameValue(have, want any) bool {
	wanted, err := decoded(plain(want))
	return err == nil && reflect.DeepEqual(have, wanted)
}

func meaning(document []byte) (any, error) {
	d, err := parseJSON(document)
	if err != nil {
		return nil, err
	}
	d.root.Standardize()
	return decoded(d.root.Pack())
}

func decoded(data []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return v, dec.Decode(&v)
}

func at(v any, path []string) any {
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

// cut takes out what is at path, and what is empty then.
func cut(v any, path []string) {
	m, ok := v.(map[string]any)
	if !ok || len(path) == 0 {
		return
	}
	cut(m[path[0]], path[1:])
	if inner, ok := m[path[0]].(map[string]any); len(path) == 1 || ok && len(inner) == 0 {
		delete(m, path[0])
	}
}
