// Package presets has a table of programs that are agents, with what each needs in a sandbox.
// It is data: a row is an entry of config.json, as gander agent add writes it.
package presets

import (
	_ "embed"
	"encoding/json"
	"slices"
)

// A Preset is a known program.
type Preset struct {
	Name string `json:"name"`
	// Also are other names by which it is asked for.
	Also    []string `json:"also,omitempty"`
	Title   string   `json:"title"`
	Program string   `json:"program"`
	// Package is npm's, and Version the one that was tried; where that is empty, Note says which was.
	Package string            `json:"package"`
	Version string            `json:"version,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// OneShot says that it is started for each prompt: it speaks no ACP, or its ACP wants its
	// maker's sign-in.
	OneShot bool `json:"oneShot,omitempty"`
	// Script is run by sh in the place of the program, with the program as its arguments.
	Script string `json:"script,omitempty"`
	// Mode is the agent's own in which gander's sandbox confines it, and no further one.
	Mode string `json:"mode,omitempty"`
	// Protocol is that of its model calls, and Speaks the word for it in config.json; empty means OpenAI's.
	Protocol string `json:"protocol"`
	Speaks   string `json:"speaks,omitempty"`
	Needs    string `json:"needs,omitempty"`
	// Tried is the day on which it did a whole turn with a tool call in a sandbox.
	Tried string `json:"tried,omitempty"`
	Note  string `json:"note,omitempty"`
	// Not says why it cannot be added; empty when it can.
	Not string `json:"not,omitempty"`
}

//go:embed presets.json
var table []byte

// All returns the table. It panics when that is no JSON, which a test rules out.
func All() []Preset {
	var all []Preset
	if err := json.Unmarshal(table, &all); err != nil {
		panic(err)
	}
	return all
}

// Find returns the preset of a name; false when there is none.
func Find(name string) (Preset, bool) {
	for _, p := range All() {
		if p.Name == name || slices.Contains(p.Also, name) {
			return p, true
		}
	}
	return Preset{}, false
}

// NPM returns the package with the version that was tried.
func (p Preset) NPM() string {
	if p.Version == "" {
		return p.Package
	}
	return p.Package + "@" + p.Version
}
