package acp

import (
	"encoding/json"
	"slices"
	"strings"

	"gander.dev/gander/conformance/harness"
	"gander.dev/gander/conformance/model"
)

// learn reads what an agent says of itself and opens a session of it.
func (p *probe) learn(a *agent) {
	f := p.initialize(a)
	var result struct {
		AgentInfo         struct{ Name, Version string }
		AgentCapabilities struct {
			LoadSession         bool
			SessionCapabilities map[string]json.RawMessage
			PromptCapabilities  map[string]any
		}
		AuthMethods []struct{ ID, Type string }
	}
	p.decode(f, &result)
	facts := &p.runner.facts
	facts.initialized, facts.loads, facts.authMethods = f.Result, result.AgentCapabilities.LoadSession, result.AuthMethods
	facts.name = strings.TrimSpace(result.AgentInfo.Name + " " + result.AgentInfo.Version)
	facts.session, facts.prompt = map[string]bool{}, map[string]bool{}
	for name, v := range result.AgentCapabilities.SessionCapabilities {
		facts.session[name] = strings.HasPrefix(string(v), "{")
	}
	for name, v := range result.AgentCapabilities.PromptCapabilities {
		facts.prompt[name] = v == true
	}
	s := p.open(a, p.dir)
	facts.modes, facts.options = s.opened.Modes, s.opened.ConfigOptions
	p.runner.shared = s
}

// learnTurn tries the model and the shell.
func (p *probe) learnTurn() {
	s := p.session()
	p.works(s, "session/new")
	if len(p.problems) > 0 {
		panic(stop{})
	}
	t := p.prompt(s, runs("echo con''formed"), says("run"))
	p.frame(t.request, "the prompt")
	facts := &p.runner.facts
	for _, q := range p.requests(t) {
		facts.tools = q.Tools
	}
	ran := slices.ContainsFunc(p.requests(t), func(q model.Request) bool {
		return slices.ContainsFunc(q.Messages, func(m model.Message) bool { return m.Role == "tool" && strings.Contains(m.Content, "conformed") })
	})
	if !ran {
		facts.noShell = "the model cannot have a command run: it is offered " + strings.Join(facts.tools, " ")
	}
}

// askingModes are what agents call the mode in which they ask.
var askingModes = []string{"approve", "ask", "default", "manual", "confirm"}

// asker is a session in which the agent is to ask, on an agent of its own.
func (p *probe) asker(dir string) *session {
	if p.runner.asking == nil {
		a, err := p.runner.start(launch{env: p.askEnviron()})
		if err != nil {
			p.fail("%v", err)
		}
		p.runner.asking = a
		p.initialize(a)
	}
	a := p.runner.asking
	a.answering(by("allow_once"))
	s := p.open(a, dir)
	for _, mode := range askingModes {
		if o, ok := ofCategory(s.opened.ConfigOptions, "mode"); ok && slices.Contains(o.values(), mode) {
			p.good(a.ask("session/set_config_option", map[string]any{"sessionId": s.id, "configId": o.ID, "value": mode}), "setting the mode "+mode)
			return s
		}
		if slices.Contains(s.opened.Modes.ids(), mode) {
			p.good(a.ask("session/set_mode", map[string]any{"sessionId": s.id, "modeId": mode}), "setting the mode "+mode)
			return s
		}
	}
	return s
}

// learnAsking finds out whether the agent can be made to ask.
func (p *probe) learnAsking() {
	s := p.asker(p.dir)
	t := p.prompt(s, runs("true"), says("asked"))
	p.frame(t.request, "the prompt")
	if len(s.permissions(s.id)) == 0 {
		p.fail("no session/request_permission comes; a mode or --ask-env makes it ask (modes: %s)", strings.Join(s.opened.Modes.ids(), " "))
	}
}

// about is a part of what initialize answered, as JSON; empty when it is not there.
func (p *probe) about(path ...string) string {
	raw := p.facts.initialized
	for _, name := range path {
		var members map[string]json.RawMessage
		_ = json.Unmarshal(raw, &members) // what is no object has no members
		raw = members[name]
	}
	text, err := harness.Canonical(raw)
	if err != nil {
		return ""
	}
	return string(text)
}
