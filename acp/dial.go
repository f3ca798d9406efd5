package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// AgentConn is an agent as a client sees it.
//
// Its request methods return the agent's error as an *Error and ErrClosed when
// the connection has ended. When their context ends they cancel the request at
// the agent and return ctx.Err() at once.
type AgentConn struct {
	link  *link
	side  *clientSide
	close func() error

	done chan struct{} // closed when the connection has ended
	err  error         // why, valid then
}

// DialAgent is the client's end of a connection to an agent. The caller must Close it.
//
// Updates that c does not take hold back the agent. c must not Close the
// connection from within its methods.
func DialAgent(rwc io.ReadWriteCloser, c Client, o *Options) *AgentConn {
	l := newLink(context.Background(), rwc, o)
	a := &AgentConn{link: l, side: &clientSide{link: l, client: c, answers: newAnswering(l, linesOfAgent)}, done: make(chan struct{})}
	a.close = sync.OnceValue(a.shutdown)
	l.start(a.side)
	a.side.answers.work.Go(a.watch)
	return a
}

// watch ends the connection when reading or writing has.
func (a *AgentConn) watch() {
	select {
	case <-a.link.readDone:
		switch a.err = a.link.readFailure(); {
		case a.link.ctx.Err() != nil: // what reading says of a stream that Close closed
			a.err = ErrClosed
		case a.err == nil:
			a.err = io.EOF
		}
	case <-a.link.out.ended:
		a.err = a.link.out.reason()
		if a.err != ErrClosed {
			a.err = fmt.Errorf("writing to the agent: %w", a.err)
		}
	}
	a.link.cancel()
	a.link.out.fail(ErrClosed)
	_ = a.link.rpc.Close()
	close(a.done)
}

// shutdown ends the connection and waits for everything it started.
func (a *AgentConn) shutdown() error {
	err := a.link.close()
	a.side.answers.work.Wait()
	return err
}

// Done is closed when the connection has ended: the agent closed its end,
// reading or writing failed, or Close was called. Every update that arrived was
// delivered before, unless writing failed.
func (a *AgentConn) Done() <-chan struct{} { return a.done }

// Err says why the connection ended, once Done is closed: io.EOF when the agent
// closed its end, ErrClosed after Close. Before that it is nil.
func (a *AgentConn) Err() error {
	select {
	case <-a.done:
		return a.err
	default:
		return nil
	}
}

// Close closes rwc and waits for everything the connection started, the
// Client's methods included; their contexts end. What is still queued for the
// agent may not reach it. It is safe to repeat. A Read
// that goes on although rwc was closed is left behind after 1 s.
func (a *AgentConn) Close() error { return a.close() }

// Initialize must be the first request.
func (a *AgentConn) Initialize(ctx context.Context, req *InitializeRequest) (*InitializeResponse, error) {
	return ask[InitializeResponse](ctx, a, MethodInitialize, req)
}

// Authenticate is authenticate.
func (a *AgentConn) Authenticate(ctx context.Context, req *AuthenticateRequest) (*AuthenticateResponse, error) {
	return ask[AuthenticateResponse](ctx, a, MethodAuthenticate, req)
}

// NewSession is session/new.
func (a *AgentConn) NewSession(ctx context.Context, req *NewSessionRequest) (*NewSessionResponse, error) {
	r := *req
	if r.MCPServers == nil {
		r.MCPServers = []json.RawMessage{} // the schema wants a list
	}
	return ask[NewSessionResponse](ctx, a, MethodNewSession, &r)
}

// LoadSession is session/load. The replayed updates are delivered before it returns.
func (a *AgentConn) LoadSession(ctx context.Context, req *LoadSessionRequest) (*LoadSessionResponse, error) {
	r := *req
	if r.MCPServers == nil {
		r.MCPServers = []json.RawMessage{}
	}
	return ask[LoadSessionResponse](ctx, a, MethodLoadSession, &r)
}

// Prompt is session/prompt. The turn's updates are delivered before it returns.
func (a *AgentConn) Prompt(ctx context.Context, req *PromptRequest) (*PromptResponse, error) {
	r := *req
	if r.Prompt == nil {
		r.Prompt = []ContentBlock{}
	}
	return ask[PromptResponse](ctx, a, MethodPrompt, &r)
}

// SetSessionMode is session/set_mode.
func (a *AgentConn) SetSessionMode(ctx context.Context, req *SetSessionModeRequest) (*SetSessionModeResponse, error) {
	return ask[SetSessionModeResponse](ctx, a, MethodSetSessionMode, req)
}

