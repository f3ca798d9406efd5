package clients

import (
	"fmt"
	"strings"
)

// A Value is a setting of a JSON document by its path of keys: a string, boolean,
// number or list of strings, or nil for one that is to be taken out.
type Value struct {
	Path  []string
	Value any
}

// SetValues sets values in a JSON document, an empty one at first, and leaves the
// rest of its text as it is.
func SetValues(old []byte, values []Value) ([]byte, error) {
	d, err := parseJSON(old)
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		last := len(v.Path) - 1
		switch {
		case v.Value != nil:
			if err := d.put(v.Path[:last], []member{{key: v.Path[last], value: v.Value}}); err != nil {
				return nil, err
			}
		case d.find(v.Path) != nil:
			d.take(v.Path, nil)
		}
	}
	out := d.pack()
	is, err := meaning(out)
	if err != nil {
		return nil, fmt.Errorf("internal: the edited file would not be JSON any more: %w", err)
	}
	was, err := meaning(old)
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		if v.Value == nil && at(is, v.Path) != nil || v.Value != nil && !sameValue(at(is, v.Path), v.Value) {
			return nil, fmt.Errorf("internal: %s would not be as it should in the edited file", strings.Join(v.Path, "."))
		}
		cut(was, v.Path)
		cut(is, v.Path)
	}
	return out, sameRest(was, is)
}
