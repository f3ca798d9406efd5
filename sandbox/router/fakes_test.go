package router

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/acp/acptest"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/rules/policy"
	"gander.dev/gander/sessions"
)

// patience is how long to wait for something that should come at once.
const patience = 90 * time.Second

// A journal is what happened in the fakes, in order.
type journal struct {
	// mu guards what follows.
	mu      sync.Mutex
	entries []string
	changed chan struct{} // closed and replaced when entries grow
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, fmt.Sprintf(format, args...))
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.entries)
}

func (j *journal) count(entry string) int {
	n := 0
	for _, e := range j.all() {
		if e == entry {
			n++
		}
	}
	return n
}

// wait returns when entry was added n times.
func (j *journal) wait(t *testing.T, entry string, n int) {
	t.Helper()
	late := time.After(patience)
	for {
		j.mu.Lock()
		if j.changed == nil {
			j.changed = make(chan struct{})
		}
		changed := j.changed
		j.mu.Unlock()
		if j.count(entry) >= n {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("waited in vain for %q; so far: %q", entry, j.all())
		}
	}
}

// fakeDriver makes fakeSandboxes.
type fakeDriver struct {
	name     string
	journal  *journal
	check    error
	onCreate func(ctx context.Context, spec sandbox.Spec) error
	warnings []string
	weaker   []string
	kept     sandbox.Enforcement
	isolated bool
	exceeded []string      // bounds that were met
	holdErr  error         // of Hold
	short    bool          // a hold is over before it is released
	released func()        // when not nil, called as a hold is released
	killErr  error         // of KillSince
	slow     chan struct{} // Close waits for it when not nil

	unmarkable atomic.Bool // Mark fails
	listeners  listeners

	// mu guards what follows.
	mu   sync.Mutex
	made []*fakeSandbox
}

func (d *fakeDriver) Name() string                { return d.name }
func (d *fakeDriver) Check(context.Context) error { return d.check }

