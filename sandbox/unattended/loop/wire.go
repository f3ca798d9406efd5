// Package loop is an unattended run inside its sandbox: iterations of an agent, one
// after the other, each with an instruction made of who the agent is, what it
// remembers and what it is asked; until it is told to stop, says that it is done, or
// meets a limit.
//
// A [Loop] knows neither goose nor opencode, and nothing of the host: a [Runner] runs one
// iteration of the agent, and it gets [Command]s and gives [Output]s. They are lines of
// JSON on the standard streams where a keeper on the host has started it (wire.go);
// where nobody has, it does for itself what the keeper does.
package loop

import (
	"cmp"
	"time"

	"gander.dev/gander/sandbox/telemetry"
)

// The types of commands. Those that are unknown are ignored.
const (
	CommandStart   = "start"   // the first one; what follows is for this run
	CommandPrompt  = "prompt"  // what the run is asked is another text now
	CommandBegin   = "begin"   // the iteration that was announced may run, see Start.Admitted
	CommandMessage = "message" // words of the operator for the next iteration
	CommandPause   = "pause"   // no iteration after the one that runs
	CommandResume  = "resume"  // on with it; a tripped circuit breaker is reset
	CommandStep    = "step"    // one iteration, then pause
	CommandCancel  = "cancel"  // end the iteration that runs; the next follows
	CommandStop    = "stop"    // end the iteration that runs, and the loop
	CommandModel   = "model"   // what became of a call to the model
)

// Command is a line from the keeper to the loop.
type Command struct {
	Type    string      `json:"type"`
	Start   *Start      `json:"start,omitempty"`
	Prompt  *Prompt     `json:"prompt,omitempty"`
	Message string      `json:"message,omitempty"`
	Reason  string      `json:"reason,omitempty"` // of a pause; empty is that somebody wants it
	Model   *ModelEvent `json:"model,omitempty"`
}

// Output is a line from the loop to the keeper. One of Event, Growing, Saved and Vitals is set.
type Output struct {
	// Event is not numbered: the keeper says of which run it is and gives it its number.
	Event *telemetry.Event `json:"event,omitempty"`
	// Growing is a part of a message of which the event follows when it is complete.
	Growing *telemetry.Growth `json:"growing,omitempty"`
	// Saved is to be kept, in the place of what was kept before, for the next Start.
	Saved *Saved `json:"saved,omitempty"`
	// Vitals are what the sandbox uses now. They come every Heartbeat, whatever the loop
	// does: a loop that is silent for much longer hangs, or was stopped by the agent.
	Vitals *telemetry.Vitals `json:"vitals,omitempty"`
	// Orders is how many commands to pause, to resume and to step this loop had got when it
	// made Saved, or came to the state that Event tells: it knows nothing of later ones.
	Orders int64 `json:"orders,omitempty"`
}

// Heartbeat is how often a loop tells its vitals.
const Heartbeat = 5 * time.Second

// Start is what a loop runs.
type Start struct {
	RunID string `json:"runId"`
	Agent string `json:"agent"`
	// Program is the agent whose program it runs; empty when that is its own.
	Program string `json:"program,omitempty"`
	// Workspace is where the agent works, absolute, as the sandbox has it.
	Workspace string `json:"workspace"`
	// Bootstrap says who the agent is; empty is gander's own text.
	Bootstrap string `json:"bootstrap,omitempty"`
	// Run starts one iteration of the agent.
	Run AgentCommand `json:"run"`
	// Limits bound the run and Pace is the time between iterations; see their fields.
	Limits Limits        `json:"limits"`
	Pace   time.Duration `json:"pace"` // nanoseconds; 0 is DefaultPace
	// Admitted has an iteration, once its start is told, wait for CommandBegin, a few
	// minutes at most: the keeper looks at what has come to the sandbox since the last.
	Admitted bool `json:"admitted,omitempty"`
	// Paused has the loop begin paused.
	Paused bool `json:"paused,omitempty"`
	// Prompt is what the run is asked.
	Prompt Prompt `json:"prompt"`
	// Saved is what the loop said last to be kept; the zero value begins a run.
	Saved Saved `json:"saved"`
}

