package mcp

import (
	"encoding/json"
	"io"
	"slices"

	"gander.dev/gander/conformance/harness"
)

// What checks of every protocol share, under the names of this package.
type (
	// Report is the outcome of a run.
	Report = harness.Report
	// Result is one check and how it ended.
	Result = harness.Result

	frame   = harness.Frame
	request = harness.Request
	process = harness.Process
	usage   = harness.Usage
)

// How a check ended.
const (
	Pass           = harness.Pass
	Fail           = harness.Fail
	NotApplicable  = harness.NotApplicable
	ExpectedFail   = harness.ExpectedFail
	UnexpectedPass = harness.UnexpectedPass

	markVariable = harness.MarkVariable
)

func excerpt[T ~string | ~[]byte](text T) string { return harness.Excerpt(text) }

func marshal(v any) string { return harness.Marshal(v) }

func requestLine(id, method string, params any) string {
	return harness.RequestLine(id, method, params)
}

func canonical(text []byte) ([]byte, error) { return harness.Canonical(text) }

// ParseExpected reads a list of expected failures; see [harness.ParseExpected].
func ParseExpected(in io.Reader) (map[string]string, error) {
	known := Checks()
	return harness.ParseExpected(in, func(id string) bool {
		return slices.ContainsFunc(known, func(c Check) bool { return c.ID == id })
	})
}

// A server is a running process of the command under test.
type server struct {
	*harness.Peer
	baseline map[int]bool // processes that came with it

	initialized *frame
}

func (s *server) cancel(r *request) {
	s.Tell("notifications/cancelled", map[string]any{"requestId": json.RawMessage(r.ID), "reason": "conformance"})
}
