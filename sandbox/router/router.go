// Package router is gander as an ACP agent: it takes the editor's sessions and
// prompts and has them answered by an agent (goose, ...) in a sandbox.
//
// New gives a *Router for one connection; it implements acp.Agent and the
// optional abilities that work. Close ends every session of it.
//
// # Sessions
//
// session/new makes the cheap checks and answers at once; sandbox and agent
// start in the background (backend.go), and what fails there fails the first
// prompt. A session has one turn at a time, further prompts wait in order
// (turn.go). An agent that dies or had to be killed is replaced by a fresh one
// that continues its conversation.
//
// # Loops
//
// The session of an unattended run is only watched (attach.go): its thread is
// replayed and followed, and a prompt in it is a message to the loop.
//
// # Updates
//
// relay.go is the only road from the agent to the editor: it keeps the wire
// order, mends what the schema forbids, records everything in the transcript
// and drops what belongs to a turn that is over.
package router

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/project"
	"gander.dev/gander/sessions"
)

// Router implements acp.Agent for one connection.
type Router struct {
	opts   Options
	client *acp.ClientConn
	log    *slog.Logger
	ctx    context.Context // ends with Close; sandboxes and agents start under it
	stop   context.CancelFunc
	spares *spares

	// mu guards what follows.
	mu       sync.Mutex
	sessions map[acp.SessionID]*session
	attached map[acp.SessionID]*attachment // the sessions of loops
	working  map[*session]bool             // a turn of theirs runs
	crowded  map[*session]bool             // and while it did, one of another in the same project
}