func (d *fakeDriver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	d.journal.add("create")
	if d.onCreate != nil {
		if err := d.onCreate(ctx, spec); err != nil {
			return nil, err
		}
	}
	sb := &fakeSandbox{d: d, spec: spec, done: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made = append(d.made, sb)
	return sb, nil
}

func (d *fakeDriver) last() *fakeSandbox {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made[len(d.made)-1]
}

type fakeSandbox struct {
	d    *fakeDriver
	spec sandbox.Spec
	once sync.Once
	done chan struct{}

	closing atomic.Bool // the supervisor is gone

	// mu guards what follows.
	mu      sync.Mutex
	marks   sandbox.Mark
	started []sandbox.Command
}

func (s *fakeSandbox) Exceeded(context.Context) []string { return s.d.exceeded }

func (s *fakeSandbox) Info() sandbox.Info {
	return sandbox.Info{
		Executable: "/inside/gander", ID: s.spec.ID, Driver: s.d.name, Home: "/home/agent", Isolated: s.d.isolated, Doors: map[string]string{"model": "127.0.0.1:4711"},
		Limits: []string{"memory: 1 GiB, by a fake"}, Warnings: s.d.warnings, Weaker: s.d.weaker,
		Isolation: "by a fake", Enforcement: s.d.kept,
	}
}

func (s *fakeSandbox) Start(_ context.Context, c sandbox.Command) (sandbox.Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = append(s.started, c)
	return nil, errors.New("the fake starts nothing")
}

// Hold implements sandbox.Holder; the fake driver says whether it can.
func (s *fakeSandbox) Hold(context.Context, time.Duration) (func() bool, error) {
	if s.d.holdErr != nil {
		return nil, s.d.holdErr
	}
	if s.closing.Load() {
		return nil, sandbox.ErrGone
	}
	s.d.journal.add("hold")
	return func() bool {
		s.d.journal.add("release")
		if s.d.released != nil {
			s.d.released()
		}
		return !s.d.short
	}, nil
}

func (s *fakeSandbox) Mark(context.Context) (sandbox.Mark, error) {
	select {
	case <-s.done:
		return 0, sandbox.ErrGone
	default:
	}
	if s.d.unmarkable.Load() {
		return 0, errors.New("no answer")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks++
	return s.marks, nil
}

// marked reports whether this is the last mark, with which a turn begins.
func (s *fakeSandbox) marked(m sandbox.Mark) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.marks == m
}

func (s *fakeSandbox) KillSince(_ context.Context, m sandbox.Mark) (sandbox.KillReport, error) {
	s.d.journal.add("kill since %d", m)
	return sandbox.KillReport{}, s.d.killErr
}

func (s *fakeSandbox) Done() <-chan struct{} { return s.done }

func (s *fakeSandbox) Close() error {
	s.closing.Store(true)
	if s.d.slow != nil {
		<-s.d.slow
	}
	s.once.Do(func() {
		s.d.journal.add("close sandbox")
		close(s.done)
	})
	return nil
}

// fakeAgent opens fakeConvs, whose turns are functions.
type fakeAgent struct {
	name    string
	journal *journal
	check   error
	state   sandbox.AgentState
	resumes bool // it can continue a conversation
	onOpen  func(ctx context.Context, c *fakeConv) error
	onTurn  func(ctx context.Context, c *fakeConv, prompt string) (*acp.PromptResponse, error)
	onSet   func(c *fakeConv, what, value string) error

	// mu guards what follows.
	mu      sync.Mutex
	opened  int
	current *fakeConv
}

func (a *fakeAgent) Name() string                 { return a.name }
func (a *fakeAgent) Check(context.Context) error  { return a.check }
func (a *fakeAgent) Mounts() []sandbox.Mount      { return []sandbox.Mount{{Path: "/opt/" + a.name}} }
func (a *fakeAgent) Defaults() sandbox.AgentState { return a.state }

func (a *fakeAgent) Open(ctx context.Context, sb sandbox.Sandbox, p sandbox.SessionParams) (sandbox.AgentSession, error) {
	a.mu.Lock()
	a.opened++
	c := &fakeConv{a: a, id: fmt.Sprintf("%s-%d", a.name, a.opened), params: p, sb: sb, state: a.state, cancelled: make(chan struct{}, 10), childCancelled: make(chan acp.SessionID, 10), done: make(chan struct{})}
	a.current = c
	a.mu.Unlock()
	if a.resumes && p.ResumeID != "" {
		c.id = p.ResumeID
	}
	a.journal.add("open %s mode=%s model=%s resume=%s", a.name, p.Mode, p.Model, p.ResumeID)
	if p.Mode != "" && c.state.Modes != nil {
		c.setMode(p.Mode)
	}
	if a.onOpen != nil {
		if err := a.onOpen(ctx, c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (a *fakeAgent) conv() *fakeConv {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.current
}

// fakeConv is a conversation with a fakeAgent.
type fakeConv struct {
	a              *fakeAgent
	id             string
	params         sandbox.SessionParams
	sb             sandbox.Sandbox
	cancelled      chan struct{} // takes a value for each Cancel
	childCancelled chan acp.SessionID
	once           sync.Once
	done           chan struct{}
	err            error

	// mu guards what follows.
	mu    sync.Mutex
	state sandbox.AgentState
	asked []string
	given []byte
}

// prompts are what the agent was given.
func (c *fakeConv) prompts() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asked)
}

func (c *fakeConv) ID() string { return c.id }

// blocks is the last prompt as it came.
func (c *fakeConv) blocks() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.given)
}

func (c *fakeConv) Resumed() bool { return c.a.resumes && c.params.ResumeID != "" }

func (c *fakeConv) State() sandbox.AgentState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

