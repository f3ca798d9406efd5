package orchestrator

import (
	"encoding/json"
	"fmt"
	"strings"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/team/artifacts"
	"gander.dev/gander/sandbox/team/chat"
	"gander.dev/gander/sandbox/team/skills"
	"gander.dev/gander/sessions"
)

// runPrefix begins the names of the run's artifacts; other files are the orchestrator's own.
const runPrefix = "run/"

// place is the folder of a file that the planner names, and its name there.
func (r *run) place(path string) (*artifacts.Folder, string) {
	if name, ok := strings.CutPrefix(path, runPrefix); ok {
		return r.files, name
	}
	return r.own, path
}

// maxShown bounds what the planner is given of a file, in bytes.
const maxShown = 32 << 10

// read reads a file for the planner.
func (r *run) read(d *decision, i int) string {
	a := d.actions[i]
	folder, name := r.place(a.Path)
	content, err := folder.Read(name)
	r.showFile(i, "read", "Read "+a.Path, folder.Path(name), err)
	r.step(d, i, a, sessions.StepFacts{ArtifactIO: &sessions.ArtifactIO{ReadPath: a.Path}})
	if err != nil {
		return "This was not done: " + err.Error()
	}
	return chat.Cut(string(content), maxShown)
}

// write writes a file of the planner's.
func (r *run) write(d *decision, i int) string {
	a := d.actions[i]
	folder, name := r.place(a.Path)
	err := folder.Write(name, []byte(a.Content))
	r.showFile(i, "edit", "Write "+a.Path, folder.Path(name), err)
	r.step(d, i, a, sessions.StepFacts{ArtifactIO: &sessions.ArtifactIO{WritePath: a.Path}})
	if err != nil {
		return "This was not done: " + err.Error()
	}
	r.note("wrote %s", a.Path)
	return fmt.Sprintf("Written: %s, %d bytes.", a.Path, len(a.Content))
}

// showFile shows the person what became of a file.
func (r *run) showFile(i int, kind, title, path string, err error) {
	call := map[string]any{
		"toolCallId": fmt.Sprintf("file-%s-%d-%d", r.id, r.steps, i), "title": title, "kind": kind, "status": "completed",
		"locations": []any{map[string]string{"path": path}},
	}
	if err != nil {
		call["status"], call["content"] = "failed", []any{acp.ToolContent(err.Error())}
	}
	r.s.send(update("tool_call", call))
}

// update is an update of a kind.
func update(kind string, fields map[string]any) json.RawMessage {
	raw, _ := json.Marshal(kind) // a string always marshals
	return acp.WithFields(json.RawMessage(`{"sessionUpdate":`+string(raw)+`}`), fields)
}

// installSkill installs a skill when the person, who is shown all of it, allows that.
func (r *run) installSkill(d *decision, i int) string {
	a := d.actions[i]
	text, err := r.skillText(a)
	where := ""
	if err == nil {
		where, err = r.askSkill(i, a, text)
	}
	r.step(d, i, a, sessions.StepFacts{})
	if err != nil {
		return "This was not done: " + err.Error()
	}
	r.note("installed the skill %s for %s", a.SkillName, a.Target)
	return fmt.Sprintf("The skill %s is installed for %s, in %s. It is there when that agent's next sandbox is made.", a.SkillName, a.Target, where)
}

// skillText is the SKILL.md that is to be installed.
func (r *run) skillText(a *action) ([]byte, error) {
	if r.member(a.Target) == nil {
		return nil, fmt.Errorf("name in targetAgentId the agent that is to have the skill, one of: %s", r.names())
	}
	text := []byte(a.Content)
	if a.Content == "" {
		name, ok := strings.CutPrefix(a.Source, runPrefix)
		if !ok {
			return nil, fmt.Errorf("give the text in content, or name an artifact of this run (run/...) in sourcePath")
		}
		var err error
		if text, err = r.files.Read(name); err != nil {
			return nil, err
		}
	}
	if !strings.HasPrefix(string(text), "---") {
		if a.Describes == "" {
			return nil, fmt.Errorf("the text has no front matter, so that description has to say when the skill is to be used")
		}
		about, _ := json.Marshal(a.Describes) // which YAML reads, too
		text = fmt.Appendf(nil, "---\nname: %s\ndescription: %s\n---\n%s", a.SkillName, about, text)
	}
	_, err := skills.Parse(text)
	return text, err
}

// askSkill asks the person about a skill, and installs it.
func (r *run) askSkill(i int, a *action, text []byte) (where string, err error) {
	call := map[string]any{
		"toolCallId": fmt.Sprintf("skill-%s-%d-%d", r.id, r.steps, i), "kind": "other", "status": "pending",
		"title":   fmt.Sprintf("Install the skill %s for %s", a.SkillName, a.Target),
		"content": []any{acp.ToolContent(string(text))},
	}
	r.s.send(update("tool_call", call))
	end := func(status, says string) {
		r.s.send(acp.ToolCallProgress(call["toolCallId"].(string), status, []json.RawMessage{acp.ToolContent(string(text)), acp.ToolContent(says)}))
	}
	answered := r.clock.ask()
	defer answered()
	raw, _ := json.Marshal(call) // such a map always encodes
	resp, err := r.s.p.Client.RequestPermission(r.ctx, &acp.RequestPermissionRequest{ToolCall: raw, Options: []acp.PermissionOption{
		{OptionID: "allow", Kind: "allow_once", Name: "Install it"},
		{OptionID: "reject", Kind: "reject_once", Name: "Do not install it"},
	}})
	if err != nil || resp.Outcome.OptionID != "allow" {
		end("failed", "Not installed.")
		return "", fmt.Errorf("the person did not allow it, or nobody was there to be asked")
	}
	if where, err = r.s.a.o.Install(a.Target, a.SkillName, text); err != nil {
		end("failed", err.Error())
		return "", err
	}
	end("completed", "Installed in "+where)
	return where, nil
}
