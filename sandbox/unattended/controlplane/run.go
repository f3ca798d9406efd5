package controlplane

import (
	"time"

	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/loop"
)

// Run is one unattended run as clients see it. Times are ISO 8601 in UTC with
// milliseconds, nil where they are not known.
type Run struct {
	RunID     string `json:"runId"`
	SessionID string `json:"sessionId"`
	Agent     string `json:"agentType"`
	// Driver is "local" or "docker"; empty while the Fleet chooses, External for a loop
	// that was started elsewhere and only reports here.
	Driver    string  `json:"sandbox"`
	Workspace string  `json:"workspace"`
	Model     string  `json:"model"`
	Pace      float64 `json:"pace"` // seconds
	// State is Starting until the loop tells its own.
	State  telemetry.State `json:"state"`
	Reason string          `json:"reason"`
	// Until is when a wait ends, in milliseconds since 1970; 0 when nobody knows.
	Until   int64   `json:"until"`
	Desired Desired `json:"desired"`
	// ContainerID is of the container, or of the sandbox when there is none.
	ContainerID string            `json:"containerId"`
	CreatedAt   *string           `json:"createdAt"`
	StartedAt   *string           `json:"startedAt"` // the first sign of its loop
	StoppedAt   *string           `json:"stoppedAt"`
	Iteration   int64             `json:"iteration"` // the newest, from 1
	LastSeq     int64             `json:"lastSeq"`   // of its newest event
	LastOutcome telemetry.Outcome `json:"lastOutcome"`
	Limits      loop.Limits       `json:"limits"`
	Usage       telemetry.Usage   `json:"usage"` // of all ended iterations
	// Using is of the iteration that runs, as of a moment ago.
	Using  telemetry.Usage   `json:"using"`
	Vitals *telemetry.Vitals `json:"vitals"`
	Prompt RunPrompt         `json:"prompt"`
	// Torn says why the run's workspace is not whole, and what to do: restoring a snapshot
	// in it has not ended. Until one is restored no agent works there. Empty when all is well.
	Torn string `json:"torn"`

	key       int64  // in the database
	old       bool   // told by a loop of the succeeded system, which numbers nothing
	added     int64  // how many of its events have got their number here
	lastBatch []byte // hash of the last batch without numbers
	told      int64  // the seq up to which Transcripts has its events
	created   int64  // ms
	started   *int64 // ms
	stopped   *int64 // ms
}

// RunPrompt is what a run is asked: its own prompt, or the one of all runs.
type RunPrompt struct {
	Own     bool   `json:"own"`
	Content string `json:"content"`
}

// External is the Driver of a loop that was started elsewhere.
const External = "external"

// Starting is the State of a run of which its loop has told nothing yet.
const Starting telemetry.State = "starting"

// live says whether the run has not ended.
func (r *Run) live() bool { return r.stopped == nil }

// terminal says whether nothing comes after a state.
func terminal(s telemetry.State) bool {
	return s == telemetry.Stopped || s == telemetry.Done || s == telemetry.Broken
}

// isoLayout is ISO 8601 with milliseconds, as JavaScript writes it.
const isoLayout = "2006-01-02T15:04:05.000Z07:00"

func iso(ms int64) string { return time.UnixMilli(ms).UTC().Format(isoLayout) }

func isoOrNil(ms *int64) *string {
	if ms == nil {
		return nil
	}
	s := iso(*ms)
	return &s
}

// oldTime is a time as the succeeded system's rows have it.
func oldTime(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.DateTime) }
