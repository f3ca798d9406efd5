package wire

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/sandbox/agents"
	"gander.dev/gander/sandbox/team/orchestrator"
	"gander.dev/gander/sandbox/team/roster"
	"gander.dev/gander/sandbox/team/skills"
)

// Orchestrator returns the agent that gives others tasks. team connects it to these; without
// it the agent can only be checked.
func (w *Wiring) Orchestrator(team func(of acp.SessionID, c acp.Client) (orchestrator.Team, error)) *orchestrator.Agent {
	home := w.Config().Home
	return orchestrator.New(orchestrator.Options{
		Settings: func() (orchestrator.Settings, error) {
			endpoint, err := w.Config().Endpoint(orchestrator.Name)
			return orchestrator.Settings{Model: endpoint.Model, Planner: w.Config().Orchestrator.Planner}, err
		},
		Team: team, Members: w.members, Log: w.Log,
		Limits:    func() orchestrator.Limits { return w.Config().RunLimits() },
		Artifacts: filepath.Join(home, "artifacts"), Workspace: roster.At(home).Workspace(orchestrator.Name),
		Install: w.installSkill,
	})
}

// members are the agents that the orchestrator may give tasks.
func (w *Wiring) members() []orchestrator.Member {
	cfg := w.Config()
	var all []orchestrator.Member
	for _, a := range w.Agents() {
		name := a.Name()
		m := orchestrator.Member{Name: name, Title: name, Priority: usualPriority, Check: a.Check}
		if modes := a.Defaults().Modes; modes != nil {
			m.Mode = modes.CurrentModeID
		}
		if known, _ := agents.Find(cfg.Program(name)); len(known.AskingModes) > 0 {
			m.AskingMode = known.AskingModes[0]
		}
		if r := cfg.Manifest(name); r != nil {
			if !r.Delegation.CanReceive || !r.Discoverable {
				continue
			}
			m.Title, m.Description, m.Tags, m.Priority = cmp.Or(r.Name, name), r.Description, r.Tags, r.Priority
			if r.Access == roster.AccessRead {
				m.Access = r.Access
			}
		}
		all = append(all, m)
	}
	return all
}

// usualPriority is that of an agent without a manifest.
const usualPriority = 50

// installSkill installs a skill for an agent, of the text of its SKILL.md.
func (w *Wiring) installSkill(agent, skill string, text []byte) (string, error) {
	dir, err := os.MkdirTemp("", "gander-skill-")
	if err != nil {
		return "", fmt.Errorf("making a place for the skill: %w; %s", err, cli.TemporaryAdvice)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, skills.File)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", err
	}
	installed, err := w.Config().SkillStore(agent).Install(file, skill)
	return installed.Dir, err
}
