// Package telemetry is what an unattended run tells of itself: its [Event]s, the file
// they are kept in until somebody has them ([Spool]), who sends them ([Uploader]) and
// what a sandbox uses at the moment ([Meter]).
//
// Events of one run are one ordered stream, numbered from 1 without gaps. They are
// written to the spool before anything else is done with them, and sent from there as
// often as needed: who gets an event twice knows it by run and number. So nothing is
// lost while the control plane is away, and nothing waits for it.
//
// The names and the sizes are those of the system this one succeeds: iterationId, type,
// summary and content mean what they meant there.
package telemetry

import (
	"encoding/json"
	"time"
)

// Type is the kind of an event. Others than those here are passed on as they are.
type Type string

// The types of events.
const (
	// IterationStart begins an iteration. IterationEnd ends it, with its Outcome in
	// Status, its counts, Usage and Vitals.
	IterationStart Type = "iteration_start"
	IterationEnd   Type = "iteration_end"
	// Text and Thought are pieces of what the agent says, in order.
	Text    Type = "text"
	Thought Type = "thought"
	// ToolUse is a call of a tool, with its arguments in Content; ToolResult ends the call
	// of the same ToolCallID, with the tool's answer in Content and Status "completed" or
	// "failed".
	ToolUse    Type = "tool_use"
	ToolResult Type = "tool_result"
	// Error is something that went wrong, in words.
	Error Type = "error"
	// StateChange says that the run is in another State from now on.
	StateChange Type = "state"
	// Sandbox says that the agent works in a new sandbox from now on, which lacks what
	// Weaker says.
	Sandbox Type = "sandbox"
)

// The Status of a ToolResult.
const (
	Completed = "completed"
	Failed    = "failed"
)

// Outcome is how an iteration ended, judged by what happened; an agent's exit code
// alone says little, goose's is 0 when its model does not answer.
type Outcome string

// The outcomes of an iteration.
const (
	OK             Outcome = "ok"
	AgentError     Outcome = "agent_error"     // the agent itself failed
	LLMUnavailable Outcome = "llm_unavailable" // the model did not answer
	Timeout        Outcome = "timeout"         // its time was over, or nothing happened for too long
	Cancelled      Outcome = "cancelled"       // somebody ended it
	Interrupted    Outcome = "interrupted"     // the loop died in it; said by those outside
)

// State is what a run does.
type State string

// The states of a run.
const (
	Running  State = "running"         // an iteration is running
	Waiting  State = "waiting"         // the pace, or the pause after a failure; see Event.Until
	Paused   State = "paused"          // somebody, or the circuit breaker, has paused it; see Event.Reason
	Unready  State = "llm_unavailable" // waiting for the model to answer again
	Stopping State = "stopping"        // it was told to stop
	Stopped  State = "stopped"         // it was told to stop and has
	Done     State = "done"            // the agent said that it is done, or a limit is reached; see Event.Reason
	Broken   State = "failed"          // it cannot go on by itself
)

// Event is one thing that happened in a run. In JSON it has "timestamp", too: Time in
// words, from which Time is read where ts is missing, as in events of older loops.
type Event struct {
	RunID string `json:"runId,omitempty"`
	// Seq is the number of the event in its run, from 1, without gaps. 0 is not numbered.
	Seq int64 `json:"seq,omitempty"`
	// Iteration is the number of the iteration in its run, from 1; 0 outside of any.
	Iteration int64 `json:"iterationId"`
	Type      Type  `json:"type"`
	// Summary is one line of at most SummaryLimit characters.
	Summary string `json:"summary"`
	// Content is cut by [Event.Cap]; then Truncated is set and Bytes is its full size.
	Content   string `json:"content,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
	Bytes     int    `json:"bytes,omitempty"`
	// Time is when it happened, in milliseconds since 1970.
	Time int64 `json:"ts"`

	Agent      string `json:"agent,omitempty"`
	Tool       string `json:"tool,omitempty"`
	ToolCallID string `json:"toolCallId,omitempty"`
	// Status is Completed or Failed for a ToolResult, an Outcome for an IterationEnd.
	Status string `json:"status,omitempty"`
	Usage  *Usage `json:"usage,omitempty"`
	// Actions, Errors and Vitals are of an IterationEnd.
	Actions int     `json:"actionCount,omitempty"`
	Errors  int     `json:"errorCount,omitempty"`
	Vitals  *Vitals `json:"vitals,omitempty"`
	// State, Reason and Until are of a StateChange; Until is when the wait ends, in
	// milliseconds since 1970, 0 where nobody knows.
	State  State  `json:"state,omitempty"`
	Reason string `json:"reason,omitempty"`
	Until  int64  `json:"until,omitempty"`
	// Weaker is of a Sandbox: what it lacks, each in a few words.
	Weaker []string `json:"weaker,omitempty"`
}

// Usage is what a model was asked and answered, in tokens. Cost is in the currency of
// the agent's price list, as a rule dollars, and 0 where it has none.
type Usage struct {
	Input  int64   `json:"input"`
	Output int64   `json:"output"`
	Total  int64   `json:"total"`
	Cost   float64 `json:"cost,omitempty"`
}

// Add adds the usage of another piece of work, as far as it makes sense.
func (u *Usage) Add(o Usage) {
	o = o.Sane()
	u.Input += o.Input
	u.Output += o.Output
	u.Total += o.Total
	u.Cost += o.Cost
	*u = u.Sane()
}

// Vitals are what a sandbox uses. CPU is in percent of one processor, so that two
// busy processors are 200; Memory and Disk are in MB (1,000,000 bytes).
type Vitals struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
	Disk   float64 `json:"disk"`
}

// plain is an Event without its methods.
type plain Event

// timestampLayout is ISO 8601 in UTC, with milliseconds, as JavaScript writes it.
const timestampLayout = "2006-01-02T15:04:05.000Z07:00"

// MarshalJSON implements json.Marshaler: timestamp is written beside ts.
func (e Event) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		plain
		Timestamp string `json:"timestamp"`
	}{plain(e), time.UnixMilli(e.Time).UTC().Format(timestampLayout)})
}

// UnmarshalJSON implements json.Unmarshaler. A timestamp that cannot be read is as none.
func (e *Event) UnmarshalJSON(data []byte) error {
	var in struct {
		plain
		Timestamp string `json:"timestamp"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*e = Event(in.plain)
	if e.Time == 0 && in.Timestamp != "" {
		if t, err := time.Parse(time.RFC3339Nano, in.Timestamp); err == nil {
			e.Time = t.UnixMilli()
		}
	}
	return nil
}
