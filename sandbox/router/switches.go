package router

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// Agents may have options that are on or off. They are shown with a prefix, so that none takes
// the id of one of gander's, and as a choice of two to clients that know no such options.

// switchPrefix begins the ids of an agent's switches.
const switchPrefix = "agent."

// The values of a switch among the choices of a person, and for clients that know none.
const (
	switchOn  = "on"
	switchOff = "off"
)

// maxSwitches bounds the switches of an agent that are shown.
const maxSwitches = 32

// isSwitch reports whether an option's id is that of a switch.
func isSwitch(id string) bool { return strings.HasPrefix(id, switchPrefix) }

// switches are the agent's, for the client.
func (s *session) switches(options []acp.ConfigOption) []acp.ConfigOption {
	var out []acp.ConfigOption
	known := s.r.client.Capabilities().Session.ConfigOptions
	for _, o := range options {
		if o.Type != "boolean" || len(out) >= maxSwitches || len(o.ID) > maxInput {
			continue
		}
		o.ID, o.Meta = switchPrefix+o.ID, ourless(o.Meta)
		if known == nil || known.Boolean == nil {
			now := o
			o = choice(o.ID, o.Name, o.Description, switchValue(&now), []string{switchOn, switchOff})
			o.Category, o.Meta = now.Category, now.Meta
		}
		out = append(out, o)
	}
	return out
}

// switchValue returns whether a switch is on, as a value of a choice.
func switchValue(o *acp.ConfigOption) string {
	if string(o.CurrentValue) == "true" {
		return switchOn
	}
	return switchOff
}

// switched is a value of a switch as agents have it.
func switched(value string) json.RawMessage { return marshal(value == switchOn) }

// optionValue reads the value of an option in a request: a string, or a boolean of a switch.
func optionValue(raw json.RawMessage) (value string, ok bool) {
	switch string(raw) {
	case "true":
		return switchOn, true
	case "false":
		return switchOff, true
	}
	return value, json.Unmarshal(raw, &value) == nil
}

// withSwitches returns options with the switches as a person wants them.
func withSwitches(options []acp.ConfigOption, want choices) []acp.ConfigOption {
	options = slices.Clone(options)
	for i, o := range options {
		if value := want[switchPrefix+o.ID]; o.Type == "boolean" && value != "" {
			options[i].CurrentValue = switched(value)
		}
	}
	return options
}

// order returns the choices in the order in which an agent gets them.
func (c choices) order() []string {
	rest := slices.Sorted(maps.Keys(c))
	rest = slices.DeleteFunc(rest, func(name string) bool { return !isSwitch(name) })
	return slices.Concat(categories, rest)
}

// optionFor finds the agent's option of a choice.
func optionFor(options []acp.ConfigOption, name string) *acp.ConfigOption {
	id, is := strings.CutPrefix(name, switchPrefix)
	if !is {
		return option(options, name)
	}
	i := slices.IndexFunc(options, func(o acp.ConfigOption) bool { return o.ID == id && o.Type == "boolean" })
	if i < 0 {
		return nil
	}
	return &options[i]
}

// valueFor is a choice as the agent's option takes it; same says that it has it already.
func valueFor(o *acp.ConfigOption, value string) (raw json.RawMessage, same bool) {
	if o.Type == "boolean" {
		return switched(value), switchValue(o) == value
	}
	return quote(value), acpagent.StringValue(o) == value
}
