package router

import (
	"context"
	"fmt"
	"strings"
)

// commandStatus says what a person may want to know of a session without starting
// anything.
func commandStatus(_ context.Context, call commandCall) (string, error) {
	s := call.s
	s.mu.Lock()
	b, agent, driver, tools, turns := s.backend, s.agent.Name(), s.driver.Name(), s.tools, s.turns
	permissions, asked, halted, set := s.permissions, s.asked, s.halted, s.setting()
	s.mu.Unlock()
	reads := set.reads()
	var out strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&out, "- %s: %s\n", name, fmt.Sprintf(format, args...))
	}
	line("session", "`%s`, prompts so far: %d", s.id, turns)
	if halted != "" {
		line("stopped", "%s %s", halted, howToGoOn)
	}
	project := ""
	if reads {
		project = ", only for reading"
	}
	line("project", "`%s`%s", s.cwd, project)
	for _, d := range s.dirs {
		note := ""
		if reads || s.r.onlyRead(d) {
			note = ", only for reading"
		}
		line("additional directory", "`%s`%s", d, note)
	}
	line("agent", "%s, %s", agent, b.condition())
	if s.canUseDeveloper() {
		line("tools", "%s", tools)
	}
	now := s.current()
	if o := optionByID(now.options, optionModel); o != nil {
		line("model", "`%s`", currentValue(o))
	}
	if spent := s.r.opts.Terms.Spent(s.r.account(s.id)); spent != "" {
		line("model use", "%s", spent)
	}
	if mode := now.mode(); mode != "" {
		line("mode", "%s", mode)
	}
	line("sandbox", "%s", driver)
	if b.running() {
		info := b.sb.Info()
		line("isolation", "%s", info.Isolation)
		for _, l := range info.Limits {
			line("limit", "%s", l)
		}
		for _, w := range info.Warnings {
			line("warning", "%s", w)
		}
	}
	line("permissions", "%s; %d questions so far: %d for you, %d answered by what you said earlier, %d by this setting",
		permissions, asked.total(), asked.person, asked.remembered, asked.policy)
	return out.String(), nil
}

// condition is the state of a backend, which may be nil, in words.
func (b *backend) condition() string {
	switch {
	case b.running():
		return "running"
	case b == nil || b.opened():
		return "starts with the next prompt"
	}
	return "starting"
}
