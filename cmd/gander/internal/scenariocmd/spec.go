package scenariocmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/conformance/model"
	"gander.dev/gander/sandbox/team/orchestrator"
	"gander.dev/gander/sandbox/team/roster"
)

// A spec is a scenario as its file says it.
type spec struct {
	Name         string `json:"name"`
	Message      string `json:"message"`
	EntryAgentID string `json:"entryAgentId"`
	// Project and Team name folders, from the file's own: what is worked on, and the team's agents/,
	// skills/ and config.json.
	Project     string          `json:"project"`
	Team        string          `json:"team"`
	Agents      []member        `json:"agents"`
	Permissions string          `json:"permissions" enum:"all,reads,none"`
	Mode        string          `json:"mode"`
	Time        config.Duration `json:"time"`
	Limits      config.Limits   `json:"limits"`
	MinPasses   int64           `json:"minPasses"`
	Scripted    script          `json:"scripted"`
	// Turns follow the first one, in the same session.
	Turns      []turn     `json:"turns"`
	Assertions assertions `json:"assertions"`

	file   string // its path
	read   *config.File
	folded map[string]string // ids of agents by the other ways in which the file may call them
}

// A member is an agent that exists in the scenario alone.
type member struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	Description  string   `json:"description"`
	Provider     string   `json:"provider"`
	Access       string   `json:"access" enum:"read,write"`
	Tags         []string `json:"tags"`
	Priority     int64    `json:"priority"`
	Instructions string   `json:"instructions"`
	// Command starts a program for each prompt: it is an agent without a model.
	Command []string `json:"command"`
}

// A turn is a further prompt.
type turn struct {
	Message  string `json:"message"`
	Scripted script `json:"scripted"`
}

// A script holds what models say in the mode "scripted".
type script struct {
	OrchestratorActions []answer                   `json:"orchestratorActions"`
	AgentReplies        map[string]json.RawMessage `json:"agentReplies"`
}

// An answer of the planner is one decision, or several at once.
type answer []decision

// OneOrMany marks the list for the decoder.
func (answer) OneOrMany() {}

type decision struct {
	Rationale string `json:"rationale"`
	Action    action `json:"action"`
}

// An action is what the planner wants done. Reason is read, and says nothing to anybody.
type action struct {
	Type           string   `json:"type" enum:"delegate_to_agent,read_workspace_file,write_workspace_file,install_skill,respond_user,finish"`
	Reason         string   `json:"reason"`
	Mode           string   `json:"mode" enum:"direct,artifacts,hybrid"`
	TargetAgentID  string   `json:"targetAgentId"`
	Message        string   `json:"message"`
	ExpectedOutput string   `json:"expectedOutput"`
	TaskKey        string   `json:"taskKey"`
	SessionPolicy  string   `json:"sessionPolicy" enum:"auto,new,reuse"`
	Access         string   `json:"access" enum:"read,write"`
	Attach         []string `json:"attach"`
	Remaining      []string `json:"remaining"`
	Path           string   `json:"path"`
	Content        string   `json:"content"`
	SkillName      string   `json:"skillName"`
	SourcePath     string   `json:"sourcePath"`
	Description    string   `json:"description"`
}

// assertions hold what is to be true of a run; those that the file leaves out are not looked at.
type assertions struct {
	MustSucceed    bool                 `json:"mustSucceed"`
	StopReason     string               `json:"stopReason" enum:"end_turn,max_tokens,max_turn_requests,refusal,cancelled"`
	StdoutIncludes []string             `json:"stdoutIncludes"`
	Delegated      []string             `json:"delegatedAgents"`
	MinSteps       int64                `json:"minSteps"`
	MaxSteps       int64                `json:"maxSteps"`
	Changed        []string             `json:"changed"`
	Unchanged      []string             `json:"unchanged"`
	Files          map[string]fileCheck `json:"files"`
	Threads        map[string]int64     `json:"threads"`
	MaxTokens      int64                `json:"maxTokens"`
	Denied         int64                `json:"denied"`
	Told           map[string][]string  `json:"told"`
}

// A fileCheck says how a file of the project is to be in the end.
type fileCheck struct {
	Contains string `json:"contains"`
	Equals   string `json:"equals"`
	Absent   bool   `json:"absent"`
}

// Limits of a scenario's file and of the time that a run has.
const (
	maxFile   = 1 << 20
	usualTime = 5 * time.Minute
)

// readSpec reads a scenario's file. Its errors name places.
func readSpec(path string, usual config.Limits) (*spec, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxFile {
		err = fmt.Errorf("%s: a scenario has at most %d KiB", path, maxFile>>10)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: there is no such file; name a scenario or a folder of them", path)
	}
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &spec{
		file: path, EntryAgentID: orchestrator.Name, Permissions: "all", Time: config.Duration(usualTime), Limits: usual,
		Assertions: assertions{MustSucceed: true}, folded: map[string]string{},
	}
	if s.read, err = config.ReadFile(path, data, s); err != nil {
		return nil, err
	}
	s.check()
	return s, s.read.Err()
}

