package acpagent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
)

// Settings is what the configuration says about an agent.
type Settings struct {
	// Command is the program on this machine and its leading arguments.
	Command []string
	// ImageCommand starts the agent in a sandbox that has an image's programs instead
	// of this machine's; empty means Command, which is mounted then.
	ImageCommand []string
	// Missing says that the program is not on this machine, and what to do about it:
	// ImageCommand may work all the same.
	Missing error
	// Inside returns the environment that every program inside starts from (PATH, locale, ...), as
	// KEY=value. It looks through the machine, so only In calls it. Nil means an empty one.
	Inside func() []string
	// Env are variables set after those, as KEY=value: CA certificates and the agent's own.
	Env []string
	// Model is the model's plain name, Mode the agent's own id of a mode; both may
	// be empty.
	Model, Mode string
	// Mounts are the host paths the program needs, such as its own directory.
	Mounts []sandbox.Mount
	// HomeLinks are links in the home inside, to skills of the agent's own.
	HomeLinks map[string]string
	// Servers are MCP servers that the agent starts in its sandbox.
	Servers []acp.MCPServerStdio
	// Instructions are put in front of the first prompt of a conversation.
	Instructions string
	// OneShot says that the program speaks no ACP, and is started for each prompt.
	OneShot bool
}

// BaseOptions are optional.
type BaseOptions struct {
	// Name is the agent's word for --agent, where it has another one than its program.
	Name      string
	ReadsOnly func() bool                          // whether the sandbox shows the project for reading
	Trace     func(dir acp.Direction, line []byte) // frames between gander and the agent
	Log       *slog.Logger
}

// Base is what all agents have in common. It implements sandbox.Agent except for
// Defaults and Open, which are made of State, In and Start.
type Base struct {
	BaseOptions
	program  string
	settings func() (Settings, error)
}

// NewBase returns the base of an agent that runs a program. It asks for its settings each
// time it needs them, so that a changed configuration counts for the next session.
// An error of settings is shown to people as it is.
func NewBase(program string, settings func() (Settings, error), o BaseOptions) Base {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Name = cmp.Or(o.Name, program)
	return Base{BaseOptions: o, program: program, settings: settings}
}

// Name implements sandbox.Agent.
func (b *Base) Name() string { return b.BaseOptions.Name }

// Program implements sandbox.Member.
func (b *Base) Program() string { return b.program }

// Check implements sandbox.Agent.
func (b *Base) Check(context.Context) error {
	_, err := b.settings()
	return err
}

// HomeLinks implements sandbox.Skilled.
func (b *Base) HomeLinks() map[string]string {
	s, err := b.settings()
	if err != nil {
		return nil // Open says it
	}
	return s.HomeLinks
}

// Mounts implements sandbox.Agent.
func (b *Base) Mounts() []sandbox.Mount {
	s, err := b.settings()
	if err != nil {
		return nil
	}
	return s.Mounts
}

// ReadsOnly implements sandbox.Reader.
func (b *Base) ReadsOnly() bool { return b.BaseOptions.ReadsOnly != nil && b.BaseOptions.ReadsOnly() }

// State is what an agent with these modes offers before it has started; the first
// is its default. model is the option's value for the configured model.
func (b *Base) State(modes []acp.SessionMode, model func(name string) acp.ConfigOptionValue) sandbox.AgentState {
	s, err := b.settings()
	if err != nil {
		return sandbox.AgentState{}
	}
	mode := s.Mode
	if mode == "" {
		mode = modes[0].ID
	}
	state := sandbox.AgentState{Modes: &acp.SessionModeState{CurrentModeID: mode, AvailableModes: modes}}
	if s.Model != "" {
		v := model(s.Model)
		state.ConfigOptions = []acp.ConfigOption{SelectOption("model", "Model", acp.CategoryModel, v.Value, []acp.ConfigOptionValue{v})}
	}
	return state
}

// In returns the settings as they are in a sandbox, with the command and the
// environment that are right in there, and completes p with the configured mode.
func (b *Base) In(sb sandbox.Sandbox, p *sandbox.SessionParams) (Settings, error) {
	s, err := b.settings()
	if err != nil {
		return Settings{}, err
	}
	if p.Mode == "" {
		p.Mode = s.Mode
	}
	info := sb.Info()
	switch {
	case info.Image == "" && s.Missing != nil:
		return Settings{}, s.Missing
	case info.Image != "" && len(s.ImageCommand) > 0:
		s.Command = s.ImageCommand
	}
	if s.Inside != nil {
		s.Env = slices.Concat(s.Inside(), s.Env)
	}
	s.Env = With(With(info.Environment(s.Env), p.Env...), sandbox.ProxyEnvironment(p.ProxyAddr)...)
	return s, nil
}

// Start is Open with what Base knows. In an image that lacks the program it says
// so.
func (b *Base) Start(ctx context.Context, sb sandbox.Sandbox, s Settings, p sandbox.SessionParams, o Options) (*Session, error) {
	o.Name, o.Trace, o.Log, o.Instructions = b.Name(), b.Trace, b.Log, s.Instructions
	o.Command.Dir = p.WorkingDir
	o.MCPServers = slices.Concat(o.MCPServers, s.Servers)
	sess, err := Open(ctx, sb, p, o)
	if s.Missing != nil && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the image %s has no program %s, and on this machine %w", sb.Info().Image, o.Command.Args[0], s.Missing)
	}
	return sess, err
}

// With is an environment with variables set.
func With(env []string, set ...string) []string {
	overridden := func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(set, func(s string) bool { return strings.HasPrefix(s, name+"=") })
	}
	return append(slices.DeleteFunc(slices.Clone(env), overridden), set...)
}

// Default is an environment with variables set that are not set, or empty, in it. A
// variable without a value is left alone.
func Default(env []string, unless ...string) []string {
	var add []string
	for _, v := range unless {
		if name, value, _ := strings.Cut(v, "="); value != "" && Variable(env, name) == "" {
			add = append(add, v)
		}
	}
	return With(env, add...)
}

// Variable is the value of a variable; empty without it.
func Variable(env []string, name string) (value string) {
	for _, v := range env {
		if found, is := strings.CutPrefix(v, name+"="); is {
			value = found
		}
	}
	return value
}

// Without is an environment without some variables.
func Without(env []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(names, name)
	})
}
