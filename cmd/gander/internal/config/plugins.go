package config

import (
	"fmt"
	"path/filepath"
	"slices"

	"gander.dev/gander/sandbox/agents"
	"gander.dev/gander/sandbox/team/plugins"
	"gander.dev/gander/sandbox/team/roster"
)

// PluginStore returns where plugins are installed.
func (c *Config) PluginStore() plugins.Store {
	return plugins.Store{Dir: filepath.Join(c.Home, "plugins")}
}

// Plugins returns those that are enabled, sorted by id.
func (c *Config) Plugins() []*plugins.Plugin { return c.PluginStore().Enabled() }

// readTeam reads the manifests, and the agents of enabled plugins. A manifest counts before a plugin's
// agent of its name, and of two plugins the first.
func (c *Config) readTeam() ([]roster.Manifest, []roster.Problem) {
	team, problems := c.Roster().Read()
	for _, p := range c.Plugins() {
		for _, a := range p.Agents {
			known := slices.IndexFunc(team, func(m roster.Manifest) bool { return m.ID == a.ID })
			why := roster.CheckID(a.ID)
			switch {
			case known >= 0 && team[known].Plugin == "":
				continue
			case known >= 0:
				why = fmt.Sprintf("the plugin %s has an agent %s, too, which counts", team[known].Plugin, a.ID)
			case why == "" && c.hasProgram(a.ID):
				why = a.ID + " is the name of a program already"
			}
			if why != "" {
				problems = append(problems, roster.Problem{Agent: a.ID, Path: a.Path, Reason: why})
				continue
			}
			m := roster.Manifest{ID: a.ID, Name: a.Name, Description: a.Description, Instructions: a.Instructions, Path: a.Path, Plugin: p.ID, Discoverable: true, Priority: 50}
			m.Delegation.CanReceive = true
			team = append(team, m)
		}
	}
	return team, problems
}

// usualProgram returns the program of agents that name none.
func (c *Config) usualProgram() string {
	if program := c.Program(c.Agent); c.hasProgram(program) {
		return program
	}
	return agents.Default()
}
