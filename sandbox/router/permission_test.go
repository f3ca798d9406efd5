package router

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/acp/acptest"
	"gander.dev/gander/sandbox/rules/permit"
)

// askRig is a rig whose agent asks about the tool call that a prompt is and says
// the answer; the person answers with the option of a kind.
func askRig(t *testing.T, kind *string, adjust func(*rig)) *rig {
	t.Helper()
	r := newRig(t, func(r *rig) {
		r.opts.Permissions = permit.Open(filepath.Join(r.dir, "permissions"))
		r.driver.isolated = true
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, prompt string) (*acp.PromptResponse, error) {
			call := lastLine(prompt)
			c.update(string(acp.WithFields(json.RawMessage(call), map[string]any{"sessionUpdate": "tool_call", "title": "bash"})))
			resp, err := c.params.Client.RequestPermission(ctx, &acp.RequestPermissionRequest{
				ToolCall: json.RawMessage(call), Options: gooseOptions(),
			})
			if err != nil {
				return nil, err
			}
			c.a.journal.add("answered %s", resp.Outcome.OptionID)
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
		if adjust != nil {
			adjust(r)
		}
	})
	r.editor.Permission = func(_ context.Context, req *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
		for _, o := range req.Options {
			if o.Kind == *kind {
				return acptest.Selected(o.OptionID), nil
			}
		}
		return acp.CancelledOutcome(), nil
	}
	return r
}

func gooseOptions() []acp.PermissionOption {
	var out []acp.PermissionOption
	for _, kind := range []string{"allow_always", "allow_once", "reject_once", "reject_always"} {
		out = append(out, acp.PermissionOption{OptionID: kind, Name: kind, Kind: kind})
	}
	return out
}

// shellCall is a call of a shell.
func shellCall(command string) string {
	return fmt.Sprintf(`{"toolCallId":"c","title":"run","kind":"execute","rawInput":{"command":%q}}`, command)
}

// answers asks in a session and returns what the agent was answered and whether
// the person was asked.
func (r *rig) answers(t *testing.T, id acp.SessionID, call string) (answer string, asked bool) {
	t.Helper()
	before, told := len(r.journal.all()), len(r.editor.Asked())
	r.wantStop(t, id, call, acp.StopEndTurn)
	for _, e := range r.journal.all()[before:] {
		if rest, ok := strings.CutPrefix(e, "answered "); ok {
			answer = rest
		}
	}
	return answer, len(r.editor.Asked()) > told
}

// What a person answers for good holds for the same question in the same project,
// for every session, and for nothing else; the agent itself remembers nothing.
func TestPermissionsAreRemembered(t *testing.T) {
	kind := "allow_always"
	r := askRig(t, &kind, nil)
	project := t.TempDir()
	s := r.editor.NewSession(t, project)
	if got, asked := r.answers(t, s.SessionID, shellCall("git status")); got != "allow_once" || !asked {
		t.Fatalf("answered %q, asked %v", got, asked)
	}
	if name := r.editor.Asked()[0].Options[0].Name; name != "Always allow in this project: git status" {
		t.Errorf("the option is called %q", name)
	}
	kind = "reject_once"
	next := r.editor.NewSession(t, project)
	for _, tt := range []struct {
		command, answer string
		asked           bool
	}{
		{"git status", "allow_once", false},
		{"git 'status' ", "allow_once", false},
		{"git status; rm -rf x", "reject_once", true},
		{"git status $(rm x)", "reject_once", true},
		{"git status > x", "reject_once", true},
		{"PATH=. git status", "reject_once", true},
		{"sh -c 'git status'", "reject_once", true},
	} {
		if got, asked := r.answers(t, next.SessionID, shellCall(tt.command)); got != tt.answer || asked != tt.asked {
			t.Errorf("%s: answered %q, asked %v", tt.command, got, asked)
		}
	}
	if got, asked := r.answers(t, r.editor.NewSession(t, t.TempDir()).SessionID, shellCall("git status")); got != "reject_once" || !asked {
		t.Errorf("in another project: answered %q, asked %v", got, asked)
	}
	r.wantStop(t, next.SessionID, "/status", acp.StopEndTurn)
	if said := r.editor.Text(next.SessionID, acp.AgentMessageChunk); !strings.Contains(said, "7 questions so far: 5 for you, 2 answered by what you said earlier, 0 by this setting") {
		t.Errorf("/status says %q", said)
	}
	rules, err := r.opts.Permissions.Rules(project)
	if err != nil || len(rules) != 1 {
		t.Fatalf("rules %+v, %v", rules, err)
	}
	if err := r.opts.Permissions.Revoke(project, rules[0].ID); err != nil {
		t.Fatal(err)
	}
	if got, asked := r.answers(t, next.SessionID, shellCall("git status")); got != "reject_once" || !asked {
		t.Errorf("after it was revoked: answered %q, asked %v", got, asked)
	}
}

