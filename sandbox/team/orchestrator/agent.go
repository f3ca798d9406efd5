// Package orchestrator is an agent that does no work itself: a model plans, gives tasks to
// other agents, reads what they answer and answers the person. It runs in gander, knows ACP
// and a model, and no sandbox.
//
// A task is a turn of an ordinary session of gander, in a sandbox of its own. The sessions
// are had of a Team: a connection to a router whose client the orchestrator is. What the
// agents show and ask is passed on to the person under their names.
package orchestrator

import (
	"context"
	"log/slog"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/team/hosted"
)

// Name is the word for --agent.
const Name = "orchestrator"

// The modes: how the agents work that get tasks.
const (
	ModeAuto = "auto" // as they are configured
	ModeAsk  = "ask"  // in the mode in which they ask before they act
	ModePlan = "plan" // they only read the project
)

// Options say what an orchestrator works with. Settings, Team and Members are required, but
// Team may be nil for one that is only checked.
type Options struct {
	// Settings returns how the planner's model is reached.
	Settings func() (Settings, error)
	// Team connects to the agents that get tasks of a session. c takes what they show and ask.
	Team func(of acp.SessionID, c acp.Client) (Team, error)
	// Members are the agents that can get tasks.
	Members func() []Member
	// Limits bound a run.
	Limits func() Limits
	// Artifacts is the directory of what runs leave; Workspace is the orchestrator's own, which stays.
	Artifacts, Workspace string
	// Install installs a skill for an agent, of the text of its SKILL.md, and returns where it is.
	Install func(agent, skill string, text []byte) (where string, err error)
	Log     *slog.Logger
}

// Settings are those of the planner.
type Settings struct {
	Model string
	// Planner names an agent that decides in the place of the model; empty for none.
	Planner string
	// Instructions take the place of what the planner is told first.
	Instructions string
}

// A Team is a connection to agents; Close ends it and all that it started.
type Team struct {
	*acp.AgentConn
	Close func()
}

// A Member is an agent that can get tasks.
type Member struct {
	Name, Title, Description string
	Access                   string // accessRead, or empty
	Tags                     []string
	Priority                 int
	// Mode is the one in which it works, and AskingMode that in which it asks before it acts;
	// empty where none is known.
	Mode, AskingMode string
	// Check says what is missing for it to work, as that of sandbox.Agent.
	Check func(context.Context) error
}

// Limits bound a run: how many answers of the planner, how many tasks and how many of them
// at a time, how often the same, for how long, and how many tokens in all; 0 tokens are any.
type Limits struct {
	Steps, Delegations, Parallel, Repeats int
	Time                                  time.Duration
	Tokens                                int64
}

// DefaultLimits are those of a run of which nobody has said others.
func DefaultLimits() Limits {
	return Limits{Steps: 12, Delegations: 8, Parallel: 3, Repeats: 3, Time: 30 * time.Minute}
}

// Agent is the orchestrator. It implements sandbox.Hosted.
type Agent struct{ o Options }

var _ sandbox.Hosted = (*Agent)(nil)

// New returns an orchestrator.
func New(o Options) *Agent {
	if o.Limits == nil {
		o.Limits = DefaultLimits
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Agent{o}
}

// Name implements sandbox.Agent.
func (a *Agent) Name() string { return Name }

// Check implements sandbox.Agent: the planner has a model, and somebody can work.
func (a *Agent) Check(ctx context.Context) error {
	if _, err := a.o.Settings(); err != nil {
		return err
	}
	var first error
	for _, m := range a.o.Members() {
		err := m.Check(ctx)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// Mounts implements sandbox.Agent.
func (a *Agent) Mounts() []sandbox.Mount { return nil }

// Defaults implements sandbox.Agent.
func (a *Agent) Defaults() sandbox.AgentState {
	settings, _ := a.o.Settings() // Check says what is wrong
	return stateOf(ModeAuto, settings.Model)
}

func stateOf(mode, model string) sandbox.AgentState {
	return sandbox.AgentState{ConfigOptions: hosted.Options(model), Modes: &acp.SessionModeState{CurrentModeID: mode, AvailableModes: []acp.SessionMode{
		{ID: ModeAuto, Name: "Auto", Description: "Agents that get tasks work as they are configured."},
		{ID: ModeAsk, Name: "Ask", Description: "Agents that get tasks ask before they act."},
		{ID: ModePlan, Name: "Plan", Description: "Agents that get tasks can only read the project."},
	}}}
}

// Open implements sandbox.Agent. It is not called.
func (a *Agent) Open(context.Context, sandbox.Sandbox, sandbox.SessionParams) (sandbox.AgentSession, error) {
	panic("the orchestrator has no sandbox")
}
