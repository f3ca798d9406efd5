package scenariocmd

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/conformance/model"
	"gander.dev/gander/sandbox/team/orchestrator"
	"gander.dev/gander/sessions"
)

// endTime bounds how long gander may take to end with its input.
const endTime = 30 * time.Second

// An outcome holds what came of one run.
type outcome struct {
	Success  bool     `json:"success"`
	Failures []string `json:"failures"`
	// TracePath names the last trace. It is there afterwards when the run's directory is kept.
	TracePath  string         `json:"tracePath,omitempty"`
	Directory  string         `json:"directory,omitempty"`
	Output     string         `json:"output"`
	StopReason acp.StopReason `json:"stopReason,omitempty"`
	Delegated  []string       `json:"delegatedAgents"`
	Steps      int            `json:"steps"`
	Threads    map[string]int `json:"threads"`
	Tokens     int64          `json:"tokens"`
	Denied     []string       `json:"denied"`
	Changed    []string       `json:"changed"`
	DurationMS int64          `json:"durationMs"`
	TimedOut   bool           `json:"timedOut,omitempty"`

	err   error
	told  func(agent, text string) bool // nil where models are real
	file  func(name string) ([]byte, error)
	judge []verdict
}

// errTime ends a run whose time is over.
var errTime = errors.New("the time of the scenario is over")

// runOnce runs a scenario once and judges it.
func (r *runner) runOnce(ctx context.Context, s *spec) (*outcome, error) {
	dir, err := os.MkdirTemp("", "gander-scenario-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the scenario: %w; %s", err, cli.TemporaryAdvice)
	}
	st := &stage{app: r.app, spec: s, live: r.isLive(s), dir: dir}
	o := &outcome{Failures: []string{}, Delegated: []string{}, Threads: map[string]int{}, Denied: []string{}, Changed: []string{}}
	if r.keep {
		o.Directory = dir
	} else {
		defer wire.Remove(r.app, dir)
	}
	began := time.Now()
	ctx, stop := context.WithTimeoutCause(ctx, time.Duration(s.Time), errTime)
	defer stop()
	o.err = r.play(ctx, st, o)
	o.TimedOut = context.Cause(ctx) == errTime && o.err != nil
	if ctx.Err() != nil && !o.TimedOut {
		return nil, ctx.Err()
	}
	o.DurationMS = time.Since(began).Milliseconds()
	o.look(st)
	o.judged(s)
	return o, nil
}

// play has the scenario take place.
func (r *runner) play(ctx context.Context, st *stage, o *outcome) error {
	if err := st.build(); err != nil {
		return err
	}
	if !st.live {
		var err error
		if st.cast, st.model, err = startCast("scenario-key-"+rand.Text(), r.app.Log); err != nil {
			return fmt.Errorf("listening on this machine's loopback: %w", err)
		}
		defer func() { _ = st.cast.close() }()
		o.told = st.cast.told
	}
	self, err := cli.Program()
	if err != nil {
		return err
	}
	if err := st.checkAgents(ctx, self); err != nil {
		return err
	}
	args := []string{"gander", "acp", "--agent", st.spec.EntryAgentID}
	if r.sandbox != "" {
		args = append(args, "--sandbox", r.sandbox)
	}
	cmd := exec.Command(self)
	var log tail
	cmd.Args, cmd.Env, cmd.Stderr = args, st.environ(), &log
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting gander acp: %w", err)
	}
	p := &player{permissions: st.spec.Permissions, say: func(text string) { r.progress("%s", text) }}
	conn := acp.DialAgent(pipes{out, in}, p, &acp.Options{Log: r.app.Log})
	err = st.talk(ctx, conn, p, o)
	_ = in.Close() // which ends gander acp
	kill := time.AfterFunc(endTime, func() { _ = cmd.Process.Kill() })
	<-conn.Done()
	_ = conn.Close()
	ended := cmd.Wait()
	kill.Stop()
	o.Output, o.Denied = p.text(), append(o.Denied, p.refused()...)
	if err == nil && ended != nil {
		err = fmt.Errorf("gander acp: %w", ended)
	}
	if err != nil && log.Len() > 0 {
		err = fmt.Errorf("%w; it said: %s", err, log.String())
	}
	return err
}

