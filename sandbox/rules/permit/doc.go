// Package permit remembers what a person has allowed or refused an agent for good,
// per project.
//
// A [Subject] is what is asked about, as exactly as it can be said: the agent, its
// tool, and a command's words and directory, the files of an edit, or the whole
// input of another tool. A [Rule] is an answer about one subject and holds for that
// one only: there are no prefixes, no patterns and nothing that is similar enough.
// Whatever cannot be said exactly (a command with a variable in it) is not
// remembered, and the person is asked again.
//
// A [Store] keeps the rules in a file per project, private to the person. Several
// processes may use one; a change counts for the next question in all of them.
//
// The answers spare a person questions. They are no wall: what an agent can do
// without asking is for its sandbox to decide.
package permit

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The kinds of subject.
const (
	KindCommand = "command" // Text is the command's structure, Dir where it runs
	KindEdit    = "edit"    // Text is the list of files that a tool may change
	KindRead    = "read"    // Text is the list of files that a tool may read
	KindTool    = "tool"    // Text is the tool's whole input
	KindServer  = "server"  // Text is how an MCP server of the editor is reached
	KindHost    = "host"    // Text is the rule of the hosts and ports that any agent's programs may reach, or may not
)

// Everywhere takes the place of a project's directory in rules that hold in all projects.
const Everywhere = "*"

// Subject is what a person is asked about. Two that are equal are the same question.
type Subject struct {
	Kind string `json:"kind"`
	// Agent asks, Tool is its own name of what it wants to use; of a server its name.
	Agent string `json:"agent,omitempty"`
	Tool  string `json:"tool"`
	// Text is what Kind says, in a form that is the same for the same meaning.
	Text string `json:"text"`
	// Dir is the absolute directory that a command runs in.
	Dir string `json:"dir,omitempty"`
}

// Rule is a remembered answer.
type Rule struct {
	// ID names the rule within its project.
	ID string `json:"id"`
	Subject
	// Title is the subject in words for people. It decides nothing.
	Title string `json:"title"`
	// Allow is the answer.
	Allow bool `json:"allow"`
	// Isolated says that the answer was given about a sandbox that isolates: it does
	// not hold for an agent that runs without one.
	Isolated bool      `json:"isolated"`
	Created  time.Time `json:"created"`
}

// holds says whether the rule answers a question about s.
func (r *Rule) holds(s Subject, isolated bool) bool {
	return r.Subject == s && (isolated || !r.Isolated || !r.Allow)
}

// Call is a tool call as a question of an agent describes it.
type Call struct {
	Agent, Tool string
	// Kind is ACP's: "execute", "edit", "read".
	Kind string
	// Input is the tool's raw input, nil when it is not known.
	Input json.RawMessage
	// Paths are the files that the call names, as absolute as the agent said them.
	Paths []string
	// Dir is the session's directory, absolute.
	Dir string
}

// SubjectOf says what a call is about and, in words, what would be remembered. It
// reports false for a call that cannot be told from others exactly.
func SubjectOf(c Call) (s Subject, title string, ok bool) {
	if c.Tool == "" || c.Agent == "" {
		return Subject{}, "", false
	}
	s = Subject{Agent: c.Agent, Tool: c.Tool}
	var input map[string]json.RawMessage
	if json.Unmarshal(c.Input, &input) != nil {
		input = nil
	}
	switch {
	case len(input["command"]) > 0 && c.Kind == "execute":
		return commandSubject(s, input, c.Dir)
	case c.Kind == "execute":
		return Subject{}, "", false
	case (c.Kind == KindEdit || c.Kind == KindRead) && len(c.Paths) > 0:
		s.Kind, s.Text = c.Kind, joined(c.Paths, c.Dir)
		return s, c.Kind + " " + strings.ReplaceAll(s.Text, "\n", ", "), true
	case len(input) > 0 && c.Kind != KindEdit:
		text, err := canonical(c.Input)
		if err != nil {
			return Subject{}, "", false
		}
		s.Kind, s.Text = KindTool, text
		return s, c.Tool + " " + text, true
	}
	return Subject{}, "", false
}

// joined is a set of paths as one text.
func joined(paths []string, dir string) string {
	var all []string
	for _, p := range paths {
		if !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		all = append(all, filepath.Clean(p))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "\n")
}

// canonical is JSON in which the same value is always the same text.
func canonical(raw json.RawMessage) (string, error) {
	var v any
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return "", err
	}
	out, err := json.Marshal(v)
	return string(out), err
}
