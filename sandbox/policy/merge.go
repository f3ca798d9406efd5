package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Origin is where a setting comes from; the zero Origin is gander itself.
type Origin struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// String is "file:line", or that it is built in.
func (o Origin) String() string {
	if o.File == "" {
		return "built in"
	}
	if o.Line == 0 {
		return o.File
	}
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}

// Layer is the section of one file.
type Layer struct {
	Policy
	// Set reports whether the file sets a key ("git", "network.allow[0]"), and where.
	Set func(key string) (Origin, bool)
}

// Request is what a project's file asks for and does not get until it is trusted.
type Request struct {
	// Key is the setting ("network.allow") and Value what the file wants of it.
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin Origin `json:"origin"`
}

// String is the request in one line.
func (r Request) String() string { return fmt.Sprintf("%s: %s (%s)", r.Key, r.Value, r.Origin) }

// Effective is the policy that holds.
type Effective struct {
	Policy
	// Refused is what an untrusted project's file asked for beyond the person's layer.
	Refused []Request
	origins map[string]Origin
}

// Origin is where a setting that holds comes from; value picks an entry of a list
// or a table and is empty otherwise.
func (e *Effective) Origin(key, value string) Origin { return e.origins[key+"\x00"+value] }

// Merge puts the layers together: the person's, over what is built in, and the
// project's.
//
// Without trust the project's layer only tightens. Single values count where they
// are stricter: "hide" before "refuse" before "warn", "stop" before "show" before
// "off", no question and no remote call before one, the smaller bound before the
// larger; where the person has none, a bound that is no more than a sandbox has by
// default. Of the models those remain that both allow. Files that are protected are
// added. Everything else is a Request: paths, variables, hosts, prices, files that may
// be written.
//
// With trust the project's single values and its list of models take the place of the
// person's, and what its other lists grant is added.
func Merge(person, project Layer, trusted bool) *Effective {
	m := merger{e: &Effective{Policy: Default(), origins: map[string]Origin{}}}
	m.trusted = true
	m.layer(person)
	m.trusted = trusted
	m.layer(project)
	return m.e
}

// A merger puts one layer after the other over what holds.
type merger struct {
	e       *Effective
	from    Layer
	trusted bool
}

func (m *merger) layer(l Layer) {
	if l.Set == nil {
		return
	}
	m.from = l
	m.grants("readOnlyPaths", &m.e.ReadOnlyPaths, l.ReadOnlyPaths)
	m.grants("environment", &m.e.Environment, l.Environment)
	m.add("writes.protect", &m.e.Writes.Protect, l.Writes.Protect)
	m.grants("writes.allow", &m.e.Writes.Allow, l.Writes.Allow)
	single(m, "git", &m.e.Git, l.Git, byRank(GitWarn, GitRefuse, GitHide))
	m.grants("network.allow", &m.e.Network.Allow, l.Network.Allow)
	m.grants("network.presets", &m.e.Network.Presets, l.Network.Presets)
	single(m, "network.ask", &m.e.Network.Ask, l.Network.Ask, func(old, now bool) bool { return old || !now })
	m.models(l.Model.Allow)
	single(m, "model.remote", &m.e.Model.Remote, l.Model.Remote, func(old, now bool) bool { return old || !now })
	single(m, "model.maxTokens", &m.e.Model.MaxTokens, l.Model.MaxTokens, lower)
	single(m, "model.maxCost", &m.e.Model.MaxCost, l.Model.MaxCost, lower)
	m.prices(l.Model.Prices)
	single(m, "model.currency", &m.e.Model.Currency, l.Model.Currency, func(old, now string) bool { return old == now })
	single(m, "canaries", &m.e.Canaries, l.Canaries, byRank(CanariesOff, CanariesShow, CanariesStop))
	single(m, "limits.memory", &m.e.Limits.Memory, l.Limits.Memory, lowerThan(LeastMemory))
	single(m, "limits.cpu", &m.e.Limits.CPU, l.Limits.CPU, lower)
	single(m, "limits.processes", &m.e.Limits.Processes, l.Limits.Processes, lowerThan(DefaultProcesses))
	single(m, "limits.disk", &m.e.Limits.Disk, l.Limits.Disk, lowerThan(leastDisk))
	single(m, "limits.time", &m.e.Limits.Time, l.Limits.Time, lower)
}

