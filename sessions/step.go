package sessions

import (
	"encoding/json"
	"slices"
	"strings"

	"gander.dev/gander/acp"
)

// TypeStep is the type of a [Step].
const TypeStep Type = "step"

// A Step is one action of a planner that has others do the work. It is a part of traces
// only; transcripts have what the person was shown.
type Step struct {
	// Key names the step within its run: one that is told again takes the place of what was told.
	Key string `json:"key"`
	StepFacts
}

// StepFacts hold all of a step but its name.
type StepFacts struct {
	// PlannerStep counts the answers of the planner, from 1. Raw is such an answer as it came.
	PlannerStep int             `json:"plannerStep,omitempty"`
	Raw         string          `json:"plannerRawOutput,omitempty"`
	Decision    json.RawMessage `json:"plannerDecision,omitempty"`
	ArtifactIO  *ArtifactIO     `json:"artifactIO,omitempty"`
	AgentCall   *AgentCall      `json:"agentCall,omitempty"`
	DurationMS  int64           `json:"durationMs,omitempty"`
}

// ArtifactIO names the artifact that a step read or wrote.
type ArtifactIO struct {
	ReadPath  string `json:"readPath,omitempty"`
	WritePath string `json:"writePath,omitempty"`
}

// An AgentCall is work that was given to another agent, as a turn of a session of its own.
type AgentCall struct {
	TargetAgentID     string          `json:"targetAgentId"`
	TaskKey           string          `json:"taskKey"`
	SessionPolicy     string          `json:"sessionPolicy"`
	Mode              string          `json:"mode"`
	Access            string          `json:"access"`
	Request           string          `json:"request"`
	Response          string          `json:"response"`
	Code              int             `json:"code"`
	StopReason        acp.StopReason  `json:"stopReason,omitempty"`
	SessionKey        string          `json:"sessionKey,omitempty"`
	SessionID         acp.SessionID   `json:"sessionId,omitempty"`
	TurnID            string          `json:"turnId,omitempty"`
	WorkingTreeEffect *Changes        `json:"workingTreeEffect,omitempty"`
	Usage             json.RawMessage `json:"usage,omitempty"`
}

// Type is "step".
func (Step) Type() Type { return TypeStep }

// A RunGraph says which sessions a run had work in, and who gave it.
type RunGraph struct {
	Nodes []RunNode `json:"nodes"`
	Edges []RunEdge `json:"edges"`
}

// A RunNode is a session of an agent.
type RunNode struct {
	AgentID    string        `json:"agentId"`
	SessionKey string        `json:"sessionKey,omitempty"`
	SessionID  acp.SessionID `json:"sessionId,omitempty"`
}

// A RunEdge is work that one agent gave another.
type RunEdge struct {
	FromAgentID string `json:"fromAgentId"`
	ToAgentID   string `json:"toAgentId"`
	Reason      string `json:"reason"`
}

// A RunThread is a task of an agent in a run.
type RunThread struct {
	TaskKey      string        `json:"taskKey"`
	AgentID      string        `json:"agentId"`
	SessionKey   string        `json:"sessionKey,omitempty"`
	SessionID    acp.SessionID `json:"sessionId,omitempty"`
	CreatedStep  int           `json:"createdStep"`
	UpdatedStep  int           `json:"updatedStep"`
	LastResponse string        `json:"lastResponse,omitempty"`
}

// planned takes a step of a planner. The tool calls of its thread are no steps then. mu is held.
func (t *Trace) planned(r *Record, s Step) {
	o := &t.run.Orchestration
	if o.Mode != modePlanned {
		o.Mode = modePlanned
		o.Steps = slices.DeleteFunc(o.Steps, func(s RunStep) bool { return s.ToolCallID != "" })
	}
	facts := s.StepFacts
	facts.Raw = cutAt(facts.Raw, min(len(facts.Raw), maxRunRaw))
	if len(facts.Decision) > maxRunRaw {
		facts.Decision = nil // it is in the raw answer, as far as that is kept
	}
	if c := facts.AgentCall; c != nil {
		call := *c
		call.Request, call.Response = head(call.Request), head(call.Response)
		facts.AgentCall = &call
	}
	if i, told := t.planner[s.Key]; told {
		o.Steps[i].StepFacts = facts
		return
	}
	if t.planner == nil {
		t.planner = map[string]int{}
	}
	if t.step(RunStep{Timestamp: r.Time, StepFacts: facts}) {
		t.planner[s.Key] = len(o.Steps) - 1
	}
}

// The values of RunOrchestration.Mode.
const (
	modeSingle  = "single-agent"
	modePlanned = "ai-loop"
)

// sum fills in what follows from the steps.
func (o *RunOrchestration) sum(planner string) {
	if o.Mode != modePlanned {
		return
	}
	o.Graph, o.Threads = &RunGraph{Nodes: []RunNode{{AgentID: planner}}, Edges: []RunEdge{}}, []RunThread{}
	for _, s := range o.Steps {
		c := s.AgentCall
		if c == nil || c.SessionID == "" {
			continue
		}
		node := RunNode{c.TargetAgentID, c.SessionKey, c.SessionID}
		if !slices.Contains(o.Graph.Nodes, node) {
			o.Graph.Nodes = append(o.Graph.Nodes, node)
		}
		o.Graph.Edges = append(o.Graph.Edges, RunEdge{planner, c.TargetAgentID, c.TaskKey})
		i := slices.IndexFunc(o.Threads, func(t RunThread) bool { return t.SessionID == c.SessionID })
		if i < 0 {
			i = len(o.Threads)
			o.Threads = append(o.Threads, RunThread{TaskKey: c.TaskKey, AgentID: c.TargetAgentID, SessionKey: c.SessionKey, SessionID: c.SessionID, CreatedStep: s.Step})
		}
		line, _, _ := strings.Cut(strings.TrimSpace(c.Response), "\n")
		o.Threads[i].UpdatedStep, o.Threads[i].LastResponse = s.Step, oneLine(line)
	}
}
