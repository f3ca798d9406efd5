package goose

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gander.dev/gander/sandbox/telemetry"
)

// Events makes events of what "goose run --output-format stream-json" prints, a line
// at a time, and judges the run in the end: goose's exit code is 0 when its model does
// not answer, which it only says in words. The zero value is ready for use.
type Events struct {
	speech   telemetry.Speech
	calls    telemetry.Calls
	usage    telemetry.Usage
	spoke    bool // the model answered
	complete bool // goose said that it is at its end
	// failed is the last thing that goose said went wrong, with nothing of the model
	// after it.
	failed   *telemetry.Verdict
	reported string // what was said of it
}

// line is a line of goose's.
type line struct {
	Type    string `json:"type"`
	Message struct {
		ID       string `json:"id"`
		Role     string `json:"role"`
		Content  []item `json:"content"`
		Metadata struct {
			Inference json.RawMessage `json:"inference"`
		} `json:"metadata"`
	} `json:"message"`
	// Error is of type error.
	Error string `json:"error"`
	// ToolCallID is what a notification is about.
	ToolCallID string `json:"extension_id"`
	Log        *struct {
		Message string `json:"message"`
	} `json:"log"`
	Progress *struct {
		Message string `json:"message"`
	} `json:"progress"`
	// The rest is of type complete.
	Total  int64 `json:"total_tokens"`
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

type item struct {
	Type       string          `json:"type"`
	ID         string          `json:"id"`
	Text       string          `json:"text"`
	Thinking   string          `json:"thinking"`
	Message    string          `json:"message"` // of an error
	Msg        string          `json:"msg"`     // of a systemNotification
	ToolCall   json.RawMessage `json:"toolCall"`
	ToolResult json.RawMessage `json:"toolResult"`
}

// Line takes a line of goose's output. What is not JSON, such as a banner, is passed over.
func (p *Events) Line(raw []byte) []telemetry.Event {
	raw = bytes.TrimSpace(raw)
	if i := bytes.IndexByte(raw, '{'); i > 0 { // an interrupted goose glues words in front
		raw = raw[i:]
	}
	var l line
	if json.Unmarshal(raw, &l) != nil || l.Type == "" {
		return nil
	}
	switch l.Type {
	case "message":
		var out []telemetry.Event
		for _, it := range l.Message.Content {
			out = append(out, p.item(&l, it)...)
		}
		return out
	case "notification":
		return p.progress(&l)
	case "error":
		return p.fail(l.Error)
	case "complete":
		p.complete = true
		p.usage = telemetry.Usage{Input: l.Input, Output: l.Output, Total: cmp.Or(l.Total, l.Input+l.Output)}
		return p.Flush()
	}
	return append(p.Flush(), telemetry.Event{Type: telemetry.Type(l.Type), Summary: l.Type + " event", Content: string(raw)})
}

func (p *Events) item(l *line, it item) []telemetry.Event {
	id := l.Message.ID
	switch it.Type {
	case "text":
		if l.own() && isFailure(it.Text) {
			return p.fail(it.Text)
		}
		p.answered(id, it.Text)
		return p.speech.Add(id, telemetry.Text, it.Text)
	case "thinking", "reasoning":
		p.answered(id, it.Thinking+it.Text)
		return p.speech.Add(id, telemetry.Thought, cmp.Or(it.Thinking, it.Text))
	case "toolRequest":
		p.answered(id, it.ID)
		return append(p.Flush(), p.call(it))
	case "toolResponse":
		result := p.result(it)
		out := append(p.Flush(), result)
		if isRefusal(result.Content) {
			out = append(out, telemetry.Problem(fmt.Sprintf("a call of %s was refused: %s", cmp.Or(result.Tool, "a tool"), result.Content)))
		}
		return out
	case "error":
		return p.fail(cmp.Or(it.Message, it.Text))
	case "systemNotification":
		return append(p.Flush(), telemetry.Event{Type: "notice", Summary: it.Msg, Content: it.Msg})
	}
	return p.Flush()
}

// own reports whether goose itself has made a message of the assistant's: the others
// say which model did, and have the id that its endpoint gave them.
func (l *line) own() bool {
	m := &l.Message
	return m.Role == "assistant" && strings.HasPrefix(m.ID, "msg_") && m.Metadata.Inference == nil
}

// answered notes that something came from the model.
func (p *Events) answered(id, what string) {
	if what != "" && id != "" {
		p.spoke, p.failed = true, nil
	}
}

// isFailure reports whether a text of goose's says that it could not go on.
func isFailure(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "Ran into this error:") || strings.HasPrefix(text, "Network error:")
}

// isRefusal reports whether the result of a tool says that the call was not permitted.
func isRefusal(text string) bool {
	return strings.HasPrefix(text, "The user has declined to run this tool")
}