// lower reports whether a bound is at least as strict as another; 0 bounds nothing.
func lower[N int64 | float64 | Size | Duration](old, now N) bool {
	return now == old || now != 0 && (old == 0 || now < old)
}

// lowerThan is lower where 0 is a default that is no less than least.
func lowerThan[N int64 | Size](least N) func(old, now N) bool {
	return func(old, now N) bool { return lower(old, now) && (old != 0 || now <= least) }
}

// byRank reports whether a word is at least as strict as another; words are given
// from the laxest to the strictest.
func byRank(words ...string) func(old, now string) bool {
	return func(old, now string) bool { return slices.Index(words, now) >= slices.Index(words, old) }
}

// single takes over one value, when the layer sets it and may.
func single[T comparable](m *merger, key string, old *T, now T, stricter func(old, now T) bool) {
	origin, set := m.from.Set(key)
	switch {
	case !set:
	case m.trusted || stricter(*old, now):
		*old = now
		m.note(key, "", origin)
	default:
		m.refuse(key, fmt.Sprint(now), origin)
	}
}

func (m *merger) note(key, value string, o Origin) { m.e.origins[key+"\x00"+value] = o }

func (m *merger) refuse(key, value string, o Origin) {
	m.e.Refused = append(m.e.Refused, Request{key, value, o})
}

// origin is where the layer names an entry of a list.
func (m *merger) origin(key string, i int) Origin {
	o, _ := m.from.Set(fmt.Sprintf("%s[%d]", key, i))
	return o
}

// add appends what is not there yet.
func (m *merger) add(key string, to *[]string, values []string) {
	for i, v := range values {
		if !slices.Contains(*to, v) {
			*to = append(slices.Clip(*to), v)
			m.note(key, v, m.origin(key, i))
		}
	}
}

// grants is add for what widens the policy.
func (m *merger) grants(key string, to *[]string, values []string) {
	if m.trusted {
		m.add(key, to, values)
		return
	}
	for i, v := range values {
		if !slices.Contains(*to, v) {
			m.refuse(key, v, m.origin(key, i))
		}
	}
}

// models narrows the models down, or replaces the list when the layer is trusted.
func (m *merger) models(names []string) {
	const key = "model.allow"
	origin, set := m.from.Set(key)
	if !set {
		return
	}
	if m.trusted || len(m.e.Model.Allow) == 0 {
		m.e.Model.Allow = slices.Clone(names)
		m.note(key, "", origin)
		return
	}
	if len(names) == 0 { // allows every model
		m.refuse(key, "any", origin)
	}
	var both []string
	for i, name := range names {
		if slices.ContainsFunc(m.e.Model.Allow, func(pattern string) bool { return covers(pattern, name) }) {
			both = append(both, name)
		} else {
			m.refuse(key, name, m.origin(key, i))
		}
	}
	if len(both) > 0 { // an empty list would allow every model
		m.e.Model.Allow = both
		m.note(key, "", origin)
	}
}

// prices are the person's: a project that sets them lower would stretch maxCost.
func (m *merger) prices(prices map[string]Price) {
	for _, name := range slices.Sorted(maps.Keys(prices)) {
		origin, _ := m.from.Set("model.prices." + name)
		if !m.trusted {
			m.refuse("model.prices", prices[name].of(name), origin)
			continue
		}
		merged := maps.Clone(m.e.Model.Prices)
		if merged == nil {
			merged = map[string]Price{}
		}
		merged[name] = prices[name]
		m.e.Model.Prices = merged
		m.note("model.prices", name, origin)
	}
}

// of is the price of a model in words.
func (p Price) of(name string) string {
	text := fmt.Sprintf("%s (input %v, output %v", name, p.Input, p.Output)
	if p.CachedInput != 0 {
		text += fmt.Sprintf(", cached input %v", p.CachedInput)
	}
	return text + ")"
}

// AllowsModel reports whether a model may be called.
func (m Model) AllowsModel(name string) bool {
	return len(m.Allow) == 0 || slices.ContainsFunc(m.Allow, func(p string) bool { return covers(p, name) })
}

// covers reports whether a pattern of Model.Allow is one for the name, or for the
// names of another pattern.
func covers(pattern, name string) bool {
	if rest, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, rest)
	}
	return pattern == name
}
