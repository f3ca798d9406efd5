package orchestrator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/conformance/model"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/team/orchestrator"
	"gander.dev/gander/sessions"
)

// patience bounds the wait for something that should come at once.
const patience = 60 * time.Second

// rig is an orchestrator between a scripted planner and agents that a test plays.
type rig struct {
	t      *testing.T
	dir    string
	model  *model.Server
	addr   string
	limits orchestrator.Limits
	agents []orchestrator.Member
	chosen map[string]string
	team   *team
	agent  *orchestrator.Agent
	conv   sandbox.AgentSession
	answer func(*acp.RequestPermissionRequest) string // the option that the person chooses

	planner   string // the agent that plans
	toolless  bool   // the endpoint takes no tools
	children  bool   // the editor shows child sessions
	installed string

	// mu guards what follows.
	mu      sync.Mutex
	turn    int
	updates []json.RawMessage
	within  map[acp.SessionID][]string // child sessions
	live    []string
	notices []string
	asked   []*acp.RequestPermissionRequest
	steps   map[string]sessions.Step
}

// newRig makes a rig; adjust changes it before the conversation is opened.
func newRig(t *testing.T, adjust func(*rig)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), limits: orchestrator.DefaultLimits(), chosen: map[string]string{}, within: map[acp.SessionID][]string{}, steps: map[string]sessions.Step{}}
	r.model = model.New(model.Options{})
	server := httptest.NewServer(r)
	t.Cleanup(func() { _ = r.model.Close(); server.Close() })
	r.addr = server.Listener.Addr().String()
	well := func(context.Context) error { return nil }
	r.agents = []orchestrator.Member{
		{Name: "goose", Description: "mends things", Mode: "auto", AskingMode: "approve", Check: well},
		{Name: "owl", Description: "looks at things", Access: "read", Check: well},
		{Name: "dodo", Check: func(context.Context) error { return errors.New("dodo is extinct; hatch one") }},
	}
	r.team = &team{t: t, sessions: map[acp.SessionID]*member{}}
	if adjust != nil {
		adjust(r)
	}
	r.agent = orchestrator.New(orchestrator.Options{
		Settings: func() (orchestrator.Settings, error) {
			return orchestrator.Settings{Model: "scripted", Planner: r.planner}, nil
		},
		Team: r.team.connect, Members: func() []orchestrator.Member { return slices.Clone(r.agents) },
		Limits:    func() orchestrator.Limits { return r.limits },
		Artifacts: filepath.Join(r.dir, "artifacts"), Workspace: filepath.Join(r.dir, "workspace"),
		Install: func(agent, skill string, text []byte) (string, error) {
			r.installed = agent + "/" + skill + "\n" + string(text)
			return "/skills/" + skill, nil
		},
	})
	r.open("")
	return r
}

// ServeHTTP is the planner's endpoint.
func (r *rig) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	if r.toolless && bytes.Contains(body, []byte(`"tools":[`)) {
		http.Error(w, `{"error":{"message":"tools are not supported"}}`, http.StatusBadRequest)
		return
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	r.model.ServeHTTP(w, req)
}

// open opens the conversation, as the next process does with what is kept of it.
func (r *rig) open(resume string) {
	r.t.Helper()
	conv, err := r.agent.OpenHosted(r.t.Context(), sandbox.HostedParams{
		SessionParams: sandbox.SessionParams{WorkingDir: r.dir, ModelToken: "token", Client: (*person)(r), ResumeID: resume},
		Session:       "parent",
		Children:      r.children,
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", r.addr)
		},
		Turn: func() string {
			r.mu.Lock()
			defer r.mu.Unlock()
			return fmt.Sprintf("turn-%d", r.turn)
		},
		Chosen: func() map[string]string {
			return map[string]string{"access": r.chosen["access"], "sandbox": r.chosen["sandbox"]}
		},
		Live: func(u json.RawMessage) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.live = append(r.live, string(u))
		},
		Notice: func(_, text string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.notices = append(r.notices, text)
		},
		Step: func(s sessions.Step) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.steps[s.Key] = s
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.conv = conv
	r.t.Cleanup(func() { _ = conv.Close() })
}

// step is one answer of the planner's model.
type step map[string]any

// call is a step that calls a tool.
func call(tool string, args map[string]any) step { return step{"tool": tool, "args": args} }

// calls is a step that calls several.
func calls(all ...step) step { return step{"tools": all} }

