package scenariocmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox/agents"
	"gander.dev/gander/sandbox/team/orchestrator"
	"gander.dev/gander/sandbox/team/roster"
)

// A stage is where one run of a scenario takes place: a home of gander's and a copy of the project,
// both of which go away, and the stand-ins of models.
type stage struct {
	app    *cli.App
	spec   *spec
	live   bool
	dir    string
	cast   *cast  // nil where models are real
	model  string // the address of the cast
	before map[string]string
	team   []string // the agents beside those that gander brings
}

func (s *stage) home() string { return filepath.Join(s.dir, "home") }

func (s *stage) project() string { return filepath.Join(s.dir, "project") }

// build makes the home and the project.
func (s *stage) build() error {
	if err := os.Mkdir(s.home(), 0o700); err != nil {
		return err
	}
	from := s.app.Config.Home
	if s.spec.Team != "" {
		from = s.spec.beside(s.spec.Team)
	}
	if err := s.writeConfig(from); err != nil {
		return err
	}
	if s.spec.Team != "" || len(s.spec.Agents) == 0 {
		if err := s.copyTeam(from); err != nil {
			return err
		}
	}
	for _, m := range s.spec.Agents {
		if err := s.employ(m); err != nil {
			return fmt.Errorf("making the agent %s: %w", m.ID, err)
		}
	}
	err := os.Mkdir(s.project(), 0o755)
	if s.spec.Project != "" {
		err = os.CopyFS(s.project(), os.DirFS(s.spec.beside(s.spec.Project)))
	}
	if err == nil {
		s.before, err = sums(s.project())
	}
	if err != nil {
		return fmt.Errorf("copying the project: %w", err)
	}
	return nil
}

// employ writes the manifest of an agent that exists in the scenario alone.
func (s *stage) employ(m member) error {
	if m.ID == orchestrator.Name {
		return nil
	}
	priority := 50
	if m.Priority != 0 {
		priority = int(m.Priority)
	}
	s.team = append(s.team, m.ID)
	manifest := roster.Manifest{
		ID: m.ID, Name: m.Name, Description: m.Description, Provider: m.Provider, Access: m.Access, Tags: m.Tags, Priority: priority,
		Instructions: m.Instructions, Discoverable: true, Delegation: roster.Delegation{CanReceive: true},
	}
	if own := slices.Contains(agents.Names(), m.ID) || len(m.Command) > 0; !own && m.Provider == "" {
		manifest.Provider = s.usual()
	} else if own && m.Provider == m.ID {
		manifest.Provider = ""
	}
	return roster.At(s.home()).Create(manifest)
}

// usual returns the program of agents that name none: the person's, or the first that is there.
func (s *stage) usual() string {
	c := s.app.Config
	for _, name := range append([]string{c.Program(c.Agent)}, agents.Names()...) {
		if _, err := c.FindAgent(name); err == nil && name != orchestrator.Name {
			return name
		}
	}
	return agents.Default()
}

// copyTeam copies manifests and skills of a home. What a manifest says of endpoints is nothing for
// scripted models.
func (s *stage) copyTeam(from string) error {
	team, problems := roster.At(from).Read()
	for _, p := range problems {
		return &p
	}
	for _, m := range team {
		if !s.live {
			m.Endpoint, m.Model = "", ""
		}
		if err := roster.At(s.home()).Create(m); err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
		s.team = append(s.team, m.ID)
	}
	skills, err := filepath.Glob(filepath.Join(from, "agents", "*", "skills"))
	if err != nil {
		return err
	}
	for _, dir := range append(skills, filepath.Join(from, "skills")) {
		rel, err := filepath.Rel(from, dir)
		if err == nil {
			err = os.CopyFS(filepath.Join(s.home(), rel), os.DirFS(dir))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("copying the team's skills: %w", err)
		}
	}
	return nil
}