// A refusal is remembered, too, and what cannot be said exactly is not offered.
func TestPermissionsRefusedForGood(t *testing.T) {
	kind := "reject_always"
	r := askRig(t, &kind, nil)
	s := r.open(t)
	for i, asked := range []bool{true, false} {
		if got, was := r.answers(t, s.SessionID, shellCall("make deploy")); got != "reject_once" || was != asked {
			t.Errorf("time %d: answered %q, asked %v", i, got, was)
		}
	}
	kind = "allow_always"
	if got, _ := r.answers(t, s.SessionID, shellCall("make $TARGET")); got != "" {
		t.Errorf("answered %q", got)
	}
	options := r.editor.Asked()[1].Options
	if len(options) != 2 || options[0].Kind != "allow_once" || options[1].Kind != "reject_once" {
		t.Errorf("offered are %+v", options)
	}
}

// Where the sandbox isolates, the option answers; where it does not, the person is
// asked, and what was allowed inside one does not count.
func TestPermissionPolicy(t *testing.T) {
	const read = `{"toolCallId":"c","title":"look","kind":"read","rawInput":{"path":"a"},"locations":[{"path":"a"}]}`
	for _, isolated := range []bool{true, false} {
		kind := "reject_once"
		r := askRig(t, &kind, func(r *rig) { r.driver.isolated = isolated })
		s := r.open(t)
		for _, tt := range []struct {
			policy, call string
			asked        bool
		}{
			{PermissionsAsk, read, true},
			{PermissionsReads, read, !isolated},
			{PermissionsReads, shellCall("ls"), true},
			{PermissionsAll, shellCall("rm -rf $X"), !isolated},
		} {
			if got := r.mustSet(t, s.SessionID, optionPermissions, tt.policy); got == "" {
				t.Fatal("no options")
			}
			want := "allow_once"
			if tt.asked {
				want = "reject_once"
			}
			if got, asked := r.answers(t, s.SessionID, tt.call); asked != tt.asked || got != want {
				t.Errorf("isolated %v, %s, %s: answered %q, asked %v", isolated, tt.policy, tt.call, got, asked)
			}
		}
		if said := r.editor.Text(s.SessionID, acp.AgentThoughtChunk); strings.Contains(said, "nothing bounds") == isolated {
			t.Errorf("isolated %v: said is %q", isolated, said)
		}
	}
}

// The option begins as configured.
func TestPermissionOption(t *testing.T) {
	r := newRig(t, func(r *rig) { r.opts.Approve = PermissionsReads })
	s := r.open(t)
	o := optionByID(s.ConfigOptions, optionPermissions)
	if o == nil || currentValue(o) != PermissionsReads || len(values(o)) != 3 {
		t.Errorf("the option is %+v", o)
	}
	if _, err := r.set(s.SessionID, optionPermissions, "none"); errorCode(err) != acp.CodeInvalidParams {
		t.Errorf("a value that is none: %v", err)
	}
}