// New returns the Router for a connection to client.
func New(client *acp.ClientConn, o Options) *Router {
	if o.CancelDeadline == 0 {
		o.CancelDeadline = 2 * time.Second
	}
	if o.ServerPatience == 0 {
		o.ServerPatience = 10 * time.Second
	}
	if o.Silence == 0 {
		o.Silence = time.Minute
	}
	if o.SlowStart == 0 {
		o.SlowStart = time.Second
	}
	if o.LearnSecrets == nil {
		o.LearnSecrets = func([]acp.EnvVariable) {}
	}
	if o.HideSecrets == nil {
		o.HideSecrets = func(text string) string { return text }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.SpareAfter == 0 {
		o.SpareAfter = 2 * time.Second
	}
	if o.Loops == nil {
		o.Loops = noLoops{}
	}
	if o.Crowd == nil {
		o.Crowd = new(Crowd)
	}
	if o.LoopEvery == 0 {
		o.LoopEvery = 2 * time.Second
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &Router{opts: o, client: client, log: o.Log, ctx: ctx, stop: stop, sessions: map[acp.SessionID]*session{}, attached: map[acp.SessionID]*attachment{}, working: map[*session]bool{}, crowded: map[*session]bool{}}
	r.spares = &spares{r: r}
	return r
}

// Close ends every session and returns when nothing of them runs any more.
func (r *Router) Close() {
	r.mu.Lock()
	open := make([]*session, 0, len(r.sessions))
	for _, s := range r.sessions {
		open = append(open, s)
	}
	r.sessions = map[acp.SessionID]*session{}
	attached := slices.Collect(maps.Values(r.attached))
	r.attached = map[acp.SessionID]*attachment{}
	r.stop()
	r.mu.Unlock()
	var wg sync.WaitGroup
	for _, a := range attached {
		wg.Go(a.close)
	}
	for _, s := range open {
		wg.Go(s.close)
	}
	wg.Go(r.spares.close)
	wg.Wait()
}

// Initialize implements acp.Agent. It starts nothing.
func (r *Router) Initialize(_ context.Context, req *acp.InitializeRequest) (*acp.InitializeResponse, error) {
	return &acp.InitializeResponse{
		ProtocolVersion: acp.ProtocolVersion,
		AgentCapabilities: acp.AgentCapabilities{
			LoadSession:        true,
			Auth:               r.authCapabilities(),
			MCPCapabilities:    acp.MCPCapabilities{HTTP: true},
			PromptCapabilities: acp.PromptCapabilities{Image: true, EmbeddedContext: true},
			SessionCapabilities: acp.SessionCapabilities{
				List:                  &acp.Supported{},
				Resume:                &acp.Supported{},
				Close:                 &acp.Supported{},
				Delete:                &acp.Supported{},
				Fork:                  &acp.Supported{},
				Title:                 &acp.Supported{},
				AdditionalDirectories: &acp.Supported{},
				SystemPrompt:          &acp.Supported{},
				Archive:               &acp.Supported{},
				Status:                &acp.Supported{},
				Options:               &acp.Supported{},
			},
		},
		AgentInfo:   &acp.Implementation{Name: "gander", Title: "Gander", Version: r.opts.Version},
		AuthMethods: r.authMethods(req.ClientCapabilities),
	}, nil
}

// NewSession implements acp.Agent. It makes the cheap checks only.
func (r *Router) NewSession(ctx context.Context, req *acp.NewSessionRequest) (*acp.NewSessionResponse, error) {
	cwd, err := directory("cwd", req.CWD)
	if err != nil {
		return nil, err
	}
	dirs, err := r.additional(req.AdditionalDirectories)
	if err != nil {
		return nil, err
	}
	wish, err := wished(req.Wishes)
	if err != nil {
		return nil, err
	}
	s, err := r.openSession(ctx, cwd, dirs, req.MCPServers, aliases(req.Meta), wish)
	if err != nil {
		return nil, err
	}
	s.acknowledge(ctx)
	acp.AfterReply(ctx, s.announce)
	state := s.firstState()
	return &acp.NewSessionResponse{SessionID: s.id, Modes: state.modes, ConfigOptions: state.options, Meta: s.meta()}, nil
}

// additional checks the directories that the editor adds.
func (r *Router) additional(dirs []string) ([]string, error) {
	var out []string
	for i, d := range dirs {
		field := fmt.Sprintf("additionalDirectories[%d]", i)
		dir, err := directory(field, d)
		if err != nil {
			return nil, err
		}
		if err := r.mayShow(dir); err != nil {
			return nil, acp.InvalidParams(fmt.Sprintf("%s: %v", field, err), nil)
		}
		out = append(out, dir)
	}
	return out, nil
}

// directory checks that path is an absolute path of a directory.
func directory(field, path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", acp.InvalidParams(fmt.Sprintf("%s must be an absolute path, got %q", field, path), nil)
	}
	path = filepath.Clean(path)
	info, err := os.Stat(path)
	if err != nil {
		return "", acp.InvalidParams(fmt.Sprintf("%s: %v", field, err), nil)
	}
	if !info.IsDir() {
		return "", acp.InvalidParams(fmt.Sprintf("%s: %s is not a directory", field, path), nil)
	}
	return path, nil
}

// onlyRead reports whether a directory that the editor adds is one that the person's
// configuration has sandboxes only read.
func (r *Router) onlyRead(dir string) bool {
	return slices.ContainsFunc(r.opts.ReadOnly, func(shown string) bool {
		return project.Below(realPath(dir), realPath(shown))
	})
}

// realPath is an absolute path without links; as it is when it cannot be resolved.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}

// mayShow decides about a directory that the editor adds: it may become writable in
// the sandbox, so neither the system nor anything of gander's own may be in it.
func (r *Router) mayShow(dir string) error {
	private := append([]string{r.opts.StateDir}, r.opts.Private...)
	p, err := project.Open(dir, private...)
	if err != nil {
		return err
	}
	for _, own := range private {
		if real, err := filepath.EvalSymlinks(own); own != "" && err == nil && project.Below(p.Path, real) {
			return fmt.Errorf("%s belongs to gander's own state, which a sandbox must not see", dir)
		}
	}
	return nil
}

func (r *Router) openSession(ctx context.Context, cwd string, dirs []string, servers []json.RawMessage, meta aliased, wish wishes) (*session, error) {
	choice, err := r.choose(cwd)
	if err != nil {
		return nil, acp.Internal(err.Error(), nil)
	}
	agent, err := r.agent(cmp.Or(meta.agent, choice.Agent))
	if err != nil {
		return nil, err
	}
	if err := agent.Check(ctx); err != nil {
		return nil, r.lacking(err)
	}
	driver, err := r.driver(ctx, choice.Sandbox)
	if err != nil {
		return nil, acp.Internal(err.Error(), nil)
	}
	if meta.access != "" && meta.access != AccessWrite && meta.access != AccessRead {
		return nil, acp.InvalidParams(fmt.Sprintf("_meta.access: %q is not one of %s, %s", meta.access, AccessWrite, AccessRead), nil)
	}
	id := acp.SessionID(sessions.NewID())
	var made *spare
	if len(dirs) == 0 {
		made = r.spares.take(agent, driver, cwd)
	}
	if made != nil {
		id = made.id
	}
	transcript, release, err := r.create(sessions.Header{
		SessionID: id, SessionKey: cmp.Or(meta.session, r.sessionKey(id)), AgentID: agent.Name(),
		WorkspacePath: cwd, WorkingPath: cwd, AdditionalDirectories: dirs, Temporary: meta.off,
		ParentID: r.opts.Parent, Origin: r.origin(),
	})
	if err != nil {
		if made != nil {
			made.discard(r)
		}
		return nil, fmt.Errorf("recording the session: %w; make room in gander's home, or choose another one with --home or GANDER_HOME", err)
	}
	s := newSession(r, id, cwd, dirs, setting{agent, driver, cmp.Or(r.opts.Tools, ToolsNative), cmp.Or(meta.access, AccessWrite)}, transcript)
	if meta.access == AccessRead {
		s.record("", sessions.ConfigChange{ConfigID: optionAccess, Value: quote(AccessRead)})
	}
	s.claim, s.spare, s.unkept = release, made, meta.off
	if choice.Model != "" && agent.Name() == choice.Agent {
		s.want[acp.CategoryModel] = choice.Model
	}
	if choice.Approve != "" {
		s.permissions = choice.Approve
	}
	if !r.add(s) {
		s.close()
		return nil, acp.Internal("gander is shutting down", nil)
	}
	s.compareFiles(r.opts.Changes)
	if err := r.furnish(ctx, s, servers, wish); err != nil { // nobody knows of it
		return nil, cmp.Or(r.kept().Erase(context.WithoutCancel(ctx), id), err)
	}
	s.startEarly()
	return s, nil
}

// create makes a session in the store that nobody else runs.
func (r *Router) create(h sessions.Header) (*sessions.Transcript, func(), error) {
	release, err := r.opts.Store.Claim(h.SessionID)
	if err != nil {
		return nil, nil, err
	}
	transcript, err := r.opts.Store.Create(h)
	if err != nil {
		release()
		return nil, nil, err
	}
	return transcript, release, nil
}

// add reports false once Close has begun.
func (r *Router) add(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return false
	}
	r.sessions[s.id] = s
	return true
}

