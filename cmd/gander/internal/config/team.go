package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gander.dev/gander/sandbox/agents"
	"gander.dev/gander/sandbox/team/presets"
	"gander.dev/gander/sandbox/team/providers"
	"gander.dev/gander/sandbox/team/roster"
)

// Roster returns the store of manifests below the home directory.
func (c *Config) Roster() roster.Store { return roster.At(c.Home) }

// Team returns the manifests that count, sorted by id.
func (c *Config) Team() []roster.Manifest { return slices.Clone(c.team) }

// TeamProblems say why manifests do not count.
func (c *Config) TeamProblems() []roster.Problem { return slices.Clone(c.wrong) }

// TeamProblem says why an agent is hidden; nil when it is not.
func (c *Config) TeamProblem(agent string) *roster.Problem {
	for i := range c.wrong {
		if c.wrong[i].Agent == agent && !c.hasProgram(agent) {
			return &c.wrong[i]
		}
	}
	return nil
}

// Manifest returns the manifest of an agent; nil when it has none that counts.
func (c *Config) Manifest(agent string) *roster.Manifest {
	for i := range c.team {
		if c.team[i].ID == agent {
			return &c.team[i]
		}
	}
	return nil
}

// ReadsOnly reports whether an agent's manifest lets it only read the project.
func (c *Config) ReadsOnly(agent string) bool {
	m := c.Manifest(agent)
	return m != nil && m.Access == roster.AccessRead
}

// Program returns the agent whose program another one runs: its manifest's provider, or itself.
func (c *Config) Program(agent string) string {
	if m := c.Manifest(agent); m != nil {
		return cmp.Or(m.Provider, agent)
	}
	return agent
}

// OnlyTalks reports whether an agent is nothing but a model: its manifest's provider is an
// endpoint, and it has no program and no sandbox.
func (c *Config) OnlyTalks(agent string) bool {
	m := c.Manifest(agent)
	return m != nil && m.Provider != "" && !c.hasProgram(m.Provider)
}

// hasProgram reports whether an agent has a program without a manifest.
func (c *Config) hasProgram(agent string) bool {
	return isBuiltIn(agent) || len(c.Agents[agent].Command) > 0
}

// teamNames are those of all manifests that can be read.
func (c *Config) teamNames() []string {
	var names []string
	for _, m := range c.team {
		names = append(names, m.ID)
	}
	return names
}

// checkTeam hides the agents whose manifests do not fit to the configuration.
func (c *Config) checkTeam() {
	var good []roster.Manifest
	for _, m := range c.team {
		if m.Plugin != "" {
			m.Provider = c.usualProgram()
		}
		if why := c.unfit(m); why != "" {
			key, _, _ := strings.Cut(why, ":")
			c.wrong = append(c.wrong, roster.Problem{Agent: m.ID, Path: m.Path, Line: m.Lines[key], Reason: why})
			continue
		}
		good = append(good, m)
	}
	c.team = good
}

// unfit says why a manifest does not count, beginning with the key; empty when it does.
func (c *Config) unfit(m roster.Manifest) string {
	own := c.hasProgram(m.ID)
	preset, _ := presets.Find(m.Provider)
	switch {
	case own && m.Provider != "" && m.Provider != m.ID:
		return fmt.Sprintf("provider: %s is the name of a program already, and runs no other one; choose another id", m.ID)
	case !own && m.Provider == "":
		return "provider: is missing; name who answers: " + strings.Join(c.programs(), ", ")
	case m.Endpoint != "" && c.notProvider(m.Endpoint) != "":
		return "endpoint: " + c.notProvider(m.Endpoint)
	case own || c.hasProgram(m.Provider):
		return ""
	case isRow(m.Provider) && c.notProvider(m.Provider) != "":
		return "provider: " + c.notProvider(m.Provider)
	case preset.Name != "" && c.notProvider(m.Provider) != "":
		return fmt.Sprintf("provider: %s is a program that is not an agent here; gander agent add %[1]s makes it one, or says why it cannot be", preset.Name)
	case c.notProvider(m.Provider) != "":
		return fmt.Sprintf("provider: there is none called %q; known here: %s, and the endpoints of gander provider list", m.Provider, strings.Join(c.programs(), ", "))
	case m.Endpoint != "" && m.Endpoint != m.Provider:
		return fmt.Sprintf("endpoint: the provider %s is an endpoint already, by which the agent only talks; name a program as provider, or take endpoint out", m.Provider)
	case m.Mode != "":
		return fmt.Sprintf("mode: the provider %s is an endpoint, by which the agent only talks: it has no modes; take mode out", m.Provider)
	case m.WorkspaceAccess == roster.WorkspaceInternal:
		return fmt.Sprintf("workspaceAccess: the provider %s is an endpoint, by which the agent only talks: it has no workspace; take workspaceAccess out", m.Provider)
	}
	return ""
}

// isRow reports whether the table of endpoints has a name.
func isRow(name string) bool {
	_, is := providers.Find(name)
	return is
}

// Fits says why a manifest would not count; nil when it would.
func (c *Config) Fits(m roster.Manifest) error {
	if why := c.unfit(m); why != "" {
		return errors.New(why)
	}
	return nil
}

// programs are the agents that have a program.
func (c *Config) programs() []string { return append(agents.Names(), c.CustomAgents()...) }

// NotAgent says why a name is none of an agent; empty when it is one.
func (c *Config) NotAgent(name string) string {
	if p := c.TeamProblem(name); p != nil {
		return "the manifest of that agent is wrong, so that it is hidden: " + p.Error()
	}
	return notOneOf(name, strings.Join(c.Answering(), ","))
}

// AgentSettings returns the settings of an agent. Those of its program count where neither
// its manifest nor its own entry says anything.
func (c *Config) AgentSettings(name string) Agent {
	a := c.Agents[name]
	m := c.Manifest(name)
	if m == nil {
		return a
	}
	a.Mode = cmp.Or(m.Mode, a.Mode)
	if program := c.Program(name); program != name {
		of := c.Agents[program]
		a.Mode = cmp.Or(a.Mode, of.Mode)
		a.ReadOnlyPaths = slices.Concat(of.ReadOnlyPaths, a.ReadOnlyPaths)
		env := maps.Clone(of.Env)
		if env == nil {
			env = map[string]string{}
		}
		maps.Copy(env, a.Env)
		a.Env = env
	}
	return a
}
