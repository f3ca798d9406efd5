package mcp

import (
	"slices"

	"gander.dev/gander/conformance/harness"
)

// The profiles of a developer server.
const (
	Classic = "classic" // goose up to 1.25: six tools, failures are protocol errors
	Current = "current" // goose 1.52: shell, write, edit, tree, read_image, analyze; failures are results
)

// A Check is one thing that is tried. Its id never changes.
type Check struct {
	ID string
	// Text says what a server has to do to pass.
	Text string
	// Requirements are the numbers of what it shows, in [Requirements].
	Requirements []int
	// Profile and Platform limit the check; empty means every one. Platform is
	// "unix" or "windows", of the server.
	Profile, Platform string

	needs []string // tools
	run   func(*probe)
}

// Checks lists every check in the order in which they run. The last ones judge
// what was seen during all the others.
func Checks() []Check {
	return slices.Concat(
		lifecycleChecks(), transportChecks(), endChecks(), toolChecks(), promptChecks(), metadataChecks(),
		shellChecks(), environmentChecks(), streamingChecks(), cancelChecks(), outputChecks(), growthChecks(),
		policyChecks(), editorChecks(), editorChangeChecks(), diffChecks(), analyzeChecks(), imageChecks(), currentChecks(),
		telemetryChecks(), overallChecks(),
	)
}

// Word is the strongest RFC 2119 word among the requirements of a check.
func (c Check) Word() string {
	for _, word := range []string{"MUST", "SHOULD", "MAY"} {
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

// area is the first part of the id.
func (c Check) area() string { return c.described().Area() }
