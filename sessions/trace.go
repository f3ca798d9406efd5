package sessions

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"gander.dev/gander/acp"
)

// A Trace is the trace of a turn that runs. Its methods may be called
// concurrently, and on nil, which keeps nothing.
type Trace struct {
	runs *Runs
	// mu guards what follows.
	mu    sync.Mutex
	file  *os.File // nil when it cannot be written
	run   Run
	text  []byte         // what the agent said since the last tool call
	said  bool           // text is complete: something else came
	calls map[string]int // tool calls, by id: their place in the steps
	// planner are the actions of a planner, by their keys: so, too.
	planner map[string]int
}

// Record takes what happens in the turn, the same records as the transcript's.
func (t *Trace) Record(r Record) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.run.Status != RunRunning {
		return
	}
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	t.fold(&r)
	if notable(&r) {
		t.write(&r)
	}
	if t.run.Status != RunRunning {
		at := r.Time.UTC()
		t.run.CompletedAt = &at
	}
}

// Close writes the trace as a whole. A turn of which no end was recorded failed.
// It waits for the disk.
func (t *Trace) Close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.run.Status == RunRunning {
		at := time.Now().UTC()
		t.run.Status, t.run.Execution.Code, t.run.CompletedAt = RunFailed, 1, &at
		t.run.Execution.Error = "the turn ended without an answer"
	}
	if t.file == nil {
		return
	}
	err := t.runs.save(t)
	_ = t.file.Close()
	if err != nil {
		t.runs.o.Log.Warn("the run trace cannot be written", "run", t.run.RunID, "err", err)
		return
	}
	_ = os.Remove(t.file.Name()) // it is finished again when it stays
	t.file = nil
}

// write appends to the events. mu is held, here and below.
func (t *Trace) write(r *Record) {
	line, err := appendRecord(nil, r)
	if err == nil && t.file != nil {
		_, err = t.file.Write(redactLines(line, t.runs.o.Redact))
	}
	if err != nil {
		t.runs.o.Log.Warn("the run trace cannot be written", "run", t.run.RunID, "err", err)
	}
}

// typeRun is the type of the first line of the events.
const typeRun Type = "run"

type runBegin struct {
	Run Run `json:"run"`
}

// Type is "run".
func (runBegin) Type() Type { return typeRun }

// notable reports whether a record is written while the turn runs. Pieces of
// text are too many: a turn that a crash cut short has them in its transcript.
func notable(r *Record) bool {
	switch b := r.Body.(type) {
	case Message, Permission, TurnEvent, AgentEvent, Notice, Network, Changes, Step:
		return true
	case Update:
		for _, u := range b.shown() {
			if strings.HasPrefix(acp.UpdateKind(u), "tool_call") && len(u) <= maxRunRaw {
				return true
			}
		}
	}
	return false
}

func (t *Trace) fold(r *Record) {
	x := &t.run.Execution
	switch b := r.Body.(type) {
	case Message:
		if b.Role == RoleUser {
			t.run.UserMessage = head(b.Content)
		}
	case Update:
		for _, u := range b.shown() {
			t.update(r.Time, u)
		}
	case Permission:
		t.permission(r.ID, b)
	case AgentEvent:
		if b.Agent != "" {
			x.AgentID = b.Agent
		}
		if b.AgentSessionID != "" && len(b.AgentSessionID) <= maxAgentSession {
			x.ProviderSessionID = b.AgentSessionID
		}
		x.Stderr = string(tail([]byte(b.Stderr), maxRunText))
	case Notice:
		t.step(RunStep{Timestamp: r.Time, Note: head(b.Text)})
	case Network:
		t.network(b)
	case Changes:
		x.Effect = &b
	case Step:
		t.planned(r, b)
	case TurnEvent:
		t.turn(b)
	}
}

// head is the beginning of a text.
func head(s string) string {
	if len(s) <= maxRunText {
		return s
	}
	return cutAt(s, maxRunText) + "…"
}

