package opencode

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"gander.dev/gander/sandbox/telemetry"
)

// Events makes events of what "opencode run --format json --thinking" prints, a line at
// a time, and judges the run in the end. Without --attach, which loses the end of it;
// of tool calls it tells when they have ended, with call and result in one. The zero
// value is ready for use.
type Events struct {
	usage    telemetry.Usage
	finished bool // a step has come to its end after whatever failed
	printed  bool
	failed   *telemetry.Verdict
}

type runLine struct {
	Type  string          `json:"type"`
	Error json.RawMessage `json:"error"`
	Part  struct {
		Text   string `json:"text"`
		Tool   string `json:"tool"`
		CallID string `json:"callID"`
		State  struct {
			Status   string          `json:"status"`
			Input    json.RawMessage `json:"input"`
			Output   string          `json:"output"`
			Error    string          `json:"error"`
			Title    string          `json:"title"`
			Metadata struct {
				Exit *int `json:"exit"`
			} `json:"metadata"`
		} `json:"state"`
		Tokens struct {
			Total, Input, Output, Reasoning int64
			Cache                           struct{ Read, Write int64 }
		} `json:"tokens"`
		Cost float64 `json:"cost"`
	} `json:"part"`
}

// Line takes a line of opencode's output. What is not JSON is passed over.
func (p *Events) Line(raw []byte) []telemetry.Event {
	raw = bytes.TrimSpace(raw)
	var l runLine
	if json.Unmarshal(raw, &l) != nil || l.Type == "" {
		return nil
	}
	p.printed = true
	switch l.Type {
	case "text":
		return said(telemetry.Text, l.Part.Text)
	case "reasoning", "thought":
		return said(telemetry.Thought, l.Part.Text)
	case "tool_use":
		return p.tool(&l)
	case "error":
		return p.fail(l.Error)
	case "step_start":
		return nil
	case "step_finish":
		p.step(&l)
		return nil
	}
	return []telemetry.Event{{Type: telemetry.Type(l.Type), Summary: l.Type + " event", Content: string(raw)}}
}

// said makes events of a whole text, however long.
func said(kind telemetry.Type, text string) []telemetry.Event {
	var s telemetry.Speech
	return append(s.Add("", kind, text), s.Flush()...)
}

func (p *Events) tool(l *runLine) []telemetry.Event {
	name, state := cmp.Or(l.Part.Tool, "tool"), &l.Part.State
	call := telemetry.Call(name, l.Part.CallID, state.Input, state.Title)
	failed := state.Status == "error" || name == "invalid"
	if exit := state.Metadata.Exit; exit != nil && *exit != 0 {
		failed = true
	}
	events := []telemetry.Event{call, telemetry.Result(name, l.Part.CallID, cmp.Or(state.Output, state.Error), failed)}
	if isRefusal(state.Error) {
		events = append(events, telemetry.Problem("a call of "+name+" was refused: "+state.Error))
	}
	return events
}

// isRefusal reports whether an error says that a call was not permitted: nobody is there
// who could permit it.
func isRefusal(text string) bool {
	return strings.Contains(text, "rejected permission") || strings.Contains(text, "a rule which prevents")
}

func (p *Events) step(l *runLine) {
	t := &l.Part.Tokens
	input := t.Input + t.Cache.Read + t.Cache.Write
	output := t.Output + t.Reasoning
	p.usage.Add(telemetry.Usage{Input: input, Output: output, Total: cmp.Or(t.Total, input+output), Cost: l.Part.Cost})
	p.finished, p.failed = true, nil // what went wrong before was overcome
}

func (p *Events) fail(raw json.RawMessage) []telemetry.Event {
	var e struct {
		Name string `json:"name"`
		Data struct {
			Message    string `json:"message"`
			StatusCode int    `json:"statusCode"`
			Retryable  bool   `json:"isRetryable"`
		} `json:"data"`
	}
	_ = json.Unmarshal(raw, &e)
	message := cmp.Or(e.Data.Message, e.Name, string(raw), "opencode ended with an error")
	v := telemetry.Verdict{Outcome: telemetry.AgentError, Reason: "opencode ended with an error: " + telemetry.Summarise(message)}
	if e.Name == "APIError" {
		status := e.Data.StatusCode
		if e.Data.Retryable && !telemetry.Unanswered(status) {
			status = 0
		}
		v = telemetry.ModelFailed(status, message)
	}
	p.failed, p.finished = &v, false
	return []telemetry.Event{{Type: telemetry.Error, Summary: message, Content: string(raw)}}
}

// Growing implements what parsers of events have: opencode prints whole messages.
func (p *Events) Growing() telemetry.Growth { return telemetry.Growth{} }

// End takes how opencode ended and judges. It ends with 1 after an error that it has
// overcome, too.
func (p *Events) End(exit telemetry.Exit) ([]telemetry.Event, telemetry.Verdict) {
	v := telemetry.Verdict{Outcome: telemetry.OK}
	switch {
	case p.failed != nil:
		v = *p.failed
	case exit.Signal != "" || exit.Code > 1:
		v = exit.Failure(Name, "failed")
	case !p.printed:
		v = exit.Failure(Name, "ended without a word")
	case !p.finished:
		v = exit.Failure(Name, "ended before it was done")
	}
	v.Usage = p.usage
	return nil, v
}
