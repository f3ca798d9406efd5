package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// A Frame is one line of a peer's stdout.
type Frame struct {
	// Raw is the line, N its place among all frames of its peer, from 1.
	Raw    []byte
	N      int
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *Error
}

// An Error is the error member of a response.
type Error struct {
	Code    json.Number
	Message string
}

// ParseFrame reads a line as a JSON-RPC message. A frame comes back also when it
// is not quite one, with the objection, so that a broken server can be judged on.
func ParseFrame(line []byte) (*Frame, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil {
		return nil, fmt.Errorf("a line that is not a JSON object: %s", Excerpt(line))
	}
	f := &Frame{Raw: line, ID: members["id"], Params: members["params"], Result: members["result"]}
	if text, ok := members["method"]; ok {
		if json.Unmarshal(text, &f.Method) != nil || f.Method == "" {
			return f, fmt.Errorf("a method that is not a name: %s", Excerpt(line))
		}
	}
	if text, ok := members["error"]; ok {
		f.Error = &Error{}
		if err := json.Unmarshal(text, f.Error); err != nil {
			return f, fmt.Errorf("an error that is not an object of code and message: %s", Excerpt(line))
		}
	}
	return f, f.objection(line, members)
}

// objection is what JSON-RPC 2.0 has against a message.
func (f *Frame) objection(line []byte, members map[string]json.RawMessage) error {
	_, result := members["result"]
	switch {
	case !utf8.Valid(line):
		return fmt.Errorf("a line that is not UTF-8: %s", Excerpt(line))
	case string(members["jsonrpc"]) != `"2.0"`:
		return fmt.Errorf("a message without jsonrpc 2.0: %s", Excerpt(line))
	case f.Method != "":
		return nil
	case result == (f.Error != nil):
		return fmt.Errorf("a response needs exactly one of result and error: %s", Excerpt(line))
	case f.ID == nil:
		return fmt.Errorf("a response without an id: %s", Excerpt(line))
	case f.Error != nil:
		return f.Error.objection(line)
	}
	return nil
}

func (e *Error) objection(line []byte) error {
	if _, err := e.Code.Int64(); err != nil {
		return fmt.Errorf("an error whose code is not an integer: %s", Excerpt(line))
	}
	if e.Message == "" {
		return fmt.Errorf("an error without a message: %s", Excerpt(line))
	}
	return nil
}

// ErrNotJSON says that a text is no JSON.
var ErrNotJSON = errors.New("not JSON")

// Canonical is a JSON text with sorted keys, without spaces, numbers as written.
func Canonical(text []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, ErrNotJSON
	}
	return json.Marshal(v)
}

// Excerpt is the beginning and the end of what a server said, for people.
func Excerpt[T ~string | ~[]byte](text T) string {
	const begin, end = 300, 100
	s := string(text)
	if len(s) > begin+end {
		return fmt.Sprintf("%q…%q (%d bytes)", s[:begin], s[len(s)-end:], len(s))
	}
	return fmt.Sprintf("%q", s)
}
