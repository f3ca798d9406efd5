package acp

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"gander.dev/gander/conformance/harness"
)

type (
	frame   = harness.Frame
	request = harness.Request
)

// An agent is one running process of the command under test, with an editor's
// view of it: what was asked, what was told, which sessions there are.
type agent struct {
	*harness.Peer
	runner *runner
	// answer decides about requests of the agent; nil allows what is asked once.
	// It returns nil to leave a request open. It runs on a goroutine of its own.
	answer func(q question) any

	// mu guards what follows.
	mu        sync.Mutex
	sent      map[string]sent // requests without a response, by id
	sessions  map[string]*seen
	updates   []update
	questions []question
	withdrawn map[string]bool // questions that the agent took back

	offers bool // the client offers everything
}

// sent is a request of the client's.
type sent struct{ method, session string }

// seen is what is known of a session.
type seen struct {
	known   bool  // the client has its id
	parent  *seen // of a sub-agent's
	running int   // requests during which the agent may speak of a turn
	tools   map[string]bool
	open    map[string]bool // tool calls without a final status
}

// An update is a session/update.
type update struct {
	n             int
	session       string
	raw           json.RawMessage
	SessionUpdate string
	ToolCallID    string
	Title         string
	Kind          string
	Status        string
	CurrentModeID string
	Content       json.RawMessage
	ConfigOptions []option
	RawInput      json.RawMessage
	RawOutput     json.RawMessage
	Locations     []struct{ Path string }
}

func (u update) final() bool { return u.Status == "completed" || u.Status == "failed" }

// text is all text in the content of an update.
func (u update) text() string { return texts(u.Content) }

func texts(content json.RawMessage) string {
	var v any
	if json.Unmarshal(content, &v) != nil {
		return ""
	}
	var b strings.Builder
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			if s, ok := v["text"].(string); ok {
				b.WriteString(s)
			}
			walk(v["content"])
		}
	}
	walk(v)
	return b.String()
}

// A question is a request of the agent's.
type question struct {
	id, method string
	params     json.RawMessage
	Permission struct {
		SessionID string
		ToolCall  update
		Options   []struct{ OptionID, Name, Kind string }
	}
}

// pick is the id of the first option of a kind.
func (q question) pick(kind string) (string, bool) {
	for _, o := range q.Permission.Options {
		if o.Kind == kind {
			return o.OptionID, true
		}
	}
	return "", false
}

// selected answers a permission request with an option, cancelled without one.
func selected(id string) any {
	return map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": id}}
}

func cancelled() any { return map[string]any{"outcome": map[string]any{"outcome": "cancelled"}} }

// by answers permission requests with the first option of a kind.
func by(kind string) func(question) any {
	return func(q question) any {
		if id, ok := q.pick(kind); ok {
			return selected(id)
		}
		return cancelled()
	}
}

// launch says how to start an agent.
type launch struct {
	env    []string // added
	answer func(question) any
}

// start runs the command under test in the home, which is nobody's project.
func (r *runner) start(l launch) (*agent, error) {
	r.marks++
	a := &agent{runner: r, answer: l.answer, sent: map[string]sent{}, sessions: map[string]*seen{}, withdrawn: map[string]bool{}}
	if a.answer == nil {
		a.answer = by("allow_once")
	}
	command := make([]string, len(r.o.Command))
	for i, word := range r.o.Command {
		command[i] = r.expand(word)
	}
	var err error
	a.Peer, err = harness.Start(harness.Launch{
		Command: command, Dir: r.home, Environ: r.environ(l.env), Mark: fmt.Sprintf("%s_s%d", r.mark, r.marks), Patience: r.o.Timeout,
		Hear: a.hear, Request: a.asked,
	})
	if err != nil {
		return nil, err
	}
	r.agents = append(r.agents, a)
	return a, nil
}

// ask sends a request.
func (a *agent) ask(method string, params any) *request {
	id := a.NextID()
	r := a.expect(id, method, params)
	_ = a.Send(harness.RequestLine(id, method, params))
	return r
}

