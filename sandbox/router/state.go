package router

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/natefinch/atomic"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/acpagent"
)

// stateFile holds what an agent offered when it ran last, so that a new session
// can show its models and modes before the agent has started.
func (r *Router) stateFile(a sandbox.Agent) string {
	return filepath.Join(r.opts.StateDir, "agents", a.Name()+".json")
}

// lastState is what the agent offered last, with the configured mode and model chosen.
func (r *Router) lastState(a sandbox.Agent) sandbox.AgentState {
	defaults := a.Defaults()
	raw, err := os.ReadFile(r.stateFile(a))
	if err != nil {
		return defaults
	}
	var state sandbox.AgentState
	if json.Unmarshal(raw, &state) != nil || state.Modes == nil {
		return defaults
	}
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
