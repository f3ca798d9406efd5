package mcp

import (
	"strings"
	"testing"
)

func TestParseExpected(t *testing.T) {
	got, err := ParseExpected(strings.NewReader("# a comment\n\nlifecycle.ping  it is asleep\n"))
	if err != nil || len(got) != 1 || got["lifecycle.ping"] != "it is asleep" {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{
		"lifecycle.ping":                         "has no reason",
		"no.such because":                        "there is no check",
		"lifecycle.ping one\nlifecycle.ping two": "twice",
	} {
		if _, err := ParseExpected(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}

// Every requirement is shown by a check, or says where it is shown.
func TestRequirementsAreShown(t *testing.T) {
	shown, ids := map[int]bool{}, map[string]bool{}
	for _, c := range Checks() {
		if ids[c.ID] || c.Text == "" || len(c.Requirements) == 0 {
			t.Errorf("%s is there twice, or says nothing", c.ID)
		}
		ids[c.ID] = true
		for _, n := range c.Requirements {
			if requirement(n).Text == "" {
				t.Errorf("%s: there is no requirement %d", c.ID, n)
			}
			shown[n] = true
		}
	}
	for i, r := range Requirements() {
		if r.Number != i+1 {
			t.Errorf("requirement %d is at place %d", r.Number, i+1)
		}
		if !shown[r.Number] && r.Elsewhere == "" {
			t.Errorf("R%d is shown nowhere: %s", r.Number, r.Text)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	for want, o := range map[string]Options{
		"no command": {},
		"no profile": {Command: []string{"x"}, Profile: "other"},
		"no check":   {Command: []string{"x"}, Only: []string{"no.such"}},
		"/no/such":   {Command: []string{"/no/such/server"}},
	} {
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}