func (p *Events) fail(message string) []telemetry.Event {
	message = strings.TrimSuffix(strings.TrimSpace(message), "\n\nPlease retry if you think this is a transient or recoverable error.")
	v := judge(message)
	again := p.failed != nil && p.reported == message
	if p.failed, p.reported = &v, message; again {
		return p.Flush()
	}
	return append(p.Flush(), telemetry.Problem(message))
}

// statusOf finds the HTTP status in what goose says of it: "(500 Internal Server
// Error)", "Bad request (400)".
var statusOf = regexp.MustCompile(`\(([45]\d\d)\b`)

func judge(message string) telemetry.Verdict {
	text := strings.TrimSpace(strings.TrimPrefix(message, "Ran into this error:"))
	if m := statusOf.FindStringSubmatch(text); m != nil {
		status, _ := strconv.Atoi(m[1])
		return telemetry.ModelFailed(status, text)
	}
	for _, part := range []struct {
		word   string
		status int
	}{{"Rate limit", 429}, {"Server error", 500}, {"Network error", 0}, {"Authentication", 401}, {"Request failed", 400}} {
		if strings.Contains(text, part.word) {
			return telemetry.ModelFailed(part.status, text)
		}
	}
	return telemetry.Verdict{Outcome: telemetry.AgentError, Reason: "goose ended with an error: " + telemetry.Summarise(text)}
}

// wrapped are the two forms of toolCall and toolResult: what counts is in value, or,
// in older gooses, it is bare.
type wrapped struct {
	Status string          `json:"status"`
	Value  json.RawMessage `json:"value"`
	Error  string          `json:"error"`
}

func unwrap(raw json.RawMessage) (value json.RawMessage, problem string) {
	var w wrapped
	if json.Unmarshal(raw, &w) != nil {
		return raw, "" // a bare list
	}
	switch {
	case w.Error != "" && (w.Status == "error" || w.Value == nil):
		return nil, w.Error
	case w.Value != nil:
		return w.Value, ""
	}
	return raw, ""
}

func (p *Events) call(it item) telemetry.Event {
	var c struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	value, problem := unwrap(it.ToolCall)
	if problem != "" {
		e := telemetry.Call("invalid", it.ID, nil, problem)
		e.Content = problem
		return e
	}
	_ = json.Unmarshal(value, &c)
	p.calls.Begin(it.ID, c.Name)
	return telemetry.Call(cmp.Or(c.Name, "tool"), it.ID, c.Arguments, "")
}

func (p *Events) result(it item) telemetry.Event {
	tool := p.calls.End(it.ID)
	value, problem := unwrap(it.ToolResult)
	if problem != "" {
		return telemetry.Result(tool, it.ID, problem, true)
	}
	type content struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	var r struct {
		Content []content `json:"content"`
		IsError bool      `json:"isError"`
	}
	if json.Unmarshal(value, &r) != nil {
		_ = json.Unmarshal(value, &r.Content) // the bare form
	}
	var texts []string
	for _, c := range r.Content {
		if c.Type != "text" {
			c.Text = "(" + cmp.Or(c.Type, "something") + " that is not text)"
		}
		texts = append(texts, c.Text)
	}
	return telemetry.Result(tool, it.ID, strings.Join(texts, "\n"), r.IsError)
}

// progress is what a tool of an MCP server tells while it runs.
func (p *Events) progress(l *line) []telemetry.Event {
	var text string
	switch {
	case l.Log != nil:
		text = l.Log.Message
	case l.Progress != nil:
		text = l.Progress.Message
	}
	if text == "" {
		return nil
	}
	return append(p.Flush(), telemetry.Event{Type: "tool_progress", ToolCallID: l.ToolCallID, Summary: text, Content: text})
}

// Growing returns what has come of a message that is not complete yet.
func (p *Events) Growing() telemetry.Growth { return p.speech.Growing() }

// Flush returns the message that is held back until it is complete.
func (p *Events) Flush() []telemetry.Event { return p.speech.Flush() }

// End takes how goose ended and judges.
func (p *Events) End(exit telemetry.Exit) ([]telemetry.Event, telemetry.Verdict) {
	rest := p.Flush()
	v := telemetry.Verdict{Outcome: telemetry.OK}
	switch {
	case p.failed != nil:
		v = *p.failed
	case !p.complete:
		v = exit.Failure(Name, "ended before it was done")
	case exit.Code != 0:
		v = exit.Failure(Name, "failed")
	case !p.spoke && p.usage.Total == 0:
		v = telemetry.ModelFailed(0, "goose ended without an answer of it")
	case !p.spoke:
		v = exit.Failure(Name, "ended without a word of the model")
	}
	v.Usage = p.usage
	return rest, v
}
