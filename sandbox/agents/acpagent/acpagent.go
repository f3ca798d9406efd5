// Package acpagent holds a conversation with any agent that speaks ACP on its
// standard streams, inside a sandbox. Agents (sandbox/goose) bring their command
// line and their quirks; everything the protocol says is here.
//
// Open starts the agent, initializes it as an ACP v1 client, and opens or continues
// a session. The agent is never offered a terminal: it would run commands on the
// editor's machine instead of in its sandbox; and the file system only where
// SessionParams.Client sees to it that it reaches no further than the sandbox.
//
// A Session runs one Prompt at a time; its other methods may be called concurrently.
package acpagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
)

// Options says how to start an agent and what is particular about it.
type Options struct {
	// Name is the agent's name in errors and logs.
	Name string
	// Command starts the agent's ACP server.
	Command sandbox.Command
	// MCPServers are given to the agent with the session (ACP "mcpServers"); their
	// programs are started inside, by the agent.
	MCPServers []acp.MCPServerStdio
	// Mend, when set, rewrites an update of the agent before it is passed on:
	// what the agent leaves out or puts where clients do not look.
	Mend func(update json.RawMessage) json.RawMessage
	// Notices, when set, reads the _meta of a session/new or session/load result
	// for what failed without an error.
	Notices func(meta json.RawMessage) []string
	// Models, when set, are what the agent's option for the model offers, in place of its own list.
	Models []acp.ConfigOptionValue
	// Tested is the version that gander is tested with; another one is told of. Empty: any.
	Tested string
	// StartTime is how long the agent may take from its start to an open session.
	// Default 2 min.
	StartTime time.Duration
	// Instructions are put in front of the first prompt of a conversation that is not resumed.
	Instructions string
	// Leave is how long Close waits for an agent that ends by itself, and ends what
	// it has started, when its input is closed. 0: it is killed at once.
	Leave time.Duration
	// Trace, when set, is called with every frame to and from the agent.
	Trace func(dir acp.Direction, line []byte)
	Log   *slog.Logger
}

const (
	// lastFrames is how long the output of an agent that has exited may take to
	// arrive, and how long one that closes its output may take to exit.
	lastFrames = 500 * time.Millisecond
	// killTime bounds the killing of an agent whose sandbox does not answer.
	killTime = 5 * time.Second
	// maxID bounds the id of a session, which is kept with the transcript, in bytes.
	maxID = 1 << 10
)

// Session is a conversation with a running agent. It implements sandbox.AgentSession.
type Session struct {
	opts    Options
	params  sandbox.SessionParams
	proc    sandbox.Process
	conn    *acp.AgentConn
	stderr  *tail
	id      acp.SessionID
	strange string        // that the agent's version is another one
	wishes  acp.Wishes    // of its session
	front   string        // instructions for its first prompt, also in a conversation that is resumed
	resumed bool          // id is params.ResumeID, and the conversation that one
	exited  chan struct{} // closed when the process has ended and err is set
	err     error

	own       atomic.Pointer[acp.SessionID] // id as soon as it is known
	replaying atomic.Bool                   // updates are history and not passed on
	replayed  words                         // what was said in it
	told      atomic.Bool                   // the agent has had its instructions
	screens   screens

	// mu guards what follows.
	mu         sync.Mutex
	state      sandbox.AgentState
	modeOption string // the id of the option that is the mode of an agent without session/set_mode
	reported   string // the mode of the agent's last current_mode_update
}

// Open starts the agent in sb and opens a conversation, continuing p.ResumeID
// when the agent still has it. An error carries the agent's last stderr lines.
func Open(ctx context.Context, sb sandbox.Sandbox, p sandbox.SessionParams, o Options) (*Session, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.StartTime <= 0 {
		o.StartTime = 2 * time.Minute
	}
	o.Command.Infrastructure = true
	proc, err := sb.Start(ctx, o.Command)
	if err != nil {
		return nil, fmt.Errorf("starting %s in its sandbox: %w", o.Name, err)
	}
	s := &Session{opts: o, params: p, proc: proc, stderr: newTail(proc.Stderr(), o.Log), exited: make(chan struct{})}
	s.conn = acp.DialAgent(stdio{proc}, (*client)(s), &acp.Options{Log: o.Log, Trace: o.Trace})
	go s.watch()
	if err := s.openInTime(ctx); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("opening a session with %s (%s): %w", o.Name, o.Command.Args[0], err)
	}
	return s, nil
}

