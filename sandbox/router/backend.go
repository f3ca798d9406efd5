package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/ports"
	"gander.dev/gander/sessions"
)

// settingTime bounds how long an agent may take to accept a choice.
const settingTime = 10 * time.Second

// backend is what answers a session's turns: a sandbox, the agent in it and the
// way to the model. Its goroutine, run, opens it, watches it and is the only one
// that takes it down; everybody else calls stop and waits for ended.
type backend struct {
	s      *session
	agent  sandbox.Agent
	driver sandbox.Driver
	tools  string
	chosen setting
	reads  bool // it may not write the project; constant once it runs
	output output
	relay  *relay
	// buffers are the editor's files, by the policy of this sandbox.
	buffers *editorFiles
	ctx     context.Context
	stop    context.CancelFunc
	ready   chan struct{} // closed when it can be used, or err says why not
	ended   chan struct{} // closed when nothing of it is left and the session has forgotten it

	// Set before ready is closed, then constant.
	err   error
	place *confine.Place
	sb    sandbox.Sandbox // the place's
	ways  []*serverWay    // to the editor's MCP servers
	conv  sandbox.AgentSession
	ports *ports.Set // what is open of the sandbox

	// astray is whether the agent did not start with what it keeps of its session. Set
	// before ready is closed; that record is gone then.
	astray bool

	before *backend // what it takes the place of; it starts when nothing of that is left

	// Guarded by the session's mu.
	turn     *turn           // the one it answers
	replaced bool            // the person chose another one
	images   []string        // how the attached images begin that no call of the model has had
	byEditor map[string]bool // files that the editor has changed for the agent
}

// start returns the session's backend, and starts one in the background when
// there is none. It returns nil when the session is closed.
func (s *session) start() *backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if s.backend != nil {
		return s.backend
	}
	b := &backend{s: s, agent: s.agent, driver: s.driver, tools: s.tools, chosen: s.setting(), before: s.leaving, ready: make(chan struct{}), ended: make(chan struct{})}
	b.ctx, b.stop = context.WithCancel(s.ctx)
	b.relay, b.buffers = newRelay(b), &editorFiles{b: b}
	s.backend = b
	params := sandbox.SessionParams{
		WorkingDir: s.cwd, Model: s.want[acp.CategoryModel], Mode: s.want[acp.CategoryMode],
		ResumeID: s.seen[s.agent.Name()].session, Client: b.relay, Capabilities: s.capabilities(), SystemPrompt: s.system,
	}
	s.work.Go(func() { b.run(params) })
	return b
}

// run is the life of the backend.
func (b *backend) run(params sandbox.SessionParams) {
	defer close(b.ended)
	if b.before != nil {
		<-b.before.ended
	}
	b.reads = b.chosen.reads()
	err := b.open(params)
	if err == nil {
		err = b.introduce()
	}
	if err != nil {
		b.fail(err)
		return
	}
	if !b.hosted() {
		b.s.r.spares.fill(b)
	}
	select {
	case <-b.conv.Done():
	case <-b.sb.Done():
	case <-b.ctx.Done():
	}
	wanted := b.ctx.Err() != nil
	b.release()
	b.s.forget(b)
	exit := sessions.AgentEvent{Event: sessions.AgentExited, Agent: b.agent.Name(), AgentSessionID: b.conv.ID()}
	if !wanted {
		exit.Error = errorText(b.s.leaks.error(b.ending(nil)))
		b.s.log.Warn("the agent has ended", "agent", b.agent.Name(), "err", exit.Error)
	}
	b.s.record("", exit)
}

// FailedStart is the message of the record about an agent that did not start.
const FailedStart = "starting the agent"

// fail gives up. The session has forgotten the backend before anybody learns of
// it, so that the next prompt tries again.
func (b *backend) fail(err error) {
	wanted := b.ctx.Err() != nil
	b.release()
	if b.astray = b.astray && !wanted; b.astray {
		b.s.dropRecord(b.agent)
	}
	b.s.forget(b)
	err = b.s.leaks.error(err)
	if !wanted {
		b.s.log.Error(FailedStart, "agent", b.agent.Name(), "err", err)
		b.s.record("", sessions.AgentEvent{Event: sessions.AgentExited, Agent: b.agent.Name(), Error: err.Error()})
	}
	b.err = err
	close(b.ready)
}

// over reports whether a ready backend cannot be used any more.
func (b *backend) over() bool {
	select {
	case <-b.conv.Done():
	case <-b.sb.Done():
	case <-b.ctx.Done():
	default:
		return false
	}
	return true
}

