package acp

import (
	"bytes"
	"encoding/json"
	"iter"
)

// WithFields returns a raw JSON object with top-level fields set or, where the
// value is Delete, removed. The other fields keep their raw values. An object
// that cannot be read, or a value that is not JSON, leaves it unchanged.
func WithFields(object json.RawMessage, set map[string]any) json.RawMessage {
	if len(set) == 0 {
		return object
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil || fields == nil {
		return object
	}
	for name, value := range set {
		if value == Delete {
			delete(fields, name)
			continue
		}
		raw, err := marshal(value)
		if err != nil {
			return object
		}
		fields[name] = raw
	}
	out, err := marshal(fields)
	if err != nil {
		return object
	}
	return out
}

// Members yields the members of a raw JSON object in order, keys unescaped and
// values raw, without decoding them. It yields nothing for anything else. object must
// be valid JSON, as everything is that came over a connection.
func Members(object json.RawMessage) iter.Seq2[[]byte, json.RawMessage] {
	return func(yield func([]byte, json.RawMessage) bool) {
		members(object)(func(key, value []byte) bool { return yield(key, value) })
	}
}

// Member is the raw value of one member of a raw JSON object, of a repeated one the last;
// nil when there is none. object must be valid JSON.
func Member(object json.RawMessage, name string) json.RawMessage { return member(object, name) }

// Delete as a value of WithFields removes the field.
var Delete any = deleted{}

type deleted struct{}

// marshal is json.Marshal that leaves <, > and & as they are, which keeps text
// in frames readable and close to what the agent wrote.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
