package router

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/rules/permit"
	"gander.dev/gander/sessions"
)

// The values of the config option "permissions": which of an agent's questions the
// person is asked. What an agent may do without asking is its mode's to say, and
// what it can do is its sandbox's.
const (
	PermissionsAsk   = "ask"   // all
	PermissionsReads = "reads" // all but those about reading and searching
	PermissionsAll   = "all"   // none
)

// permissionsAsked counts the questions of a session by how they were answered.
type permissionsAsked struct {
	person     int // allowed or refused by the person, or not answered
	remembered int // by what the person said earlier
	policy     int // by the option "permissions"
}

func (p permissionsAsked) total() int { return p.person + p.remembered + p.policy }

// permissionOption is the config option.
func permissionOption(current string) acp.ConfigOption {
	values := []acp.ConfigOptionValue{
		{Value: PermissionsAsk, Name: "Ask", Description: "You answer every question of the agent, but for those you have answered for good."},
		{Value: PermissionsReads, Name: "Reads allowed", Description: "Questions about reading and searching are allowed where the sandbox isolates."},
		{Value: PermissionsAll, Name: "All allowed", Description: "Every question of the agent is allowed where the sandbox isolates: it bounds what can happen."},
	}
	raw, _ := json.Marshal(values) // strings always marshal
	return acp.ConfigOption{
		ID: optionPermissions, Name: "Permissions", Type: "select", CurrentValue: quote(current), Options: raw,
		Description: "Which of the agent's questions you are asked.",
	}
}

// setPermissions changes the option.
func (s *session) setPermissions(value string) {
	s.mu.Lock()
	s.permissions = value
	s.mu.Unlock()
	s.record("", sessions.ConfigChange{ConfigID: optionPermissions, Value: quote(value)})
	s.publish()
}

// RequestPermission implements acp.Client. What the person has said for good, or by
// the option "permissions", answers; else the person does, with the agent's own
// options. Nothing else approves.
func (r *relay) RequestPermission(ctx context.Context, req *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	r.mu.Lock()
	t := r.turn
	if t == nil {
		r.mu.Unlock()
		return acp.CancelledOutcome(), nil
	}
	ask := *req
	ask.SessionID = r.s.id
	k, c := r.asker(t, req.SessionID)
	hosted := r.b.hosted() // it passes on what was looked at where the question came from
	if hosted {
		ask.ToolCall = acp.WithFields(ask.ToolCall, map[string]any{"toolCallId": k.shownID(stringOf(acp.Member(ask.ToolCall, "toolCallId")))})
	} else {
		ask.ToolCall, ask.Meta = k.describe(withoutOurs(req.ToolCall)), ourless(req.Meta)
	}
	q := r.question(k, req.ToolCall)
	r.mu.Unlock()
	switch {
	case c != nil:
		var done func()
		ctx, done = c.working(ctx)
		defer done()
		c.question(&ask)
	case req.SessionID != "": // nobody has announced it
		ask.ToolCall = acp.WithFields(ask.ToolCall, map[string]any{"title": "sub-agent: " + stringOf(acp.Member(ask.ToolCall, "title"))})
	}
	if hosted {
		return r.ask(ctx, t, &ask), nil
	}
	q.options = distinct(req.Options)
	if resp, why := r.answered(q); resp != nil {
		id := newID()
		if r.recordQuestion(t, id, &ask) != nil {
			return acp.CancelledOutcome(), nil
		}
		r.recordPermission(t, id, sessions.Permission{Outcome: acp.WithFields(marshal(resp.Outcome), map[string]any{"_meta": map[string]string{"gander.dev/answered": why}})})
		return resp, nil
	}
	if ask.Options = q.offer(); len(ask.Options) == 0 { // nobody could answer
		return acp.CancelledOutcome(), nil
	}
	resp := r.ask(ctx, t, &ask)
	if c != nil {
		c.answered()
	}
	return r.s.keep(q, resp), nil
}

