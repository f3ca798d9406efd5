package acp

import "encoding/json"

// message is one JSON-RPC message, its members raw. It is a request (id and
// method), a notification (method only) or a response (id only).
type message struct {
	id     []byte // raw scalar; nil when absent
	method string // empty for a response
	params []byte // nil when absent or null
	result []byte // of a response; nil when err is set
	err    *Error

	response bool // it has an id and no method
	size     int  // of the line that all of it is a part of, in bytes
}

func (m *message) isRequest() bool { return m.method != "" && m.id != nil }

// envelope is a message before it was judged.
type envelope struct {
	version, id, method, params, result, err []byte
}

// parse reads one line. The error is the reply to a line that is not a message;
// m.id is then the id to reply to, or nil.
func parse(line []byte) (m message, refused *Error) {
	if !json.Valid(line) {
		return m, &Error{Code: CodeParseError, Message: "Parse error", Data: map[string]string{"detail": whyInvalid(line)}}
	}
	if line[0] != '{' {
		return m, InvalidRequest("a message is a JSON object; batches are not part of ACP")
	}
	e := openEnvelope(line)
	return e.message()
}

func openEnvelope(line []byte) (e envelope) {
	for key, value := range members(line) {
		switch string(key) {
		case "jsonrpc":
			e.version = value
		case "id":
			e.id = value
		case "method":
			e.method = value
		case "params":
			e.params = value
		case "result":
			e.result = value
		case "error":
			e.err = value
		}
	}
	return e
}

func (e *envelope) message() (m message, refused *Error) {
	if isKind(e.id, '{') || isKind(e.id, '[') || isKind(e.id, 't') || isKind(e.id, 'f') {
		return m, InvalidRequest("an id is a string, a number or null")
	}
	m.id = e.id
	if m.response = e.method == nil && e.id != nil; m.response {
		m.setOutcome(e)
	}
	if string(e.version) != `"2.0"` {
		if v, _ := text(e.version); v != "2.0" {
			return m, InvalidRequest(`"jsonrpc" must be "2.0"`)
		}
	}
	answered := e.result != nil || !isNull(e.err)
	switch {
	case e.method == nil && answered && m.id == nil:
		return m, InvalidRequest("a response needs an id")
	case e.method == nil && answered:
		return m, nil
	case e.method == nil:
		return m, InvalidRequest("a message needs a method, a result or an error")
	case answered:
		return m, InvalidRequest("a message is a request or a response, not both")
	}
	m.method = methodName(e.method)
	if m.method == "" {
		return m, InvalidRequest("the method must be a string that is not empty")
	}
	if !isNull(e.params) {
		m.params = e.params
	}
	return m, nil
}

// setOutcome fills in a response. Error objects are read leniently: what a peer
// means by "error":"boom" is clear.
func (m *message) setOutcome(e *envelope) {
	if isNull(e.err) {
		m.result = e.result
		return
	}
	m.err = &Error{Code: CodeInternalError, Message: string(e.err)}
	if s, ok := text(e.err); ok {
		m.err.Message = s
	}
	if !isKind(e.err, '{') {
		return
	}
	_ = json.Unmarshal(member(e.err, "code"), &m.err.Code) // stays an internal error
	if s, ok := text(member(e.err, "message")); ok {
		m.err.Message = s
	}
	if data := member(e.err, "data"); data != nil {
		m.err.Data = json.RawMessage(data)
	}
}

// methodName decodes a method without allocating for the one that matters.
func methodName(raw []byte) string {
	if string(raw) == `"session/update"` {
		return MethodSessionUpdate
	}
	s, _ := text(raw)
	return s
}

// whyInvalid is the decoder's complaint about a line that is not JSON.
func whyInvalid(line []byte) string {
	var v json.RawMessage
	if err := json.Unmarshal(line, &v); err != nil {
		return err.Error()
	}
	return "not JSON"
}

// reply composes a response. id is raw; nil means null.
func reply(id, result []byte) []byte {
	return append(append(appendReply(id, len(result)), `,"result":`...), closed(result)...)
}

// replyError composes an error response.
func replyError(id []byte, e *Error) []byte {
	raw, err := marshal(e)
	if err != nil { // Data that is not JSON
		raw = encode(&Error{Code: e.Code, Message: e.Message})
	}
	return append(append(appendReply(id, len(raw)), `,"error":`...), closed(raw)...)
}

func appendReply(id []byte, size int) []byte {
	if id == nil {
		id = []byte("null")
	}
	b := make([]byte, 0, len(`{"jsonrpc":"2.0","id":,"result":}`)+len(id)+size)
	return append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
}

func closed(raw []byte) []byte { return append(raw[:len(raw):len(raw)], '}') }