// SetConfigOption is session/set_config_option.
func (a *AgentConn) SetConfigOption(ctx context.Context, req *SetConfigOptionRequest) (*SetConfigOptionResponse, error) {
	return ask[SetConfigOptionResponse](ctx, a, MethodSetConfigOption, req)
}

// ListSessions is session/list.
func (a *AgentConn) ListSessions(ctx context.Context, req *ListSessionsRequest) (*ListSessionsResponse, error) {
	return ask[ListSessionsResponse](ctx, a, MethodListSessions, req)
}

// ResumeSession is session/resume.
func (a *AgentConn) ResumeSession(ctx context.Context, req *ResumeSessionRequest) (*ResumeSessionResponse, error) {
	return ask[ResumeSessionResponse](ctx, a, MethodResumeSession, req)
}

// ForkSession is session/fork. Some agents replay the conversation under the new
// id before they answer.
func (a *AgentConn) ForkSession(ctx context.Context, req *ForkSessionRequest) (*ForkSessionResponse, error) {
	return ask[ForkSessionResponse](ctx, a, MethodForkSession, req)
}

// DeleteSession is session/delete.
func (a *AgentConn) DeleteSession(ctx context.Context, req *DeleteSessionRequest) (*DeleteSessionResponse, error) {
	return ask[DeleteSessionResponse](ctx, a, MethodDeleteSession, req)
}

// SetSessionTitle is session/set_title.
func (a *AgentConn) SetSessionTitle(ctx context.Context, req *SetSessionTitleRequest) (*SetSessionTitleResponse, error) {
	return ask[SetSessionTitleResponse](ctx, a, MethodSetSessionTitle, req)
}

// Logout is logout.
func (a *AgentConn) Logout(ctx context.Context, req *LogoutRequest) (*LogoutResponse, error) {
	return ask[LogoutResponse](ctx, a, MethodLogout, req)
}

// CloseSession is session/close.
func (a *AgentConn) CloseSession(ctx context.Context, req *CloseSessionRequest) (*CloseSessionResponse, error) {
	return ask[CloseSessionResponse](ctx, a, MethodCloseSession, req)
}

// Cancel is session/cancel. It does not wait for anything: the turn's prompt
// returns with StopCancelled.
func (a *AgentConn) Cancel(session SessionID) error {
	return callError(a.link.rpc.Notify(a.link.ctx, MethodCancel, &CancelNotification{SessionID: session}))
}

// Request sends any other request and returns its raw result.
func (a *AgentConn) Request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	return a.link.call(ctx, method, params)
}

func ask[Resp any](ctx context.Context, a *AgentConn, method string, req any) (*Resp, error) {
	resp := new(Resp)
	if err := a.link.ask(ctx, method, req, resp); err != nil {
		return nil, err
	}
	return resp, nil
}

// clientSide is what a client does with what comes from its agent.
type clientSide struct {
	link    *link
	client  Client
	answers *answering
}

// update implements role.
func (s *clientSide) update(params []byte) bool {
	var n SessionNotification
	for key, value := range members(params) {
		switch string(key) {
		case "sessionId":
			id, _ := text(value)
			n.SessionID = SessionID(id)
		case "update":
			n.Update, n.arrived = value, value
		case "_meta":
			n.Meta = value
		}
	}
	if n.SessionID == "" || UpdateKind(n.Update) == "" {
		s.link.complain("ignored an update without a session or a kind", "params", string(clip(params)))
		return true
	}
	if !isKind(n.Meta, '{') {
		n.Meta = nil
	}
	s.link.protect(MethodSessionUpdate, func() {
		if err := s.client.SessionUpdate(s.link.ctx, &n); err != nil {
			s.link.opts.Log.Debug("the client did not take an update", "err", err)
		}
	})
	return true
}

// request implements role.
func (s *clientSide) request(m message) {
	if s.link.ctx.Err() != nil { // nobody waits for handlers any more
		return
	}
	h := s.method(m.method)
	if h == nil {
		s.link.send(s.link.errorReply(m.id, MethodNotFound(m.method)))
		return
	}
	if in := s.answers.accept(m, h); in != nil {
		s.answers.run(in, func(error) {})
	}
}

func (s *clientSide) method(name string) method {
	if name == MethodRequestPermission {
		return bind(s.client.RequestPermission)
	}
	other, ok := s.client.(RequestHandler)
	if !ok {
		return nil
	}
	return func(ctx context.Context, params json.RawMessage) (any, error) {
		return other.HandleRequest(ctx, name, params)
	}
}

// notify implements role.
func (s *clientSide) notify(m message) {
	if m.method == MethodCancelRequest {
		s.answers.cancel(m.params)
		return
	}
	s.link.opts.Log.Debug("ignored a notification", "method", m.method)
}
