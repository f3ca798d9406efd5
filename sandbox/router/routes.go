package router

import (
	"context"
	"log/slog"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/notify"
	"gander.dev/gander/sandbox/outbound/ports"
	"gander.dev/gander/sandbox/router/changes"
	"gander.dev/gander/sandbox/rules/permit"
	"gander.dev/gander/sessions"
)

// Auto is the sandbox choice that takes the first driver that works here.
const Auto = "auto"

// Options says what a Router routes to.
type Options struct {
	// Agents are offered in this order; Agent names the default.
	Agents []sandbox.Agent
	Agent  string
	// Drivers are offered in this order; Sandbox names the default, or Auto.
	// Auto never takes the driver "off".
	Drivers []sandbox.Driver
	Sandbox string
	// Tools is what agents that can choose begin with: ToolsNative, the default, or
	// ToolsDeveloper.
	Tools string
	// Approve is what the option "permissions" begins with: PermissionsAsk, the
	// default, PermissionsReads or PermissionsAll.
	Approve string
	// AllowServers are the names of the editor's MCP servers that agents may use
	// without the person being asked; "*" is any.
	AllowServers []string
	// ServerPatience bounds how long an agent may wait for such a server to answer what it
	// begins with. Default 10 s.
	ServerPatience time.Duration
	// ServerEnv is the environment of those that are programs, besides what the
	// editor says.
	ServerEnv []string
	// LearnSecrets takes the variables and headers that the editor gives MCP servers,
	// before anything is said of these, and HideSecrets is text without those that are
	// secret. Nil learns and hides nothing.
	LearnSecrets func([]acp.EnvVariable)
	HideSecrets  func(text string) string
	// Away puts a question to the person elsewhere, too, until ctx ends; nil asks in the editor only.
	Away func(ctx context.Context, q notify.Question) (notify.Answer, error)
	// Permissions remembers what the person answers for good; nil remembers nothing.
	Permissions *permit.Store
	// Choose, when set, gives the defaults for a project instead of Agent and Sandbox.
	Choose func(cwd string) (Choice, error)
	// Terms give the policy of a sandbox and open its ways out; asked whenever one is made. Denied of
	// their rules is the router's own.
	Terms confine.Terms
	// Changes says where what files were before a turn is kept, and how much of it; the
	// router fills in the project. Nil compares no files.
	Changes *changes.Options
	// Snapshots is the directory of what files were before turns, also of sessions from
	// before Changes was switched off: a session that is deleted leaves nothing there.
	Snapshots string
	// Store records the sessions.
	Store *sessions.Store
	// Runs, when set, gets a trace of every turn.
	Runs *sessions.Runs
	// StateDir is gander's home; sandbox homes and what agents last said live there.
	StateDir string
	// ReadOnly are paths that sandboxes see for reading; so it is with a directory that
	// the editor adds and that is in one of them.
	ReadOnly []string
	// Ports of sandboxes are open on this machine from the start.
	Ports []ports.Spec
	// Private are paths that no sandbox may see, besides StateDir: a file with a key.
	Private []string
	// Version is gander's own.
	Version string
	// CancelDeadline is how long an agent may take to answer a cancel before it
	// is killed. Default 2 s.
	CancelDeadline time.Duration
	// Setup is what a person can run to set gander up.
	Setup Setup
	// HistoryLimit is how many of the last items of a thread session/load replays;
	// 0 replays all, see sessions.Store.Replay.
	HistoryLimit int
	// SessionPrefix begins the keys of new sessions. Default "acp".
	SessionPrefix string
	// Spares is how many sandboxes are made ahead for sessions to come; 0 makes none.
	Spares int
	// SpareAfter is how long no turn may have run before one is made. Default 2 s.
	SpareAfter time.Duration
	// Loops are the unattended runs whose sessions the editor can attach to; nil when
	// there is nobody to ask about them.
	Loops Loops
	// Commands returns the prompts that a person can give by their names; nil means none.
	Commands func() []Command
	// LoopEvery is how often a prompt that waits for a loop asks how that does. Default 2 s.
	LoopEvery time.Duration
	// Silence bounds how long a turn is without a word of the agent until it says who is waited for.
	// Default 1 min.
	Silence time.Duration
	// SlowStart is after how long a prompt that waits for the agent to start
	// says so. Default 1 s.
	SlowStart time.Duration
	// Parent is the session whose agent is the client here, and gives other agents work:
	// its budget and what was answered in it count, and it alone has the sessions listed.
	Parent acp.SessionID
	// Crowd is for all routers of a process that work in the same projects; nil is one for
	// this router alone.
	Crowd *Crowd
	Log   *slog.Logger
}

// Choice is what a session starts with.
type Choice struct {
	Agent, Sandbox string
	Model          string // empty: the agent's own
	Approve        string // empty: Options.Approve
}