// expect notes a request that the check sends itself.
func (a *agent) expect(id, method string, params any) *request {
	var p struct{ SessionID string }
	_ = json.Unmarshal([]byte(harness.Marshal(params)), &p) // without one it is none
	key, _ := harness.Canonical([]byte(id))
	a.mu.Lock()
	a.sent[string(key)] = sent{method, p.SessionID}
	if p.SessionID != "" {
		s := a.seen(p.SessionID)
		switch method {
		case "session/prompt", "session/load":
			s.running++
		}
		if method == "session/load" || method == "session/resume" {
			s.known = true
		}
	}
	a.mu.Unlock()
	return a.Expect(id)
}

// seen is the session with an id. mu is held.
func (a *agent) seen(id string) *seen {
	s := a.sessions[id]
	if s == nil {
		s = &seen{tools: map[string]bool{}, open: map[string]bool{}}
		a.sessions[id] = s
	}
	return s
}

// hear judges every frame as it comes.
func (a *agent) hear(f *frame) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(f.Raw) > maxFrame {
		a.found("overall.size", "a frame of %d bytes: %s", len(f.Raw), harness.Excerpt(f.Raw))
	}
	switch {
	case f.Method != "" && f.ID != nil:
		a.heardRequest(f)
	case f.Method != "":
		a.heardNote(f)
	default:
		a.heardResponse(f)
	}
}

func (a *agent) found(check, format string, args ...any) {
	a.runner.found.add(check, fmt.Sprintf(format, args...))
}

// shaped judges a part of a frame.
func (a *agent) shaped(f *frame, what string, text json.RawMessage, shape string) {
	j := judge{a.runner.grammar, func(kind objection, where, problem string) {
		check := map[objection]string{misshapen: "overall.schema", ownField: "overall.own-fields", badPath: "overall.paths"}[kind]
		a.found(check, "%s: %s %s, in %s", what, strings.TrimPrefix(where, "."), problem, harness.Excerpt(f.Raw))
	}}
	j.message(text, shape)
}

func (a *agent) heardRequest(f *frame) {
	if strings.HasPrefix(f.Method, "_") {
		return
	}
	known, ok := asked()[f.Method]
	if !ok {
		a.found("overall.schema", "the request %s is none of the protocol's: %s", f.Method, harness.Excerpt(f.Raw))
		return
	}
	if known.capability != "" {
		a.found("overall.client-methods", "%s is asked of a client that does not offer %s: %s", f.Method, known.capability, harness.Excerpt(f.Raw))
	}
	a.shaped(f, f.Method, f.Params, known.shape)
}

func (a *agent) heardNote(f *frame) {
	if strings.HasPrefix(f.Method, "_") {
		return
	}
	shape, ok := told()[f.Method]
	if !ok {
		a.found("overall.schema", "the notification %s is none of the protocol's: %s", f.Method, harness.Excerpt(f.Raw))
		return
	}
	a.shaped(f, f.Method, f.Params, shape)
	switch f.Method {
	case "session/update":
		a.heardUpdate(f)
	case "$/cancel_request":
		var p struct{ RequestID json.RawMessage }
		_ = json.Unmarshal(f.Params, &p) // the shape says what is wrong
		a.withdrawn[string(p.RequestID)] = true
	}
}