func delegate(agent, task, message string) step {
	return call("delegate_to_agent", map[string]any{"targetAgentId": agent, "taskKey": task, "message": message})
}

func finish(message string) step { return call("finish", map[string]any{"message": message}) }

// prompt returns the words of the person, with the answers of the planner in them.
func prompt(t *testing.T, steps ...step) string {
	t.Helper()
	raw, err := json.Marshal(steps)
	if err != nil {
		t.Fatal(err)
	}
	return "please " + model.Embed(string(raw))
}

// ask runs a turn.
func (r *rig) ask(steps ...step) (*acp.PromptResponse, error) {
	r.t.Helper()
	r.mu.Lock()
	r.turn++
	r.mu.Unlock()
	ctx, done := context.WithTimeout(r.t.Context(), patience)
	defer done()
	return r.conv.Prompt(ctx, []acp.ContentBlock{acp.TextBlock(prompt(r.t, steps...))})
}

// want runs a turn and fails the test unless it ends so.
func (r *rig) want(stop acp.StopReason, steps ...step) {
	r.t.Helper()
	resp, err := r.ask(steps...)
	if err != nil || resp.StopReason != stop {
		r.t.Fatalf("the turn ended with %+v, %v; want %s\nshown: %s", resp, err, stop, strings.Join(r.shown(), "\n"))
	}
}

// shown are the updates that the person got.
func (r *rig) shown() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, u := range r.updates {
		out = append(out, string(u))
	}
	return out
}

// said returns the messages to the person.
func (r *rig) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, u := range r.updates {
		if acp.UpdateKind(u) == acp.AgentMessageChunk {
			b.WriteString(acp.ParseContentBlock(acp.Member(u, "content")).Text)
		}
	}
	return b.String()
}

// told returns the last result that the planner's model was given.
func (r *rig) told() string {
	all := r.results()
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// results returns what the planner's model was given, request by request.
func (r *rig) results() (all []string) {
	for _, q := range r.model.Requests() {
		for _, m := range q.Messages {
			if m.Role == "tool" || m.Role == "user" && strings.HasPrefix(m.Content, "Result of") {
				all = append(all, m.Content)
			}
		}
	}
	return all
}

// person takes what the orchestrator shows and asks.
type person rig

func (p *person) SessionUpdate(_ context.Context, n *acp.SessionNotification) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n.SessionID != "" {
		p.within[n.SessionID] = append(p.within[n.SessionID], string(n.Update))
		return nil
	}
	p.updates = append(p.updates, slices.Clone(n.Update))
	return nil
}

func (p *person) RequestPermission(_ context.Context, req *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	p.mu.Lock()
	p.asked = append(p.asked, req)
	p.mu.Unlock()
	if p.answer == nil {
		return acp.CancelledOutcome(), nil
	}
	return &acp.RequestPermissionResponse{Outcome: acp.PermissionOutcome{Outcome: "selected", OptionID: p.answer(req)}}, nil
}

func (p *person) HandleRequest(_ context.Context, method string, params json.RawMessage) (any, error) {
	return map[string]string{"content": method + " " + string(acp.Member(params, "path"))}, nil
}

// team plays the agents that get tasks, as a router shows them.
type team struct {
	t *testing.T
	// work is a turn of an agent.
	work func(ctx context.Context, m *member, text string) (*acp.PromptResponse, error)

	// mu guards what follows.
	mu       sync.Mutex
	client   *acp.ClientConn
	opened   int
	sessions map[acp.SessionID]*member
	prompts  []string // as JSON
	cancels  int
	closed   []acp.SessionID
}

// member is a session of an agent.
type member struct {
	team      *team
	id        acp.SessionID
	agent     string
	key       string
	options   map[string]string
	cancelled chan struct{}
}

func (tm *team) connect(_ acp.SessionID, c acp.Client) (orchestrator.Team, error) {
	inner, outer := net.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = acp.ServeAgent(ctx, inner, func(client *acp.ClientConn) acp.Agent {
			tm.mu.Lock()
			defer tm.mu.Unlock()
			tm.client = client
			return tm
		}, nil)
	}()
	conn := acp.DialAgent(outer, c, nil)
	return orchestrator.Team{AgentConn: conn, Close: func() { _ = conn.Close(); stop(); <-served }}, nil
}

