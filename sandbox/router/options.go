package router

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
	"gander.dev/gander/sessions"
)

// The ids of the config options, in the order they are always shown.
const (
	optionModel   = "model"
	optionMode    = "mode"
	optionThought = "thought_level"
	optionAgent   = "agent"
	optionSandbox = "sandbox"
	optionTools   = "tools"

	optionPermissions = "permissions"
	optionAccess      = "access"
	optionPorts       = "ports"
)

var (
	option       = acpagent.Option
	currentValue = acpagent.StringValue
)

func quote(s string) json.RawMessage {
	raw, _ := json.Marshal(s) // strings always marshal
	return raw
}

// categories of what a person can choose at the agent, in the order it is applied.
var categories = []string{acp.CategoryModel, acp.CategoryMode, acp.CategoryThoughtLevel}

// choices are what the person chose in this session, by category; what is
// missing is the default.
type choices map[string]string

func (c choices) clone() choices { return maps.Clone(c) }

// published is what the client was last told about modes and options.
type published struct {
	modes   *acp.SessionModeState
	options []acp.ConfigOption
}

// mode is the current one; empty when the agent has none.
func (p *published) mode() string {
	if p.modes == nil {
		return ""
	}
	return p.modes.CurrentModeID
}

// state is what the agent offers: what it says now, else what it said last, with
// the person's choices put in.
func (s *session) state() sandbox.AgentState {
	s.mu.Lock()
	b, state, want := s.backend, s.known, s.want.clone()
	s.mu.Unlock()
	if b.opened() {
		state = b.conv.State()
	}
	if b.running() {
		return state
	}
	if mode := want[acp.CategoryMode]; mode != "" && state.Modes != nil {
		modes := *state.Modes
		modes.CurrentModeID = mode
		state.Modes = &modes
	}
	for category, value := range want {
		state.ConfigOptions = acpagent.WithValue(state.ConfigOptions, category, value)
	}
	state.ConfigOptions = withSwitches(state.ConfigOptions, want)
	return state
}

// current is the complete list: model, mode, thought level where the agent has
// one, agent, sandbox, tools, permissions, access, ports, the agent's switches; and the legacy
// modes, in step with it.
func (s *session) current() published {
	state := s.state()
	s.mu.Lock()
	agent, driver, tools, permissions, open := s.agent.Name(), s.driver.Name(), s.tools, s.permissions, s.portsOpen
	set := s.setting()
	s.mu.Unlock()
	p := published{modes: state.Modes}
	if o := option(state.ConfigOptions, acp.CategoryModel); o != nil {
		p.options = append(p.options, renamed(o, optionModel, "Model"))
	}
	if state.Modes != nil {
		p.options = append(p.options, modeOption(state.Modes))
	}
	if o := option(state.ConfigOptions, acp.CategoryThoughtLevel); o != nil {
		p.options = append(p.options, renamed(o, optionThought, "Thought level"))
	}
	p.options = append(p.options,
		choice(optionAgent, "Agent", "Which agent answers. Another one goes on with this conversation.", agent, names(s.r.opts.Agents)),
		choice(optionSandbox, "Sandbox", "Where the agent and its commands run.", driver, s.sandboxes(driver)))
	if s.canUseDeveloper() {
		p.options = append(p.options, choice(optionTools, "Tools", "Which tools the agent has: its own, or gander's developer tools.", tools, []string{ToolsNative, ToolsDeveloper}))
	}
	p.options = append(p.options, permissionOption(permissions), accessOption(set), portsOption(open))
	p.options = append(p.options, s.switches(state.ConfigOptions)...)
	return p
}

// firstState is current for the response that tells the client of the session.
func (s *session) firstState() published {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	s.published = s.current()
	return s.published
}

// publish tells the client what changed of modes and options since it was told
// last. It does not wait for the client.
func (s *session) publish() {
	if !s.isAnnounced() {
		return // announce publishes
	}
	s.publishing.Lock()
	defer s.publishing.Unlock()
	before := s.published
	s.published = s.current()
	if mode := s.published.mode(); mode != before.mode() && mode != "" {
		s.inform(acp.CurrentModeUpdate(mode))
	}
	if !equalOptions(s.published.options, before.options) {
		s.inform(acp.ConfigOptionUpdate(s.published.options))
	}
}

func (s *session) inform(update json.RawMessage) {
	if s.leaks.Check(leakSaid, update) != nil { // the agent's options are in its words
		return
	}
	s.record("", sessions.Update{Sent: []json.RawMessage{update}})
	s.send(s.now, update)
}

func renamed(o *acp.ConfigOption, id, name string) acp.ConfigOption {
	out := *o
	out.ID, out.Name = id, name
	return out
}

