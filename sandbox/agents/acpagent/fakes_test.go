package acpagent

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gander.dev/gander/acp"
	"gander.dev/gander/acp/acptest"
	"gander.dev/gander/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long to wait for something that should come at once.
const patience = 30 * time.Second

// process is a fake sandbox.Process: the test holds the other ends of its
// streams and says when it ends.
type process struct {
	in     net.Conn // stdin and stdout, as the host sees them
	agent  net.Conn // and as the process does
	stderr *io.PipeReader
	errs   *io.PipeWriter
	once   sync.Once
	gone   chan struct{}
	status sandbox.ExitStatus
	err    error
	// stubborn processes do not end when killed, only when the test says so.
	stubborn bool
	killed   chan struct{} // takes a value for each Kill
	// onInputClosed, when set, is called when stdin is closed.
	onInputClosed func()
}

func newProcess(t *testing.T) *process {
	p := &process{gone: make(chan struct{}), killed: make(chan struct{}, 10)}
	p.in, p.agent = net.Pipe()
	p.stderr, p.errs = io.Pipe()
	t.Cleanup(func() { p.exit(sandbox.ExitStatus{Code: 1}, nil) })
	return p
}

// exit ends the process.
func (p *process) exit(status sandbox.ExitStatus, err error) {
	p.once.Do(func() {
		p.status, p.err = status, err
		_ = p.agent.Close()
		_ = p.errs.Close()
		close(p.gone)
	})
}

func (p *process) PID() int                             { return 7 }
func (p *process) Stdin() io.WriteCloser                { return halfCloser{p.in, p} }
func (p *process) Stdout() io.Reader                    { return p.in }
func (p *process) Stderr() io.Reader                    { return p.stderr }
func (p *process) Signal(context.Context, string) error { return nil }

// halfCloser does not interrupt reading: stdin and stdout are apart.
type halfCloser struct {
	net.Conn
	process *process
}

func (h halfCloser) Close() error {
	if h.process.onInputClosed != nil {
		h.process.onInputClosed()
	}
	return nil
}

func (p *process) Kill(context.Context) error {
	select {
	case p.killed <- struct{}{}:
	default:
	}
	if !p.stubborn {
		p.exit(sandbox.ExitStatus{Code: 137, Signal: "KILL"}, nil)
	}
	return nil
}

func (p *process) Wait(context.Context) (sandbox.ExitStatus, error) {
	<-p.gone
	return p.status, p.err
}

// box is a fake sandbox.Sandbox that starts one process.
type box struct {
	sandbox.Sandbox
	process *process
	err     error
	command sandbox.Command
}

func (b *box) Start(_ context.Context, c sandbox.Command) (sandbox.Process, error) {
	b.command = c
	if b.err != nil {
		return nil, b.err
	}
	return b.process, nil
}

// client is a fake acp.Client.
type recorder struct {
	mu      sync.Mutex
	updates []string
	said    []string // the session and the text of each
}

func (r *recorder) SessionUpdate(_ context.Context, n *acp.SessionNotification) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.updates = append(r.updates, string(n.Update))
	r.said = append(r.said, string(n.SessionID)+" "+acp.ParseContentBlock(acp.Member(n.Update, "content")).Text)
	return nil
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.updates)
}

func (r *recorder) texts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.said)
}

func (r *recorder) RequestPermission(_ context.Context, req *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	return acptest.Selected(req.Options[0].OptionID), nil
}

// state is what a fake agent says of itself.
func state() (*acp.SessionModeState, []acp.ConfigOption) {
	values := func(names ...string) (out []acp.ConfigOptionValue) {
		for _, n := range names {
			out = append(out, acp.ConfigOptionValue{Value: n, Name: n})
		}
		return out
	}
	return &acp.SessionModeState{CurrentModeID: "auto", AvailableModes: []acp.SessionMode{{ID: "auto", Name: "auto"}, {ID: "approve", Name: "approve"}}},
		[]acp.ConfigOption{
			SelectOption("mode", "Mode", acp.CategoryMode, "auto", values("auto", "approve")),
			SelectOption("llm", "Model", acp.CategoryModel, "small", values("small", "large")),
		}
}

// fakeAgent is an acptest.Agent that offers state and follows what is set.
func fakeAgent() *acptest.Agent {
	return &acptest.Agent{
		OnNewSession: func(context.Context, *acp.NewSessionRequest) (*acp.NewSessionResponse, error) {
			modes, options := state()
			return &acp.NewSessionResponse{Modes: modes, ConfigOptions: options}, nil
		},
		OnSetConfigOption: func(_ context.Context, req *acp.SetConfigOptionRequest) ([]acp.ConfigOption, error) {
			_, options := state()
			for i := range options {
				if options[i].ID == req.ConfigID {
					options[i].CurrentValue = req.Value
				}
			}
			return options, nil
		},
	}
}

// open runs agent in a fake sandbox and opens a session with it.
func open(t *testing.T, agent *acptest.Agent, p sandbox.SessionParams, o Options) (*Session, *process, error) {
	t.Helper()
	proc := newProcess(t)
	agent.Serve(t, proc.agent)
	s, err := openIn(t, &box{process: proc}, p, o)
	return s, proc, err
}

func openIn(t *testing.T, b *box, p sandbox.SessionParams, o Options) (*Session, error) {
	t.Helper()
	if p.Client == nil {
		p.Client = new(recorder)
	}
	o.Name = "duck"
	if o.Command.Args == nil {
		o.Command.Args = []string{"/opt/duck", "acp"}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := Open(ctx, b, p, o)
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

func mustOpen(t *testing.T, agent *acptest.Agent, p sandbox.SessionParams, o Options) (*Session, *process) {
	t.Helper()
	s, proc, err := open(t, agent, p, o)
	if err != nil {
		t.Fatal(err)
	}
	return s, proc
}

// prompt runs a turn of one text.
func prompt(t *testing.T, s *Session, text string) (*acp.PromptResponse, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return s.Prompt(ctx, []acp.ContentBlock{acp.TextBlock(text)})
}

// wait fails the test when c is not closed in time.
func wait(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
	}
}

func update(s string) json.RawMessage { return json.RawMessage(s) }