// check finds what the decoder cannot know.
func (s *spec) check() {
	for path, text := range map[string]string{"name": s.Name, "message": s.Message} {
		if strings.TrimSpace(text) == "" {
			s.read.Fail(path, "is missing")
		}
	}
	if s.Time <= 0 {
		s.read.Fail("time", "is to be more than nothing")
	}
	for path, dir := range map[string]string{"project": s.Project, "team": s.Team} {
		if info, err := os.Stat(s.beside(dir)); dir != "" && (err != nil || !info.IsDir()) {
			s.read.Fail(path, "there is no folder %s", s.beside(dir))
		}
	}
	s.checkAgents()
	s.EntryAgentID = s.id(s.EntryAgentID)
	s.checkScript("scripted", &s.Scripted)
	for i := range s.Turns {
		path := fmt.Sprintf("turns[%d]", i)
		if strings.TrimSpace(s.Turns[i].Message) == "" {
			s.read.Fail(path, "its message is missing")
		}
		s.checkScript(path+".scripted", &s.Turns[i].Scripted)
	}
	for i, name := range s.Assertions.Delegated {
		s.Assertions.Delegated[i] = s.id(name)
	}
	for name, f := range s.Assertions.Files {
		path := "assertions.files." + name
		if f.Absent && (f.Contains != "" || s.read.Has(path+".equals")) {
			s.read.Fail(path, "what is absent has no content")
		}
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			s.read.Fail(path, "name a file of the project, from its top")
		}
	}
	if !s.read.Has("assertions") {
		s.read.Fail("", "there are no assertions, so that nothing would be checked")
	}
}

var notInID = regexp.MustCompile(`[^a-z0-9]+`)

// fold returns a name as an id of an agent, as names have become ids for long.
func fold(name string) string {
	return strings.Trim(notInID.ReplaceAllString(strings.ToLower(name), "-"), "-")
}

// id returns the agent that a name in the file means.
func (s *spec) id(name string) string {
	if id := s.folded[fold(name)]; id != "" {
		return id
	}
	return fold(name)
}

// checkAgents gives agents their ids. One may also be called by its name.
func (s *spec) checkAgents() {
	var ids []string
	for i := range s.Agents {
		m, path := &s.Agents[i], fmt.Sprintf("agents[%d]", i)
		if m.ID = fold(m.ID); m.ID == "" {
			m.ID = fold(m.Name)
		}
		switch why := roster.CheckID(m.ID); {
		case m.ID == orchestrator.Name:
		case why != "":
			s.read.Fail(path, "%s", why)
		case slices.Contains(ids, m.ID):
			s.read.Fail(path, "there is an agent %s already", m.ID)
		case len(m.Command) > 0 && m.Provider != "":
			s.read.Fail(path, "it has either a provider or a command")
		}
		ids = append(ids, m.ID)
	}
	for _, m := range s.Agents {
		if name := fold(m.Name); !slices.Contains(ids, name) {
			s.folded[name] = m.ID
		}
	}
}

// checkScript checks what models say. Agents that it names are called by their ids then.
func (s *spec) checkScript(path string, sc *script) {
	for i, a := range sc.OrchestratorActions {
		for j := range a {
			at, act := fmt.Sprintf("%s.orchestratorActions[%d]", path, i), &a[j].Action
			if s.read.Has(fmt.Sprintf("%s[%d]", at, j)) {
				at = fmt.Sprintf("%s[%d]", at, j)
			}
			if act.Type == "" {
				s.read.Fail(at, "its action is missing, or has no type")
			}
			act.TargetAgentID = s.id(act.TargetAgentID)
		}
	}
	replies := map[string]json.RawMessage{}
	for name, raw := range sc.AgentReplies {
		replies[s.id(name)] = raw
		if _, err := steps(raw); err != nil {
			s.read.Fail(path+".agentReplies."+name, "want a text, or steps of the scripted model: %s", err)
		}
	}
	sc.AgentReplies = replies
}

// beside returns a path that is relative to the file's folder.
func (s *spec) beside(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(s.file), filepath.FromSlash(path))
}

// isScripted reports whether the file says what models answer.
func (s *spec) isScripted() bool { return s.read.Has("scripted") }

// steps reads what an agent's model says: a text, or steps.
func steps(raw json.RawMessage) (*model.Script, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return &model.Script{Default: []model.Step{{Text: text}}}, nil
	}
	return model.ParseScript(slices.Concat([]byte(`{"default": `), raw, []byte("}")))
}

// planned returns what the planner's model says. The last answer is said again and again, and
// without any there is nothing to do.
func planned(answers []answer, atLeast int) *model.Script {
	if len(answers) == 0 {
		answers = []answer{{{Action: action{Type: "finish", Message: "Completed."}}}}
	}
	var all []model.Step
	for _, a := range answers {
		var step model.Step
		for _, d := range a {
			args, _ := json.Marshal(d.arguments()) // texts and lists always encode
			step.Tools = append(step.Tools, model.Tool{Name: d.Action.Type, Args: args})
		}
		all = append(all, step)
	}
	for len(all) <= atLeast {
		all = append(all, all[len(all)-1])
	}
	return &model.Script{Default: all}
}

// arguments returns a decision as a tool call has it.
func (d decision) arguments() map[string]any {
	a, args := d.Action, map[string]any{}
	for key, text := range map[string]string{
		"rationale": d.Rationale, "mode": a.Mode, "targetAgentId": a.TargetAgentID, "message": a.Message, "expectedOutput": a.ExpectedOutput, "taskKey": a.TaskKey,
		"sessionPolicy": a.SessionPolicy, "access": a.Access, "path": a.Path, "content": a.Content, "skillName": a.SkillName, "sourcePath": a.SourcePath, "description": a.Description,
	} {
		if text != "" {
			args[key] = text
		}
	}
	for key, list := range map[string][]string{"attach": a.Attach, "remaining": a.Remaining} {
		if list != nil {
			args[key] = list
		}
	}
	return args
}

// stopReason returns the reason with which the last turn is to end; empty when any will do.
func (a assertions) stopReason() acp.StopReason { return acp.StopReason(a.StopReason) }