func (r *Router) choose(cwd string) (Choice, error) {
	if r.opts.Choose == nil {
		return Choice{Agent: r.opts.Agent, Sandbox: r.opts.Sandbox}, nil
	}
	return r.opts.Choose(cwd)
}

// newID is an id of a turn or a message: unique for ever, ordered by time.
func newID() string {
	id, err := uuid.NewV7()
	if err != nil {
		panic(err) // the system has no randomness
	}
	return id.String()
}

func (r *Router) agent(name string) (sandbox.Agent, error) {
	names := make([]string, 0, len(r.opts.Agents))
	for _, a := range r.opts.Agents {
		if a.Name() == name {
			return a, nil
		}
		names = append(names, a.Name())
	}
	return nil, acp.InvalidParams(fmt.Sprintf("there is no agent %q; choose one of %s", name, strings.Join(names, ", ")), nil)
}

// driver resolves a sandbox choice to a driver that should work here.
func (r *Router) driver(ctx context.Context, name string) (sandbox.Driver, error) {
	var reasons []string
	for _, d := range r.opts.Drivers {
		if name != d.Name() && (name != Auto || d.Name() == sandbox.Off) {
			continue
		}
		err := d.Check(ctx)
		if err == nil {
			return d, nil
		}
		reasons = append(reasons, fmt.Sprintf("%s: %v", d.Name(), err))
	}
	if len(reasons) == 0 {
		return nil, fmt.Errorf("there is no sandbox %q", name)
	}
	return nil, fmt.Errorf("no sandbox can be made here (%s)", strings.Join(reasons, "; "))
}

