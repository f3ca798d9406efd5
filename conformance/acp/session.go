package acp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gander.dev/gander/conformance/harness"
	"gander.dev/gander/conformance/model"
)

// A session is a conversation with an agent.
type session struct {
	*agent
	id, cwd string
	opened  opened
}

// opened is what session/new and its kind answer.
type opened struct {
	SessionID     string
	Modes         modes
	ConfigOptions []option
}

type modes struct {
	CurrentModeID  string
	AvailableModes []struct{ ID, Name string }
}

func (m modes) ids() []string {
	var all []string
	for _, one := range m.AvailableModes {
		all = append(all, one.ID)
	}
	return all
}

type option struct {
	ID, Category, Type string
	CurrentValue       any
	Options            []struct {
		Value   string
		Options []struct{ Value string }
	}
}

func (o option) values() []string {
	var all []string
	for _, v := range o.Options {
		if v.Value != "" {
			all = append(all, v.Value)
		}
		for _, grouped := range v.Options {
			all = append(all, grouped.Value)
		}
	}
	return all
}

func ofCategory(options []option, category string) (option, bool) {
	i := slices.IndexFunc(options, func(o option) bool { return o.Category == category })
	if i < 0 {
		return option{}, false
	}
	return options[i], true
}

func newParams(cwd string) map[string]any {
	return map[string]any{"cwd": cwd, "mcpServers": []any{}}
}

// open opens a session in a directory.
func (p *probe) open(a *agent, cwd string) *session {
	return p.openWith(a, newParams(cwd))
}

func (p *probe) openWith(a *agent, params map[string]any) *session {
	f := p.good(a.ask("session/new", params), "session/new")
	s := &session{agent: a, cwd: params["cwd"].(string)}
	p.decode(f, &s.opened)
	if s.id = s.opened.SessionID; s.id == "" {
		p.fail("session/new gives no session id: %s", harness.Excerpt(f.Raw))
	}
	p.opened = append(p.opened, s)
	return s
}

func (p *probe) decode(f *frame, into any) {
	if err := json.Unmarshal(f.Result, into); err != nil {
		p.fail("a result of the wrong shape (%v): %s", err, harness.Excerpt(f.Raw))
	}
}

// session is one that works, shared with other checks.
func (p *probe) session() *session {
	if p.shared == nil || !p.shared.Alive() {
		a, err := p.runner.start(launch{})
		if err != nil {
			p.fail("%v", err)
		}
		p.initialize(a)
		p.runner.shared = p.open(a, p.mkdir("shared"))
	}
	p.used = p.shared
	return p.shared
}

// fresh is a session of the check's own on the agent that is shared.
func (p *probe) fresh() *session { return p.open(p.session().agent, p.mkdir("work")) }

// A step is one of the model's, as scripts have them.
type step map[string]any

func says(text string) step { return step{"text": text} }

// The names that agents give to their shell and to what writes a file; the model
// takes the one that it is offered.
const (
	shellTools = "shell|bash|developer__shell|developer_shell"
	writeTools = "write|developer__write|developer_write"
)

func runs(command string) step {
	return step{"tool": shellTools, "args": map[string]any{"command": command, "description": "conformance"}}
}

func writes(file, text string) step {
	return step{"tool": writeTools, "args": map[string]any{"path": file, "filePath": file, "content": text}}
}

// waits is a step in which the model says nothing for ever.
func waits() step { return step{"hang": "forever"} }

// A turn is a prompt that was sent.
type turn struct {
	*request
	session *session
	tag     string // in the prompt
	from    int    // frame after which its updates come
}

// prompt sends text with a script for the model.
func (p *probe) prompt(s *session, steps ...step) *turn {
	t, line := p.prepare(s, steps...)
	_ = s.Send(line)
	return t
}

// prepare notes a prompt and returns its line.
func (p *probe) prepare(s *session, steps ...step) (*turn, string) {
	p.tags++
	tag := fmt.Sprintf("tag-%d-%s", p.tags, p.mark[len(p.mark)-6:])
	return p.prepareBlocks(s, tag, []any{textBlock("conformance " + tag + " " + model.Embed(harness.Marshal(steps)))})
}

func (p *probe) prepareBlocks(s *session, tag string, blocks []any) (*turn, string) {
	id := s.NextID()
	params := map[string]any{"sessionId": s.id, "prompt": blocks}
	t := &turn{session: s, tag: tag, from: s.Seen()}
	t.request = s.expect(id, "session/prompt", params)
	return t, harness.RequestLine(id, "session/prompt", params)
}

func textBlock(text string) map[string]any { return map[string]any{"type": "text", "text": text} }

func (s *session) cancel() { s.Tell("session/cancel", map[string]any{"sessionId": s.id}) }