// openInTime is open that gives up on an agent that does not answer.
func (s *Session) openInTime(ctx context.Context) error {
	limited, done := context.WithTimeout(ctx, s.opts.StartTime)
	defer done()
	err := s.open(limited)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return fmt.Errorf("it did not answer within %v (%w)%s", s.opts.StartTime, err, s.lastWords())
	}
	return s.explain(ctx, err)
}

// stdio makes one stream of a process's standard input and output.
type stdio struct{ sandbox.Process }

func (s stdio) Read(p []byte) (int, error)  { return s.Stdout().Read(p) }
func (s stdio) Write(p []byte) (int, error) { return s.Stdin().Write(p) }
func (s stdio) Close() error                { return s.Stdin().Close() }

func (s *Session) open(ctx context.Context) error {
	init, err := s.conn.Initialize(ctx, &acp.InitializeRequest{
		ProtocolVersion:    acp.ProtocolVersion,
		ClientCapabilities: s.params.Capabilities,
		ClientInfo:         &acp.Implementation{Name: "gander", Version: "1"},
	})
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if init.ProtocolVersion > acp.ProtocolVersion {
		return fmt.Errorf("it speaks version %d of ACP, and gander version %d: install a version of %s that speaks that one", init.ProtocolVersion, acp.ProtocolVersion, s.opts.Name)
	}
	s.strange = s.versionNotice(init.AgentInfo)
	s.instruct(init.AgentCapabilities.SessionCapabilities.SystemPrompt != nil)
	if s.params.ResumeID != "" && init.AgentCapabilities.LoadSession {
		err := s.load(ctx)
		if err == nil {
			return s.choose(ctx)
		}
		s.opts.Log.Warn("the agent could not continue its session; opening a new one", "agent", s.opts.Name, "resume", s.params.ResumeID, "err", err)
	}
	resp, err := s.conn.NewSession(ctx, &acp.NewSessionRequest{CWD: s.params.WorkingDir, MCPServers: s.servers(), Wishes: s.wishes})
	if err != nil {
		return fmt.Errorf("session/new: %w", err)
	}
	if len(resp.SessionID) > maxID {
		return fmt.Errorf("session/new: the session's id has %d bytes", len(resp.SessionID))
	}
	s.id = resp.SessionID
	s.own.Store(&s.id)
	s.setState(resp.Modes, resp.ConfigOptions, resp.Meta)
	return s.choose(ctx)
}

// instruct has the agent given the client's instructions: with its session where it takes a
// system prompt, else in front of its first prompt, of which the person is told.
func (s *Session) instruct(takes bool) {
	switch text := s.params.SystemPrompt; {
	case text == "":
	case takes:
		s.opts.Log.Info("the agent takes the client's system prompt", "agent", s.opts.Name)
		s.wishes.SystemPrompt = &acp.SystemPrompt{Mode: acp.PromptAppend, Content: []acp.ContentBlock{acp.TextBlock(text)}}
	default:
		s.front = text
	}
}

// versionNotice says that an agent is of another version than the tested one, but for the last
// part of it; empty when it is not, or does not say.
func (s *Session) versionNotice(info *acp.Implementation) string {
	series := func(version string) string {
		parts := strings.SplitN(version, ".", 3)
		return strings.Join(parts[:min(len(parts), 2)], ".")
	}
	if info == nil || info.Version == "" || s.opts.Tested == "" || series(info.Version) == series(s.opts.Tested) {
		return ""
	}
	return fmt.Sprintf("%s is version %.40q, and gander is tested with %s: what it does may be misunderstood. gander agent install %s installs the tested one.", s.opts.Name, info.Version, s.opts.Tested, s.opts.Name)
}

// servers are never null: agents insist on a list.
func (s *Session) servers() []json.RawMessage {
	list := make([]json.RawMessage, len(s.opts.MCPServers))
	for i, server := range s.opts.MCPServers {
		list[i], _ = json.Marshal(server) // strings and lists of them always marshal
	}
	return append(list, s.params.Servers...)
}

// Developer is the server of SessionParams.Developer under the name by which goose
// puts it in the place of its own tools, or none.
func Developer(p sandbox.SessionParams, env ...acp.EnvVariable) []acp.MCPServerStdio {
	if len(p.Developer) == 0 {
		return nil
	}
	if env == nil {
		env = []acp.EnvVariable{}
	}
	if p.FilesAddr != "" {
		env = append(env, acp.EnvVariable{Name: sandbox.FilesVariable, Value: p.FilesAddr})
	}
	return []acp.MCPServerStdio{{Name: "developer", Command: p.Developer[0], Args: p.Developer[1:], Env: env}}
}

