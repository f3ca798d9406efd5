// Package agents lists the agents that gander brings. Each is a folder below sandbox with the
// code, the Dockerfile and one acpagent.Registration. Nothing else in the product knows an
// agent by its name.
package agents

import (
	"slices"

	"gander.dev/gander/sandbox/agents/acpagent"
	"gander.dev/gander/sandbox/goose"
	"gander.dev/gander/sandbox/opencode"
)

// All returns the agents in the order in which they are offered. The first one answers where
// nobody has chosen.
func All() []acpagent.Registration {
	return []acpagent.Registration{
		goose.Registration,
		opencode.Registration,
	}
}

// Names returns the names of All.
func Names() []string {
	var names []string
	for _, r := range All() {
		names = append(names, r.Name)
	}
	return names
}

// Default returns the name of the agent that answers where nobody has chosen.
func Default() string { return All()[0].Name }

// Find returns the agent of a name; false for one that gander does not bring.
func Find(name string) (acpagent.Registration, bool) {
	all := All()
	i := slices.IndexFunc(all, func(r acpagent.Registration) bool { return r.Name == name })
	if i < 0 {
		return acpagent.Registration{}, false
	}
	return all[i], true
}
