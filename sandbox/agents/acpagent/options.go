package acpagent

import (
	"encoding/json"
	"slices"

	"gander.dev/gander/acp"
)

// Option returns the first option of a category, or nil.
func Option(options []acp.ConfigOption, category string) *acp.ConfigOption {
	for i := range options {
		if options[i].Category == category {
			return &options[i]
		}
	}
	return nil
}

// StringValue is the current value of a select option; empty for other types.
func StringValue(o *acp.ConfigOption) string {
	var v string
	if json.Unmarshal(o.CurrentValue, &v) != nil {
		return ""
	}
	return v
}

// modesOf is the mode option of an agent as the legacy modes.
func modesOf(o *acp.ConfigOption) *acp.SessionModeState {
	type item struct {
		acp.ConfigOptionValue
		Options []acp.ConfigOptionValue `json:"options"` // of a group
	}
	var items []item
	_ = json.Unmarshal(o.Options, &items) // what cannot be read offers nothing
	modes := &acp.SessionModeState{CurrentModeID: StringValue(o)}
	for _, it := range items {
		values := it.Options
		if len(values) == 0 {
			values = []acp.ConfigOptionValue{it.ConfigOptionValue}
		}
		for _, v := range values {
			modes.AvailableModes = append(modes.AvailableModes, acp.SessionMode{ID: v.Value, Name: v.Name, Description: v.Description})
		}
	}
	return modes
}

// WithValue returns options with the value of the first option of a category changed.
func WithValue(options []acp.ConfigOption, category, value string) []acp.ConfigOption {
	i := slices.IndexFunc(options, func(o acp.ConfigOption) bool { return o.Category == category })
	if i < 0 {
		return options
	}
	options = slices.Clone(options)
	options[i].CurrentValue = quote(value)
	return options
}

// quote is a string as JSON.
func quote(s string) json.RawMessage {
	b, _ := json.Marshal(s) // a string always marshals
	return b
}

// SelectOption is a select option of plain values.
func SelectOption(id, name, category, current string, values []acp.ConfigOptionValue) acp.ConfigOption {
	raw, _ := json.Marshal(values) // strings always marshal
	return acp.ConfigOption{ID: id, Name: name, Category: category, Type: "select", CurrentValue: quote(current), Options: raw}
}
