package router

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/natefinch/atomic"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// stateFile holds what an agent offered when it ran last, so that a new session
// can show its models and modes before the agent has started.
func (r *Router) stateFile(a sandbox.Agent) string {
	return filepath.Join(r.opts.StateDir, "agents", a.Name()+".json")
}

// maxState bounds what is kept of an agent, in bytes: responses that show it have to fit in
// a frame.
const maxState = 128 << 10

// plain is what an agent offered without its words: it may have been another project's, and
// what it called a mode or a model there would have the person choose another one here. What
// known, of gander's own, does not name is called what it is for the agent.
func plain(state, known sandbox.AgentState) sandbox.AgentState {
	out := sandbox.AgentState{Modes: plainModes(state.Modes, known.Modes)}
	for _, category := range categories {
		if o := option(state.ConfigOptions, category); o != nil {
			out.ConfigOptions = append(out.ConfigOptions, plainOption(o, option(known.ConfigOptions, category)))
		}
	}
	for _, o := range state.ConfigOptions {
		if o.Type == "boolean" {
			out.ConfigOptions = append(out.ConfigOptions, acp.ConfigOption{ID: o.ID, Name: o.ID, Type: o.Type, CurrentValue: switched(switchValue(&o))})
		}
	}
	return out
}

func plainModes(modes, known *acp.SessionModeState) *acp.SessionModeState {
	own := map[string]acp.SessionMode{}
	if known != nil {
		for _, m := range known.AvailableModes {
			own[m.ID] = m
		}
	}
	out := &acp.SessionModeState{CurrentModeID: modes.CurrentModeID, AvailableModes: []acp.SessionMode{}}
	for _, m := range modes.AvailableModes {
		out.AvailableModes = append(out.AvailableModes, cmp.Or(own[m.ID], acp.SessionMode{ID: m.ID, Name: m.ID}))
	}
	return out
}

func plainOption(o, known *acp.ConfigOption) acp.ConfigOption {
	names := map[string]string{}
	if known != nil {
		for _, v := range optionValues(known) {
			names[v.Value] = v.Name
		}
	}
	var out []acp.ConfigOptionValue
	for _, v := range optionValues(o) {
		out = append(out, acp.ConfigOptionValue{Value: v.Value, Name: cmp.Or(names[v.Value], v.Value)})
	}
	return acpagent.SelectOption(o.ID, o.ID, o.Category, currentValue(o), out)
}

// lastState is what the agent offered last, with the configured mode and model chosen.
func (r *Router) lastState(a sandbox.Agent) sandbox.AgentState {
	defaults := a.Defaults()
	raw, err := os.ReadFile(r.stateFile(a))
	if err != nil {
		return defaults
	}
	var state sandbox.AgentState
	if len(raw) > maxState || json.Unmarshal(raw, &state) != nil || state.Modes == nil {
		return defaults
	}
	state = plain(state, defaults)
	if o := option(defaults.ConfigOptions, acp.CategoryModel); o != nil {
		if current := currentValue(o); option(state.ConfigOptions, acp.CategoryModel) == nil || !offers(state, current) {
			return defaults // another model endpoint than last time
		}
		state.ConfigOptions = acpagent.WithValue(state.ConfigOptions, acp.CategoryModel, currentValue(o))
	}
	if defaults.Modes != nil {
		modes := *state.Modes
		modes.CurrentModeID = defaults.Modes.CurrentModeID
		state.Modes = &modes
		state.ConfigOptions = acpagent.WithValue(state.ConfigOptions, acp.CategoryMode, modes.CurrentModeID)
	}
	return state
}

// offers reports whether model is one of the models of state.
func offers(state sandbox.AgentState, model string) bool {
	return slices.Contains(values(option(state.ConfigOptions, acp.CategoryModel)), model)
}

// saveState remembers what the agent offers. A failure costs only the preview.
func (r *Router) saveState(a sandbox.Agent, state sandbox.AgentState) {
	path := r.stateFile(a)
	raw, err := json.Marshal(state)
	if len(raw) > maxState {
		err = fmt.Errorf("it is %d bytes, more than %d", len(raw), maxState)
	}
	if was, failed := os.ReadFile(path); err == nil && failed == nil && bytes.Equal(was, raw) {
		return
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = atomic.WriteFile(path, bytes.NewReader(raw))
	}
	if err != nil {
		r.log.Warn("remembering what the agent offers", "agent", a.Name(), "err", err)
	}
}