// An answer means the option that the person chose, also when an agent gives others the
// same id.
func TestPermissionOptionsOfOneID(t *testing.T) {
	kind := "reject_once"
	r := askRig(t, &kind, func(r *rig) {
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, prompt string) (*acp.PromptResponse, error) {
			resp, err := c.params.Client.RequestPermission(ctx, &acp.RequestPermissionRequest{
				ToolCall: json.RawMessage(lastLine(prompt)), Options: []acp.PermissionOption{
					{OptionID: "x", Name: "No", Kind: "allow_always"}, {OptionID: "x", Name: "No", Kind: "reject_once"}, {OptionID: "y", Name: "Yes", Kind: "allow_once"},
				},
			})
			if err != nil {
				return nil, err
			}
			c.a.journal.add("answered %s", cmp.Or(resp.Outcome.OptionID, resp.Outcome.Outcome))
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	project := t.TempDir()
	s := r.editor.NewSession(t, project)
	if got, _ := r.answers(t, s.SessionID, shellCall("git push")); got == "y" {
		t.Errorf("the person refused, and the agent was answered %q", got)
	}
	if rules, err := r.opts.Permissions.Rules(project); err != nil || len(rules) != 0 {
		t.Errorf("the person refused once, and remembered is %+v, %v", rules, err)
	}
}

// What a person is shown of a question is what the agent's tool takes, whatever else is
// in its input: tools read the exact names, and a model may write any.
func TestQuestionsAreReadAsToolsRead(t *testing.T) {
	kind := "reject_once"
	r := askRig(t, &kind, nil)
	s := r.open(t)
	for call, want := range map[string]string{
		`{"toolCallId":"c","title":"run","kind":"execute","rawInput":{"command":"rm -rf x","Command":"ls"}}`:                       "rm -rf x   (in ",
		`{"toolCallId":"c","title":"run","kind":"execute","rawInput":{"command":"rm -rf x"},"RawInput":{"command":"ls"}}`:          "rm -rf x   (in ",
		`{"toolCallId":"c","title":"run","kind":"execute","rawInput":{"command":"make","workdir":"/tmp/elsewhere"}}`:               "make   (in /tmp/elsewhere)",
		`{"toolCallId":"c","title":"run","kind":"execute","rawInput":{"command":"make","cwd":"below"}}`:                            "/below)",
		`{"toolCallId":"c","title":"edit","kind":"edit","locations":[{"path":"/p/Makefile","Path":"/p/notes"}],"rawInput":{}}`:     "edit   (in ",
		`{"toolCallId":"c","title":"run","kind":"execute","rawInput":{"command":"make","cwd":"/tmp/here","workdir":"/tmp/there"}}`: "make",
	} {
		before := len(r.editor.Asked())
		r.answers(t, s.SessionID, call)
		asked := r.editor.Asked()
		if len(asked) != before+1 {
			t.Fatalf("%s: not asked", call)
		}
		req := asked[before]
		title := stringOf(acp.Member(req.ToolCall, "title"))
		if !strings.HasPrefix(title, want) && !strings.HasSuffix(title, want) {
			t.Errorf("%s is shown as %q, want %q", call, title, want)
		}
		for _, o := range req.Options {
			if o.Kind == "allow_always" && (strings.Contains(o.Name, "notes") || strings.Contains(o.Name, ": ls")) {
				t.Errorf("%s: %q would be remembered", call, o.Name)
			}
		}
	}
}

// A question that does not say its input is about the one that the call was announced with,
// and shows it.
func TestQuestionsShowTheCallThatTheyAreAbout(t *testing.T) {
	kind := "reject_once"
	r := askRig(t, &kind, func(r *rig) {
		r.agent.onTurn = askAbout(
			[]string{`{"sessionUpdate":"tool_call","toolCallId":"c","title":"bash","kind":"execute","rawInput":{"command":"rm -rf x"}}`},
			`{"toolCallId":"c","title":"git status"}`, gooseOptions())
	})
	r.answers(t, r.open(t).SessionID, "go")
	if title := stringOf(acp.Member(r.editor.Asked()[0].ToolCall, "title")); !strings.HasPrefix(title, "rm -rf x ") {
		t.Errorf("the question about rm is shown as %q", title)
	}
}

// Two calls of one id, which a model may choose, cannot be told apart: neither what the
// person said for good nor the option "permissions" answers for them.
func TestQuestionsAboutTwoCallsOfOneID(t *testing.T) {
	kind := "reject_once"
	for name, second := range map[string]string{
		"a call that reads": `{"sessionUpdate":"tool_call","toolCallId":"c","title":"tree","kind":"read","rawInput":{"path":"."}}`,
		"another command":   `{"sessionUpdate":"tool_call","toolCallId":"c","title":"bash","kind":"execute","rawInput":{"command":"git status"}}`,
	} {
		r := askRig(t, &kind, func(r *rig) {
			r.opts.Approve = PermissionsReads
			r.agent.onTurn = askAbout(
				[]string{`{"sessionUpdate":"tool_call","toolCallId":"c","title":"bash","kind":"execute","rawInput":{"command":"rm -rf x"}}`, second},
				`{"toolCallId":"c","title":"bash"}`, gooseOptions())
		})
		project := t.TempDir()
		subject, title, _ := permit.SubjectOf(permit.Call{Agent: "duck", Tool: "bash", Kind: "execute", Input: json.RawMessage(`{"command":"git status"}`), Dir: project})
		if _, err := r.opts.Permissions.Add(project, permit.Rule{Subject: subject, Title: title, Allow: true, Isolated: true}); err != nil {
			t.Fatal(err)
		}
		if got, asked := r.answers(t, r.editor.NewSession(t, project).SessionID, "go"); got != "reject_once" || !asked {
			t.Errorf("%s: answered %q, asked %v", name, got, asked)
		}
	}
}

// askAbout is a turn that says updates and asks.
func askAbout(updates []string, call string, options []acp.PermissionOption) func(context.Context, *fakeConv, string) (*acp.PromptResponse, error) {
	return func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
		for _, u := range updates {
			c.update(u)
		}
		resp, err := c.params.Client.RequestPermission(ctx, &acp.RequestPermissionRequest{ToolCall: json.RawMessage(call), Options: options})
		if err != nil {
			return nil, err
		}
		c.a.journal.add("answered %s", cmp.Or(resp.Outcome.OptionID, resp.Outcome.Outcome))
		return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
	}
}

// A question that nobody can answer is not put, and an option of a kind that is none of
// ACP's holds for good in nobody's project.
func TestPermissionOptionsThatMeanNothing(t *testing.T) {
	kind := "no_always"
	odd := []acp.PermissionOption{{OptionID: "a", Name: "Allow once", Kind: "no_always"}, {OptionID: "b", Name: "No", Kind: "reject_once"}}
	one := []acp.PermissionOption{{OptionID: "a", Name: "Yes", Kind: "allow_once"}, {OptionID: "a", Name: "No", Kind: "reject_once"}}
	for name, tt := range map[string]struct {
		options []acp.PermissionOption
		answer  string
		asked   bool
	}{"none is left": {one, "cancelled", false}, "an unknown kind": {odd, "a", true}} {
		r := askRig(t, &kind, func(r *rig) { r.agent.onTurn = askAbout(nil, shellCall("git push"), tt.options) })
		project := t.TempDir()
		if got, asked := r.answers(t, r.editor.NewSession(t, project).SessionID, "go"); got != tt.answer || asked != tt.asked {
			t.Errorf("%s: answered %q, asked %v", name, got, asked)
		}
		if rules, err := r.opts.Permissions.Rules(project); err != nil || len(rules) != 0 {
			t.Errorf("%s: remembered is %+v, %v", name, rules, err)
		}
	}
}

// An input or a file list that is too long to be kept is not the one before.
func TestQuestionsAboutLongInputs(t *testing.T) {
	kind := "reject_once"
	long := strings.Repeat("x", maxInput)
	const plain = `{"toolCallId":"c","title":"bash"}`
	questions := map[string]string{
		"a path":          `{"toolCallId":"c","title":"bash","kind":"edit","locations":[{"path":"notes"},{"path":"` + strings.Repeat("./", maxInput) + `Makefile"}]}`,
		"an odd location": `{"toolCallId":"c","title":"bash","kind":"edit","locations":[{"path":"notes"},{"path":"Makefile","type":"file"}]}`,
	}
	for name, updates := range map[string][]string{
		"a path": nil, "an odd location": nil,
		"a command": {
			`{"sessionUpdate":"tool_call","toolCallId":"c","title":"bash","kind":"execute","rawInput":{"command":"git status"}}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"c","rawInput":{"command":"rm -rf ` + long + `"}}`,
		},
		"files": {
			`{"sessionUpdate":"tool_call","toolCallId":"c","title":"bash","kind":"edit","locations":[{"path":"notes"}]}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"c","locations":[{"path":"Makefile"},{"path":"` + long + `"}]}`,
		},
	} {
		r := askRig(t, &kind, func(r *rig) { r.agent.onTurn = askAbout(updates, cmp.Or(questions[name], plain), gooseOptions()) })
		project := t.TempDir()
		for _, call := range []permit.Call{{Kind: "execute", Input: json.RawMessage(`{"command":"git status"}`)}, {Kind: "edit", Paths: []string{"notes"}}} {
			call.Agent, call.Tool, call.Dir = "duck", "bash", project
			subject, title, _ := permit.SubjectOf(call)
			if _, err := r.opts.Permissions.Add(project, permit.Rule{Subject: subject, Title: title, Allow: true, Isolated: true}); err != nil {
				t.Fatal(err)
			}
		}
		if got, asked := r.answers(t, r.editor.NewSession(t, project).SessionID, "go"); got != "reject_once" || !asked {
			t.Errorf("%s: answered %q, asked %v", name, got, asked)
		}
	}
}
