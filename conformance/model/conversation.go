package model

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Message is one message of a conversation as the agent sent it.
type Message struct {
	Role string
	// Content is the text of the message; the texts of several parts are joined by newlines.
	Content string
	// Images is the number of image parts.
	Images     int
	ToolCalls  []ToolCall
	ToolCallID string // of a tool result
}

// A ToolCall is a call in the history of a conversation. Arguments is what the
// model wrote, which need not be JSON.
type ToolCall struct {
	ID, Name, Arguments string
}

// completion is the body of a chat completions request.
type completion struct {
	Model         string        `json:"model"`
	Stream        bool          `json:"stream"`
	StreamOptions streamOptions `json:"stream_options"`
	Messages      []wireMessage `json:"messages"`
	Tools         []wireTool    `json:"tools"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type wireMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string       `json:"id"`
		Function wireFunction `json:"function"`
	} `json:"tool_calls"`
}

type wireTool struct {
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

func (c *completion) messages() []Message {
	out := make([]Message, 0, len(c.Messages))
	for _, w := range c.Messages {
		m := Message{Role: w.Role, ToolCallID: w.ToolCallID}
		m.Content, m.Images = contentText(w.Content)
		for _, call := range w.ToolCalls {
			m.ToolCalls = append(m.ToolCalls, ToolCall{call.ID, call.Function.Name, call.Function.Arguments})
		}
		out = append(out, m)
	}
	return out
}

func (c *completion) toolNames() []string {
	var names []string
	for _, t := range c.Tools {
		names = append(names, t.Function.Name)
	}
	return names
}

// contentText takes content as a string or as a list of parts.
func contentText(raw json.RawMessage) (text string, images int) {
	if json.Unmarshal(raw, &text) == nil {
		return text, 0
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(raw, &parts) != nil {
		return "", 0
	}
	var texts []string
	for _, p := range parts {
		if p.Type == "image_url" {
			images++
		} else if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n"), images
}

// A turn is where a conversation stands: the user message that decides and how
// far its script has got.
type turn struct {
	prompt   string // text of the newest user message
	message  int    // index of the message the script belongs to
	steps    []Step
	position int
	err      error // the script in the prompt is broken
}

// locate finds the script that answers a conversation and the position in it.
func (s *Script) locate(messages []Message) turn {
	last := lastPrompt(messages, len(messages))
	if last < 0 {
		return turn{steps: s.fallback()}
	}
	t := turn{prompt: promptText(messages[last]), message: last}
	steps, found, err := embedded(t.prompt)
	if !found {
		steps, found = s.find(t.prompt)
	}
	if found {
		t.steps, t.err, t.position = steps, err, position(messages, last)
		return t
	}
	if older, ok := s.locateOlder(messages, last); ok {
		older.prompt = t.prompt
		return older
	}
	t.steps, t.position = s.fallback(), position(messages, last)
	return t
}

// locateOlder goes on with the newest script embedded in an earlier prompt,
// unless that one is at its end.
func (s *Script) locateOlder(messages []Message, before int) (turn, bool) {
	for i := lastPrompt(messages, before); i >= 0; i = lastPrompt(messages, i) {
		steps, found, err := embedded(promptText(messages[i]))
		if !found {
			continue
		}
		p := position(messages, i)
		return turn{message: i, steps: steps, position: p, err: err}, p < len(steps)
	}
	return turn{}, false
}

func (s *Script) fallback() []Step {
	if len(s.Default) == 0 {
		return []Step{{Text: "ok"}}
	}
	return s.Default
}

// decoration is what agents add to the last user message on every request: it
// was not written by the user and changes from one request to the next.
var decoration = regexp.MustCompile(`(?s)<(turn-context|system-reminder)>.*?</(turn-context|system-reminder)>`)

func promptText(m Message) string {
	return strings.TrimSpace(decoration.ReplaceAllString(m.Content, ""))
}

// lastPrompt returns the index of the last prompt before the given index, or -1.
// User messages that only decorate, or that carry the images of a tool result
// (tool messages cannot), are not prompts.
func lastPrompt(messages []Message, before int) int {
	for i := before - 1; i >= 0; i-- {
		if isPrompt(messages, i) {
			return i
		}
	}
	return -1
}

func isPrompt(messages []Message, i int) bool {
	m := messages[i]
	if m.Role != "user" || promptText(m) == "" {
		return false
	}
	ofTool := m.Images > 0 && i > 0 && messages[i-1].Role == "tool"
	return !ofTool
}

// position is the number of steps that have been played since the prompt at
// index from: one more than the highest step our tool calls name, and one more
// for each answer without calls that a further prompt follows.
func position(messages []Message, from int) int {
	n := 0
	for i := from + 1; i < len(messages); i++ {
		m := messages[i]
		for _, call := range m.ToolCalls {
			if step, ok := stepOf(call.ID); ok {
				n = max(n, step+1)
			}
		}
		if m.Role == "assistant" && len(m.ToolCalls) == 0 && i+1 < len(messages) && isPrompt(messages, i+1) {
			n++
		}
	}
	return n
}

const callPrefix = "call_s"

// callID names a tool call: the step it belongs to, its place in it and a nonce.
func callID(step, index int, nonce string) string {
	return fmt.Sprintf("%s%d_%d_%s", callPrefix, step, index, nonce)
}

func stepOf(id string) (int, bool) {
	rest, ok := strings.CutPrefix(id, callPrefix)
	if !ok {
		return 0, false
	}
	digits, _, ok := strings.Cut(rest, "_")
	step, err := strconv.Atoi(digits)
	return step, ok && err == nil
}

// Requests that agents make on the side.
var (
	naming  = regexp.MustCompile(`(?i)\btitle\b|(four|4) words|session name`)
	summing = regexp.MustCompile(`(?i)\bsummar|\bcompact`)
)

// sideAnswer answers requests that are not part of the conversation: naming a
// session, summing it up (both come without tools) and goose's question whether
// a tool only reads.
func (c *completion) sideAnswer(messages []Message) (string, bool) {
	if len(c.Tools) == 1 && c.Tools[0].Function.Name == "platform__tool_by_tool_permission" {
		return "No tool only reads.", true
	}
	if len(c.Tools) > 0 {
		return "", false
	}
	for _, m := range messages {
		if m.Role != "system" && m.Role != "developer" {
			continue
		}
		switch {
		case naming.MatchString(m.Content):
			return "Scripted title", true
		case summing.MatchString(m.Content):
			return "Scripted summary", true
		}
	}
	return "", false
}
