package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sourcegraph/jsonrpc2"
)

// The error codes of JSON-RPC and ACP v1.
const (
	CodeParseError       = -32700 // the line is not JSON
	CodeInvalidRequest   = -32600 // the JSON is not a message, or not allowed now
	CodeMethodNotFound   = -32601
	CodeInvalidParams    = -32602
	CodeInternalError    = -32603
	CodeAuthRequired     = -32000
	CodeResourceNotFound = -32002 // unknown session or file
	CodeRequestCancelled = -32800 // ended by $/cancel_request or by shutting down
)

// ErrMethodNotFound, returned by a handler, declines a method (-32601).
var ErrMethodNotFound error = &Error{Code: CodeMethodNotFound, Message: "Method not found"}

// ErrClosed is returned by everything that needs a connection which has ended.
var ErrClosed = errors.New("acp: the connection is closed")

// ErrBacklog is returned for an update that was not sent because the peer has
// stopped reading and the memory set aside for it is used up.
var ErrBacklog = errors.New("acp: the peer does not read")

// ErrTooLarge is wrapped by what a request returns that does not fit in a frame: nothing of it
// was sent.
var ErrTooLarge = errors.New("acp: it does not fit in a frame")

// Error is a JSON-RPC error, the only kind that reaches the wire. Message is one
// short sentence that editors show; Data is any JSON value with the detail.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s (code %d)", e.Message, e.Code)
}

// InvalidParams says which parameter is wrong and why (-32602). data may be nil.
func InvalidParams(message string, data any) *Error {
	return &Error{Code: CodeInvalidParams, Message: message, Data: data}
}

// InvalidRequest says why a message is not a request that can be answered now (-32600).
func InvalidRequest(message string) *Error {
	return &Error{Code: CodeInvalidRequest, Message: "Invalid request: " + message}
}

// Internal is everything that is nobody's fault on the wire (-32603). data may be nil.
func Internal(message string, data any) *Error {
	return &Error{Code: CodeInternalError, Message: message, Data: data}
}

// AuthRequired makes clients offer the authentication methods (-32000).
func AuthRequired(message string) *Error {
	return &Error{Code: CodeAuthRequired, Message: message}
}

// SessionNotFound says that there is no such session (-32002).
func SessionNotFound(session SessionID) *Error {
	return &Error{Code: CodeResourceNotFound, Message: "Session not found", Data: map[string]SessionID{"sessionId": session}}
}

// MethodNotFound says that the method is unknown here (-32601).
func MethodNotFound(method string) *Error {
	return &Error{Code: CodeMethodNotFound, Message: "Method not found", Data: map[string]string{"method": method}}
}

// RequestCancelled answers a request that was cancelled (-32800).
func RequestCancelled() *Error {
	return &Error{Code: CodeRequestCancelled, Message: "Request cancelled"}
}

// wireError chooses what a handler's error becomes on the wire.
func wireError(err error, method string) *Error {
	if errors.Is(err, ErrMethodNotFound) {
		return MethodNotFound(method)
	}
	if e, ok := errors.AsType[*Error](err); ok && e != nil {
		return e
	}
	if errors.Is(err, context.Canceled) {
		return RequestCancelled()
	}
	return Internal(err.Error(), nil)
}

// callError turns the library's errors into this package's.
func callError(err error) error {
	if errors.Is(err, jsonrpc2.ErrClosed) {
		return ErrClosed
	}
	e, ok := errors.AsType[*jsonrpc2.Error](err)
	if !ok {
		return err
	}
	out := &Error{Code: int(e.Code), Message: e.Message}
	if e.Data != nil {
		out.Data = json.RawMessage(*e.Data)
	}
	return out
}