// talk is the conversation of the scenario.
func (s *stage) talk(ctx context.Context, conn *acp.AgentConn, p *player, o *outcome) error {
	_, err := conn.Initialize(ctx, &acp.InitializeRequest{
		ProtocolVersion:    acp.ProtocolVersion,
		ClientCapabilities: acp.ClientCapabilities{Session: acp.ClientSessionCapabilities{Notices: json.RawMessage(`{}`)}},
		ClientInfo:         &acp.Implementation{Name: "gander-scenario", Version: cli.Version},
	})
	if err != nil {
		return fmt.Errorf("gander acp did not answer initialize: %w", err)
	}
	session, err := conn.NewSession(ctx, &acp.NewSessionRequest{CWD: s.project(), MCPServers: []json.RawMessage{}})
	if err != nil {
		return fmt.Errorf("opening a session: %w", err)
	}
	if s.spec.Mode != "" {
		if _, err := conn.SetSessionMode(ctx, &acp.SetSessionModeRequest{SessionID: session.SessionID, ModeID: s.spec.Mode}); err != nil {
			return fmt.Errorf("choosing the mode %s: %w", s.spec.Mode, err)
		}
	}
	for _, t := range append([]turn{{s.spec.Message, s.spec.Scripted}}, s.spec.Turns...) {
		s.direct(t.Scripted)
		p.begin()
		resp, err := prompt(ctx, conn, session.SessionID, t.Message)
		if err != nil {
			return err
		}
		o.StopReason = resp.StopReason
		if u, ok := acp.ParseUsage(resp.Usage); ok {
			o.Tokens += int64(u.TotalTokens)
		}
	}
	return nil
}

// prompt plays one turn, and cancels it when its time is over.
func prompt(ctx context.Context, conn *acp.AgentConn, id acp.SessionID, text string) (*acp.PromptResponse, error) {
	type answered struct {
		resp *acp.PromptResponse
		err  error
	}
	done := make(chan answered, 1)
	go func() {
		resp, err := conn.Prompt(context.WithoutCancel(ctx), &acp.PromptRequest{SessionID: id, Prompt: []acp.ContentBlock{acp.TextBlock(text)}})
		done <- answered{resp, err}
	}()
	select {
	case a := <-done:
		return a.resp, a.err
	case <-ctx.Done():
	}
	_ = conn.Cancel(id) // without a connection the answer is an error
	select {
	case <-done:
	case <-time.After(endTime):
	}
	return nil, context.Cause(ctx)
}

// direct tells the models what they say in the turn that comes.
func (s *stage) direct(sc script) {
	if s.cast == nil {
		return
	}
	for _, name := range s.players() {
		script := &model.Script{Default: []model.Step{{Text: "handled-by:" + name}}}
		if raw, ok := sc.AgentReplies[name]; ok {
			script, _ = steps(raw) // it was read when the file was
		}
		if name == orchestrator.Name {
			script = planned(sc.OrchestratorActions, int(s.spec.Limits.Steps))
		}
		s.cast.set(name, script)
	}
}