func (tm *team) Initialize(context.Context, *acp.InitializeRequest) (*acp.InitializeResponse, error) {
	return &acp.InitializeResponse{ProtocolVersion: acp.ProtocolVersion}, nil
}

func (tm *team) NewSession(_ context.Context, req *acp.NewSessionRequest) (*acp.NewSessionResponse, error) {
	var meta struct{ Agent, SessionKey, Access string }
	_ = json.Unmarshal(req.Meta, &meta)
	tm.mu.Lock()
	defer tm.mu.Unlock()
	tm.opened++
	m := &member{
		team: tm, id: acp.SessionID(fmt.Sprintf("child-%d", tm.opened)), agent: meta.Agent, key: meta.SessionKey,
		options: map[string]string{"access": meta.Access, "mode": "auto", "sandbox": "box"}, cancelled: make(chan struct{}, 1),
	}
	tm.sessions[m.id] = m
	return &acp.NewSessionResponse{SessionID: m.id, ConfigOptions: m.shown()}, nil
}

func (m *member) shown() []acp.ConfigOption {
	var all []acp.ConfigOption
	for _, id := range []string{"access", "mode", "sandbox"} {
		value, _ := json.Marshal(m.options[id])
		all = append(all, acp.ConfigOption{ID: id, Name: id, Type: "select", CurrentValue: value})
	}
	return all
}

func (tm *team) ResumeSession(_ context.Context, req *acp.ResumeSessionRequest) (*acp.ResumeSessionResponse, error) {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return &acp.ResumeSessionResponse{ConfigOptions: tm.sessions[req.SessionID].shown()}, nil
}

func (tm *team) CloseSession(_ context.Context, req *acp.CloseSessionRequest) (*acp.CloseSessionResponse, error) {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	tm.closed = append(tm.closed, req.SessionID)
	return &acp.CloseSessionResponse{}, nil
}

func (tm *team) ListSessions(context.Context, *acp.ListSessionsRequest) (*acp.ListSessionsResponse, error) {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	out := &acp.ListSessionsResponse{Sessions: []acp.SessionInfo{}}
	for i := tm.opened; i > 0; i-- {
		m := tm.sessions[acp.SessionID(fmt.Sprintf("child-%d", i))]
		meta, _ := json.Marshal(map[string]any{"gander.dev": map[string]string{"agent": m.agent, "sessionKey": m.key, "stopReason": "end_turn"}})
		out.Sessions = append(out.Sessions, acp.SessionInfo{SessionID: m.id, CWD: "/", Meta: meta})
	}
	return out, nil
}

func (tm *team) SetConfigOption(_ context.Context, req *acp.SetConfigOptionRequest) (*acp.SetConfigOptionResponse, error) {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	m := tm.sessions[req.SessionID]
	var value string
	_ = json.Unmarshal(req.Value, &value)
	m.options[req.ConfigID] = value
	return &acp.SetConfigOptionResponse{ConfigOptions: m.shown()}, nil
}

func (tm *team) Prompt(ctx context.Context, req *acp.PromptRequest) (*acp.PromptResponse, error) {
	tm.mu.Lock()
	m := tm.sessions[req.SessionID]
	raw, _ := json.Marshal(req.Prompt)
	tm.prompts = append(tm.prompts, string(raw))
	tm.mu.Unlock()
	acp.Release(ctx) // others go on meanwhile
	if tm.work == nil {
		m.say("It is done.")
		return &acp.PromptResponse{StopReason: acp.StopEndTurn, Usage: json.RawMessage(`{"inputTokens":100,"outputTokens":10,"totalTokens":110}`)}, nil
	}
	return tm.work(ctx, m, acp.ParseContentBlock(req.Prompt[0]).Text)
}

func (tm *team) Cancel(_ context.Context, n *acp.CancelNotification) {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	tm.cancels++
	select {
	case tm.sessions[n.SessionID].cancelled <- struct{}{}:
	default:
	}
}

// given are the prompts of agents.
func (tm *team) given() []string {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return slices.Clone(tm.prompts)
}

func (m *member) show(u json.RawMessage) {
	_ = m.team.client.SessionUpdate(context.Background(), &acp.SessionNotification{SessionID: m.id, Update: u})
}

func (m *member) say(text string) { m.show(acp.MessageChunk(acp.AgentMessageChunk, "m", text)) }

func ended() (*acp.PromptResponse, error) {
	return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
}