func modeOption(m *acp.SessionModeState) acp.ConfigOption {
	values := make([]acp.ConfigOptionValue, len(m.AvailableModes))
	for i, mode := range m.AvailableModes {
		values[i] = acp.ConfigOptionValue{Value: mode.ID, Name: mode.Name, Description: mode.Description}
	}
	return acpagent.SelectOption(optionMode, "Mode", acp.CategoryMode, m.CurrentModeID, values)
}

func choice(id, name, description, current string, values []string) acp.ConfigOption {
	options := make([]acp.ConfigOptionValue, len(values))
	for i, v := range values {
		options[i] = acp.ConfigOptionValue{Value: v, Name: v}
	}
	o := acpagent.SelectOption(id, name, "", current, options)
	o.Description = description
	return o
}

// sandboxes are the drivers to choose from. "off" is offered only where it is
// taken already, or was asked for when gander started.
func (s *session) sandboxes(current string) []string {
	return slices.DeleteFunc(names(s.r.opts.Drivers), func(name string) bool {
		return name == sandbox.Off && current != sandbox.Off && s.r.opts.Sandbox != sandbox.Off
	})
}

func equalOptions(a, b []acp.ConfigOption) bool {
	ra, errA := json.Marshal(a)
	rb, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(ra, rb)
}

// setMode changes the mode: at the agent when it runs, else when it starts.
func (s *session) setMode(ctx context.Context, mode string) error {
	if !hasMode(s.state().Modes, mode) {
		return acp.InvalidParams(fmt.Sprintf("there is no mode %q", mode), map[string]any{"modeId": mode})
	}
	return s.choose(ctx, acp.CategoryMode, mode)
}

// setOption changes one option.
func (s *session) setOption(ctx context.Context, id, value string) error {
	o := optionByID(s.current().options, id)
	if o == nil {
		return acp.InvalidParams(fmt.Sprintf("there is no config option %q", id), map[string]any{"configId": id})
	}
	allowed := values(o)
	if isSwitch(id) {
		allowed = []string{switchOn, switchOff}
	}
	if !slices.Contains(allowed, value) {
		return acp.InvalidParams(fmt.Sprintf("%q is not a value of %s; choose one of %s", value, id, strings.Join(allowed, ", ")), map[string]any{"configId": id})
	}
	if isSwitch(id) {
		return s.choose(ctx, id, value)
	}
	switch id {
	case optionModel:
		return s.choose(ctx, acp.CategoryModel, value)
	case optionThought:
		return s.choose(ctx, acp.CategoryThoughtLevel, value)
	case optionMode:
		return s.setMode(ctx, value)
	case optionAgent:
		return s.replace(ctx, replacement{agent: value})
	case optionPermissions:
		s.setPermissions(value)
		return nil
	case optionPorts:
		s.setPorts(value)
		return nil
	case optionTools:
		return s.replace(ctx, replacement{tools: value})
	case optionAccess:
		return s.replace(ctx, replacement{access: value})
	default:
		return s.replace(ctx, replacement{driver: value})
	}
}

// values are the values of a select option as the protocol has them.
func values(o *acp.ConfigOption) []string {
	if o == nil {
		return nil
	}
	var out []string
	for _, v := range optionValues(o) {
		out = append(out, v.Value)
	}
	return out
}

// choose notes a choice and gives it to the agent if that runs; one that starts
// gets it before its first prompt.
func (s *session) choose(ctx context.Context, category, value string) error {
	s.choosing.Lock()
	defer s.choosing.Unlock()
	s.mu.Lock()
	b, before := s.backend, s.want[category]
	s.want[category] = value
	s.mu.Unlock()
	if b.running() {
		if err := b.set(ctx, category, value); err != nil && !b.over() {
			s.unchoose(category, value, before)
			s.publish()
			return acp.Internal(fmt.Sprintf("%s did not take the %s %q: %v", b.agent.Name(), category, value, errorText(err)), nil)
		}
	}
	s.record("", sessions.ConfigChange{ConfigID: category, Value: quote(value)})
	s.publish()
	return nil
}

// unchoose takes a choice back that the agent refused.
func (s *session) unchoose(category, value, before string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.want[category] != value {
		return // the agent said another one meanwhile
	}
	if s.want[category] = before; before == "" {
		delete(s.want, category)
	}
}

// modeReported notes the mode that the agent says it is in. One that nobody
// asked for is told: it decides what the agent does without asking.
func (s *session) modeReported(b *backend, mode string) {
	s.mu.Lock()
	asked := s.want[acp.CategoryMode]
	if s.backend == b {
		s.want[acp.CategoryMode] = mode
	}
	s.mu.Unlock()
	if asked != "" && asked != mode {
		s.tell("warning", fmt.Sprintf("%s says it is in mode %q now; %q was asked for.", b.agent.Name(), mode, asked))
	}
}

