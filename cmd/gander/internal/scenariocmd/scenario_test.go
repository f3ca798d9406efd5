package scenariocmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/cmd/gander/internal/config"
)

func read(t *testing.T, text string) (*spec, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return readSpec(file, config.Limits{Steps: 12})
}

// A file of the succeeded system has no more in it than this, and names agents as it did: the
// name is the id.
const old = `{"name": "two files", "message": "make two files", "entryAgentId": "orchestrator",
 "agents": [{"id": "dev", "name": "The Developer", "description": "writes"}],
 "scripted": {"orchestratorActions": [
   {"rationale": "why", "action": {"type": "delegate_to_agent", "mode": "hybrid", "reason": "r", "targetAgentId": "the-developer", "message": "make them", "expectedOutput": "two"}},
   [{"action": {"type": "read_workspace_file", "path": "run/a"}}, {"action": {"type": "finish", "mode": "direct", "message": "made"}}]],
  "agentReplies": {"The Developer": "made files"}},
 "assertions": {"mustSucceed": true, "stdoutIncludes": ["made"], "delegatedAgents": ["the-developer"], "minSteps": 1, "maxSteps": 3}}`

func TestOldFile(t *testing.T) {
	s, err := read(t, old)
	if err != nil {
		t.Fatal(err)
	}
	if s.Assertions.Delegated[0] != "dev" || s.Scripted.AgentReplies["dev"] == nil || s.Scripted.OrchestratorActions[0][0].Action.TargetAgentID != "dev" {
		t.Errorf("read %+v", s)
	}
	p := planned(s.Scripted.OrchestratorActions, 12)
	if len(p.Default) != 13 || len(p.Default[1].Tools) != 2 || p.Default[12].Tools[1].Name != "finish" || strings.Contains(string(p.Default[0].Tools[0].Args), "reason\"") {
		t.Errorf("the planner says %+v", p.Default)
	}
}

func TestWrongFiles(t *testing.T) {
	const good = `{"name": "n", "message": "m", "assertions": {}}`
	if _, err := read(t, good); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":  "s.json:1:1: JSON: the text ends too early",
		`{`: "JSON",
		"{\"name\": \"n\", \"message\": \"m\",\n \"asertions\": {}}":                                     `s.json:2:2: asertions: unknown key; did you mean "assertions"?`,
		`{"name": "n", "message": "m", "assertions": {"minStep": 1}}`:                                    `assertions.minStep: unknown key; did you mean "minSteps"?`,
		`{"name": "n", "message": "m", "assertions": {"minSteps": "1"}}`:                                 `assertions.minSteps: want a number, got a string`,
		`{"name": "n", "message": "m", "assertions": {"stopReason": "done"}}`:                            `stopReason: "done" is not one of end_turn`,
		`{"message": "m", "assertions": {}}`:                                                             "name: is missing",
		`{"name": "n", "message": "m"}`:                                                                  "there are no assertions",
		`{"name": "n", "name": "n"}`:                                                                     `the key "name" is there twice`,
		strings.Replace(good, "{}", `{"files": {"../x": {"contains": "y"}}}`, 1):                         "assertions.files.../x: name a file of the project",
		strings.Replace(good, "{}", `{"files": {"x": {"contains": "y", "absent": true}}}`, 1):            "what is absent has no content",
		strings.Replace(good, "{}", `{}, "project": "nowhere"`, 1):                                       "project: there is no folder",
		strings.Replace(good, "{}", `{}, "agents": [{"id": "a"}, {"id": "A"}]`, 1):                       "agents[1]: there is an agent a already",
		strings.Replace(good, "{}", `{}, "scripted": {"orchestratorActions": [{}]}`, 1):                  "scripted.orchestratorActions[0]: its action is missing",
		strings.Replace(good, "{}", `{}, "scripted": {"orchestratorActions": [[{"a": 1}]]}`, 1):          "scripted.orchestratorActions[0][0].a: unknown key",
		strings.Replace(good, "{}", `{}, "scripted": {"agentReplies": {"x": [{"tol": "y"}]}}`, 1):        "scripted.agentReplies.x: want a text, or steps of the scripted model: default[0].tol: unknown field",
		strings.Replace(good, "{}", `{}, "turns": [{"scripted": {}}]`, 1):                                "turns[0]: its message is missing",
		strings.Replace(good, "{}", `{}, "time": "soon"`, 1):                                             `"soon" is not a duration`,
		strings.Replace(good, "{}", `{}, "permissions": "some"`, 1):                                      `"some" is not one of all, reads, none`,
		strings.Replace(good, "{}", `{}, "agents": [{"id": "a", "provider": "g", "command": ["x"]}]`, 1): "either a provider or a command",
	} {
		if _, err := read(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant %s", text, err, want)
		}
	}
}

