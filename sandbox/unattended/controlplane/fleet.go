package controlplane

import (
	"context"
	"errors"
	"time"

	"gander.dev/gander/sandbox/outbound/ports"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/loop"
)

// What a Fleet's errors wrap when the caller is to be told more than "it failed".
// The text of the whole error reaches the person, so it names what to do next.
var (
	// ErrBadRequest: the request can never work as it is (an agent that does not
	// exist, a workspace that cannot be one). HTTP 400.
	ErrBadRequest = errors.New("bad request")
	// ErrUnavailable: this machine cannot do it now (no driver works, the agent is
	// not installed, no model is set, the keeper does not answer). HTTP 503.
	ErrUnavailable = errors.New("unavailable")
	// ErrNotRunning: no keeper lives for the run. HTTP 409; stopping such a run succeeds.
	ErrNotRunning = errors.New("not running")
)

// A Fleet runs the loops, each in its sandbox under a keeper of its own; the control
// plane steers it. Methods are safe for concurrent use and honour ctx. Those that
// take a runID return an error that wraps ErrNotRunning when no keeper lives for it.
type Fleet interface {
	// Agents are the agents that Start knows, in the order to show them.
	Agents(ctx context.Context) []AgentInfo
	// Start starts a run and returns when its keeper lives; the sandbox may still be
	// in the making. After an error nothing of the run is left.
	Start(ctx context.Context, s Spec) error
	// Stop ends the run for good: the loop, its sandbox and its keeper. It returns
	// when they are gone.
	Stop(ctx context.Context, runID string) error
	// Pause lets the running iteration end and starts no other.
	Pause(ctx context.Context, runID string) error
	// Resume goes on after Pause, and after a pause that the loop made itself.
	Resume(ctx context.Context, runID string) error
	// Step runs one iteration of a paused run, which then pauses again.
	Step(ctx context.Context, runID string) error
	// Cancel ends the running iteration; the loop goes on with the next.
	Cancel(ctx context.Context, runID string) error
	// Message gives the loop a message of its operator for the next instruction. It
	// returns when the keeper has it.
	Message(ctx context.Context, runID, text string) error
	// Ports carries out a person's order about the ports of the run's sandbox, and returns
	// what is open on this machine then. An empty order only looks.
	Ports(ctx context.Context, runID string, o ports.Order) (ports.View, error)
	// PromptChanged says that the prompt of a run, or with "" the one of all runs
	// without their own, has changed. Keepers fetch it anew. It does not block; a
	// keeper that cannot be told finds out when it asks the next time.
	PromptChanged(runID string)
	// Adopt finds, after a restart, the keepers of runs again and starts those anew
	// that are gone. It returns the runs that have a keeper; what is not among them
	// failed, and err, which may be joined of several, says why. It stops those that are to
	// be stopped; one of them that it returns could not be.
	Adopt(ctx context.Context, runs []Spec) (alive []string, err error)
	// Status is what the keeper of a run knows now.
	Status(ctx context.Context, runID string) (SandboxStatus, error)
}

// AgentInfo is one agent that a loop can run.
type AgentInfo struct {
	Name      string `json:"name"` // "goose", "opencode"
	Available bool   `json:"available"`
	Why       string `json:"why,omitempty"` // what is missing, and what to do; empty when available
}

// Spec is what a run is started with.
type Spec struct {
	RunID     string
	SessionID string // id of its durable session
	Agent     string // as AgentInfo.Name
	Driver    string // "local", "docker"; empty lets the Fleet choose
	Workspace string // absolute directory on the host, without symbolic links in it
	Model     string // empty: the configured one
	Pace      time.Duration
	Limits    loop.Limits
	// Token is what the run's keeper shows the control plane. It is there when the run
	// is started only: the control plane keeps a hash. Adopt gets it empty.
	Token string
	// Prompt is the run's own prompt; empty means that it follows the one of all runs.
	Prompt string
	// Desired is what a person last asked for.
	Desired Desired
}

// Desired is what a run is meant to do, whatever happens to it on the way.
type Desired string

// A run is meant to be one of these.
const (
	DesiredRunning Desired = "running"
	DesiredPaused  Desired = "paused"
	DesiredStopped Desired = "stopped"
)

// SandboxStatus is what the keeper of a run knows of its sandbox.
type SandboxStatus struct {
	ContainerID string // of the container, or the id of the sandbox when there is none; empty while it is being made
	KeeperPID   int
	// Resting says that no iteration runs, and that none begins before Resume or Step is
	// called: the loop is paused, by a person or by itself, and has got all orders.
	Resting bool
	// Using returns the usage of the iteration that runs.
	Using  telemetry.Usage
	Vitals *telemetry.Vitals // now; nil when they cannot be had
}
