package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"gander.dev/gander/developer"
)

// server is one client's connection.
type server struct {
	opts   Options
	tools  *developer.Toolset
	out    *outbox
	calls  *calls
	client *client
	rpc    *dispatcher
}

func newServer(ctx context.Context, tools *developer.Toolset, o Options) *server {
	s := &server{opts: o, tools: tools, out: newOutbox(), client: new(client)}
	s.calls = newCalls(ctx, o.MaxCalls)
	s.rpc = newDispatcher(s)
	return s
}

// read handles what comes in until the client closes its end, which is nil, or
// reading breaks.
func (s *server) read(r io.Reader) error {
	lines := newLineReader(r, s.opts.MaxLine)
	for {
		line, err := lines.next()
		switch {
		case errors.Is(err, errLineTooLong):
			s.opts.Log.Warn("refused a message that is too long", "limit", s.opts.MaxLine)
			s.out.send(replyError(lines.lostID(), invalidRequest(fmt.Sprintf("a message is limited to %d bytes", s.opts.MaxLine))))
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe):
			return nil
		case err != nil:
			return fmt.Errorf("reading from the client: %w", err)
		case len(line) > 0:
			s.receive(line)
		}
	}
}

// receive handles one line.
func (s *server) receive(line []byte) {
	switch {
	case line[0] != '[' || !json.Valid(line):
		s.handle(line, s.out.send)
	case s.client.batches():
		s.receiveBatch(line)
	default:
		s.out.send(replyError(nil, invalidRequest("batches are part of MCP up to 2025-03-26 only; send messages one by one")))
	}
}

// handle handles one message. Its answer, if it gets one, goes to send, at once or
// later.
func (s *server) handle(line []byte, send func([]byte)) (answered bool) {
	m, refused := parse(line)
	switch {
	case refused != nil:
		send(replyError(m.ID, refused))
		return true
	case m.Method == nil: // an answer to nothing that was asked
		return false
	case m.ID == nil:
		s.notified(m)
		return false
	}
	s.request(m, send)
	return true
}

// notified handles a notification. Those not known are ignored, as the protocol wants.
func (s *server) notified(m message) {
	if m.method != "notifications/cancelled" {
		return
	}
	var params struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(m.Params, &params) != nil || params.RequestID == nil {
		s.opts.Log.Debug("ignored a cancellation that names no request")
		return
	}
	s.calls.cancel(key(params.RequestID))
}

// params are the parameters of a request, as far as more than one method has them.
type params struct {
	Name      json.RawMessage `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Meta      json.RawMessage `json:"_meta"`
}

// request answers what needs no time here and now, in order, and starts the rest.
func (s *server) request(m message, send func([]byte)) {
	var p params
	if m.Params != nil && json.Unmarshal(m.Params, &p) != nil {
		send(replyError(m.ID, invalidParams("Invalid params: params must be an object")))
		return
	}
	meta := parseMeta(p.Meta)
	s.client.note(meta)
	switch {
	case m.method == "server/discover":
		send(replyError(m.ID, methodNotFound(m.method)))
	case meta.unsupportedVersion() != "":
		send(replyError(m.ID, unsupportedVersion(meta.unsupportedVersion())))
	case m.method == string(mcp.MethodToolsCall):
		s.startCall(m.ID, p, meta, send)
	default:
		send(s.rpc.answer(m))
	}
}

func methodNotFound(method string) *rpcError {
	return &rpcError{Code: codeMethodNotFound, Message: "Method not found: " + clip(method)}
}

func unsupportedVersion(version string) *rpcError {
	return &rpcError{
		Code:    mcp.UNSUPPORTED_PROTOCOL_VERSION,
		Message: "Unsupported protocol version: " + clip(version),
		Data:    map[string]any{"requested": clip(version), "supported": versions},
	}
}

// startCall is tools/call.
func (s *server) startCall(id json.RawMessage, p params, meta meta, send func([]byte)) {
	name := text(p.Name)
	switch {
	case isNull(p.Name):
		send(replyError(id, invalidParams("failed to deserialize parameters: missing field `name`")))
		return
	case name == "":
		send(replyError(id, invalidParams("failed to deserialize parameters: the name of a tool is a string that is not empty")))
		return
	case !isNull(p.Arguments) && p.Arguments[0] != '{':
		send(replyError(id, invalidParams("failed to deserialize parameters: arguments must be an object")))
		return
	}
	c := &call{server: s, id: id, tool: name, meta: meta, send: send}
	if !isNull(p.Arguments) {
		c.arguments = p.Arguments
	}
	if refused := s.calls.start(c); refused != nil {
		send(replyError(id, refused))
	}
}

// maxBatch bounds the messages of a batch, whose answers are sent together: an answer is
// longer than many a message that is none.
const maxBatch = 1000

// receiveBatch handles the messages of a batch, which is a valid array.
func (s *server) receiveBatch(line []byte) {
	var messages [][]byte
	d := json.NewDecoder(bytes.NewReader(line))
	for _, _ = d.Token(); d.More(); {
		if len(messages) == maxBatch {
			s.out.send(replyError(nil, invalidRequest(fmt.Sprintf("a batch is limited to %d messages", maxBatch))))
			return
		}
		var item json.RawMessage
		if d.Decode(&item) != nil {
			break // it is valid: this cannot be
		}
		messages = append(messages, item)
	}
	if len(messages) == 0 {
		s.out.send(replyError(nil, invalidRequest("an empty batch")))
		return
	}
	b := &batch{send: s.out.send}
	b.receive(messages, s.handle)
}

// clip bounds what a client chose, for messages and the log.
func clip(s string) string {
	const limit = 100
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
