package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
)

// ClientConn is the client as an agent sees it. It implements [Client].
type ClientConn struct {
	link *link

	// mu guards what follows, which initialize sets.
	mu           sync.Mutex
	capabilities ClientCapabilities
	info         *Implementation
}

var _ Client = (*ClientConn)(nil)

// Capabilities are what the client said it can do; nothing before initialize.
func (c *ClientConn) Capabilities() ClientCapabilities {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.capabilities
}

// ClientInfo is what the client said it is; nil before initialize and when it did not say.
func (c *ClientConn) ClientInfo() *Implementation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.info
}

func (c *ClientConn) introduce(req *InitializeRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.capabilities, c.info = req.ClientCapabilities, req.ClientInfo
}

// Done is closed when the connection ends.
func (c *ClientConn) Done() <-chan struct{} { return c.link.ctx.Done() }

// SessionUpdate queues an update; it is written before anything queued later.
// While more than 1 MiB is unwritten it waits first, until the client reads or
// ctx ends: ctx bounds the waiting, not the sending. It fails with ErrClosed, or
// with ErrBacklog when ctx has ended and the client has not read for too long,
// or when the update is not a JSON object.
//
// An update over the frame limit is split or cut, and says so; a kind that the
// client did not advertise is held back, which is no error.
func (c *ClientConn) SessionUpdate(ctx context.Context, n *SessionNotification) error {
	update, err := n.sound()
	if err != nil {
		return err
	}
	meta := n.Meta
	if len(meta) > 0 {
		if meta, err = sound(meta); err != nil {
			return err
		}
	}
	kind := UpdateKind(update)
	if !c.advertised(kind) {
		c.link.opts.Log.Debug("held back an update the client did not ask for", "kind", kind)
		return nil
	}
	c.link.out.room(ctx)
	f := updateFrame(n.SessionID, update, meta)
	if len(f.line) <= c.link.limit {
		if !isChunk(kind) {
			f.update = 0
		}
		return c.link.out.add(f, lastUpdates)
	}
	return c.sendLarge(n.SessionID, update, meta)
}

// sendLarge queues an update that does not fit as the updates that say it best.
func (c *ClientConn) sendLarge(id SessionID, update, meta []byte) error {
	room := c.link.limit - len(updateFrame(id, nil, meta).line)
	if room < c.link.limit/2 { // it is the notification's _meta that is large
		meta, room = nil, c.link.limit-len(updateFrame(id, nil, nil).line)
	}
	for _, part := range fit(update, room, c.advertised(kindNotice)) {
		f := updateFrame(id, part, meta)
		f.update = 0
		if err := c.link.out.add(f, lastUpdates); err != nil {
			return err
		}
	}
	return nil
}

// advertised reports whether the client asked for updates of a kind. Kinds that
// this package does not know pass.
func (c *ClientConn) advertised(kind string) bool {
	switch kind {
	case kindNotice:
		return c.Capabilities().Session.Notices != nil
	case "compaction_update", "compaction_summary_chunk":
		return c.Capabilities().Session.Compaction != nil
	case "plan_update", "plan_removed":
		return c.Capabilities().Plan != nil
	case "subagent_update", "session_message", "session_message_chunk":
		return c.Capabilities().Subagents != nil
	case "prompt_suggestions_update":
		return c.Capabilities().Session.PromptSuggestions != nil
	}
	return true
}

// sound is the update as sound would return it. One that is passed on as it
// arrived, the usual case of a proxy, is not examined again.
func (n *SessionNotification) sound() ([]byte, error) {
	if len(n.arrived) > 0 && len(n.Update) == len(n.arrived) && &n.Update[0] == &n.arrived[0] && bytes.IndexByte(n.Update, '\r') < 0 {
		return mend(n.Update), nil
	}
	return sound(n.Update)
}

// sound returns raw as a JSON object on one line, or why it is none.
func sound(raw []byte) ([]byte, error) {
	if !json.Valid(raw) || !isKind(bytes.TrimLeft(raw, " \t\r\n"), '{') {
		return nil, fmt.Errorf("sending an update: it is not a JSON object: %.100q", raw)
	}
	raw = mend(raw)
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return raw, nil
	}
	var line bytes.Buffer
	err := json.Compact(&line, raw)
	return line.Bytes(), err
}

// updateFrame composes a session/update.
func updateFrame(id SessionID, update, meta []byte) frame {
	line := make([]byte, 0, len(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"","update":,"_meta":}}`)+len(id)+len(update)+len(meta))
	line = append(line, `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":`...)
	line = appendString(line, string(id))
	line = append(line, `,"update":`...)
	at := len(line)
	line = append(line, update...)
	if len(meta) > 0 {
		line = append(append(line, `,"_meta":`...), meta...)
	}
	return frame{line: append(line, "}}"...), update: at}
}

// RequestPermission asks the client and waits for the answer. When ctx ends the
// request is cancelled at the client and ctx.Err() returned at once.
func (c *ClientConn) RequestPermission(ctx context.Context, r *RequestPermissionRequest) (*RequestPermissionResponse, error) {
	ask := *r
	if ask.Options == nil {
		ask.Options = []PermissionOption{}
	}
	ask.ToolCall = c.fitQuestion(&ask)
	resp := new(RequestPermissionResponse)
	if err := c.link.ask(ctx, MethodRequestPermission, &ask, resp); err != nil {
		return nil, err
	}
	return resp, nil
}

// fitQuestion is the tool call of a permission request, cut when the request
// does not fit in a frame.
func (c *ClientConn) fitQuestion(ask *RequestPermissionRequest) json.RawMessage {
	const envelope = 128 // what a request is besides its params
	params, err := marshal(ask)
	if err != nil { // sending it will say so
		return ask.ToolCall
	}
	over := len(params) + envelope - c.link.limit
	if over <= 0 {
		return ask.ToolCall
	}
	toolCall, _ := marshal(ask.ToolCall) // as it will be sent
	return fitToolCall(toolCall, len(toolCall)-over)
}

// CreateElicitation asks the person something that is no permission. A client
// that does not offer the mode is not asked: the answer is "decline". It ends
// with ctx as RequestPermission does.
func (c *ClientConn) CreateElicitation(ctx context.Context, r *CreateElicitationRequest) (*CreateElicitationResponse, error) {
	if !c.Capabilities().Elicitation.Offers(r.Mode) {
		return &CreateElicitationResponse{Action: "decline"}, nil
	}
	resp := new(CreateElicitationResponse)
	if err := c.link.ask(ctx, MethodCreateElicitation, r, resp); err != nil {
		return nil, err
	}
	return resp, nil
}

// Request sends the client any other request and returns its raw result. It
// ends with ctx as RequestPermission does. Where params do not fit in a frame, nothing is
// sent, and the error wraps ErrTooLarge.
func (c *ClientConn) Request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	return c.link.call(ctx, method, params)
}