func (r *Router) session(id acp.SessionID) (*session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sessions[id]
	if s == nil {
		return nil, acp.SessionNotFound(id)
	}
	return s, nil
}

// Prompt implements acp.Agent. ctx must be a request's: the session's next turn
// begins when its response is on the way.
func (r *Router) Prompt(ctx context.Context, req *acp.PromptRequest) (*acp.PromptResponse, error) {
	if a := r.attachment(req.SessionID); a != nil {
		return a.prompt(ctx, req)
	}
	s, err := r.session(req.SessionID)
	if err != nil {
		return nil, err
	}
	if err := canBeAnswered(req.Prompt); err != nil {
		return nil, err
	}
	meta := aliases(req.Meta)
	if err := s.asAliased(ctx, meta); err != nil {
		return nil, err
	}
	t := s.admit(ctx, req.Prompt)
	if t == nil {
		return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
	}
	t.fresh = meta.fresh
	acp.AfterReply(ctx, func() { s.titled(context.WithoutCancel(ctx)) })
	acp.AfterReply(ctx, t.dequeue)
	acp.Release(ctx)
	return t.run()
}

// canBeAnswered refuses a prompt that agents would answer with nothing: goose and opencode
// drop audio without a word.
func canBeAnswered(prompt []acp.ContentBlock) error {
	if len(prompt) == 0 {
		return acp.InvalidParams("prompt is empty", nil)
	}
	for i, block := range prompt {
		if acp.ContentType(block) == "audio" {
			return acp.InvalidParams(fmt.Sprintf("prompt[%d] is audio, which is not taken here (promptCapabilities.audio is false); send its words as text", i), nil)
		}
	}
	return nil
}

// Cancel implements acp.Agent: the running turn and every waiting one end as
// cancelled. For an idle or unknown session it does nothing.
func (r *Router) Cancel(_ context.Context, n *acp.CancelNotification) {
	if a := r.attachment(n.SessionID); a != nil {
		a.cancelPrompts()
		return
	}
	if s, err := r.session(n.SessionID); err == nil {
		s.cancelTurns(errCancelled)
		return
	}
	if c := r.child(n.SessionID); c != nil {
		c.s.spawn(c.cancelled)
	}
}

// SetSessionMode implements acp.ModeSetter.
func (r *Router) SetSessionMode(ctx context.Context, req *acp.SetSessionModeRequest) (*acp.SetSessionModeResponse, error) {
	if a := r.attachment(req.SessionID); a != nil {
		return nil, a.chosen()
	}
	s, err := r.session(req.SessionID)
	if err != nil {
		return nil, err
	}
	if err := s.setMode(ctx, req.ModeID); err != nil {
		return nil, err
	}
	s.acknowledge(ctx)
	return &acp.SetSessionModeResponse{}, nil
}

// SetConfigOption implements acp.ConfigOptionSetter. The response is the complete list.
func (r *Router) SetConfigOption(ctx context.Context, req *acp.SetConfigOptionRequest) (*acp.SetConfigOptionResponse, error) {
	if a := r.attachment(req.SessionID); a != nil {
		return nil, a.chosen()
	}
	s, err := r.session(req.SessionID)
	if err != nil {
		return nil, err
	}
	value, ok := optionValue(req.Value)
	if !ok {
		return nil, acp.InvalidParams(fmt.Sprintf("the value of %q must be a string", req.ConfigID), nil)
	}
	if err := s.setOption(ctx, req.ConfigID, value); err != nil {
		return nil, err
	}
	s.acknowledge(ctx)
	return &acp.SetConfigOptionResponse{ConfigOptions: s.current().options}, nil
}

// names are the names of things that have one, for options.
func names[T interface{ Name() string }](things []T) []string {
	out := make([]string, len(things))
	for i, t := range things {
		out[i] = t.Name()
	}
	return out
}
