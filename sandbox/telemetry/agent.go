package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Exit is how the process of an agent ended.
type Exit struct {
	Code   int
	Signal string // "KILL", or empty
	// Stderr is the end of what it complained of.
	Stderr string
}

// Verdict is what an iteration came to, by what the agent printed.
type Verdict struct {
	Outcome Outcome
	// Reason is a sentence; empty for OK.
	Reason string
	Usage  Usage
}

// A Parser makes events of what an agent prints; each agent's package has one.
type Parser interface {
	Line(line []byte) []Event
	// Growing returns what has come since the last call of a message that is not complete.
	Growing() Growth
	// End judges the iteration.
	End(exit Exit) ([]Event, Verdict)
}

// lastWords is the end of what an agent complained of, as part of a sentence.
func (e Exit) lastWords() string {
	text := strings.TrimSpace(e.Stderr)
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	if text == "" {
		return ""
	}
	return ": " + Summarise(text)
}

// Failure is the verdict about an agent that ended without having said that its model
// or anything else failed.
func (e Exit) Failure(agent, what string) Verdict {
	how := fmt.Sprintf("exit code %d", e.Code)
	if e.Signal != "" {
		how = "killed by SIG" + e.Signal
	}
	return Verdict{Outcome: AgentError, Reason: fmt.Sprintf("%s %s (%s)%s", agent, what, how, e.lastWords())}
}

// Unanswered reports whether an HTTP status of a model's endpoint means that it cannot
// answer at the moment, rather than that it does not want to. 0 is no answer at all.
func Unanswered(status int) bool {
	return status == 0 || status == 408 || status == 425 || status == 429 || status >= 500
}

// ModelFailed is the verdict about a model that answered with a status, 0 for none.
func ModelFailed(status int, message string) Verdict {
	message = Summarise(message)
	if Unanswered(status) {
		return Verdict{Outcome: LLMUnavailable, Reason: "the model does not answer: " + message}
	}
	return Verdict{Outcome: AgentError, Reason: "the model refuses: " + message}
}

// Speech joins what an agent says token by token: a message is one event. The zero value is
// ready for use.
type Speech struct {
	id   string
	kind Type
	buf  strings.Builder
	told int // bytes of buf that Growing has returned
}

// speechLimit is the size from which on a message is more than one event, in bytes.
const speechLimit = textLimit

// Growth is the next part of a message that is not complete yet. It is shown, and not kept:
// the event with the whole message follows.
type Growth struct {
	Iteration int64 `json:"iterationId"`
	Type      Type  `json:"type"` // Text or Thought
	// Offset counts the bytes of the message before Content.
	Offset  int    `json:"offset"`
	Content string `json:"content"`
}

// Follows reports whether a part can come after so many bytes of its message. The first one
// always can.
func (g Growth) Follows(said int) bool {
	return (g.Type == Text || g.Type == Thought) && (g.Offset == 0 || g.Offset == said) && g.Offset >= 0 && g.Offset+len(g.Content) <= textLimit && g.Content != ""
}

// Growing returns what was added to the present message since the last call; its Content is
// empty when nothing was.
func (s *Speech) Growing() Growth {
	g := Growth{Type: s.kind, Offset: s.told, Content: s.buf.String()[s.told:]}
	s.told = s.buf.Len()
	return g
}

// Add takes a piece of a message, and returns what was complete before it: what it is
// not a part of, and what has become long. No text is ever cut off.
func (s *Speech) Add(id string, kind Type, text string) []Event {
	if text == "" {
		return nil
	}
	var out []Event
	if id != s.id || kind != s.kind {
		out = s.Flush()
		s.id, s.kind = id, kind
	}
	s.buf.WriteString(text)
	if s.buf.Len() < speechLimit {
		return out
	}
	return append(out, s.Flush()...)
}

// Flush returns what is held back.
func (s *Speech) Flush() []Event {
	text := s.buf.String()
	s.buf.Reset()
	s.told = 0
	var out []Event
	for text != "" {
		piece := CutBytes(text, speechLimit)
		if piece == "" { // not text: a byte that is no character's first, again and again
			piece = text[:speechLimit]
		}
		text = text[len(piece):]
		out = append(out, Event{Type: s.kind, Summary: Summarise(piece), Content: piece})
	}
	return out
}

const previewLimit = 80 // characters of one value

// Preview says in a line with which arguments a tool is called: "path=a.go, line=3".
func Preview(arguments json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(arguments))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return clip(string(arguments), SummaryLimit)
	}
	var pairs []string
	for d.More() && len(pairs) < SummaryLimit/4 {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			break
		}
		pairs = append(pairs, fmt.Sprintf("%v=%s", name, shorten(value)))
	}
	return clip(strings.Join(pairs, ", "), SummaryLimit)
}

// shorten is the beginning of a value, a string without its quotes, anything else as JSON.
func shorten(value json.RawMessage) string {
	text := string(value)
	var s string
	var compact bytes.Buffer
	switch {
	case json.Unmarshal(value, &s) == nil:
		text = s
	case json.Compact(&compact, value) == nil:
		text = compact.String()
	}
	return clip(text, previewLimit)
}

// clip is a text as one line, with an ellipsis where it has more than so many characters.
func clip(text string, limit int) string {
	text = summarise(text, limit+1)
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}

// Call is the event of a tool that is called. The arguments are compacted.
func Call(tool, id string, arguments json.RawMessage, preview string) Event {
	var content bytes.Buffer
	if json.Compact(&content, arguments) != nil {
		content.Reset()
		content.Write(arguments)
	}
	if preview == "" {
		preview = Preview(arguments)
	}
	summary := tool
	if preview != "" {
		summary += ": " + preview
	}
	return Event{Type: ToolUse, Summary: clip(summary, SummaryLimit), Content: content.String(), Tool: tool, ToolCallID: id}
}

// Result is the event of a tool that has ended.
func Result(tool, id, output string, failed bool) Event {
	e := Event{Type: ToolResult, Summary: Summarise(output), Content: output, Tool: tool, ToolCallID: id, Status: Completed}
	if failed {
		e.Status = Failed
	}
	if e.Summary == "" {
		e.Summary = "(no output)"
	}
	return e
}

// Problem is the event of something that went wrong.
func Problem(message string) Event {
	return Event{Type: Error, Summary: Summarise(message), Content: message}
}

// Calls remembers the names of tools that are running, by the id of the call. What
// never ends does not add up.
type Calls struct {
	ids, names []string
}

const callsLimit = 256

// Begin notes a call.
func (c *Calls) Begin(id, name string) {
	if len(c.ids) == callsLimit {
		c.ids, c.names = c.ids[1:], c.names[1:]
	}
	c.ids, c.names = append(c.ids, id), append(c.names, name)
}

// End is the name of a call that ends now; empty when it is not known.
func (c *Calls) End(id string) string {
	i := slices.Index(c.ids, id)
	if i < 0 {
		return ""
	}
	name := c.names[i]
	c.ids, c.names = slices.Delete(c.ids, i, i+1), slices.Delete(c.names, i, i+1)
	return name
}
