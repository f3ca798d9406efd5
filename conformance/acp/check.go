package acp

import (
	"io"
	"slices"

	"gander.dev/gander/conformance/harness"
)

// A Check is one thing that is tried. Its id never changes.
type Check struct {
	ID string
	// Text says what an agent has to do to pass.
	Text string
	// Requirements are the numbers of what it shows, in [Requirements].
	Requirements []int

	needs []need
	run   func(*probe)
}

// Checks lists every check in the order in which they run. The last ones judge
// what was seen during all the others.
func Checks() []Check {
	return slices.Concat(
		lifecycleChecks(), transportChecks(), hostileChecks(), sessionChecks(), promptChecks(), contentChecks(), toolChecks(), permissionChecks(),
		optionChecks(), cancelChecks(), historyChecks(), storedChecks(), offeredChecks(), endChecks(), boundChecks(), overallChecks(),
	)
}

// Word is the strongest RFC 2119 word among the requirements of a check.
func (c Check) Word() string {
	for _, word := range []string{must, should, may} {
		for _, n := range c.Requirements {
			if requirement(n).Word == word {
				return word
			}
		}
	}
	return ""
}

// described is the check as reports tell of it.
func (c Check) described() harness.Check {
	return harness.Check{ID: c.ID, Text: c.Text, Word: c.Word(), Requirements: c.Requirements}
}

func (c Check) area() string { return c.described().Area() }

// ParseExpected reads a list of expected failures; see [harness.ParseExpected].
func ParseExpected(in io.Reader) (map[string]string, error) {
	known := Checks()
	return harness.ParseExpected(in, func(id string) bool {
		return slices.ContainsFunc(known, func(c Check) bool { return c.ID == id })
	})
}

// A need is what a check does not apply without.
type need int

const (
	needModel     need = iota // prompts reach the scripted model
	needShell                 // the model can have commands run
	needAsking                // the agent can be made to ask before it runs one
	needProcesses             // leftovers can be found on this system
	needModes
	needOptions
	needList
	needLoad
	needResume
	needClose
	needDelete
	needFork
	needArchive
	needStatus
	needAhead
)

// lacks says why the agent does not have what a check needs; empty means that it does.
func (r *runner) lacks(n need) string {
	f := &r.facts
	advertised := func(name string, is bool) string {
		if is {
			return ""
		}
		return "the agent does not advertise " + name
	}
	switch n {
	case needModel:
		return f.noModel
	case needShell:
		return f.noShell
	case needAsking:
		return f.noAsking
	case needProcesses:
		if !harness.CanSeeProcesses {
			return "the processes of this system cannot be seen from here; run the harness on Linux"
		}
		return ""
	case needModes:
		return advertised("modes in session/new", len(f.modes.AvailableModes) > 0)
	case needOptions:
		return advertised("configOptions in session/new", len(f.options) > 0)
	case needLoad:
		return advertised("loadSession", f.loads)
	}
	name := map[need]string{needList: "list", needResume: "resume", needClose: "close", needDelete: "delete", needFork: "fork", needArchive: "archive", needStatus: "status", needAhead: "options"}[n]
	return advertised("sessionCapabilities."+name, f.session[name])
}
