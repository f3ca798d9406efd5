// Package custom runs any agent that speaks ACP on its standard streams as a
// sandbox.Agent: one that the configuration names, with its command and variables.
//
// It gets a sandbox, a private HOME and the way to the model like the agents that
// gander knows by name, but none of their special treatment. How it finds the
// model is said in its variables, with placeholders:
//
//	{modelUrl}    the model's base URL inside the sandbox, without /v1
//	{modelUrlV1}  the same with /v1
//	{model}       the model's name
//	{key}         what stands for the key, which is added outside
//	{home}        its home directory inside the sandbox
//
// A program that speaks no ACP can be one, too, where Settings.OneShot says so: it is
// started for each prompt, and what it prints is the answer.
//
// An agent that wants to sign in with its maker cannot: nothing but the model
// leaves the sandbox.
package custom

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// Settings is what the configuration says about an agent. Its command is the
// program and all of its arguments, in which placeholders count as in the values of
// its environment.
type Settings = acpagent.Settings

// Options are optional.
type Options = acpagent.BaseOptions

// Agent implements sandbox.Agent.
type Agent struct{ acpagent.Base }

// New returns the agent of a name; see acpagent.NewBase.
func New(name string, settings func() (Settings, error), o Options) *Agent {
	return &Agent{acpagent.NewBase(name, settings, o)}
}

// Defaults implements sandbox.Agent. What the agent offers is known when it has
// started for the first time.
func (a *Agent) Defaults() sandbox.AgentState { return sandbox.AgentState{} }

// Open implements sandbox.Agent.
func (a *Agent) Open(ctx context.Context, sb sandbox.Sandbox, p sandbox.SessionParams) (sandbox.AgentSession, error) {
	s, err := a.In(sb, &p)
	if err != nil {
		return nil, err
	}
	if s.OneShot {
		cmd := command(s, sb.Info().Home, p)
		cmd.Dir = p.WorkingDir
		return acpagent.NewOneShot(sb, p, acpagent.Options{Name: a.Name(), Command: cmd, Instructions: s.Instructions, Log: a.Log}), nil
	}
	sess, err := a.Start(ctx, sb, s, p, acpagent.Options{Command: command(s, sb.Info().Home, p)})
	if err != nil {
		return nil, err
	}
	return sess, nil
}

// command is the agent's command with the placeholders filled in.
func command(s Settings, home string, p sandbox.SessionParams) sandbox.Command {
	url := "http://" + p.ModelAddr
	fill := strings.NewReplacer("{modelUrlV1}", url+"/v1", "{modelUrl}", url, "{model}", s.Model, "{key}", p.ModelToken, "{home}", home)
	var cmd sandbox.Command
	for _, arg := range s.Command {
		cmd.Args = append(cmd.Args, fill.Replace(arg))
	}
	for _, v := range s.Env {
		if name, value, ok := strings.Cut(v, "="); ok && !private(name) {
			cmd.Env = append(cmd.Env, name+"="+fill.Replace(value))
		}
	}
	cmd.Env = append(append(cmd.Env, sandbox.HomeEnvironment(home)...),
		"XDG_CONFIG_HOME="+filepath.Join(home, ".config"),
		"XDG_DATA_HOME="+filepath.Join(home, ".local", "share"),
		"XDG_STATE_HOME="+filepath.Join(home, ".local", "state"),
		"XDG_CACHE_HOME="+filepath.Join(home, ".cache"))
	return cmd
}

// private reports whether a variable says where the agent keeps its own files,
// which is not for the configuration to say.
func private(name string) bool {
	return slices.Contains([]string{"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"}, name)
}
