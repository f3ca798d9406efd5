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

// Request is what a project's file asks for and gets only when the person grants it.
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
	// Refused is what the project's file asked for beyond the person's layer and was not
	// granted.
	Refused []Request
	origins map[string]Origin
}

// Origin is where a setting that holds comes from; value picks an entry of a list
// or a table and is empty otherwise.
func (e *Effective) Origin(key, value string) Origin { return e.origins[key+"\x00"+value] }

// Merge puts the layers together: the person's, over what is built in, and the
// project's.
//
// The project's layer only tightens, but for what was granted. Single values count where they
// are stricter: "hide" before "refuse" before "warn", "stop" before "show" before
// "off", no question and no remote call before one, the smaller bound before the
// larger; where the person has none, a bound that is no more than a sandbox has by
// default. Of the models those remain that both allow. Files that are protected are
// added. Everything else is a Request: paths, variables, hosts, prices, files that may
// be written.
//
// Granted is what the person was shown and agreed to: what the project asked for beyond the
// person's layer of that day. What the person has tightened since is not loosened by it.
func Merge(person, project Layer, granted []Request) *Effective {
	m := merger{e: &Effective{Policy: Default(), origins: map[string]Origin{}}}
	m.may = always
	m.layer(person)
	m.may = func(key, value string) bool {
		return slices.ContainsFunc(granted, func(r Request) bool { return r.Key == key && r.Value == value })
	}
	m.layer(project)
	return m.e
}

// A merger puts one layer after the other over what holds.
type merger struct {
	e    *Effective
	from Layer
	may  func(key, value string) bool // whether the layer may widen the policy by this
}

func always(string, string) bool { return true }

func (m *merger) layer(l Layer) {
	if l.Set == nil {
		return
	}
	m.from = l
	m.add("readOnlyPaths", &m.e.ReadOnlyPaths, l.ReadOnlyPaths, m.may)
	m.add("environment", &m.e.Environment, l.Environment, m.may)
	m.add("writes.protect", &m.e.Writes.Protect, l.Writes.Protect, always)
	m.add("writes.allow", &m.e.Writes.Allow, l.Writes.Allow, m.may)
	single(m, "project", &m.e.Project, l.Project, byRank(ProjectRepository, "", ProjectDirectory))
	single(m, "git", &m.e.Git, l.Git, byRank(GitWarn, GitRefuse, GitHide))
	m.add("network.allow", &m.e.Network.Allow, l.Network.Allow, m.may)
	m.add("network.presets", &m.e.Network.Presets, l.Network.Presets, m.may)
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
	case stricter(*old, now) || m.may(key, fmt.Sprint(now)):
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

// add appends what is not there yet and may be added.
func (m *merger) add(key string, to *[]string, values []string, may func(key, value string) bool) {
	for i, v := range values {
		switch origin := m.origin(key, i); {
		case slices.Contains(*to, v):
		case may(key, v):
			*to = append(slices.Clip(*to), v)
			m.note(key, v, origin)
		default:
			m.refuse(key, v, origin)
		}
	}
}

// models narrows the models down, and adds those that the layer may.
func (m *merger) models(names []string) {
	const key = "model.allow"
	origin, set := m.from.Set(key)
	if !set {
		return
	}
	every := len(names) == 0
	if len(m.e.Model.Allow) == 0 || every && m.may(key, "any") {
		m.e.Model.Allow = slices.Clone(names)
		m.note(key, "", origin)
		return
	}
	if every {
		m.refuse(key, "any", origin)
	}
	var both []string
	for i, name := range names {
		if m.may(key, name) || slices.ContainsFunc(m.e.Model.Allow, func(pattern string) bool { return covers(pattern, name) }) {
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
		if asked := prices[name].of(name); !m.may("model.prices", asked) {
			m.refuse("model.prices", asked, origin)
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