func (a *agent) heardUpdate(f *frame) {
	var p struct {
		SessionID string
		Update    json.RawMessage
	}
	_ = json.Unmarshal(f.Params, &p) // the shape says what is wrong
	u := update{n: f.N, session: p.SessionID, raw: p.Update}
	_ = json.Unmarshal(p.Update, &u)
	a.updates = append(a.updates, u)
	s := a.seen(p.SessionID)
	if by, must := unoffered[u.SessionUpdate]; must && !a.offers {
		a.found("overall.unoffered", "%s is told to a client that does not offer %s: %s", u.SessionUpdate, by, harness.Excerpt(f.Raw))
	}
	if u.SessionUpdate == "subagent_update" {
		a.child(s, u.member("sessionId"))
	}
	if !s.known {
		a.found("overall.early", "an update before the client knows the session: %s", harness.Excerpt(f.Raw))
	}
	switch u.SessionUpdate {
	case "user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "plan", "tool_call", "tool_call_update":
		if s.known && !s.inTurn() {
			a.found("overall.late", "%s outside of any turn: %s", u.SessionUpdate, harness.Excerpt(f.Raw))
		}
	}
	switch u.SessionUpdate {
	case "tool_call":
		s.tools[u.ToolCallID], s.open[u.ToolCallID] = true, !u.final()
	case "tool_call_update":
		if !s.tools[u.ToolCallID] {
			a.found("overall.tool-calls", "an update of a tool call that was not announced: %s", harness.Excerpt(f.Raw))
		}
		if u.final() {
			s.open[u.ToolCallID] = false
		}
	}
}

// child notes a session of the agent's own, which speaks while its parent's turn runs. mu is held.
func (a *agent) child(parent *seen, id string) {
	c := a.seen(id)
	if !c.known && id != "" {
		c.known, c.parent = true, parent
	}
}

// inTurn reports whether a session may tell of a turn.
func (s *seen) inTurn() bool { return s.running > 0 || s.parent != nil && s.parent.inTurn() }

func (a *agent) heardResponse(f *frame) {
	key, err := harness.Canonical(f.ID)
	was, ok := a.sent[string(key)]
	if err != nil || !ok {
		return
	}
	delete(a.sent, string(key))
	s := a.sessions[was.session]
	switch was.method {
	case "session/prompt", "session/load":
		if s != nil {
			s.running--
			a.atRest(s, f)
		}
	}
	if f.Error != nil {
		return
	}
	if shape, ok := results()[was.method]; ok {
		a.shaped(f, "the result of "+was.method, f.Result, shape)
	}
	var result struct{ SessionID string }
	_ = json.Unmarshal(f.Result, &result)
	if result.SessionID != "" {
		a.seen(result.SessionID).known = true
	}
}

// atRest judges the tool calls at the end of a turn. mu is held.
func (a *agent) atRest(s *seen, f *frame) {
	if s.running > 0 {
		return
	}
	for id, open := range s.open {
		if open {
			a.found("overall.tool-ends", "the tool call %s has no final status when its turn is answered with %s", id, harness.Excerpt(f.Raw))
		}
	}
	clear(s.open)
}

// asked answers a request of the agent.
func (a *agent) asked(f *frame) {
	q := question{id: string(f.ID), method: f.Method, params: f.Params}
	_ = json.Unmarshal(f.Params, &q.Permission) // the shape says what is wrong
	a.mu.Lock()
	a.questions = append(a.questions, q)
	answer := a.answer
	a.mu.Unlock()
	go func() {
		if f.Method != "session/request_permission" {
			_ = a.Send(`{"jsonrpc":"2.0","id":` + q.id + `,"error":{"code":-32601,"message":"the client does not offer this"}}`)
			return
		}
		if result := answer(q); result != nil {
			a.reply(q, result)
		}
	}()
}

func (a *agent) reply(q question, result any) {
	_ = a.Send(`{"jsonrpc":"2.0","id":` + q.id + `,"result":` + harness.Marshal(result) + `}`)
}

// answering sets what permission requests are answered with from now on.
func (a *agent) answering(answer func(question) any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

// of are the updates of a session after frame n.
func (a *agent) of(session string, n int) []update {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []update
	for _, u := range a.updates {
		if u.session == session && u.n > n {
			all = append(all, u)
		}
	}
	return all
}

// permissions are the requests for permission in a session.
func (a *agent) permissions(session string) []question {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []question
	for _, q := range a.questions {
		if q.method == "session/request_permission" && q.Permission.SessionID == session {
			all = append(all, q)
		}
	}
	return all
}
