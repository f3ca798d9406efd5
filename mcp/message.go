package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"gander.dev/gander/developer"
)

// The codes of JSON-RPC 2.0 section 5.1 that are about messages.
const (
	codeParseError     = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
)

// message is one JSON-RPC message, its members raw.
type message struct {
	Version json.RawMessage `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"` // nil when absent; null is an id
	Method  json.RawMessage `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`

	method string
}

// rpcError is an error as it is answered.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func invalidRequest(why string) *rpcError {
	return &rpcError{Code: codeInvalidRequest, Message: "Invalid request: " + why}
}

func invalidParams(format string, args ...any) *rpcError {
	return &rpcError{Code: developer.InvalidParams, Message: fmt.Sprintf(format, args...)}
}

// parse reads one message. The error is the answer to what is not one; m.ID is
// then the id to answer to, or nil.
func parse(line []byte) (m message, refused *rpcError) {
	if err := json.Unmarshal(line, &m); err != nil {
		m = message{}
		if json.Valid(line) {
			return m, invalidRequest("a message is a JSON object")
		}
		return m, &rpcError{Code: codeParseError, Message: "Parse error: " + err.Error()}
	}
	if line[0] != '{' { // null
		return message{}, invalidRequest("a message is a JSON object")
	}
	return m, m.judge()
}

func (m *message) judge() *rpcError {
	answer := m.Result != nil || !isNull(m.Error)
	switch {
	case !m.hasScalarID():
		return invalidRequest("an id is a string or a number")
	case text(m.Version) != "2.0":
		return invalidRequest(`"jsonrpc" must be "2.0"`)
	case m.Method == nil && answer:
		return nil // to a question that nobody asked: it is ignored
	case m.Method == nil:
		return invalidRequest("a message needs a method")
	case answer:
		return invalidRequest("a message is a request or a response, not both")
	}
	if m.method = text(m.Method); m.method == "" {
		return invalidRequest("the method must be a string that is not empty")
	}
	if isNull(m.Params) {
		m.Params = nil
	}
	return nil
}

func (m *message) hasScalarID() bool {
	return len(m.ID) == 0 || !bytes.ContainsAny(m.ID[:1], "{[tf")
}

// key is what an id is remembered by: two ways to write a string are one id, 1 and
// "1" are two.
func key(id json.RawMessage) string {
	if bytes.IndexByte(id, '\\') >= 0 && utf8.Valid(id) {
		if s, err := json.Marshal(text(id)); err == nil {
			return string(s)
		}
	}
	return string(id)
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || raw[0] == 'n' }

// text decodes a JSON string; anything else is empty.
func text(raw json.RawMessage) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	if body := raw[1 : len(raw)-1]; bytes.IndexByte(body, '\\') < 0 {
		return string(body)
	}
	var s string
	_ = json.Unmarshal(raw, &s) // it is known to be a valid string
	return s
}

// encode is json.Marshal without HTML escaping. What is encoded here cannot fail.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // a mistake in this package
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// reply composes a response; a nil id is written as null.
func reply(id json.RawMessage, member string, raw []byte) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	b := make([]byte, 0, len(id)+len(member)+len(raw)+32)
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	b = append(append(append(b, `,"`...), member...), `":`...)
	return append(append(b, raw...), '}')
}

func replyError(id json.RawMessage, e *rpcError) []byte { return reply(id, "error", encode(e)) }

// notification composes one.
func notification(method string, params any) []byte {
	return encode(struct {
		Version string `json:"jsonrpc"`
		Method  string `json:"method"`
		Params  any    `json:"params"`
	}{"2.0", method, params})
}
