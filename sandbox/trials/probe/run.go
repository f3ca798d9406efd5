package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gander.dev/gander/sandbox"
)

// Options configure Run.
type Options struct {
	// Create makes the sandbox: a Driver's, from which what git keeps of closed files is
	// hidden as the policy's git "hide" does.
	Create func(context.Context, sandbox.Spec) (sandbox.Sandbox, error)
	// Executable is gander outside, which carries out the controls (Main).
	Executable string
	// Only are classes or ids; empty is all.
	Only []string
	// Rounds is how often what depends on luck is tried; 0 is 200.
	Rounds int
	// Owner gets the project, when root runs this; -1 leaves it to root.
	Owner int
	// Shell is the host's, "bash" or "sh"; empty is the first that there is.
	Shell string
	// Done is told of each result when it is there. May be nil.
	Done func(Result)
}

// Verdict is what came of a case.
type Verdict string

// The verdicts.
const (
	Blocked  Verdict = "blocked"        // it succeeds outside and fails inside
	Escaped  Verdict = "ESCAPED"        // it succeeds inside
	Unproven Verdict = "proves nothing" // it fails outside, too
	Untried  Verdict = "not tried"      // it could not be carried out
)

// Result is a case that was run.
type Result struct {
	ID      string  `json:"id"`
	Verdict Verdict `json:"verdict"`
	// Outside and Inside say what happened there, in a few words.
	Outside string `json:"outside"`
	Inside  string `json:"inside"`
	// Took is how long it took inside.
	Took time.Duration `json:"took"`
}

// Report is the outcome of Run.
type Report struct {
	Driver    string   `json:"driver"`
	Isolation string   `json:"isolation"`
	Warnings  []string `json:"warnings,omitempty"`
	Results   []Result `json:"results"`
}

// Count is how many cases had a verdict.
func (r *Report) Count(v Verdict) (n int) {
	for _, one := range r.Results {
		if one.Verdict == v {
			n++
		}
	}
	return n
}

// chosen are the cases that Only names.
func (o Options) chosen() ([]Case, error) {
	all := Catalogue()
	if len(o.Only) == 0 {
		return all, nil
	}
	var cases []Case
	for _, name := range o.Only {
		n := len(cases)
		for _, c := range all {
			class, _, _ := strings.Cut(c.ID, "/")
			if (c.ID == name || class == name) && !slices.ContainsFunc(cases, func(have Case) bool { return have.ID == c.ID }) {
				cases = append(cases, c)
			}
		}
		if n == len(cases) {
			return nil, fmt.Errorf("%w: %q; the classes are %s", ErrUnknown, name, strings.Join(classes(all), ", "))
		}
	}
	return cases, nil
}

// ErrUnknown is wrapped by the error about a name in Options.Only that is none.
var ErrUnknown = errors.New("there is no such class or case")

func classes(cases []Case) (names []string) {
	for _, c := range cases {
		if class, _, _ := strings.Cut(c.ID, "/"); !slices.Contains(names, class) {
			names = append(names, class)
		}
	}
	return names
}

const defaultRounds = 200
