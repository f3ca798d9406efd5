package acp

import (
	"context"
	"sync"
)

// dispatcher starts the requests of a client in the order the protocol asks
// for: initialize completes before anything else starts, and within a session
// the next request starts when the former has returned or called Release.
type dispatcher struct {
	link    *link
	answers *answering
	conn    *ClientConn
	agent   Agent

	// mu guards what follows. It is not held while anything of the agent runs.
	mu           sync.Mutex
	initialized  bool       // an initialize has succeeded
	initializing bool       // one is being answered
	waiting      []*inbound // in arrival order, behind initialize
	lanes        map[SessionID]*lane
	closed       bool // nothing starts any more
}

// lane is the order of one session's requests.
type lane struct {
	busy    *inbound // started and neither returned nor released
	queue   []*inbound
	cancels []*CancelNotification // to be repeated when busy is released
}

func newDispatcher(l *link, conn *ClientConn, agent Agent) *dispatcher {
	return &dispatcher{link: l, answers: newAnswering(l, linesOfClient), conn: conn, agent: agent, lanes: map[SessionID]*lane{}}
}

// update implements role: clients send no updates.
func (d *dispatcher) update([]byte) bool { return false }

// request implements role.
func (d *dispatcher) request(m message) {
	h := d.method(m.method)
	if h == nil {
		d.link.send(d.link.errorReply(m.id, MethodNotFound(m.method)))
		return
	}
	in := d.answers.accept(m, h)
	if in == nil {
		return
	}
	in.release = sync.OnceFunc(func() { d.released(in) })
	if m.method != MethodInitialize {
		in.session, _ = sessionOf(m.params)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arrive(in)
}

// sessionOf reads params.sessionId.
func sessionOf(params []byte) (SessionID, bool) {
	s, ok := text(member(params, "sessionId"))
	return SessionID(s), ok
}

// arrive starts a request or puts it where it waits. d.mu is held.
func (d *dispatcher) arrive(in *inbound) {
	switch {
	case d.closed:
		_ = d.answers.answer(in, nil, context.Canceled)
	case d.initializing:
		d.waiting = append(d.waiting, in)
	case in.method == MethodInitialize:
		d.initializing = true
		d.answers.run(in, d.initializedWith)
	case !d.initialized:
		// ACP v1 wants initialize first. Clients do that; refusing the rest is
		// safer than a session whose client's capabilities are unknown.
		_ = d.answers.answer(in, nil, InvalidRequest("call initialize first"))
	case in.session == "":
		d.answers.run(in, func(error) {})
	default:
		d.enter(in)
	}
}

// enter puts a request in its session's lane. d.mu is held.
func (d *dispatcher) enter(in *inbound) {
	l := d.lanes[in.session]
	if l == nil {
		l = &lane{}
		d.lanes[in.session] = l
	}
	if l.busy != nil {
		l.queue = append(l.queue, in)
		return
	}
	d.begin(l, in)
}

// begin starts a request that it is the turn of. d.mu is held.
func (d *dispatcher) begin(l *lane, in *inbound) {
	l.busy = in
	d.answers.run(in, func(error) { in.release() })
}

// initializedWith ends an initialize and lets go what waited for it.
func (d *dispatcher) initializedWith(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.initializing = false
	d.initialized = d.initialized || err == nil
	waiting := d.waiting
	d.waiting = nil
	for _, in := range waiting {
		d.arrive(in)
	}
}

// released lets the next request of a session start. A session/cancel that came
// while this one was on its way to its place is repeated now that it has one.
func (d *dispatcher) released(in *inbound) {
	for _, c := range d.missedCancels(in) {
		d.cancelAgent(c)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lanes[in.session]
	if l == nil || l.busy != in {
		return
	}
	l.busy = nil
	if len(l.queue) == 0 {
		delete(d.lanes, in.session)
		return
	}
	next := l.queue[0]
	l.queue = l.queue[1:]
	d.begin(l, next)
}

func (d *dispatcher) missedCancels(in *inbound) []*CancelNotification {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lanes[in.session]
	if l == nil || l.busy != in {
		return nil
	}
	missed := l.cancels
	l.cancels = nil
	return missed
}

// notify implements role. Unknown notifications are ignored, as the protocol wants.
func (d *dispatcher) notify(m message) {
	switch m.method {
	case MethodCancelRequest:
		for _, in := range d.answers.cancel(m.params) {
			d.drop(in)
		}
	case MethodCancel:
		d.cancelSession(m.params)
	default:
		d.link.opts.Log.Debug("ignored a notification", "method", m.method)
	}
}

// drop answers a request that was cancelled before it started.
func (d *dispatcher) drop(in *inbound) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unqueue(func(q *inbound) bool { return q == in }) != nil {
		_ = d.answers.answer(in, nil, context.Canceled)
	}
}

// cancelSession is session/cancel: prompts that have not started are answered
// here, the agent ends the ones it has.
func (d *dispatcher) cancelSession(params []byte) {
	c := new(CancelNotification)
	if err := decodeParams(params, c); err != nil {
		d.link.complain("ignored a session/cancel", "err", err)
		return
	}
	if d.cancelQueued(c) {
		d.cancelAgent(c)
	}
}

// cancelQueued answers the session's prompts that have not started, and reports
// whether the agent can have others.
func (d *dispatcher) cancelQueued(c *CancelNotification) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	prompt := func(q *inbound) bool { return q.method == MethodPrompt && q.session == c.SessionID }
	for _, in := range d.unqueue(prompt) {
		_ = d.answers.answer(in, &PromptResponse{StopReason: StopCancelled}, nil)
	}
	if l := d.lanes[c.SessionID]; l != nil && l.busy != nil && l.busy.method == MethodPrompt && len(l.cancels) == 0 {
		l.cancels = append(l.cancels, c)
	}
	return d.initialized
}

