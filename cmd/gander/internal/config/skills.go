package config

import (
	"path/filepath"

	"gander.dev/gander/sandbox/team/roster"
	"gander.dev/gander/sandbox/team/skills"
)

// homeSkills names the folder, below the home, in which many agents look for skills.
const homeSkills = ".agents/skills"

// SkillStore returns where skills are installed, for all agents or one of the team's.
func (c *Config) SkillStore(agent string) skills.Store {
	if agent != "" {
		return skills.Store{Dir: filepath.Join(roster.At(c.Home).Agents, agent, "skills")}
	}
	return skills.Store{Dir: filepath.Join(c.Home, "skills")}
}

// FindSkills finds the skills that sandboxes show: of an agent first, where one is named, then those
// of plugins, those that are installed for all, and the person's own. Of what is in directories that a
// sandbox can write none counts.
func (c *Config) FindSkills(agent string, writable ...string) skills.Found {
	var roots []skills.Root
	if agent != "" {
		roots = append(roots, skills.Root{Dir: c.SkillStore(agent).Dir, Source: "agent " + agent, Home: homeSkills})
	}
	for _, p := range c.Plugins() {
		roots = append(roots, skills.Root{Dir: p.Dir, Folders: p.Skills, Source: "plugin " + p.ID, Home: homeSkills})
	}
	roots = append(roots, skills.Root{Dir: c.SkillStore("").Dir, Source: "installed", Home: homeSkills})
	if home := c.env["HOME"]; c.Skills.User && filepath.IsAbs(home) {
		for _, at := range []string{homeSkills, ".claude/skills"} {
			roots = append(roots, skills.Root{Dir: filepath.Join(home, filepath.FromSlash(at)), Source: "~/" + at, Home: at})
		}
	}
	return skills.Find(roots, writable...)
}