// updates are those of the turn so far.
func (t *turn) updates() []update {
	all := t.session.of(t.session.id, t.from)
	if t.Answered() && t.Answer != nil {
		all = slices.DeleteFunc(all, func(u update) bool { return u.n > t.Answer.N })
	}
	return all
}

// said is what the agent has said to the person in the turn.
func (t *turn) said() string { return spoken(t.updates(), "agent_message_chunk") }

func spoken(updates []update, kind string) string {
	var b strings.Builder
	for _, u := range updates {
		if u.SessionUpdate == kind {
			b.WriteString(u.text())
		}
	}
	return b.String()
}

// A call is a tool call after some of its updates.
type call struct {
	id, title, kind, status, text string
	input, output                 string
	diffs                         []diff
	locations                     []string
	ends                          int // how many final updates there were
}

type diff struct{ Path, OldText, NewText string }

// calls are the tool calls among updates, in order.
func calls(updates []update) []*call {
	var all []*call
	for _, u := range updates {
		if u.ToolCallID == "" || !strings.HasPrefix(u.SessionUpdate, "tool_call") {
			continue
		}
		i := slices.IndexFunc(all, func(c *call) bool { return c.id == u.ToolCallID })
		if i < 0 {
			all, i = append(all, &call{id: u.ToolCallID}), len(all)
		}
		all[i].add(u)
	}
	return all
}

func (c *call) add(u update) {
	for to, from := range map[*string]string{&c.title: u.Title, &c.kind: u.Kind, &c.status: u.Status} {
		if from != "" {
			*to = from
		}
	}
	if u.final() {
		c.ends++
	}
	if len(u.Content) > 0 {
		c.text, c.diffs = u.text(), nil
		var items []struct {
			Type string
			diff
		}
		_ = json.Unmarshal(u.Content, &items) // overall.schema says what is wrong
		for _, item := range items {
			if item.Type == "diff" {
				c.diffs = append(c.diffs, item.diff)
			}
		}
	}
	if len(u.RawInput) > 0 {
		c.input = string(u.RawInput)
	}
	if len(u.RawOutput) > 0 {
		c.output = string(u.RawOutput)
	}
	for _, l := range u.Locations {
		c.locations = append(c.locations, l.Path)
	}
}

// done waits for the end of a turn and fails unless it has the stop reason.
func (p *probe) done(t *turn, stopReason string) *turn {
	p.judgeEnd(t, p.frame(t.request, "the prompt"), stopReason)
	return t
}

// cancelBudget is what a cancelled turn may take to be answered.
const cancelBudget = 10 * time.Second

// stopped waits for the end of a cancelled turn.
func (p *probe) stopped(t *turn, what string) {
	p.judgeEnd(t, p.within(t.request, "the prompt that was cancelled "+what, cancelBudget), "cancelled")
}

func (p *probe) judgeEnd(t *turn, f *frame, want string) {
	if f.Error != nil {
		p.fail("the prompt is answered with error %s %s, want %s", f.Error.Code, f.Error.Message, want)
	}
	var result struct{ StopReason string }
	p.decode(f, &result)
	if result.StopReason != want {
		p.fail("the prompt is answered with %s, want the stop reason %s; the agent said %s", harness.Excerpt(f.Result), want, harness.Excerpt(t.said()))
	}
}

// works shows that a session takes a prompt and answers it.
func (p *probe) works(s *session, after string) {
	t := p.prompt(s, says("still here"))
	f := p.frame(t.request, "a prompt, after "+after+",")
	if f.Error != nil {
		p.fail("a prompt, after %s, is answered with error %s %s", after, f.Error.Code, f.Error.Message)
	}
	if !strings.Contains(t.said(), "still here") {
		p.problem("a prompt, after %s, is answered with %s, and the agent said %s", after, harness.Excerpt(f.Result), harness.Excerpt(t.said()))
	}
}

// until waits for an update of a turn that fits; the turn must not end before.
func (p *probe) until(t *turn, what string, fits func(update) bool) update {
	var got update
	p.eventually(what, func() bool {
		ended := t.Answered()
		for _, u := range t.updates() {
			if fits(u) {
				got = u
				return true
			}
		}
		if ended {
			p.fail("the turn ended without %s", what)
		}
		return false
	})
	return got
}

// requests are what the model got of a turn.
func (p *probe) requests(t *turn) []model.Request {
	return slices.DeleteFunc(p.model.Requests(), func(q model.Request) bool {
		return q.Step == model.SideStep || !strings.Contains(string(q.Body), t.tag)
	})
}

// reached waits until the model got a turn's prompt.
func (p *probe) reached(t *turn) {
	p.eventually("the prompt to reach the model", func() bool {
		if t.Answered() {
			p.fail("the prompt is answered before the model is: %s", harness.Excerpt(p.frame(t.request, "the prompt").Raw))
		}
		return len(p.requests(t)) > 0
	})
}