const everything = `{"name": "n", "message": "m", "assertions": {
 "mustSucceed": true, "stopReason": "end_turn", "stdoutIncludes": ["fixed"], "delegatedAgents": ["a", "b"], "minSteps": 2, "maxSteps": 3,
 "changed": ["x"], "unchanged": ["y"], "files": {"x": {"contains": "good"}, "z": {"absent": true}, "w": {"equals": ""}}, "threads": {"t": 1}, "maxTokens": 10, "denied": 1,
 "told": {"a": ["be short"]}}}`

// held is an outcome of which all of that is true.
func held() *outcome {
	files := map[string]string{"x": "a good file", "w": ""}
	return &outcome{
		StopReason: "end_turn", Output: "it is fixed", Delegated: []string{"a", "b"}, Steps: 2, Changed: []string{"x"}, Threads: map[string]int{"t": 1}, Tokens: 10,
		Denied: []string{"d"}, told: func(agent, text string) bool { return agent == "a" && text == "be short" },
		file: func(name string) ([]byte, error) {
			text, ok := files[name]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return []byte(text), nil
		},
	}
}

// Each kind of assertion is red where it does not hold, and no other one with it.
func TestAssertions(t *testing.T) {
	s, err := read(t, everything)
	if err != nil {
		t.Fatal(err)
	}
	o := held()
	o.judged(s)
	if !o.Success || len(o.judge) != 15 {
		t.Fatalf("%d verdicts: %v", len(o.judge), o.Failures)
	}
	none := func(string) ([]byte, error) { return nil, fs.ErrNotExist }
	for _, tt := range []struct {
		red   []string
		spoil func(o *outcome)
	}{
		{[]string{"mustSucceed"}, func(o *outcome) { o.err = errors.New("broken") }},
		{[]string{"mustSucceed", "stopReason"}, func(o *outcome) { o.StopReason = "max_turn_requests" }},
		{[]string{"stdoutIncludes"}, func(o *outcome) { o.Output = "no" }},
		{[]string{"delegatedAgents"}, func(o *outcome) { o.Delegated = []string{"b", "a"} }},
		{[]string{"minSteps"}, func(o *outcome) { o.Steps = 1 }},
		{[]string{"maxSteps"}, func(o *outcome) { o.Steps = 4 }},
		{[]string{"changed"}, func(o *outcome) { o.Changed = nil }},
		{[]string{"unchanged"}, func(o *outcome) { o.Changed = []string{"x", "y"} }},
		{[]string{"files.w", "files.x"}, func(o *outcome) { o.file = none }},
		{[]string{"files.w", "files.z"}, func(o *outcome) { o.file = func(string) ([]byte, error) { return []byte("good"), nil } }},
		{[]string{"threads.t"}, func(o *outcome) { o.Threads = map[string]int{"t": 2} }},
		{[]string{"maxTokens"}, func(o *outcome) { o.Tokens = 11 }},
		{[]string{"denied"}, func(o *outcome) { o.Denied = nil }},
		{[]string{"told.a"}, func(o *outcome) { o.told = func(string, string) bool { return false } }},
	} {
		o := held()
		tt.spoil(o)
		o.judged(s)
		var red []string
		for _, v := range o.judge {
			if v.why != "" {
				red = append(red, v.name)
			}
		}
		if !slices.Equal(red, tt.red) || o.Success {
			t.Errorf("red are %v, want %v", red, tt.red)
		}
	}
	o = held()
	o.told = nil // real models
	o.judged(s)
	if !o.Success {
		t.Errorf("with real models %v", o.Failures)
	}
}

// Links that a sandbox leaves in the project are not followed.
func TestReadIn(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(out, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(out, filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	if text, err := readIn(dir, "link"); err == nil {
		t.Errorf("read %q", text)
	}
	all, err := sums(dir)
	if err != nil || fmt.Sprint(all) != "map[link:-> "+out+"]" {
		t.Errorf("%v, %v", all, err)
	}
}
