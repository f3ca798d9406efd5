package model

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Script decides what the model answers. It is not changed by a Server.
type Script struct {
	Rules []Rule
	// Default is played when no rule matches; empty means the text "ok".
	Default []Step
}

// A Rule plays Steps for prompts that match.
type Rule struct {
	// Match is a substring, Regexp a regular expression; one of the two is set.
	Match  string
	Regexp *regexp.Regexp
	Steps  []Step
}

// A Step is one answer of the model; the package comment lists the fields.
type Step struct {
	Text      string
	Tokens    int
	Reasoning string
	Tools     []Tool
	Delay     time.Duration
	Hang      Hang
	Drop      bool
	Error     json.RawMessage
	After     *int
	Status    int
	Code      string
	Headers   map[string]string
	Body      json.RawMessage
	Finish    string
	Usage     *Usage
	Times     int
}

// A Tool is a tool call. Raw, when not nil, is sent instead of Args.
type Tool struct {
	Name string
	Args json.RawMessage
	Raw  *string
}

// Hang says how long a step stops answering. The client going away ends it always.
type Hang struct {
	For     time.Duration
	Forever bool // until the client goes away
	Release bool // until Server.Release
}

func (h Hang) zero() bool { return h == Hang{} }

// Usage is what the model says it has used.
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

// ReadScript reads a script file.
func ReadScript(file string) (*Script, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading script: %w", err)
	}
	s, err := ParseScript(data)
	if err != nil {
		return nil, fmt.Errorf("reading script %s: %w", file, err)
	}
	return s, nil
}

// Embed returns steps, a JSON array, in the form a prompt carries them.
func Embed(steps string) string { return marker + steps + marker }

const marker = "@@"

// embedded returns the last script inside a prompt. A script in a string of
// another one (the task of a subagent, say) is part of that one.
func embedded(text string) (steps []Step, found bool, err error) {
	for {
		i := strings.Index(text, marker+"[")
		if i < 0 {
			return steps, found, err
		}
		text = text[i+len(marker):]
		d := json.NewDecoder(strings.NewReader(text))
		var raw json.RawMessage
		if e := d.Decode(&raw); e != nil {
			steps, found, err = nil, true, fmt.Errorf("the script in the prompt is not JSON: %w", e)
			continue
		}
		rest := text[d.InputOffset():]
		if !strings.HasPrefix(rest, marker) {
			continue
		}
		text = rest[len(marker):]
		steps, err = parseSteps("", raw)
		found = true
	}
}

// find returns the steps of the rule that answers a prompt: the first that
// matches the last line that any rule matches, else the first that matches all of it.
func (s *Script) find(prompt string) ([]Step, bool) {
	lines := strings.Split(prompt, "\n")
	slices.Reverse(lines)
	for _, text := range append(lines, prompt) {
		for _, r := range s.Rules {
			if r.matches(text) {
				return r.Steps, true
			}
		}
	}
	return nil, false
}

func (r Rule) matches(text string) bool {
	if r.Regexp != nil {
		return r.Regexp.MatchString(text)
	}
	return strings.Contains(text, r.Match)
}

func (st *Step) statusBody() []byte {
	if st.Body == nil {
		msg := st.Text
		if msg == "" {
			msg = fmt.Sprintf("scripted %d %s", st.Status, http.StatusText(st.Status))
		}
		return errorBody(msg, "scripted", st.Code)
	}
	var text string
	if json.Unmarshal(st.Body, &text) == nil {
		return []byte(text)
	}
	return st.Body
}

// errorBody is an error in the shape of the protocol.
func errorBody(message, kind, code string) []byte {
	if code == "" {
		code = kind
	}
	type detail struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    string `json:"code"`
	}
	data, err := json.Marshal(map[string]detail{"error": {message, kind, code}})
	if err != nil {
		panic(err) // three strings always marshal
	}
	return data
}