// load continues an earlier session; what the agent replays meanwhile is dropped.
func (s *Session) load(ctx context.Context) error {
	s.replaying.Store(true)
	defer s.replaying.Store(false)
	resp, err := s.conn.LoadSession(ctx, &acp.LoadSessionRequest{
		SessionID: acp.SessionID(s.params.ResumeID), CWD: s.params.WorkingDir, MCPServers: s.servers(), Wishes: s.wishes,
	})
	if err != nil {
		return fmt.Errorf("session/load: %w", err)
	}
	if !s.replayed.any(s.params.ResumeWords) {
		return errors.New("it does not know the last turn, as when the machine lost its power")
	}
	s.id, s.resumed = acp.SessionID(s.params.ResumeID), true
	s.own.Store(&s.id)
	s.setState(resp.Modes, resp.ConfigOptions, resp.Meta)
	return nil
}

func (s *Session) setState(modes *acp.SessionModeState, options []acp.ConfigOption, meta json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.modeOption = ""
	if o := Option(options, acp.CategoryMode); modes == nil && o != nil {
		modes, s.modeOption = modesOf(o), o.ID
	}
	s.state = sandbox.AgentState{Modes: modes, ConfigOptions: s.opts.offered(options)}
	if s.opts.Notices != nil {
		s.state.Notices = s.opts.Notices(meta)
	}
	if s.strange != "" {
		s.state.Notices = append(s.state.Notices, s.strange)
	}
	if s.front != "" {
		s.state.Notices = append(s.state.Notices, s.opts.Name+" takes no system prompt: the editor's instructions are in front of the first prompt.")
	}
}

// choose applies the person's model and mode and checks that the agent took
// them: some agents accept a mode and stay in another.
func (s *Session) choose(ctx context.Context) error {
	if want := s.params.Model; want != "" {
		if o := Option(s.State().ConfigOptions, acp.CategoryModel); o != nil && StringValue(o) != want {
			if _, err := s.SetConfigOption(ctx, o.ID, quote(want)); err != nil {
				return fmt.Errorf("choosing the model %q: %w", want, err)
			}
		}
	}
	want := s.params.Mode
	if m := s.State().Modes; want == "" || m == nil || m.CurrentModeID == want {
		return nil
	}
	if err := s.SetMode(ctx, want); err != nil {
		return fmt.Errorf("choosing the mode %q: %w", want, err)
	}
	return nil
}

// ID implements sandbox.AgentSession.
func (s *Session) ID() string { return string(s.id) }

// Resumed implements sandbox.AgentSession.
func (s *Session) Resumed() bool { return s.resumed }

// State implements sandbox.AgentSession.
func (s *Session) State() sandbox.AgentState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Prompt implements sandbox.AgentSession.
func (s *Session) Prompt(ctx context.Context, prompt []acp.ContentBlock) (*acp.PromptResponse, error) {
	if !s.told.Swap(true) {
		first := []string{s.front}
		if !s.resumed {
			first = []string{s.opts.Instructions, s.front}
		}
		for _, text := range slices.Backward(first) {
			if text != "" {
				prompt = append([]acp.ContentBlock{acp.TextBlock(text)}, prompt...)
			}
		}
	}
	resp, err := s.conn.Prompt(ctx, &acp.PromptRequest{SessionID: s.id, Prompt: prompt})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return resp, nil
}

// Cancel implements sandbox.AgentSession.
func (s *Session) Cancel() error { return s.conn.Cancel(s.id) }

// CancelChild cancels the work of one of the agent's child sessions.
func (s *Session) CancelChild(id acp.SessionID) error { return s.conn.Cancel(id) }

