package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gander.dev/gander/cmd/gander/internal/redact"
	"gander.dev/gander/sandbox/agents"
	"gander.dev/gander/sandbox/agents/acpagent"
	"gander.dev/gander/sandbox/team/orchestrator"
	"gander.dev/gander/sandbox/team/roster"
)

func isBuiltIn(name string) bool {
	_, is := agents.Find(name)
	return is
}

// AgentNames are the agents that can be chosen, in the order they are offered: those that
// gander knows, those that the user's file adds, those of manifests.
func (c *Config) AgentNames() []string {
	names := c.programs()
	for _, m := range c.team {
		if !slices.Contains(names, m.ID) {
			names = append(names, m.ID)
		}
	}
	return names
}

// Answering are those that can answer a prompt: the agents, and who gives them tasks.
func (c *Config) Answering() []string { return append(c.AgentNames(), orchestrator.Name) }

// CustomAgents are the agents that the user's file adds, sorted by name. Their
// commands are complete, with placeholders that sandbox/agents/custom fills in.
func (c *Config) CustomAgents() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.Agents)), func(name string) bool {
		return isBuiltIn(name) || name == orchestrator.Name || len(c.Agents[name].Command) == 0
	})
}

// variablePrefix begins the names of an agent's variables.
func variablePrefix(name string) string {
	return strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// mayBeAgent fails for a key of agents that is neither an agent we know nor the
// entry of another one, which says how that is started.
func (d *decoder) mayBeAgent(m member) bool {
	if isBuiltIn(m.key) || slices.Contains(d.team, m.key) {
		return true
	}
	path := join("agents", m.key)
	if m.key == orchestrator.Name {
		for _, set := range m.value.members {
			if set.key != "model" {
				d.fail(set.offset, join(path, set.key), "the orchestrator runs in gander itself; of it only the model can be set here, and its limits in orchestrator.limits")
			}
		}
		return true
	}
	starts := slices.ContainsFunc(m.value.members, func(m member) bool { return m.key == "command" })
	switch {
	case !starts && nearest(m.key, agents.Names()) != "":
		d.unknown(m, "agents", agents.Names())
	case !starts:
		d.fail(m.offset, path, `unknown agent; known here: %s, and any that has a "command", like ["/opt/agent", "--acp"]`, strings.Join(agents.Names(), ", "))
	case roster.CheckID(m.key) != "":
		d.fail(m.offset, path, "%s", roster.CheckID(m.key))
	default:
		return true
	}
	return false
}

// placeholders of the variables and the command of a custom agent.
func placeholders() []string {
	return []string{"{modelUrl}", "{modelUrlV1}", "{model}", "{key}", "{home}", acpagent.PromptPlace}
}

var braced = regexp.MustCompile(`\{[A-Za-z]\w*\}`)

// checkCustom checks the settings of an agent that gander does not know.
func (d *decoder) checkCustom(path string, a Agent) {
	if d.wasSet(path+".command") && (len(a.Command) == 0 || strings.TrimSpace(a.Command[0]) == "") {
		d.failAt(path+".command", errors.New(`is empty; want the program with all of its arguments, like ["/opt/agent", "--acp"]`))
	}
	for i, arg := range a.Command {
		if strings.Contains(arg, acpagent.PromptPlace) && !a.OneShot && d.wasSet(fmt.Sprintf("%s.command[%d]", path, i)) {
			d.failAt(fmt.Sprintf("%s.command[%d]", path, i), fmt.Errorf("%s is for programs that are started for each prompt; set %s.oneShot to true", acpagent.PromptPlace, path))
		}
		d.checkPlaceholders(fmt.Sprintf("%s.command[%d]", path, i), arg)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		where := join(path+".env", name)
		switch value := a.Env[name]; {
		case value == "{key}" && isVariable(name):
		case redact.IsSecretName(name) && d.wasSet(where):
			d.failAt(where, fmt.Errorf("%s holds a secret by its name, and no secret enters a sandbox; write {key} for a placeholder, the model's key goes into LLM_API_KEY and is added outside", name))
		default:
			d.checkName(where, name)
			d.checkPlaceholders(where, value)
		}
	}
}

// checkPlaceholders fails for what was probably meant to be a placeholder.
func (d *decoder) checkPlaceholders(path, value string) {
	if !d.wasSet(path) {
		return
	}
	for _, word := range braced.FindAllString(value, -1) {
		if near := nearest(word, placeholders()); near != "" && near != word {
			d.failAt(path, fmt.Errorf("%s is not a placeholder; did you mean %s?", word, near))
		}
	}
}