// look reads the traces, and what changed in the project.
func (o *outcome) look(s *stage) {
	traces, _ := filepath.Glob(filepath.Join(s.home(), "runs", "*.json")) // the pattern is right
	var runs []sessions.Run
	for _, path := range traces {
		var run sessions.Run
		if text, err := os.ReadFile(path); err != nil || json.Unmarshal(text, &run) != nil || run.EntryAgentID != s.spec.EntryAgentID || run.Session.WorkingPath != s.project() {
			continue
		}
		if len(runs) == 0 || run.StartedAt.After(runs[len(runs)-1].StartedAt) {
			o.TracePath = path
		}
		runs = append(runs, run)
	}
	slices.SortFunc(runs, func(a, b sessions.Run) int { return a.StartedAt.Compare(b.StartedAt) })
	known := map[acp.SessionID]bool{}
	for _, run := range runs {
		last := 0
		for _, step := range run.Orchestration.Steps {
			last = max(last, step.PlannerStep)
			c := step.AgentCall
			if c == nil || c.SessionID == "" {
				continue
			}
			if c.Code == 0 {
				o.Delegated = append(o.Delegated, c.TargetAgentID)
			}
			if !known[c.SessionID] {
				known[c.SessionID] = true
				o.Threads[c.TaskKey]++
			}
		}
		o.Steps += last
	}
	after, err := sums(s.project())
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("looking at the project: %w", err)
	}
	for name, sum := range after {
		if s.before[name] != sum {
			o.Changed = append(o.Changed, name)
		}
	}
	for name := range s.before {
		if _, there := after[name]; !there {
			o.Changed = append(o.Changed, name)
		}
	}
	slices.Sort(o.Changed)
	contents := map[string][]byte{}
	for name := range s.spec.Assertions.Files {
		if text, err := readIn(s.project(), name); err == nil {
			contents[name] = text
		}
	}
	o.file = func(name string) ([]byte, error) {
		text, ok := contents[name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return text, nil
	}
}

// readIn reads a regular file of a directory that a sandbox has written: no link is followed out of it.
func readIn(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	if info, err := root.Lstat(filepath.FromSlash(name)); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fs.ErrNotExist, err)
	}
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, 16<<20))
}

// sums returns the SHA-256 of the regular files of a directory, and where links lead, by name.
func sums(dir string) (map[string]string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	all := map[string]string{}
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Type()&fs.ModeSymlink != 0:
			to, err := root.Readlink(name)
			all[name] = "-> " + to
			return err
		case !d.Type().IsRegular():
			return nil
		}
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		h := sha256.New()
		_, err = io.Copy(h, f)
		all[name] = hex.EncodeToString(h.Sum(nil))
		return err
	})
	return all, err
}

// A player is the client of a run.
type player struct {
	permissions string
	say         func(string)

	// mu guards what follows.
	mu     sync.Mutex
	words  strings.Builder
	denied []string
}

// begin begins a turn.
func (p *player) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.words.Len() > 0 {
		p.words.WriteString("\n")
	}
}

func (p *player) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.TrimSpace(p.words.String())
}

func (p *player) refused() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.denied)
}

// SessionUpdate implements acp.Client.
func (p *player) SessionUpdate(_ context.Context, n *acp.SessionNotification) error {
	var u show.Update
	if json.Unmarshal(n.Update, &u) != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch u.Kind {
	case string(acp.AgentMessageChunk):
		p.words.WriteString(acp.ParseContentBlock(u.Content).Text)
	case "tool_call":
		if strings.HasPrefix(u.ToolCallID, "delegate-") {
			p.say(cli.OneLine(u.Title))
		}
	case "notice":
		if strings.Contains(u.Title, "was refused") {
			p.denied = append(p.denied, u.Title)
		}
	}
	return nil
}

// RequestPermission implements acp.Client.
func (p *player) RequestPermission(_ context.Context, req *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	var call struct{ Title, Kind string }
	_ = json.Unmarshal(req.ToolCall, &call) // without a title it is answered all the same
	if p.permissions == "all" || p.permissions == "reads" && slices.Contains([]string{"read", "search"}, call.Kind) {
		return show.Choose(req.Options, "allow_once", "allow_always"), nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.denied = append(p.denied, "permission: "+call.Title)
	return show.Choose(req.Options, "reject_once", "reject_always"), nil
}

// pipes are a child's stdin and stdout as one stream.
type pipes struct {
	io.ReadCloser
	in io.WriteCloser
}

func (p pipes) Write(b []byte) (int, error) { return p.in.Write(b) }

func (p pipes) Close() error { return p.in.Close() }

// A tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const maxTail = 2 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - maxTail; over > 0 {
		t.text = slices.Delete(t.text, 0, over)
	}
	return len(b), nil
}

// Len returns how much is kept.
func (t *tail) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.text)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.text), ""))
}