func (c *fakeConv) Prompt(ctx context.Context, prompt []acp.ContentBlock) (*acp.PromptResponse, error) {
	text := plainText(prompt)
	c.mu.Lock()
	c.asked = append(c.asked, text)
	c.given = marshal(prompt)
	c.mu.Unlock()
	c.a.journal.add("prompt %s in mode %s", lastLine(text), c.mode())
	type answer struct {
		resp *acp.PromptResponse
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		resp, err := c.a.turn(ctx, c, text)
		answered <- answer{resp, err}
	}()
	select {
	case a := <-answered:
		c.a.journal.add("answer")
		return a.resp, a.err
	case <-c.done:
		return nil, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (a *fakeAgent) turn(ctx context.Context, c *fakeConv, text string) (*acp.PromptResponse, error) {
	if a.onTurn != nil {
		return a.onTurn(ctx, c, text)
	}
	c.say("you said: " + lastLine(text))
	return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
}

func lastLine(text string) string { return text[strings.LastIndexByte(text, '\n')+1:] }

func (c *fakeConv) mode() string {
	if m := c.State().Modes; m != nil {
		return m.CurrentModeID
	}
	return ""
}

func (c *fakeConv) Cancel() error {
	c.a.journal.add("cancel")
	select {
	case c.cancelled <- struct{}{}:
	default:
	}
	return nil
}

func (c *fakeConv) setMode(mode string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	modes := *c.state.Modes
	modes.CurrentModeID = mode
	c.state.Modes = &modes
}

func (c *fakeConv) SetMode(_ context.Context, mode string) error {
	c.a.journal.add("set mode %s", mode)
	if c.a.onSet != nil {
		if err := c.a.onSet(c, "mode", mode); err != nil {
			return err
		}
	}
	c.setMode(mode)
	return nil
}

func (c *fakeConv) SetConfigOption(_ context.Context, id string, value json.RawMessage) ([]acp.ConfigOption, error) {
	c.a.journal.add("set %s %s", id, value)
	if c.a.onSet != nil {
		if err := c.a.onSet(c, id, string(value)); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	options := slices.Clone(c.state.ConfigOptions)
	for i := range options {
		if options[i].ID == id {
			options[i].CurrentValue = value
		}
	}
	c.state.ConfigOptions = options
	return options, nil
}

func (c *fakeConv) Done() <-chan struct{} { return c.done }

func (c *fakeConv) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

func (c *fakeConv) Close() error {
	c.die("was ended by signal KILL")
	return nil
}

// die ends the agent's process.
func (c *fakeConv) die(how string) {
	c.once.Do(func() {
		c.err = fmt.Errorf("%s %s", c.a.name, how)
		close(c.done)
	})
}

// update sends a raw update of the agent.
func (c *fakeConv) update(raw string) {
	_ = c.params.Client.SessionUpdate(context.Background(), &acp.SessionNotification{Update: json.RawMessage(raw)})
}

func (c *fakeConv) say(text string) {
	_ = c.params.Client.SessionUpdate(context.Background(), &acp.SessionNotification{Update: acp.MessageChunk(acp.AgentMessageChunk, "m", text)})
}

// ask asks for permission with options allow and reject.
func (c *fakeConv) ask(ctx context.Context, toolCall string) string {
	resp, err := c.params.Client.RequestPermission(ctx, &acp.RequestPermissionRequest{
		ToolCall: json.RawMessage(toolCall),
		Options:  []acp.PermissionOption{{OptionID: "yes", Name: "Yes", Kind: "allow_once"}, {OptionID: "no", Name: "No", Kind: "reject_once"}},
	})
	if err != nil {
		return "error: " + err.Error()
	}
	return resp.Outcome.Outcome + " " + resp.Outcome.OptionID
}

// fakeModel counts what it is told.
type fakeModel struct {
	journal *journal
	notice  func(severity, text string)
}

func (m *fakeModel) Dial(context.Context) (net.Conn, error) { return nil, errors.New("nobody there") }
func (m *fakeModel) Token() string                          { return "token" }
func (m *fakeModel) Proceed()                               {}
func (m *fakeModel) AbortInFlight()                         { m.journal.add("abort model calls") }
func (m *fakeModel) Close() error                           { m.journal.add("close model"); return nil }

// modelState is what an agent with two models, two modes and thought levels says of itself.
func modelState() sandbox.AgentState {
	value := func(names ...string) (out []acp.ConfigOptionValue) {
		for _, n := range names {
			out = append(out, acp.ConfigOptionValue{Value: n, Name: strings.ToUpper(n)})
		}
		return out
	}
	return sandbox.AgentState{
		Modes: &acp.SessionModeState{CurrentModeID: "auto", AvailableModes: []acp.SessionMode{{ID: "auto", Name: "auto"}, {ID: "approve", Name: "approve"}}},
		ConfigOptions: []acp.ConfigOption{
			acpagent.SelectOption("provider", "Provider", "", "openai", value("openai")),
			acpagent.SelectOption("effort", "Effort", acp.CategoryThoughtLevel, "low", value("low", "high")),
			acpagent.SelectOption("the-model", "LLM", acp.CategoryModel, "small", value("small", "large")),
		},
	}
}

// rig is a router between an editor and fakes.
type rig struct {
	journal *journal
	agent   *fakeAgent
	other   *fakeAgent
	driver  *fakeDriver
	second  *fakeDriver
	store   *sessions.Store
	opts    Options
	dir     string
	editor  *acptest.Editor
	router  *Router

	quiet bool // frames are not kept

	// mu guards what follows.
	mu     sync.Mutex
	terms  *fakeTerms
	frames []string // of the router, as written
	models []*fakeModel
}

// newRig makes a rig whose editor is connected and initialized; adjust changes
// the fakes and options before.
func newRig(t testing.TB, adjust func(*rig)) *rig {
	t.Helper()
	return newRigFor(t, acp.ClientCapabilities{}, adjust)
}

func newRigFor(t testing.TB, capabilities acp.ClientCapabilities, adjust func(*rig)) *rig {
	t.Helper()
	j := new(journal)
	r := &rig{
		journal: j, dir: t.TempDir(),
		agent:  &fakeAgent{name: "duck", journal: j, state: modelState()},
		other:  &fakeAgent{name: "swan", journal: j},
		driver: &fakeDriver{name: "box", journal: j},
		second: &fakeDriver{name: "crate", journal: j},
	}
	var err error
	if r.store, err = sessions.Open(filepath.Join(r.dir, "sessions"), nil); err != nil {
		t.Fatal(err)
	}
	r.terms = &fakeTerms{openModel: r.openModel}
	r.opts = Options{
		Agents: []sandbox.Agent{r.agent, r.other}, Agent: "duck",
		Drivers: []sandbox.Driver{r.driver, r.second, &fakeDriver{name: sandbox.Off, journal: j}}, Sandbox: Auto,
		Terms: r.terms, Store: r.store, StateDir: filepath.Join(r.dir, "state"), Version: "test",
	}
	if adjust != nil {
		adjust(r)
	}
	t.Cleanup(func() { // after the connection has ended
		if r.router != nil {
			r.router.Close()
		}
	})
	newAgent := func(c *acp.ClientConn) acp.Agent {
		r.router = New(c, r.opts)
		return r.router
	}
	o := &acp.Options{Trace: r.trace}
	if r.quiet {
		o = nil
	}
	r.editor = acptest.NewEditor(t, newAgent, capabilities, o)
	return r
}

// fakeTerms holds the terms that a test sets.
type fakeTerms struct {
	policy     func(project string) (confine.Policy, error)
	canaries   string
	rules      *sandbox.Rules
	openModel  func(confine.Way) (confine.Model, error)
	openEgress func(confine.Way) (confine.Egress, error)
	cost       func(session acp.SessionID, cwd string) *acp.Cost
}

func (f *fakeTerms) Policy(project string) (p confine.Policy, err error) {
	p.Policy = policy.Default()
	if f.policy != nil {
		p, err = f.policy(project)
	}
	p.Canaries = f.Canaries(project)
	return p, err
}

func (f *fakeTerms) Canaries(string) string { return cmp.Or(f.canaries, confine.CanariesOff) }

func (f *fakeTerms) Rules() *sandbox.Rules { return f.rules }

func (f *fakeTerms) OpenModel(w confine.Way, _ policy.Policy) (confine.Model, error) {
	return f.openModel(w)
}

func (f *fakeTerms) OpenEgress(w confine.Way, _ policy.Policy) (confine.Egress, error) {
	if f.openEgress == nil {
		return nil, nil
	}
	return f.openEgress(w)
}

func (f *fakeTerms) Spent(acp.SessionID) string { return "" }

func (f *fakeTerms) Cost(session acp.SessionID, cwd string) *acp.Cost {
	if f.cost == nil {
		return nil
	}
	return f.cost(session, cwd)
}

func (r *rig) openModel(w confine.Way) (confine.Model, error) {
	m := &fakeModel{journal: r.journal, notice: w.Notice}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.models = append(r.models, m)
	return m, nil
}

func (r *rig) model() *fakeModel {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.models[len(r.models)-1]
}

func (r *rig) trace(dir acp.Direction, line []byte) {
	if dir == acp.Out {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.frames = append(r.frames, string(line))
	}
}

// written are the frames of the router in a short form: the text of a chunk, the
// kind of another update, the method of a request, or what was answered.
func (r *rig) written() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, line := range r.frames {
		var f struct {
			Method string `json:"method"`
			Params struct {
				Update struct {
					Kind    string `json:"sessionUpdate"`
					Content struct {
						Text string `json:"text"`
					} `json:"content"`
				} `json:"update"`
			} `json:"params"`
			Result struct {
				SessionID  string `json:"sessionId"`
				StopReason string `json:"stopReason"`
			} `json:"result"`
			Error *acp.Error `json:"error"`
		}
		_ = json.Unmarshal([]byte(line), &f)
		u := f.Params.Update
		switch {
		case f.Error != nil:
			out = append(out, fmt.Sprintf("error %d", f.Error.Code))
		case f.Result.StopReason != "":
			out = append(out, "stop "+f.Result.StopReason)
		case f.Result.SessionID != "":
			out = append(out, "session")
		case u.Content.Text != "":
			out = append(out, strings.TrimSpace(u.Content.Text))
		case u.Kind == "session_info_update": // the title that gander gives
		case u.Kind != "":
			out = append(out, u.Kind)
		case f.Method != "":
			out = append(out, f.Method)
		}
	}
	return out
}

// updates are those of a session, without the list of commands that every session
// begins with and the title that gander gives it.
func (r *rig) updates(id acp.SessionID) []json.RawMessage {
	all := slices.DeleteFunc(r.editor.Updates(id), func(u json.RawMessage) bool { return acp.UpdateKind(u) == "session_info_update" })
	i := slices.IndexFunc(all, func(u json.RawMessage) bool { return acp.UpdateKind(u) == "available_commands_update" })
	if i < 0 {
		return all
	}
	return slices.Delete(all, i, i+1)
}

// open opens a session.
func (r *rig) open(t *testing.T) *acp.NewSessionResponse {
	t.Helper()
	return r.editor.NewSession(t, t.TempDir())
}

// reply is the end of a prompt.
type reply struct {
	stop acp.StopReason
	err  error
}

// prompt sends a prompt and returns how it ends, later.
func (r *rig) prompt(t *testing.T, id acp.SessionID, text string) <-chan reply {
	t.Helper()
	out := make(chan reply, 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	go func() {
		defer cancel()
		resp, err := r.editor.Prompt(ctx, id, text)
		if err != nil {
			out <- reply{err: err}
			return
		}
		out <- reply{stop: resp.StopReason}
	}()
	return out
}

// ask prompts and waits for the end.
func (r *rig) ask(t *testing.T, id acp.SessionID, text string) reply {
	t.Helper()
	return <-r.prompt(t, id, text)
}

// wantStop prompts and fails the test unless the turn ends so.
func (r *rig) wantStop(t *testing.T, id acp.SessionID, text string, want acp.StopReason) {
	t.Helper()
	if got := r.ask(t, id, text); got.stop != want {
		t.Fatalf("prompt %q ended with %+v, want %s; journal %q", text, got, want, r.journal.all())
	}
}

func (r *rig) cancel(t *testing.T, id acp.SessionID) {
	t.Helper()
	if err := r.editor.Conn.Cancel(id); err != nil {
		t.Fatal(err)
	}
}

// untilCancelled is a turn that ends when the agent is asked to.
func untilCancelled(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
	select {
	case <-c.cancelled:
		return &acp.PromptResponse{StopReason: acp.StopCancelled}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// deaf is a turn that never answers.
func deaf(ctx context.Context, _ *fakeConv, _ string) (*acp.PromptResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// errorCode is the code of an error of the wire, 0 for others.
func errorCode(err error) int {
	if e, ok := errors.AsType[*acp.Error](err); ok {
		return e.Code
	}
	return 0
}