// heardPerson notes that the person has answered a question: the agent goes on from here.
func (r *relay) heardPerson() {
	r.asking.Add(-1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noticed()
}

// ask puts a question of a turn to the person, whatever the outcome, and records
// both. A cancelled turn answers its questions.
func (r *relay) ask(ctx context.Context, t *turn, ask *acp.RequestPermissionRequest) *acp.RequestPermissionResponse {
	id := newID()
	if r.recordQuestion(t, id, ask) != nil {
		return acp.CancelledOutcome()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(t.ctx, stop)()
	r.asking.Add(1)
	resp, err := r.s.askPermission(ctx, r.b.agent.Name(), ask)
	r.heardPerson()
	if err != nil {
		r.s.log.Debug("asking for permission", "err", err)
	}
	if err != nil || t.ctx.Err() != nil || !selects(ask.Options, resp.Outcome) {
		resp = acp.CancelledOutcome()
	}
	r.recordPermission(t, id, sessions.Permission{Outcome: marshal(resp.Outcome)})
	r.s.count(func(p *permissionsAsked) { p.person++ })
	return resp
}

// count changes the numbers of questions.
func (s *session) count(f func(*permissionsAsked)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.asked)
}

// question is what the router makes of an agent's question.
type question struct {
	kind     string // ACP's, of the tool call
	subject  permit.Subject
	title    string // the subject in words
	exact    bool   // the subject says it exactly: an answer can be remembered
	isolated bool   // the sandbox bounds what the agent can do
	options  []acp.PermissionOption
}

// question reads a tool call that is asked about, with what its updates have said. mu is held.
func (r *relay) question(k *calls, call json.RawMessage) question {
	u, tc := k.askedAbout(call)
	if tc != nil && tc.several {
		return question{isolated: r.b.sb.Info().Isolated}
	}
	c := permit.Call{Agent: r.b.agent.Name(), Tool: u.Title, Kind: u.Kind, Input: u.RawInput, Dir: r.s.cwd}
	c.Paths = append(pathsIn(u.Locations, ""), pathsIn(u.Content, "diff")...)
	if tc != nil {
		c.Tool, c.Kind = cmp.Or(tc.tool, c.Tool), cmp.Or(tc.kind, c.Kind)
		if len(c.Paths) == 0 {
			c.Paths = tc.paths
		}
	}
	q := question{kind: c.Kind, isolated: r.b.sb.Info().Isolated}
	q.subject, q.title, q.exact = permit.SubjectOf(c)
	return q
}

// askedCall is a tool call as a question says it.
type askedCall struct {
	ToolCallID string          `json:"toolCallId"`
	Title      string          `json:"title"`
	Kind       string          `json:"kind"`
	Content    json.RawMessage `json:"content"`
	Locations  json.RawMessage `json:"locations"`
	RawInput   json.RawMessage `json:"rawInput"`
}

// askedAbout reads a tool call that is asked about, for what is shown of it and for what is
// decided alike: an input that the question does not say is the one that its updates, tc,
// have said. mu is held.
func (k *calls) askedAbout(call json.RawMessage) (u askedCall, tc *toolCall) {
	_ = acp.Decode(call, &u) // what cannot be read is not remembered
	if tc = k.tools.find(u.ToolCallID); tc != nil && !tc.several && isEmpty(u.RawInput) {
		u.RawInput = tc.input
	}
	return u, tc
}

// isEmpty says that an input is absent, or an object without members.
func isEmpty(input json.RawMessage) bool {
	var m map[string]json.RawMessage
	return len(input) == 0 || json.Unmarshal(input, &m) == nil && len(m) == 0
}

// pathsIn are the paths of a list of objects; with a type, only of objects of that type.
func pathsIn(list json.RawMessage, typ string) []string {
	var paths []string
	for _, raw := range listOf(list) {
		if o := fileOf(raw); (typ == "" || o.Type == typ) && o.Path != "" {
			paths = append(paths, o.Path)
		}
	}
	return paths
}

// answered answers a question without the person, if there is reason to; why says which.
func (r *relay) answered(q question) (resp *acp.RequestPermissionResponse, why string) {
	s := r.s
	if store := s.r.opts.Permissions; store != nil && q.exact {
		rule, found, err := store.Find(s.cwd, q.subject, q.isolated)
		if err != nil {
			s.notice("warning", err.Error())
		}
		if found {
			if resp := choose(q.options, rule.Allow); resp != nil {
				s.count(func(p *permissionsAsked) { p.remembered++ })
				return resp, "remembered " + rule.ID
			}
		}
	}
	s.mu.Lock()
	policy := s.permissions
	s.mu.Unlock()
	reads := q.kind == "read" || q.kind == "search"
	if policy != PermissionsAll && (policy != PermissionsReads || !reads) {
		return nil, ""
	}
	if !q.isolated {
		s.notice("warning", fmt.Sprintf("You are asked although permissions are %q: nothing bounds what the agent can do here, as this sandbox does not isolate.", policy))
		return nil, ""
	}
	if resp := choose(q.options, true); resp != nil {
		s.count(func(p *permissionsAsked) { p.policy++ })
		return resp, "permissions " + policy
	}
	return nil, ""
}

// choose is the answer that allows, or refuses, once; nil when the agent offers none.
func choose(options []acp.PermissionOption, allow bool) *acp.RequestPermissionResponse {
	kind := "reject_once"
	if allow {
		kind = "allow_once"
	}
	i := slices.IndexFunc(options, func(o acp.PermissionOption) bool { return o.Kind == kind })
	if i < 0 {
		return nil
	}
	return &acp.RequestPermissionResponse{Outcome: acp.PermissionOutcome{Outcome: "selected", OptionID: options[i].OptionID}}
}

// distinct are the options whose id is theirs alone: of others nobody can tell which one
// an answer means, and one that refuses would be remembered as one that allows.
func distinct(options []acp.PermissionOption) []acp.PermissionOption {
	times := map[string]int{}
	for _, o := range options {
		times[o.OptionID]++
	}
	return slices.DeleteFunc(slices.Clone(options), func(o acp.PermissionOption) bool { return times[o.OptionID] > 1 })
}

// maxOptionTitle bounds what an option says of the subject, in runes.
const maxOptionTitle = 60

// offer are the agent's options as the person gets them. Those that hold for good
// are gander's to keep, and say for what; where the question cannot be told from
// others exactly, or is not remembered, they are left out.
func (q *question) offer() []acp.PermissionOption {
	var out []acp.PermissionOption
	for _, o := range q.options {
		allow, always := forGood(o.Kind)
		if !always || choose(q.options, allow) == nil {
			out = append(out, o)
			continue
		}
		if !q.exact {
			continue
		}
		title := []rune(firstLine(q.title))
		if len(title) > maxOptionTitle {
			title = append(title[:maxOptionTitle], '…')
		}
		verb := "Never allow"
		if allow {
			verb = "Always allow"
		}
		o.Name = fmt.Sprintf("%s in this project: %s", verb, string(title))
		out = append(out, o)
	}
	return out
}

// forGood says whether an option of a kind holds for good, and what it does.
func forGood(kind string) (allow, always bool) {
	return kind == "allow_always", kind == "allow_always" || kind == "reject_always"
}

// keep remembers an answer that is to hold for good and gives the agent one that
// holds once: what agents remember is wider than what was asked. Goose remembers a
// tool's name.
func (s *session) keep(q question, resp *acp.RequestPermissionResponse) *acp.RequestPermissionResponse {
	i := slices.IndexFunc(q.options, func(o acp.PermissionOption) bool {
		return resp.Outcome.Outcome == "selected" && o.OptionID == resp.Outcome.OptionID
	})
	if i < 0 {
		return resp
	}
	allow, always := forGood(q.options[i].Kind)
	if !always {
		return resp
	}
	once := choose(q.options, allow)
	if once == nil {
		return resp // the agent has no other way to say it
	}
	store := s.r.opts.Permissions
	if store == nil || !q.exact {
		return once
	}
	if _, err := store.Add(s.cwd, permit.Rule{Subject: q.subject, Title: q.title, Allow: allow, Isolated: q.isolated}); err != nil {
		s.notice("warning", "Your answer holds for this once only: "+err.Error())
	}
	return once
}

// selects reports whether an outcome is the selection of one of options.
func selects(options []acp.PermissionOption, o acp.PermissionOutcome) bool {
	return o.Outcome == "selected" && slices.ContainsFunc(options, func(p acp.PermissionOption) bool { return p.OptionID == o.OptionID })
}

// recordQuestion records a question. An error means that it must be neither recorded
// nor put.
func (r *relay) recordQuestion(t *turn, id string, ask *acp.RequestPermissionRequest) error {
	raw := marshal(ask)
	if err := r.s.leaks.Check(leakAsked, raw); err != nil {
		return err
	}
	r.recordPermission(t, id, sessions.Permission{Request: raw})
	return nil
}

func (r *relay) recordPermission(t *turn, id string, p sessions.Permission) {
	r.s.append(sessions.Record{ID: id, TurnID: t.id, Body: p})
}