func (t *Trace) turn(e TurnEvent) {
	if e.Event != TurnEnd {
		return
	}
	x := &t.run.Execution
	x.StopReason, x.Error, x.DurationMS, x.Usage, x.Cost = acp.StopReason(word(string(e.StopReason))), head(e.Error), e.DurationMS, e.Usage, e.Cost
	x.Code = 1
	switch {
	case e.Error != "":
		t.run.Status = RunFailed
	case e.StopReason == acp.StopCancelled:
		t.run.Status = RunCancelled
	case e.StopReason == acp.StopMaxTokens, e.StopReason == acp.StopMaxTurnRequests:
		t.run.Status = RunLimit
	case e.StopReason == acp.StopRefusal:
		t.run.Status = RunFailed
	default:
		t.run.Status, x.Code = RunOK, 0
	}
}

func (t *Trace) permission(id string, p Permission) {
	x := &t.run.Execution
	if len(p.Request) > maxRunRaw {
		p.Request = nil // it is in the transcript
	}
	for i := range x.Permissions {
		if x.Permissions[i].ID == id && p.Outcome != nil {
			x.Permissions[i].Outcome = p.Outcome
			return
		}
	}
	if len(x.Permissions) < maxRunAsked {
		x.Permissions = append(x.Permissions, RunPermission{id, p.Request, p.Outcome})
	}
}

// network takes a decision; one that is repeated takes the place of what was said of it.
func (t *Trace) network(n Network) {
	x := &t.run.Execution
	i := slices.IndexFunc(x.Network, func(was Network) bool { was.Times = n.Times; return was == n })
	switch {
	case i >= 0:
		x.Network[i] = n
	case len(x.Network) < maxRunHosts:
		x.Network = append(x.Network, n)
	default:
		x.OmittedNetwork++
	}
}

func (t *Trace) update(at time.Time, raw json.RawMessage) {
	switch acp.UpdateKind(raw) {
	case acp.AgentMessageChunk:
		var u struct {
			Content struct {
				Text string `json:"text"`
			} `json:"content"`
		}
		if json.Unmarshal(raw, &u) == nil {
			t.say(u.Content.Text)
		}
	case "tool_call", "tool_call_update":
		var u sessionUpdate
		if json.Unmarshal(raw, &u) == nil {
			t.said = true
			t.call(at, &u)
		}
	}
}

// say keeps the end of what was said since the last tool call.
func (t *Trace) say(text string) {
	if t.said && strings.TrimSpace(text) != "" {
		t.text, t.said = t.text[:0], false
	}
	t.text = append(t.text, text...)
	if len(t.text) > 2*maxRunText {
		start := len(t.text) - maxRunText
		for start < len(t.text) && !utf8.RuneStart(t.text[start]) {
			start++
		}
		t.text = append(t.text[:0], t.text[start:]...)
	}
}

func (t *Trace) call(at time.Time, u *sessionUpdate) {
	if len(u.ToolCallID) > maxRunRaw || t.run.Orchestration.Mode == modePlanned {
		return
	}
	steps := t.run.Orchestration.Steps
	i, known := t.calls[u.ToolCallID]
	if !known {
		if !t.step(RunStep{Timestamp: at, ToolCallID: u.ToolCallID}) {
			return
		}
		steps = t.run.Orchestration.Steps
		i = len(steps) - 1
		t.calls[u.ToolCallID] = i
	}
	if u.Title != "" {
		steps[i].Title = oneLine(u.Title)
	}
	if u.Kind != "" {
		steps[i].Kind = oneLine(u.Kind)
	}
	if u.Status != "" {
		steps[i].Status = oneLine(u.Status)
	}
}

func (t *Trace) step(s RunStep) bool {
	o := &t.run.Orchestration
	if len(o.Steps) >= maxRunSteps {
		o.OmittedSteps++
		return false
	}
	s.Step = len(o.Steps) + 1
	s.Timestamp = s.Timestamp.UTC()
	o.Steps = append(o.Steps, s)
	return true
}