// writeConfig writes the configuration of the run: the person's, with the team's limits and
// programs. In the mode "scripted" nothing in it leads to a model, and the person's own skills are not shown.
func (s *stage) writeConfig(team string) error {
	all, err := readObject(filepath.Join(s.app.Config.Home, config.UserFile))
	if err != nil {
		return err
	}
	if team != s.app.Config.Home {
		of, err := readObject(filepath.Join(team, config.UserFile))
		if err != nil {
			return err
		}
		maps.Copy(all, of)
	}
	programs := map[string]map[string]any{}
	if raw, ok := all["agents"]; ok {
		if err := json.Unmarshal(raw, &programs); err != nil {
			return fmt.Errorf("agents of the configuration: %w", err)
		}
	}
	if !s.live {
		for _, key := range []string{"model", "providers", "notify", "upgrade", "agent"} {
			delete(all, key)
		}
		for _, p := range programs {
			delete(p, "model")
			delete(p, "provider")
			delete(p, "protocol")
		}
		all["skills"] = json.RawMessage(`{"user": false}`)
	}
	for _, m := range s.spec.Agents {
		if len(m.Command) > 0 {
			programs[m.ID] = map[string]any{"command": m.Command, "oneShot": true}
		}
	}
	if all["agents"], err = json.Marshal(programs); err != nil {
		return err
	}
	if s.spec.read.Has("limits") {
		if all["orchestrator"], err = json.Marshal(map[string]any{"limits": s.spec.Limits}); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.home(), config.UserFile), text, 0o600)
}

// readObject reads a JSON object; a file that is not there has nothing in it.
func readObject(path string) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// environ returns the environment of gander on the stage.
func (s *stage) environ() []string {
	var env []string
	for _, v := range s.app.Environ {
		name, _, _ := strings.Cut(v, "=")
		models := strings.HasSuffix(name, "_MODEL") || strings.HasSuffix(name, "LLM_HOST") || name == "LLM_API_KEY"
		if name == "GANDER_HOME" || name == "GANDER_LOG_LEVEL" || !s.live && models {
			continue
		}
		env = append(env, v)
	}
	env = append(env, "GANDER_HOME="+s.home(), "GANDER_LOG_LEVEL=error")
	for _, name := range agents.Names() {
		if command, err := s.app.Config.FindAgent(name); err == nil {
			env = append(env, "GANDER_"+variable(name)+"_CMD="+quoted(command))
		}
	}
	if s.live {
		return env
	}
	env = append(env, "LLM_HOST="+s.model, "LLM_API_KEY="+s.cast.key)
	for _, name := range s.players() {
		env = append(env, variable(name)+"_MODEL="+modelOf(name))
	}
	return env
}

// players are all agents that may answer.
func (s *stage) players() []string {
	all := slices.Concat(agents.Names(), []string{orchestrator.Name}, s.team, s.app.Config.CustomAgents())
	slices.Sort(all)
	return slices.Compact(all)
}

// variable returns the beginning of the names of an agent's variables.
func variable(agent string) string { return strings.ToUpper(strings.ReplaceAll(agent, "-", "_")) }

// quoted writes a command as a shell would read it.
func quoted(command []string) string {
	words := make([]string, len(command))
	for i, w := range command {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// checkAgents fails when an agent of the scenario cannot start.
func (s *stage) checkAgents(ctx context.Context, self string) error {
	cmd := exec.CommandContext(ctx, self)
	cmd.Args, cmd.Env = []string{"gander", "agent", "list", "--json"}, s.environ()
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("the scenario's agents cannot be listed: %s", cli.OneLine(strings.TrimPrefix(said.String(), "gander: ")))
	}
	var rows []struct {
		Name, Missing string
		Ready         bool
	}
	if err := json.Unmarshal(out, &rows); err != nil {
		return err
	}
	wanted := append(slices.Clone(s.team), s.spec.EntryAgentID)
	for _, r := range rows {
		if slices.Contains(wanted, r.Name) && !r.Ready {
			return fmt.Errorf("the agent %s is not ready: %s", r.Name, r.Missing)
		}
		wanted = slices.DeleteFunc(wanted, func(name string) bool { return name == r.Name })
	}
	if len(wanted) > 0 {
		return fmt.Errorf("there is no agent %s", strings.Join(wanted, ", "))
	}
	return nil
}
