package transcript

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sessions"
)

// place names a record: the number of the event that it was made from, 0 for what
// gander writes first, and its place among the records of that event.
type place struct {
	seq   int64
	index int
}

const placeFormat = "loop-%d-%d"

func (p place) id() string { return fmt.Sprintf(placeFormat, p.seq, p.index) }

func placeOf(id string) (p place, ok bool) {
	n, err := fmt.Sscanf(id, placeFormat, &p.seq, &p.index)
	return p, err == nil && n == 2 && p.id() == id
}

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.seq, o.seq), cmp.Compare(p.index, o.index))
}

// thread makes records of the events of one run.
type thread struct {
	file      *sessions.Transcript
	agent     string
	workspace string
	done      place // the last record that is written

	turn    string    // the iteration of the last record
	began   time.Time // the iteration
	kind    string    // of the message that the last record is a piece of; empty when it is none
	message string    // the id of that
	state   telemetry.State
}

func newThread(file *sessions.Transcript, run *controlplane.Run) *thread {
	return &thread{file: file, agent: run.Agent, workspace: run.Workspace, done: place{0, -1}}
}

// recall takes over from a record that is written what those to come depend on.
func (t *thread) recall(rec *sessions.Record) {
	p, ok := placeOf(rec.ID)
	if !ok {
		return // of a person, or gander's own
	}
	t.done = p
	t.turn, t.kind, t.message = rec.TurnID, "", ""
	switch b := rec.Body.(type) {
	case sessions.TurnEvent:
		if b.Event == sessions.TurnStart {
			t.began = rec.Time
		}
	case sessions.Update:
		var u struct {
			Kind      string `json:"sessionUpdate"`
			MessageID string `json:"messageId"`
		}
		if len(b.Sent) == 1 && json.Unmarshal(b.Sent[0], &u) == nil && u.MessageID != "" {
			t.kind, t.message = u.Kind, u.MessageID
		}
	}
}

// write makes records of events and returns when they are on disk.
func (t *thread) write(ctx context.Context, events []telemetry.Event) error {
	var made []sessions.Record
	for i := range events {
		e := &events[i]
		if e.Seq <= 0 || e.Seq < t.done.seq {
			continue
		}
		turn := turnOf(e)
		if turn != t.turn {
			t.turn, t.kind = turn, ""
		}
		for index, body := range t.bodies(e) {
			if p := (place{e.Seq, index}); p.compare(t.done) > 0 { // a crash may have come between two of them
				made = append(made, sessions.Record{ID: p.id(), TurnID: turn, Time: time.UnixMilli(e.Time), Body: body})
				t.done = p
			}
		}
	}
	return t.file.Commit(ctx, made...)
}

// turnOf is the turn of an iteration; what is outside of any has none.
func turnOf(e *telemetry.Event) string {
	if e.Iteration <= 0 {
		return ""
	}
	return "iteration-" + strconv.FormatInt(e.Iteration, 10)
}

// bodies are what an event is in a transcript. States that come with every iteration,
// and events of types that nobody knows, are nothing.
func (t *thread) bodies(e *telemetry.Event) []sessions.Body {
	kind := t.kind
	t.kind = ""
	switch e.Type {
	case telemetry.IterationStart:
		t.began = time.UnixMilli(e.Time)
		return []sessions.Body{
			sessions.TurnEvent{Event: sessions.TurnStart},
			sessions.Message{Role: sessions.RoleUser, Content: fmt.Sprintf("Iteration %d", e.Iteration)},
		}
	case telemetry.IterationEnd:
		return []sessions.Body{t.end(e)}
	case telemetry.Text:
		return t.speech(e, acp.AgentMessageChunk, kind)
	case telemetry.Thought:
		return t.speech(e, acp.AgentThoughtChunk, kind)
	case telemetry.ToolUse:
		return []sessions.Body{update(t.call(e))}
	case telemetry.ToolResult:
		return []sessions.Body{update(result(e))}
	case telemetry.Error:
		return []sessions.Body{remark(e, "Error: "+cmp.Or(e.Content, e.Summary))}
	case telemetry.StateChange:
		return t.stateChange(e)
	case telemetry.Sandbox:
		return []sessions.Body{sessions.AgentEvent{Event: sessions.AgentStarted, Agent: t.agent, Weaker: e.Weaker}}
	}
	t.kind = kind
	return nil
}

// speech is a piece of a message, which goes on until something else comes between.
func (t *thread) speech(e *telemetry.Event, kind, before string) []sessions.Body {
	if before != kind {
		t.message = fmt.Sprintf("loop-%d", e.Seq)
	}
	t.kind = kind
	return []sessions.Body{update(acp.MessageChunk(kind, t.message, cmp.Or(e.Content, e.Summary)+cutMark(e)))}
}

// stateChange is a sentence about a state that a person wants to know of, once for
// each time that it begins.
func (t *thread) stateChange(e *telemetry.Event) []sessions.Body {
	again := t.state == e.State
	t.state = e.State
	switch e.State {
	case telemetry.Paused, telemetry.Unready, telemetry.Stopped, telemetry.Done, telemetry.Broken:
	default:
		return nil
	}
	if again {
		return nil
	}
	text := "The loop is " + string(e.State)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return []sessions.Body{remark(e, text+".")}
}

// end is how an iteration ended. What it used is named as ACP does.
func (t *thread) end(e *telemetry.Event) sessions.TurnEvent {
	end := sessions.TurnEvent{Event: sessions.TurnEnd, Agent: t.agent}
	switch telemetry.Outcome(e.Status) {
	case telemetry.OK, "":
		end.StopReason = acp.StopEndTurn
	case telemetry.Cancelled:
		end.StopReason = acp.StopCancelled
	default:
		end.Error = e.Status
		if e.Reason != "" {
			end.Error += ": " + e.Reason
		}
	}
	if u := e.Usage; u != nil {
		end.Usage = marshal(map[string]int64{"inputTokens": u.Input, "outputTokens": u.Output, "totalTokens": u.Total})
	}
	if took := time.UnixMilli(e.Time).Sub(t.began); !t.began.IsZero() && took > 0 {
		end.DurationMS = took.Milliseconds()
	}
	return end
}

func update(raw json.RawMessage) sessions.Update {
	return sessions.Update{Sent: []json.RawMessage{raw}}
}

// remark is a sentence that no agent said. It has a message of its own.
func remark(e *telemetry.Event, text string) sessions.Update {
	return update(acp.MessageChunk(acp.AgentThoughtChunk, fmt.Sprintf("loop-%d", e.Seq), text+"\n"))
}

// cutMark says behind a content that it was cut off.
func cutMark(e *telemetry.Event) string {
	if !e.Truncated {
		return ""
	}
	return fmt.Sprintf("\n[cut off here: %d bytes in all]", e.Bytes)
}

// marshal is the JSON of what always has one.
func marshal(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}
