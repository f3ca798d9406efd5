package orchestrator

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gander.dev/gander/sandbox/team/artifacts"
	"gander.dev/gander/sandbox/team/chat"
)

// The actions of the planner, which are its tools.
const (
	actDelegate = "delegate_to_agent"
	actRead     = "read_workspace_file"
	actWrite    = "write_workspace_file"
	actSkill    = "install_skill"
	actRespond  = "respond_user"
	actFinish   = "finish"
)

// actions are in the order in which the planner is told of them.
func actions() []string {
	return []string{actDelegate, actRead, actWrite, actSkill, actRespond, actFinish}
}

//go:embed schemas/*.json
var schemas embed.FS

// tools are the actions as a model is told of them.
func tools() []chat.Tool {
	var all []chat.Tool
	for _, name := range actions() {
		raw, err := schemas.ReadFile("schemas/" + name + ".json")
		tool := chat.Tool{Name: name}
		if err == nil {
			err = json.Unmarshal(raw, &tool)
		}
		if err != nil {
			panic(err) // it is part of the program
		}
		all = append(all, tool)
	}
	return all
}

// The values of an action's mode, sessionPolicy and access.
const (
	modeDirect    = "direct"
	modeArtifacts = "artifacts"
	modeHybrid    = "hybrid"

	policyAuto  = "auto"
	policyNew   = "new"
	policyReuse = "reuse"

	accessRead  = "read"
	accessWrite = "write"
)

// action holds one thing that the planner wants done, of one of the types above.
type action struct {
	ID   string `json:"-"` // of the tool call
	Type string `json:"-"`

	Rationale string   `json:"rationale"`
	Target    string   `json:"targetAgentId"`
	Message   string   `json:"message"`
	Expected  string   `json:"expectedOutput"`
	TaskKey   string   `json:"taskKey"`
	Policy    string   `json:"sessionPolicy"`
	Mode      string   `json:"mode"`
	Access    string   `json:"access"`
	Attach    []string `json:"attach"`
	Remaining []string `json:"remaining"`
	Path      string   `json:"path"`
	Content   string   `json:"content"`
	SkillName string   `json:"skillName"`
	Source    string   `json:"sourcePath"`
	Describes string   `json:"description"`

	raw     json.RawMessage
	problem string // why it is not carried out
	outcome string // what came of it, for telling repeated ones
}

// maxMessage bounds the texts of an action, in bytes.
const maxMessage = 256 << 10

// decode reads a call of a tool. What is wrong with it is its problem.
func decode(id, name, arguments string) *action {
	a := &action{ID: id, Type: name}
	if !slices.Contains(actions(), name) {
		a.problem = fmt.Sprintf("there is no tool %.60q; the tools are %s", name, strings.Join(actions(), ", "))
		return a
	}
	if strings.TrimSpace(arguments) == "" {
		arguments = "{}"
	}
	if err := json.Unmarshal([]byte(arguments), a); err != nil {
		a.problem = "the arguments of " + name + " cannot be read: " + whatIsWrong(err)
		return a
	}
	a.raw = json.RawMessage(arguments)
	a.tidy()
	if err := a.check(); err != nil {
		a.problem = name + ": " + err.Error()
	}
	return a
}

// whatIsWrong is an error of decoding for who wrote the JSON.
func whatIsWrong(err error) string {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if e.Field == "" {
			return "they are not an object but a JSON " + e.Value
		}
		return fmt.Sprintf("%s must not be a JSON %s", e.Field, e.Value)
	}
	return err.Error()
}

var notInKey = regexp.MustCompile(`[^a-z0-9._:-]+`)

const maxKey = 80

// tidy brings names into one form.
func (a *action) tidy() {
	a.Target = strings.ToLower(strings.TrimSpace(a.Target))
	a.TaskKey = strings.Trim(notInKey.ReplaceAllString(strings.ToLower(strings.TrimSpace(a.TaskKey)), "-"), "-")
	a.TaskKey = a.TaskKey[:min(len(a.TaskKey), maxKey)]
	a.Path, a.Source = strings.TrimSpace(a.Path), strings.TrimSpace(a.Source)
	a.SkillName = strings.ToLower(strings.TrimSpace(a.SkillName))
	if a.Type != actDelegate {
		return
	}
	for _, d := range []struct {
		field *string
		usual string
	}{{&a.Policy, policyAuto}, {&a.Mode, modeHybrid}} {
		if *d.field = strings.ToLower(strings.TrimSpace(*d.field)); *d.field == "" {
			*d.field = d.usual
		}
	}
	a.Access = strings.ToLower(strings.TrimSpace(a.Access))
}

// check fails for what is missing, and for what makes no sense.
func (a *action) check() error {
	type field struct{ name, value string }
	need := map[string][]field{
		actDelegate: {{"targetAgentId", a.Target}, {"message", a.Message}},
		actRead:     {{"path", a.Path}},
		actWrite:    {{"path", a.Path}},
		actSkill:    {{"skillName", a.SkillName}},
	}
	for _, f := range need[a.Type] {
		if strings.TrimSpace(f.value) == "" {
			return fmt.Errorf("%s is missing", f.name)
		}
	}
	if n := max(len(a.Message), len(a.Expected)); n > maxMessage {
		return fmt.Errorf("a text has %d bytes, more than %d", n, maxMessage)
	}
	for _, e := range []struct {
		name, value string
		of          []string
	}{
		{"sessionPolicy", a.Policy, []string{policyAuto, policyNew, policyReuse}},
		{"mode", a.Mode, []string{modeDirect, modeArtifacts, modeHybrid}},
		{"access", a.Access, []string{"", accessRead, accessWrite}},
	} {
		if a.Type == actDelegate && !slices.Contains(e.of, e.value) {
			return fmt.Errorf("%s: %.40q is not one of %s", e.name, e.value, strings.Join(slices.DeleteFunc(e.of, func(s string) bool { return s == "" }), ", "))
		}
	}
	if len(a.Attach) > 0 && a.Mode == modeDirect {
		return errors.New("mode direct gives the message only; attach needs hybrid or artifacts")
	}
	if a.Type == actRead || a.Type == actWrite {
		return artifacts.CheckName(a.Path)
	}
	return nil
}

// ends reports whether the action ends the turn.
func (a *action) ends() bool { return a.Type == actRespond || a.Type == actFinish }