// AgentCommand is how one iteration of an agent is started; see sandbox.OneShot, which
// makes it. The instruction is the command's stdin.
type AgentCommand struct {
	Args []string `json:"args"`
	Env  []string `json:"env"`
}

// Prompt is what a run is asked.
type Prompt struct {
	Content string `json:"content"`
	// Version is another one whenever Content is.
	Version string `json:"version"`
	// Known is false when the control plane was never reached: nobody knows then
	// whether there is a prompt. A loop waits for it, and keeps what it knew before.
	Known bool `json:"known"`
}

// ModelEvent is what became of a call to the model, as the gateway on the host saw it.
type ModelEvent struct {
	// OK says that the model answered. Otherwise Status is the answer's HTTP status, 0
	// when there was none, and Error says it in words.
	OK     bool   `json:"ok"`
	Status int    `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
	// Paused says that the gateway lets no call out any more, because the agent came no
	// further with them; Error says it in words.
	Paused bool `json:"paused,omitempty"`
	// Usage is what the call used, where the answer said so.
	Usage *telemetry.Usage `json:"usage,omitempty"`
}

// Seconds is a time in whole seconds, as the HTTP interface has it.
type Seconds int64

// Duration is the same time.
func (s Seconds) Duration() time.Duration { return time.Duration(s) * time.Second }

// Limits bound a run. Zero is no bound where nothing else is said; less than zero makes
// no sense.
type Limits struct {
	// Iterations is how many there may be.
	Iterations int64 `json:"iterations,omitempty"`
	// WallClock is how long the run may take, from its first start, pauses included.
	WallClock Seconds `json:"wallClock,omitempty"`
	// Iteration is how long one iteration may take; 0 is DefaultIteration.
	Iteration Seconds `json:"iteration,omitempty"`
	// Idle is how long an iteration may print nothing; 0 is DefaultIdle.
	Idle Seconds `json:"idle,omitempty"`
	// Tokens and Cost bound the use of all iterations together. A run that is started with
	// neither gets DefaultTokens.
	Tokens int64   `json:"tokens,omitempty"`
	Cost   float64 `json:"cost,omitempty"`
	// Failures is after how many failed iterations in a row the run is paused; 0 is
	// DefaultFailures. A model that does not answer is no failure of this kind: the run
	// goes on by itself when it answers again.
	Failures int `json:"failures,omitempty"`
}

// What holds where nothing is said.
const (
	DefaultIteration Seconds = 3600
	DefaultIdle      Seconds = 600
	DefaultFailures          = 5
	// DefaultTokens is the budget of a run that is started without one. Limits.Tokens 0 is none.
	DefaultTokens = 10_000_000
	DefaultPace   = 2 * time.Second
)

// Saved is what a loop must know to go on where another one of the same run has ended.
type Saved struct {
	// Iteration is the number of the last one that began.
	Iteration int64 `json:"iteration"`
	// Prompt is the last that was known, PreviousPrompt the one of the last iteration.
	Prompt         Prompt `json:"prompt"`
	PreviousPrompt string `json:"previousPrompt,omitempty"`
	// Memory are the last versions of the agent's memory, the newest last.
	Memory []string `json:"memory,omitempty"`
	// Messages are words of the operator that no iteration has got yet, and Heard is how
	// many the loops of the run have got in all.
	Messages []string `json:"messages,omitempty"`
	Heard    int64    `json:"heard,omitempty"`
	// Failures and Unanswered, of the model, are those in a row, Usage is that of all iterations, StartedAt is when the
	// run began, in milliseconds since 1970.
	Failures   int             `json:"failures,omitempty"`
	Unanswered int             `json:"unanswered,omitempty"`
	Usage      telemetry.Usage `json:"usage"`
	StartedAt  int64           `json:"startedAt,omitempty"`
	// Paused and its Reason are as they were.
	Paused bool   `json:"paused,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Pause is what CommandPause changes.
func (s *Saved) Pause(reason string) {
	s.Paused, s.Reason = true, cmp.Or(reason, pausedByPerson)
}

// Resume is what CommandResume changes.
func (s *Saved) Resume() {
	s.Paused, s.Reason, s.Failures = false, "", 0
}