// opened reports whether the backend has become ready to be used.
func (b *backend) opened() bool {
	if b == nil {
		return false
	}
	select {
	case <-b.ready:
		return b.err == nil
	default:
		return false
	}
}

// running reports whether the backend can be used now.
func (b *backend) running() bool { return b.opened() && !b.over() }

// ending is how the agent ended, or else what was noticed of it.
func (b *backend) ending(noticed error) error {
	if err := b.conv.Err(); err != nil {
		return err
	}
	select {
	case <-b.sb.Done():
		return fmt.Errorf("the sandbox of %s has ended", b.agent.Name())
	default:
	}
	if noticed != nil {
		return noticed
	}
	return fmt.Errorf("%s has ended", b.agent.Name())
}

func errorText(err error) string {
	if e, ok := errors.AsType[*acp.Error](err); ok {
		return e.Message
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// open makes the sandbox and opens the conversation in it.
func (b *backend) open(params sandbox.SessionParams) error {
	if h, ok := b.agent.(sandbox.Hosted); ok {
		return b.openHosted(h, params)
	}
	s := b.s
	var err error
	if b.place, err = confine.Open(b.ctx, confine.Request{
		Terms: s.r.opts.Terms, Driver: b.driver, StateDir: s.r.opts.StateDir, Spec: b.spec(), Denied: b.denied, Way: b.way(),
		Doors: b.doors, Make: b.makeSandbox, Log: s.log,
	}); err != nil {
		return err
	}
	b.sb = b.place.Sandbox
	params.Env = b.place.Policy.Env
	params.ModelAddr, params.ModelToken = b.sb.Info().Doors[confine.ModelDoor], b.place.Model.Token()
	params.ProxyAddr = b.sb.Info().Doors[confine.EgressDoor]
	if m, ok := b.place.Model.(lister); ok {
		params.Models = m.Models(b.ctx)
	}
	if err := b.giveTools(&params); err != nil {
		return err
	}
	b.giveServers(&params)
	if params.ResumeID != "" {
		params.ResumeWords = b.s.lastSaid(b.ctx, b.agent)
	}
	b.s.r.opts.Crowd.populate(b)
	if b.conv, err = b.agent.Open(b.ctx, b.sb, params); err != nil {
		b.astray = params.ResumeID != "" && !errors.Is(err, context.DeadlineExceeded)
		return fmt.Errorf("%w; gander agent test %s --log-level debug shows more", err, b.agent.Name())
	}
	b.output.to(b.conv)
	return nil
}

// A lister is a Model that knows which models there are.
type lister interface {
	Models(ctx context.Context) []string
}

// makeSandbox takes the sandbox that was made ahead, or makes one.
func (b *backend) makeSandbox(ctx context.Context, p *confine.Place) (sandbox.Sandbox, sandbox.Spec, error) {
	if sb, spec := b.useSpare(p); sb != nil {
		return sb, spec, nil
	}
	home, err := b.s.home(ctx, b.agent)
	if err != nil {
		return nil, sandbox.Spec{}, err
	}
	return p.Create(ctx, home)
}

func (b *backend) spec() sandbox.Spec {
	s := b.s
	spec := sandbox.Spec{
		ID: s.sandboxID(b.agent), WorkingDir: s.cwd, ReadOnly: b.reads, Mounts: slices.Clone(b.agent.Mounts()), HomeLinks: sandbox.HomeLinksOf(b.agent),
		Labels: map[string]string{"agent": b.agent.Name(), "program": sandbox.ProgramOf(b.agent), "session": string(s.id)},
	}
	for _, d := range s.dirs {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Path: d, Writable: !b.reads && !s.r.onlyRead(d), Ruled: true})
	}
	return spec
}

// doors are those besides the ways out.
func (b *backend) doors() []sandbox.Door {
	doors := b.openServers()
	if b.usesDeveloper() {
		doors = append(doors, sandbox.Door{Name: outputDoor, Dial: b.output.dial})
		if fs := b.s.r.client.Capabilities().FS; fs.ReadTextFile || fs.WriteTextFile {
			doors = append(doors, sandbox.Door{Name: filesDoor, Dial: b.dialFiles})
		}
	}
	return doors
}

