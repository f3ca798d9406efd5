package acp

import (
	"slices"
	"strings"

	"gander.dev/gander/conformance/harness"
)

func optionChecks() []Check {
	return []Check{
		{ID: "option.valid", Requirements: []int{36}, needs: []need{needOptions}, run: checkOptionsValid, Text: "options have ids of their own and a current value that is among their values"},
		{ID: "option.set", Requirements: []int{36}, needs: []need{needOptions}, run: checkOptionSet, Text: "setting mode, model and level of thought answers with all options and the new value"},
		{ID: "option.refused", Requirements: []int{4, 36}, needs: []need{needOptions}, run: checkOptionRefused, Text: "an unknown option, an unknown value and a value of another type are errors and change nothing"},
		{ID: "mode.valid", Requirements: []int{35}, needs: []need{needModes}, run: checkModesValid, Text: "the current mode is among those that are offered"},
		{ID: "mode.set", Requirements: []int{35}, needs: []need{needModes}, run: checkModeSet, Text: "each mode that is offered can be set"},
		{ID: "mode.refused", Requirements: []int{35}, needs: []need{needModes}, run: checkModeRefused, Text: "a mode that is not offered is an error"},
		{ID: "mode.option", Requirements: []int{37}, needs: []need{needModes, needOptions}, run: checkModeOption, Text: "there is an option of category mode, and setting the one tells of the other"},
	}
}

func (p *probe) validOptions(what string, options []option) {
	seen := map[string]bool{}
	for _, o := range options {
		if o.ID == "" || seen[o.ID] {
			p.problem("%s: the option %q has no id of its own", what, o.ID)
		}
		seen[o.ID] = true
		current, _ := o.CurrentValue.(string)
		if o.Type == "select" && !slices.Contains(o.values(), current) {
			p.problem("%s: the current value %q of %s is none of %q", what, current, o.ID, o.values())
		}
		if o.Type != "select" {
			p.problem("%s: %s is of type %q, which the client does not offer", what, o.ID, o.Type)
		}
	}
}

func checkOptionsValid(p *probe) { p.validOptions("session/new", p.facts.options) }

// set sets an option and returns what there is then.
func (p *probe) set(s *session, o option, value string) []option {
	f := p.good(s.ask("session/set_config_option", map[string]any{"sessionId": s.id, "configId": o.ID, "value": value}), "setting "+o.ID+" to "+value)
	var result struct{ ConfigOptions []option }
	p.decode(f, &result)
	return result.ConfigOptions
}

func checkOptionSet(p *probe) {
	s := p.fresh()
	tried := 0
	for _, o := range s.opened.ConfigOptions {
		if !slices.Contains([]string{"mode", "model", "model_config", "thought_level"}, o.Category) {
			continue // others may lead anywhere: another agent, another provider
		}
		values := o.values()
		for _, value := range values[:min(len(values), 4)] {
			tried++
			after := p.set(s, o, value)
			p.validOptions("after setting "+o.ID, after)
			i := slices.IndexFunc(after, func(a option) bool { return a.ID == o.ID })
			if i < 0 || after[i].CurrentValue != value {
				p.problem("setting %s to %q answers with %s", o.ID, value, harness.Excerpt(harness.Marshal(after)))
			}
			if len(after) < len(s.opened.ConfigOptions) && o.Category != "model" {
				p.problem("after setting %s %d of %d options are left", o.ID, len(after), len(s.opened.ConfigOptions))
			}
		}
	}
	if tried == 0 {
		p.skip("no option is of category mode, model, model_config or thought_level")
	}
	p.ping(s.agent, "setting options")
}

func checkOptionRefused(p *probe) {
	s := p.fresh()
	o := s.opened.ConfigOptions[0]
	for _, params := range []map[string]any{
		{"sessionId": s.id, "configId": "conformance-none", "value": "x"},
		{"sessionId": s.id, "configId": o.ID, "value": "conformance-none"},
		{"sessionId": s.id, "configId": o.ID, "value": 5},
		{"sessionId": s.id, "configId": o.ID, "value": nil},
		{"sessionId": s.id, "configId": o.ID},
		{"sessionId": s.id, "value": "x"},
	} {
		p.refused(s.ask("session/set_config_option", params), "session/set_config_option with "+harness.Marshal(params))
	}
	current, _ := o.CurrentValue.(string)
	for _, after := range p.set(s, o, current) {
		i := slices.IndexFunc(s.opened.ConfigOptions, func(b option) bool { return b.ID == after.ID })
		if i >= 0 && s.opened.ConfigOptions[i].CurrentValue != after.CurrentValue {
			p.problem("after refused changes %s is %v, and was %v", after.ID, after.CurrentValue, s.opened.ConfigOptions[i].CurrentValue)
		}
	}
}

func checkModesValid(p *probe) {
	m := p.facts.modes
	if !slices.Contains(m.ids(), m.CurrentModeID) {
		p.problem("the current mode %q is none of %s", m.CurrentModeID, strings.Join(m.ids(), " "))
	}
}

func checkModeSet(p *probe) {
	s := p.fresh()
	for _, id := range append(s.opened.Modes.ids(), s.opened.Modes.CurrentModeID) {
		p.good(s.ask("session/set_mode", map[string]any{"sessionId": s.id, "modeId": id}), "session/set_mode "+id)
	}
	p.lives(s, "all modes")
}

func checkModeRefused(p *probe) {
	s := p.fresh()
	for _, id := range []any{"conformance-none", "", 5, nil} {
		p.refused(s.ask("session/set_mode", map[string]any{"sessionId": s.id, "modeId": id}), "session/set_mode "+harness.Marshal(id))
	}
}

func checkModeOption(p *probe) {
	s := p.fresh()
	o, ok := ofCategory(s.opened.ConfigOptions, "mode")
	if !ok {
		p.fail("there are modes and options, and no option of category mode: clients that show options show no modes")
	}
	other := slices.IndexFunc(s.opened.Modes.ids(), func(id string) bool { return id != s.opened.Modes.CurrentModeID })
	if other < 0 {
		p.skip("there is one mode only")
	}
	mode := s.opened.Modes.ids()[other]
	from := s.Seen()
	p.good(s.ask("session/set_mode", map[string]any{"sessionId": s.id, "modeId": mode}), "session/set_mode "+mode)
	p.eventually("an update that the option "+o.ID+" is "+mode+" after session/set_mode", func() bool {
		return slices.ContainsFunc(s.of(s.id, from), func(u update) bool {
			now, ok := ofCategory(u.ConfigOptions, "mode")
			return u.SessionUpdate == "config_option_update" && ok && now.CurrentValue == mode
		})
	})
	from = s.Seen()
	p.set(s, o, s.opened.Modes.CurrentModeID)
	p.eventually("a current_mode_update after the option "+o.ID+" was set", func() bool {
		return slices.ContainsFunc(s.of(s.id, from), func(u update) bool {
			return u.SessionUpdate == "current_mode_update" && u.CurrentModeID == s.opened.Modes.CurrentModeID
		})
	})
}
