package acpagent

import (
	"slices"

	"gander.dev/gander/acp"
)

// Offer returns the values of a model option: the configured model and those of an endpoint. It is
// nil without a list of these.
func Offer(configured string, models []string, value func(name string) acp.ConfigOptionValue) []acp.ConfigOptionValue {
	if models == nil || configured == "" {
		return nil
	}
	out := []acp.ConfigOptionValue{value(configured)}
	for _, m := range models {
		if m != configured {
			out = append(out, value(m))
		}
	}
	return out
}

// offered returns options of which the one for the model offers what Models says, and what is
// chosen now.
func (o *Options) offered(options []acp.ConfigOption) []acp.ConfigOption {
	i := slices.IndexFunc(options, func(c acp.ConfigOption) bool { return c.Category == acp.CategoryModel })
	if o.Models == nil || i < 0 {
		return options
	}
	out, values := slices.Clone(options), slices.Clone(o.Models)
	now := StringValue(&out[i])
	if now != "" && !slices.ContainsFunc(values, func(v acp.ConfigOptionValue) bool { return v.Value == now }) {
		values = append(values, acp.ConfigOptionValue{Value: now, Name: now})
	}
	m := out[i]
	out[i] = SelectOption(m.ID, m.Name, m.Category, now, values)
	out[i].Description = m.Description
	return out
}