// introduce gives the agent what the person chose while it started, takes over
// what it says of itself, and makes the backend ready. No prompt reaches an
// agent that is not in the mode the person chose.
func (b *backend) introduce() error {
	s := b.s
	s.choosing.Lock()
	defer s.choosing.Unlock()
	if err := b.apply(); err != nil {
		return err
	}
	state := b.conv.State()
	if err := s.leaks.Check(leakSaid, marshal(state)); err != nil {
		return err
	}
	s.r.saveState(b.agent, state)
	if !s.adopt(b, state) {
		return context.Canceled
	}
	s.record("", sessions.AgentEvent{Event: sessions.AgentStarted, Agent: b.agent.Name(), AgentSessionID: b.conv.ID(), Resumed: b.conv.Resumed(), Weaker: b.sb.Info().Weaker})
	b.saySandbox()
	if !b.hosted() {
		b.sayPolicy()
		b.openPorts()
	}
	if s.nowWeaker(b.sb.Info().Weaker) {
		s.titled(b.ctx)
	}
	for _, text := range append(b.sb.Info().Warnings, state.Notices...) {
		s.notice("warning", text)
	}
	close(b.ready)
	s.publish()
	return nil
}

// adopt takes over what the agent says of itself; false when it was replaced
// meanwhile. An agent that could not go on with its conversation knows nothing of it.
func (s *session) adopt(b *backend, state sandbox.AgentState) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.backend != b {
		return false
	}
	s.known = state
	if name := b.agent.Name(); !b.conv.Resumed() {
		was := s.seen[name]
		s.seen[name] = memory{session: b.conv.ID(), lost: was.lost || was.turn != ""}
	}
	return true
}

// apply sets what differs from the person's choices, and has an agent that goes on with a
// conversation of its own leave the mode of then for the one that is shown. choosing is held.
func (b *backend) apply() error {
	s := b.s
	s.mu.Lock()
	want, shown := s.want.clone(), s.known.Modes
	s.mu.Unlock()
	if want[acp.CategoryMode] == "" && shown != nil && b.conv.Resumed() && hasMode(b.conv.State().Modes, shown.CurrentModeID) {
		want[acp.CategoryMode] = shown.CurrentModeID
	}
	for _, category := range want.order() { // the model first: the others may depend on it
		value := want[category]
		if value == "" {
			continue
		}
		err := b.set(b.ctx, category, value)
		if err != nil && (category == acp.CategoryThoughtLevel || isSwitch(category)) {
			s.notice("warning", fmt.Sprintf("%s did not take the %s %q: %v", b.agent.Name(), strings.ReplaceAll(category, "_", " "), value, err))
			continue
		}
		if err != nil {
			return fmt.Errorf("%s did not take the %s %q: %w", b.agent.Name(), category, value, err)
		}
	}
	return nil
}

// hasMode reports whether an agent offers a mode. One without modes has nil.
func hasMode(modes *acp.SessionModeState, mode string) bool {
	return modes != nil && slices.ContainsFunc(modes.AvailableModes, func(m acp.SessionMode) bool { return m.ID == mode })
}

// set gives the agent one choice unless it has it already. choosing is held.
func (b *backend) set(ctx context.Context, category, value string) error {
	ctx, done := context.WithTimeout(ctx, settingTime)
	defer done()
	state := b.conv.State()
	if category == acp.CategoryMode {
		if state.Modes == nil || state.Modes.CurrentModeID == value {
			return nil
		}
		return b.conv.SetMode(ctx, value)
	}
	o := optionFor(state.ConfigOptions, category)
	if o == nil {
		return nil
	}
	raw, same := valueFor(o, value)
	if same {
		return nil
	}
	_, err := b.conv.SetConfigOption(ctx, o.ID, raw)
	return err
}

// forget drops b as the session's backend; the next prompt starts another.
func (s *session) forget(b *backend) {
	var state *sandbox.AgentState
	if b.conv != nil {
		last := b.conv.State()
		state = &last
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.backend != b {
		return
	}
	s.backend = nil
	if state != nil {
		s.known = *state
	}
}

// close ends the backend and returns when nothing of it is left.
func (b *backend) close() {
	b.stop()
	<-b.ended
}

// release takes down whatever was opened. The sandbox goes first: what is in it
// cannot hold up the rest then.
func (b *backend) release() {
	b.stop()
	if b.place != nil {
		if err := b.place.Close(); err != nil {
			b.s.log.Error("closing the sandbox", "err", err)
		}
		b.s.r.opts.Crowd.depopulate(b)
	}
	if b.ports != nil {
		b.ports.End()
	}
	if b.conv != nil {
		_ = b.conv.Close()
	}
	for _, w := range b.ways {
		w.end()
	}
	b.output.wg.Wait() // its connections ended with the sandbox
}