// SetMode implements sandbox.AgentSession. It fails when the agent reports another
// mode meanwhile: some agents accept a mode and stay in the one they had.
func (s *Session) SetMode(ctx context.Context, modeID string) error {
	s.mu.Lock()
	option := s.modeOption
	s.reported = ""
	s.mu.Unlock()
	if option != "" {
		options, err := s.SetConfigOption(ctx, option, quote(modeID))
		if o := Option(options, acp.CategoryMode); err == nil && o != nil && StringValue(o) != modeID {
			return fmt.Errorf("%s says its mode is %q after it was asked for %q", s.opts.Name, StringValue(o), modeID)
		}
		return err
	}
	if _, err := s.conn.SetSessionMode(ctx, &acp.SetSessionModeRequest{SessionID: s.id, ModeID: modeID}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reported != "" && s.reported != modeID {
		return fmt.Errorf("%s says its mode is %q after it was asked for %q", s.opts.Name, s.reported, modeID)
	}
	s.setMode(modeID)
	return nil
}

// setMode notes the mode in both of its places. mu is held.
func (s *Session) setMode(modeID string) {
	s.reported = modeID
	if s.state.Modes != nil {
		modes := *s.state.Modes
		modes.CurrentModeID = modeID
		s.state.Modes = &modes
	}
	s.state.ConfigOptions = WithValue(s.state.ConfigOptions, acp.CategoryMode, modeID)
}

// SetConfigOption implements sandbox.AgentSession.
func (s *Session) SetConfigOption(ctx context.Context, id string, value json.RawMessage) ([]acp.ConfigOption, error) {
	req := &acp.SetConfigOptionRequest{SessionID: s.id, ConfigID: id, Value: value}
	if v := string(value); v == "true" || v == "false" {
		req.Type = "boolean"
	}
	resp, err := s.conn.SetConfigOption(ctx, req)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setOptions(resp.ConfigOptions)
	return s.state.ConfigOptions, nil
}

// setOptions notes the complete list of options, and the mode in its other
// place. An empty list is how some agents say nothing. mu is held.
func (s *Session) setOptions(options []acp.ConfigOption) {
	if len(options) == 0 {
		return
	}
	s.state.ConfigOptions = s.opts.offered(options)
	if o := Option(options, acp.CategoryMode); o != nil && s.state.Modes != nil {
		s.setMode(StringValue(o))
	}
}

// Done implements sandbox.AgentSession.
func (s *Session) Done() <-chan struct{} { return s.exited }

// Err implements sandbox.AgentSession. It is meaningful once Done is closed.
func (s *Session) Err() error {
	select {
	case <-s.exited:
		return s.err
	default:
		return nil
	}
}

// Close implements sandbox.AgentSession. It does not wait for the agent to go by
// itself, unless Options.Leave says so.
func (s *Session) Close() error {
	if s.opts.Leave > 0 {
		_ = s.proc.Stdin().Close()
		select {
		case <-s.exited:
		case <-time.After(s.opts.Leave):
		}
	}
	err := s.kill()
	_ = s.conn.Close()
	<-s.exited
	return err
}

// kill ends the agent and everything it started. A sandbox that has ended has
// seen to that.
func (s *Session) kill() error {
	ctx, done := context.WithTimeout(context.Background(), killTime)
	defer done()
	if err := s.proc.Kill(ctx); err != nil && !errors.Is(err, sandbox.ErrGone) {
		return fmt.Errorf("killing %s: %w", s.opts.Name, err)
	}
	return nil
}

// watch waits for the end of the agent and takes down what it left.
func (s *Session) watch() {
	defer close(s.exited)
	status, err := s.wait()
	select { // its last frames may still be on the way
	case <-s.conn.Done():
	case <-time.After(lastFrames):
	}
	if err := s.kill(); err != nil { // what it left holds its streams open
		s.opts.Log.Warn("clearing away what the agent left", "err", err)
	}
	_ = s.conn.Close()
	s.stderr.wait(lastFrames)
	s.err = s.obituary(status, err)
}

// wait returns when the agent has ended. One that closes its output but stays is
// killed: nothing can be asked of it any more.
func (s *Session) wait() (status sandbox.ExitStatus, err error) {
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		status, err = s.proc.Wait(context.Background())
	}()
	select {
	case <-exited:
		return status, err
	case <-s.conn.Done():
	}
	select {
	case <-exited:
	case <-time.After(lastFrames):
		if err := s.kill(); err != nil {
			s.opts.Log.Warn("ending an agent that closed its output", "err", err)
		}
		<-exited
	}
	return status, err
}

// obituary says how the agent ended, with its last stderr lines.
func (s *Session) obituary(status sandbox.ExitStatus, err error) error {
	switch {
	case err != nil:
		err = fmt.Errorf("%s ended: %w", s.opts.Name, err)
	case status.Signal != "":
		err = fmt.Errorf("%s was ended by signal %s", s.opts.Name, status.Signal)
	default:
		err = fmt.Errorf("%s exited with code %d", s.opts.Name, status.Code)
	}
	return fmt.Errorf("%w%s", err, s.lastWords())
}

// lastWords are the last lines of the agent's stderr, as the end of a sentence.
func (s *Session) lastWords() string {
	lines := s.stderr.String()
	if lines == "" {
		return ""
	}
	return "; its last words: " + lines
}

// explain turns "connection closed" into how the agent ended.
func (s *Session) explain(ctx context.Context, err error) error {
	if !errors.Is(err, acp.ErrClosed) || ctx.Err() != nil {
		return err
	}
	select {
	case <-s.exited:
		return s.err
	case <-ctx.Done():
		return err
	}
}
