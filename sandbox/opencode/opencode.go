// Package opencode runs opencode as a sandbox.Agent: its command line, its
// variables, and what is particular about its ACP server.
//
// One opencode process serves one session. It uses its own tools (bash, write,
// edit, ...), all of them inside the sandbox: it is offered neither the editor's
// terminal nor its file system. Its state lives below the sandbox's home and
// holds prompts in clear text.
//
// # What is set for it
//
// Its configuration is opencode.json of this package, a template that opencode
// fills in from its environment. Nothing is fetched when it starts. The project's
// own opencode.json and .opencode are not read, because they can name programs to
// run and other places for prompts to go; a session says so when they are there.
// AGENTS.md (or CLAUDE.md, CONTEXT.md) of the project is read. In a sandbox that
// isolates, opencode does not ask before it looks outside of the project: the
// sandbox decides what is there.
//
// The modes are opencode's build and plan, and ask, which is build with questions
// before edits, commands and fetches. What its sub-agents do cannot be seen over ACP, and
// their questions are lost there: gander listens to opencode's own server for that
// (children.go). Where it cannot, the task tool is off. In mode ask the only sub-agent is one
// that asks, too, and in mode plan the one that does not edit.
//
// # What is mended
//
// A prompt that begins with "/" and is no command reaches the model (prompt.go).
// Tool calls get ids that are used once, live output also as what is new of it,
// and the diff of a new file; a command that did not end well is failed, with its code
// (mend.go). Its shell is one that says by what signal a command ended (prepare.sh). A
// request to write a file is carried out in the sandbox, if at all (write.go).
package opencode

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// Name is opencode's word for --agent.
const Name = "opencode"

// provider is the name under which the template configures the model's endpoint.
const provider = "custom"

// leaveTime is how long opencode may take to end when its input is closed. It
// ends its running commands then, which it does not when it gets a signal.
const leaveTime = 500 * time.Millisecond

// Settings is what the configuration says about opencode: "acp" is appended to its
// command, and its modes are build, ask and plan.
type Settings = acpagent.Settings

// Options are optional.
type Options = acpagent.BaseOptions

// Agent implements sandbox.Agent.
type Agent struct{ acpagent.Base }

// New returns the agent; see acpagent.NewBase.
func New(settings func() (Settings, error), o Options) *Agent {
	return &Agent{acpagent.NewBase(Name, settings, o)}
}

// modes are the modes as opencode announces them, with the template's own.
var modes = []acp.SessionMode{
	{ID: "build", Name: "build", Description: "The default agent. Executes tools based on configured permissions."},
	{ID: "ask", Name: "ask", Description: "Like build, but asks before it edits files, runs commands or fetches pages."},
	{ID: "plan", Name: "plan", Description: "Plan mode. Disallows all edit tools."},
}

// Defaults implements sandbox.Agent.
func (a *Agent) Defaults() sandbox.AgentState {
	return a.State(modes, modelValue)
}

// modelValue returns a model's value as opencode has it.
func modelValue(name string) acp.ConfigOptionValue {
	return acp.ConfigOptionValue{Value: modelID(name), Name: "Custom/" + name}
}

// modelID is a model's name as opencode has it.
func modelID(model string) string { return provider + "/" + model }

// UsesDeveloper implements sandbox.ToolUser: opencode's own tools are switched off.
func (a *Agent) UsesDeveloper() {}

// Remembers implements sandbox.Rememberer: opencode's sessions are a database, with
// the log of what is not in the main file yet.
func (a *Agent) Remembers() []string {
	const db = ".local/share/opencode/opencode.db"
	return []string{db, db + "-wal", db + "-shm"}
}

// Open implements sandbox.Agent.
func (a *Agent) Open(ctx context.Context, sb sandbox.Sandbox, p sandbox.SessionParams) (sandbox.AgentSession, error) {
	s, err := a.In(sb, &p)
	if err != nil {
		return nil, err
	}
	found, err := prepare(ctx, sb, s, p.WorkingDir)
	if err != nil {
		return nil, err
	}
	found.developer, found.models = len(p.Developer) > 0, p.Models
	password := rand.Text()
	var control *control
	if ported, ok := sb.(sandbox.Ported); ok && !found.developer && reachable(ctx, ported) {
		control, found.children = newControl(ported, p.WorkingDir, password), true
	}
	env, err := found.environment(s, sb.Info().Home, p.ModelAddr, p.ModelToken, password)
	if err != nil {
		return nil, err
	}
	c := newClient(p, sb, s.Env, control, a.Log)
	p.Client, p.Capabilities.FS = c, acp.FileSystemCapability{} // its own tools never ask, and what it sends of an edit is for the sandbox
	command := sandbox.Command{Args: append(slices.Clone(s.Command), "acp"), Env: env}
	servers := acpagent.Developer(p, acp.EnvVariable{Name: sandbox.OutputVariable, Value: p.OutputAddr})
	conv, err := a.Start(ctx, sb, s, p, acpagent.Options{Command: command, Tested: sandbox.Tested("opencode-linux-x64"), Leave: leaveTime, Models: acpagent.Offer(s.Model, p.Models, modelValue), MCPServers: servers})
	if err != nil {
		return nil, err
	}
	c.children.of(conv)
	return &session{Session: conv, client: c, notices: found.notices()}, nil
}