// replacement names what is to be changed; what is empty stays.
type replacement struct{ agent, driver, tools, access string }

// replace changes agent, sandbox, tools or access. A turn that runs is answered to its end
// by whom it was given to; the next one goes on with the conversation in the new
// setting.
func (s *session) replace(ctx context.Context, to replacement) error {
	s.replacing.Lock() // one after the other
	defer s.replacing.Unlock()
	s.mu.Lock()
	now := s.setting()
	s.mu.Unlock()
	next, err := s.candidates(ctx, now, to)
	if err != nil || next == now {
		return err
	}
	s.swap(next, s.r.lastState(next.agent))
	if next.agent != now.agent && s.isAnnounced() {
		s.send(s.now, s.commandList())
	}
	s.recordSetting(now, next)
	s.startEarly()
	s.publish()
	return nil
}

// setting holds what a session runs: agent, sandbox, tools and access to the project.
type setting struct {
	agent  sandbox.Agent
	driver sandbox.Driver
	tools  string
	access string // what was chosen
}

// setting returns what the session runs; mu is held.
func (s *session) setting() setting { return setting{s.agent, s.driver, s.tools, s.access} }

// The values of the option "access".
const (
	AccessWrite = "write" // the agent and its commands may change the project
	AccessRead  = "read"  // they see it, and the kernel keeps them from writing it
)

// reads reports whether the project is only read: by choice, or as the agent always does.
func (s setting) reads() bool { return s.access == AccessRead || sandbox.ReadsOnly(s.agent) }

// accessOption is the config option. An agent that only reads leaves no choice.
func accessOption(s setting) acp.ConfigOption {
	current, offered := AccessWrite, []string{AccessWrite, AccessRead}
	if s.reads() {
		current = AccessRead
	}
	if sandbox.ReadsOnly(s.agent) {
		offered = offered[1:]
	}
	return choice(optionAccess, "Access", "Whether the agent and its commands may write the project, or only read it.", current, offered)
}

// recordSetting puts what has changed into the transcript and, when there is a
// conversation already, into the thread.
func (s *session) recordSetting(was, is setting) {
	var parts []string
	for _, c := range []struct{ option, was, is, words string }{
		{optionAgent, was.agent.Name(), is.agent.Name(), "answered by %s"},
		{optionSandbox, was.driver.Name(), is.driver.Name(), "in the sandbox %s"},
		{optionTools, was.tools, is.tools, "with %s tools"},
		{optionAccess, was.access, is.access, "with access to %s the project"},
	} {
		if c.was != c.is {
			s.record("", sessions.ConfigChange{ConfigID: c.option, Value: quote(c.is)})
			parts = append(parts, fmt.Sprintf(c.words, c.is))
		}
	}
	s.mu.Lock()
	begun := s.last != ""
	s.mu.Unlock()
	if begun {
		s.remark("From here on this thread is " + strings.Join(parts, ", ") + ".")
	}
}

// swap puts another setting in place. What ran so far ends when its turn has.
func (s *session) swap(next setting, known sandbox.AgentState) {
	s.choosing.Lock() // not while the old one is being introduced
	defer s.choosing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if next.agent != s.agent {
		s.known, s.want, s.agentCommands = known, choices{}, nil
	}
	if name := next.agent.Name(); next.tools != s.tools || s.seen[name].turn == "" {
		delete(s.seen, name) // its own session has other tools, or nothing in it
	}
	old := s.backend
	s.agent, s.driver, s.tools, s.access, s.backend = next.agent, next.driver, next.tools, next.access, nil
	if old == nil || s.closed {
		return
	}
	old.replaced, s.leaving = true, old
	busy := old.turn
	s.work.Go(func() {
		if busy != nil {
			<-busy.finished
		}
		old.close()
	})
}

// candidates is the setting to change to, checked.
func (s *session) candidates(ctx context.Context, now setting, to replacement) (setting, error) {
	var err error
	if to.agent != "" {
		if now.agent, err = s.r.agent(to.agent); err != nil {
			return now, err
		}
		if err := now.agent.Check(ctx); err != nil {
			return now, acp.Internal(err.Error(), nil)
		}
	}
	if to.driver != "" {
		if now.driver, err = s.r.driver(ctx, to.driver); err != nil {
			return now, acp.Internal(err.Error(), nil)
		}
	}
	now.tools, now.access = cmp.Or(to.tools, now.tools), cmp.Or(to.access, now.access)
	return now, nil
}
