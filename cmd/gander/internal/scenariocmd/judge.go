package scenariocmd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gander.dev/gander/acp"
)

// A verdict says whether one assertion holds.
type verdict struct {
	name string
	why  string // it does not; empty when it does
	skip string // it is not looked at, and why
}

// judged holds a run against what is asserted.
func (o *outcome) judged(s *spec) {
	a := s.Assertions
	has := func(name string) bool { return s.read.Has("assertions." + name) }
	add := func(name, why string) { o.judge = append(o.judge, verdict{name: name, why: why}) }
	if a.MustSucceed {
		add("mustSucceed", o.failed())
	} else if o.err != nil && o.StopReason == "" {
		add("run", o.err.Error()) // nothing ran of which anything could be said
	}
	if reason := a.stopReason(); reason != "" {
		add("stopReason", differ(o.StopReason, reason))
	}
	if has("stdoutIncludes") {
		add("stdoutIncludes", missing(o.Output, a.StdoutIncludes, "the answer"))
	}
	if has("delegatedAgents") {
		add("delegatedAgents", differ(list(o.Delegated), list(a.Delegated)))
	}
	if has("minSteps") && int64(o.Steps) < a.MinSteps {
		add("minSteps", fmt.Sprintf("there were %d steps, want at least %d", o.Steps, a.MinSteps))
	} else if has("minSteps") {
		add("minSteps", "")
	}
	for _, most := range []struct {
		name, of  string
		got, most int64
	}{{"maxSteps", "steps", int64(o.Steps), a.MaxSteps}, {"maxTokens", "tokens", o.Tokens, a.MaxTokens}} {
		if !has(most.name) {
			continue
		}
		why := ""
		if most.got > most.most {
			why = fmt.Sprintf("there were %d %s, want at most %d", most.got, most.of, most.most)
		}
		add(most.name, why)
	}
	if has("changed") {
		add("changed", o.changedWrongly(a.Changed, true))
	}
	if has("unchanged") {
		add("unchanged", o.changedWrongly(a.Unchanged, false))
	}
	for _, name := range slices.Sorted(maps.Keys(a.Files)) {
		add("files."+name, o.fileIsWrong(name, a.Files[name], s.read.Has("assertions.files."+name+".equals")))
	}
	for _, key := range slices.Sorted(maps.Keys(a.Threads)) {
		add("threads."+key, differ(fmt.Sprintf("%d sessions", o.Threads[key]), fmt.Sprintf("%d sessions", a.Threads[key])))
	}
	if has("denied") {
		why := differ(int64(len(o.Denied)), a.Denied)
		if why != "" && len(o.Denied) > 0 {
			why += ": " + strings.Join(o.Denied, "; ")
		}
		add("denied", why)
	}
	for _, agent := range slices.Sorted(maps.Keys(a.Told)) {
		o.judge = append(o.judge, o.wasTold(s.id(agent), a.Told[agent]))
	}
	o.Success = true
	for _, v := range o.judge {
		if v.why != "" {
			o.Success = false
			o.Failures = append(o.Failures, v.name+": "+v.why)
		}
	}
}

// failed says why a run did not succeed; empty when it did.
func (o *outcome) failed() string {
	switch {
	case o.err != nil:
		return o.err.Error()
	case o.StopReason != acp.StopEndTurn:
		return fmt.Sprintf("it stopped with %q", o.StopReason)
	}
	return ""
}

// differ says that a value is not the one that is wanted; empty when it is.
func differ[T comparable](got, want T) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("got %v, want %v", got, want)
}

func list(names []string) string { return cmp.Or(strings.Join(names, ", "), "(none)") }

// missing says which texts are not in another one.
func missing(in string, texts []string, what string) string {
	var not []string
	for _, text := range texts {
		if !strings.Contains(in, text) {
			not = append(not, fmt.Sprintf("%q", text))
		}
	}
	if not == nil {
		return ""
	}
	return fmt.Sprintf("%s has no %s: %.300q", what, strings.Join(not, ", "), in)
}

// changedWrongly says which files are changed and should not be, or the other way round.
func (o *outcome) changedWrongly(names []string, want bool) string {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(o.Changed, name) == want })
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: not as wanted; changed were %s", strings.Join(names, ", "), list(o.Changed))
}

func (o *outcome) fileIsWrong(name string, want fileCheck, whole bool) string {
	text, err := o.file(name)
	switch {
	case want.Absent && err == nil:
		return "it is there"
	case want.Absent:
		return ""
	case err != nil:
		return "there is no such file"
	case whole && string(text) != want.Equals:
		return fmt.Sprintf("it holds %.300q, want %.300q", text, want.Equals)
	case !strings.Contains(string(text), want.Contains):
		return fmt.Sprintf("it has no %q: %.300q", want.Contains, text)
	}
	return ""
}

func (o *outcome) wasTold(agent string, texts []string) verdict {
	v := verdict{name: "told." + agent}
	if o.told == nil {
		v.skip = "what real models are told is not seen here; scripted ones are asked"
		return v
	}
	var not []string
	for _, text := range texts {
		if !o.told(agent, text) {
			not = append(not, fmt.Sprintf("%q", text))
		}
	}
	if not != nil {
		v.why = "its model was not told " + strings.Join(not, ", ")
	}
	return v
}
