// Package developer is goose's developer extension as a table of tools: a shell,
// a text editor, an analyser of source code, images, windows and the screen.
//
// [New] makes the table, and the mcp package serves it. Nothing here knows MCP:
// a [Tool] is a row of name, schema and function, a [Call] is what one use of it
// brings, a [Result] is what the model and the person see. What a tool may touch
// on disk goes through developer/files, which applies the ignore rules and the
// confinement to roots.
//
// Tools may be called concurrently.
package developer

import (
	"context"
	"encoding/json"
)

// A Tool is one row of the inventory.
type Tool struct {
	Name string
	// Title is for people; empty in the classic profile, which had none.
	Title       string
	Description string
	// InputSchema is a JSON Schema object. It is part of the contract: the mcp
	// package holds it against a snapshot.
	InputSchema json.RawMessage
	// OutputSchema describes Result.Structured; nil when there is none.
	OutputSchema json.RawMessage
	// OutcomeSchema describes Outcome.Structured; nil when there is none.
	OutcomeSchema json.RawMessage
	// Hints say what the tool does to its surroundings; nil says nothing, as the
	// classic profile did.
	Hints *Hints
	// Call runs the tool. It returns when the work is done and nothing of it runs
	// on, also when ctx ends. An [*Error] becomes a protocol error with its code;
	// any other error an internal one.
	Call func(ctx context.Context, call Call) (Result, error)
}

// Hints are MCP's tool annotations: clients use them to decide what needs a
// person's permission.
type Hints struct {
	ReadOnly, Destructive, Idempotent, OpenWorld bool
}

// A Call is one use of a tool.
type Call struct {
	// ID is the request's id as the client wrote it, for the log; it may be empty.
	ID string
	// Arguments is the JSON object as it came, so that no number loses digits; nil
	// means none were sent.
	Arguments json.RawMessage
	// WorkingDir is the session's directory from the call's metadata
	// (agent-working-dir), absolute; empty means the server's own. Every tool
	// resolves relative paths against it and takes ignore rules from it.
	WorkingDir string
	// SessionID is the session's id from the call's metadata (agent-session-id),
	// empty when there is none.
	SessionID string
	// Output receives what the tool prints while it runs; nil when nobody listens.
	// It never blocks for long and never fails.
	Output func(Output)
}

// Output is a piece of what a running command printed.
type Output struct {
	// Stream is "stdout" or "stderr".
	Stream string
	// Text is a line without its end, or a part of one. It is valid UTF-8.
	Text string
}

// A Result is what a tool answers.
type Result struct {
	Content []Content
	// Structured is a JSON object that repeats the result for programs, by the
	// tool's OutputSchema; nil when there is none.
	Structured json.RawMessage
	// Outcome tells how a command ended, to clients that know of structured results; nil when
	// there is none.
	Outcome *Outcome
	// IsError says that the tool ran and failed. Classic tools never set it: their
	// failures are protocol errors.
	IsError bool
}

// An Outcome tells how a command ended, where nothing that it printed can imitate it. Clients of
// MCP 2025-06-18 and later get it besides a Result's Content; classic goose had none.
type Outcome struct {
	// Structured is a JSON object by the tool's OutcomeSchema.
	Structured json.RawMessage
	// Text says the same to the model, in a last block of its own, where a client shows it
	// text only.
	Text string
}

// Content is one block of a result: text, or an image when MimeType is set.
type Content struct {
	Text string
	// Data is an image's bytes, not yet in base64.
	Data     []byte
	MimeType string
	// Audience says who is meant: "assistant", "user", or nobody in particular.
	Audience []string
	// Priority is between 0, optional, and 1, required; nil leaves it out.
	Priority *float64
}

// An Error is a failure that the protocol reports with a code of its own.
type Error struct {
	// Code is a JSON-RPC error code: [InvalidParams] or [InternalError].
	Code    int
	Message string
}

// The codes of JSON-RPC 2.0 section 5.1 that tools answer with.
const (
	InvalidParams = -32602
	InternalError = -32603
)

func (e *Error) Error() string { return e.Message }