// unqueue removes the requests that match from wherever they wait. d.mu is held.
func (d *dispatcher) unqueue(match func(*inbound) bool) (removed []*inbound) {
	cut := func(queue []*inbound) []*inbound {
		var kept []*inbound
		for _, in := range queue {
			if match(in) {
				removed = append(removed, in)
			} else {
				kept = append(kept, in)
			}
		}
		return kept
	}
	d.waiting = cut(d.waiting)
	for _, l := range d.lanes {
		l.queue = cut(l.queue)
	}
	return removed
}

func (d *dispatcher) cancelAgent(c *CancelNotification) {
	d.link.protect("session/cancel", func() { d.agent.Cancel(d.link.ctx, c) })
}

// close answers what has not started and waits for what has. The link's context
// must have ended.
func (d *dispatcher) close() {
	d.mu.Lock()
	d.closed = true
	for _, in := range d.unqueue(func(*inbound) bool { return true }) {
		_ = d.answers.answer(in, nil, context.Canceled)
	}
	d.mu.Unlock()
	d.answers.work.Wait()
}

// method finds what answers a method; nil when nothing does.
func (d *dispatcher) method(name string) method {
	switch name {
	case MethodInitialize:
		return bind(d.initialize)
	case MethodNewSession:
		return bind(d.agent.NewSession)
	case MethodPrompt:
		return bind(d.agent.Prompt)
	}
	return d.optional(name)
}

// optional finds the methods that only some agents have.
func (d *dispatcher) optional(name string) method {
	switch name {
	case MethodAuthenticate:
		if a, ok := d.agent.(Authenticator); ok {
			return bind(a.Authenticate)
		}
	case MethodLoadSession:
		if a, ok := d.agent.(SessionLoader); ok {
			return bind(a.LoadSession)
		}
	case MethodCloseSession:
		if a, ok := d.agent.(SessionCloser); ok {
			return bind(a.CloseSession)
		}
	case MethodSetSessionMode:
		if a, ok := d.agent.(ModeSetter); ok {
			return bind(a.SetSessionMode)
		}
	case MethodSetSessionModel:
		if a, ok := d.agent.(ModelSetter); ok {
			return bind(a.SetSessionModel)
		}
	case MethodSetConfigOption:
		if a, ok := d.agent.(ConfigOptionSetter); ok {
			return bind(a.SetConfigOption)
		}
	}
	return d.stored(name)
}

// stored finds the methods of agents that keep sessions, or a login.
func (d *dispatcher) stored(name string) method {
	switch name {
	case MethodListSessions:
		if a, ok := d.agent.(SessionLister); ok {
			return bind(a.ListSessions)
		}
	case MethodResumeSession:
		if a, ok := d.agent.(SessionResumer); ok {
			return bind(a.ResumeSession)
		}
	case MethodDeleteSession:
		if a, ok := d.agent.(SessionDeleter); ok {
			return bind(a.DeleteSession)
		}
	case MethodForkSession:
		if a, ok := d.agent.(SessionForker); ok {
			return bind(a.ForkSession)
		}
	case MethodSetSessionTitle:
		if a, ok := d.agent.(TitleSetter); ok {
			return bind(a.SetSessionTitle)
		}
	case MethodLogout:
		if a, ok := d.agent.(Logouter); ok {
			return bind(a.Logout)
		}
	}
	return d.unstable(name)
}

// unstable finds the methods of the unstable part of v1 that are about what is kept.
func (d *dispatcher) unstable(name string) method {
	archiver, archives := d.agent.(SessionArchiver)
	teller, tells := d.agent.(SessionTeller)
	auth, knows := d.agent.(AuthTeller)
	switch {
	case name == MethodArchiveSession && archives:
		return bind(archiver.ArchiveSession)
	case name == MethodUnarchiveSession && archives:
		return bind(archiver.UnarchiveSession)
	case name == MethodSessionStatus && tells:
		return bind(teller.SessionStatus)
	case name == MethodSessionOptions && tells:
		return bind(teller.SessionOptions)
	case name == MethodAuthStatus && knows:
		return bind(auth.AuthStatus)
	}
	return nil
}

// initialize notes what the client can do and settles the version: this package
// speaks one, whatever was asked for and whatever the agent says.
func (d *dispatcher) initialize(ctx context.Context, req *InitializeRequest) (*InitializeResponse, error) {
	if req.ProtocolVersion < 0 || req.ProtocolVersion > 65535 {
		return nil, InvalidParams("Invalid params: protocolVersion must be an integer from 0 to 65535", nil)
	}
	if req.ProtocolVersion > ProtocolVersion {
		d.link.opts.Log.Info("the client asked for a newer version of ACP, and gets the one that is spoken here", "asked", req.ProtocolVersion, "answered", ProtocolVersion)
	}
	d.conn.introduce(req)
	resp, err := d.agent.Initialize(ctx, req)
	if err != nil {
		return nil, err
	}
	answer := *resp
	answer.ProtocolVersion = ProtocolVersion
	if answer.AuthMethods == nil {
		answer.AuthMethods = []AuthMethod{}
	}
	return &answer, nil
}
