// Package goose runs goose as a sandbox.Agent: its command line, its variables
// and what goose leaves out of its ACP updates.
//
// One goose process serves one session. It uses its own tools (shell, write,
// edit, ...), all of them inside the sandbox: it is offered neither the editor's
// terminal nor its file system. Its state lives below the sandbox's home and
// holds prompts in clear text.
package goose

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// Name is goose's word for --agent.
const Name = "goose"

// Settings is what the configuration says about goose: "acp" is appended to its
// command, and its modes are auto, approve, smart_approve and chat.
type Settings = acpagent.Settings

// Options are optional.
type Options = acpagent.BaseOptions

// Agent implements sandbox.Agent.
type Agent struct{ acpagent.Base }

// New returns the agent; see acpagent.NewBase.
func New(settings func() (Settings, error), o Options) *Agent {
	return &Agent{acpagent.NewBase(Name, settings, o)}
}

// modes are goose's modes as it announces them.
var modes = []acp.SessionMode{
	{ID: "auto", Name: "auto", Description: "Automatically approve tool calls"},
	{ID: "approve", Name: "approve", Description: "Ask before every tool call"},
	{ID: "smart_approve", Name: "smart_approve", Description: "Ask only for sensitive tool calls"},
	{ID: "chat", Name: "chat", Description: "Chat only, no tool calls"},
}

// Defaults implements sandbox.Agent.
func (a *Agent) Defaults() sandbox.AgentState { return a.State(modes, modelValue) }

// modelValue returns a model's value as goose has it.
func modelValue(name string) acp.ConfigOptionValue {
	return acp.ConfigOptionValue{Value: name, Name: name}
}

// UsesDeveloper implements sandbox.ToolUser: an MCP server named developer takes
// the place of goose's own tools.
func (a *Agent) UsesDeveloper() {}

// Remembers implements sandbox.Rememberer: goose's sessions are a database.
func (a *Agent) Remembers() []string { return []string{".goose/data/sessions"} }

// Open implements sandbox.Agent.
func (a *Agent) Open(ctx context.Context, sb sandbox.Sandbox, p sandbox.SessionParams) (sandbox.AgentSession, error) {
	s, err := a.In(sb, &p)
	if err != nil {
		return nil, err
	}
	command := sandbox.Command{
		Args: append(slices.Clone(s.Command), "acp"),
		Env:  environment(s, sb.Info().Home, p.ModelAddr, p.ModelToken, cmp.Or(p.Model, s.Model), p.Mode),
	}
	c := &client{Client: p.Client, calls: map[string]*delegate{}}
	p.Client = c
	sess, err := a.Start(ctx, sb, s, p, acpagent.Options{Command: command, Tested: sandbox.Tested("@aaif/goose-binary-linux-x64"), Mend: newMender().mend, Notices: failedExtensions, Models: acpagent.Offer(s.Model, p.Models, modelValue), MCPServers: acpagent.Developer(p)})
	if err != nil {
		return nil, err
	}
	c.conv.Store(sess)
	return &session{Session: sess, client: c}, nil
}

// environment is goose's whole environment. GOOSE_PATH_ROOT keeps all of its
// state in one private place; the session is not named by an extra model call.
// What is set here wins over s.Env: it is what keeps goose in its sandbox.
func environment(s Settings, home, modelAddr, modelToken, model, mode string) []string {
	ours := append(sandbox.HomeEnvironment(home),
		"GOOSE_PATH_ROOT="+filepath.Join(home, ".goose"),
		"GOOSE_PROVIDER=openai",
		"OPENAI_HOST=http://"+modelAddr,
		"OPENAI_API_KEY="+modelToken,
		"GOOSE_DISABLE_KEYRING=1",
		"GOOSE_DISABLE_SESSION_NAMING=true",
		"GOOSE_TELEMETRY_OFF=1",
	)
	if model != "" {
		ours = append(ours, "GOOSE_MODEL="+model)
	}
	if mode != "" {
		ours = append(ours, "GOOSE_MODE="+mode)
	}
	return acpagent.With(s.Env, ours...)
}

// failedExtensions reads the results that goose hides in _meta: an MCP server
// that does not start costs the model its tools without any error.
func failedExtensions(meta json.RawMessage) []string {
	var m struct {
		ExtensionResults []struct {
			Name    string `json:"name"`
			Success bool   `json:"success"`
			Error   string `json:"error"`
		} `json:"extensionResults"`
	}
	if json.Unmarshal(meta, &m) != nil {
		return nil
	}
	var notices []string
	for _, r := range m.ExtensionResults {
		if !r.Success {
			notices = append(notices, fmt.Sprintf("goose could not start its extension %q, its tools are missing: %s", r.Name, r.Error))
		}
	}
	return notices
}
