package orchestrator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/team/orchestrator"
)

// An agent gets a task, its work is shown as one tool call, and the planner's message is the
// answer, not the agent's.
func TestDelegate(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.team.work = func(_ context.Context, m *member, _ string) (*acp.PromptResponse, error) {
			m.say("Let me look.")
			m.show(json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"1","title":"edit calc.go","kind":"edit","status":"completed","content":[{"type":"diff","path":"` + r.dir + `/calc.go","oldText":"a","newText":"b"}]}`))
			m.say("Mended, says the goose.")
			meta := `{"gander.dev":{"turn":"t","changes":{"paths":[{"path":"calc.go","change":"modified"}],"note":"HEAD moved: 1 commit"}}}`
			return &acp.PromptResponse{StopReason: acp.StopEndTurn, Meta: json.RawMessage(meta), Usage: json.RawMessage(`{"totalTokens":1000}`)}, nil
		}
	})
	resp, err := r.ask(step{"reasoning": "Hm.", "tool": "delegate_to_agent", "args": map[string]any{
		"targetAgentId": "Goose", "taskKey": "Fix It!", "message": "Mend calc.go", "rationale": "It is broken.", "remaining": []string{"review"},
	}}, finish("All is well."))
	if err != nil || resp.StopReason != acp.StopEndTurn {
		t.Fatalf("the turn ended with %+v, %v", resp, err)
	}
	if said := r.said(); said != "All is well." {
		t.Errorf("the person was told %q", said)
	}
	var usage struct{ TotalTokens int }
	if _ = json.Unmarshal(resp.Usage, &usage); usage.TotalTokens <= 1000 {
		t.Errorf("usage %s has not that of the planner and the agent", resp.Usage)
	}
	all := strings.Join(r.shown(), "\n")
	if uses := r.uses(); len(uses) != 3 || uses[1].Used != uses[0].Used || uses[1].sum() < uses[0].sum()+1000 || uses[2].sum() != int64(usage.TotalTokens) || uses[2].Size < uses[2].Used {
		t.Errorf("the person was shown the use %+v of a turn that took %s", uses, resp.Usage)
	}
	for _, want := range []string{
		"Hm.", "It is broken.", `"title":"goose · fix-it: Mend calc.go"`, `"sessionUpdate":"plan"`, `"content":"review","priority":"medium","status":"pending"`,
		`"type":"diff"`, `"newText":"b"`, `"status":"completed"`, "Mended, says the goose.",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("the person was not shown %s in\n%s", want, all)
		}
	}
	told := r.told()
	for _, want := range []string{"agent: goose, task: fix-it", "ended: done", "changed: modified calc.go; HEAD moved: 1 commit", "answer:\nMended, says the goose.", "run/step-01-1-from-goose.md", "step 1/12, delegations 1/8"} {
		if !strings.Contains(told, want) {
			t.Errorf("the planner was not told %q in\n%s", want, told)
		}
	}
	if c := r.steps["1-0"].AgentCall; c == nil || c.SessionID != "child-1" || c.Response != "Mended, says the goose." || c.TurnID != "t" || c.WorkingTreeEffect == nil {
		t.Errorf("the trace has %+v", c)
	}
	kept, err := os.ReadFile(filepath.Join(r.dir, "artifacts", "turn-1", "step-01-1-from-goose.md"))
	if err != nil || string(kept) != "Mended, says the goose." {
		t.Errorf("the artifact is %q, %v", kept, err)
	}
}

// use is the part of a usage_update that tests look at.
type use struct {
	Used, Size int64
	Meta       map[string]struct{ Usage struct{ TotalTokens int64 } } `json:"_meta"`
}

func (u use) sum() int64 { return u.Meta["gander.dev"].Usage.TotalTokens }

// uses returns what the person was shown of what the turn uses.
func (r *rig) uses() (all []use) {
	for _, raw := range r.shown() {
		var u use
		if acp.UpdateKind(json.RawMessage(raw)) == "usage_update" && json.Unmarshal([]byte(raw), &u) == nil {
			all = append(all, u)
		}
	}
	return all
}

// Text without a call answers, and so does respond_user.
func TestAnswers(t *testing.T) {
	r := newRig(t, nil)
	r.want(acp.StopEndTurn, step{"text": "Four."})
	r.want(acp.StopEndTurn, call("respond_user", map[string]any{"message": " Five."}))
	if said := r.said(); said != "Four.Five." {
		t.Errorf("said %q", said)
	}
	if r.team.opened != 0 {
		t.Errorf("%d sessions were opened", r.team.opened)
	}
}

// An agent's model gets another text by each mode.
func TestModes(t *testing.T) {
	r := newRig(t, nil)
	mode := func(mode string) step {
		return call("delegate_to_agent", map[string]any{"targetAgentId": "goose", "message": "Mend it.", "expectedOutput": "A list.", "mode": mode})
	}
	write := call("write_workspace_file", map[string]any{"path": "run/plan.md", "content": "the plan"})
	attach := call("delegate_to_agent", map[string]any{"targetAgentId": "goose", "message": "Mend it.", "attach": []string{"run/plan.md"}})
	r.want(acp.StopEndTurn, mode("direct"), mode("hybrid"), mode("artifacts"), write, attach, finish("Done."))
	given := r.team.given()
	if len(given) != 4 {
		t.Fatalf("given %q", given)
	}
	if given[0] != `[{"type":"text","text":"Mend it."}]` {
		t.Errorf("direct: %s", given[0])
	}
	for _, want := range []string{"# The person's request", "# Notes", "# Expected output\\n\\nA list.\\n\\n# Task\\n\\nMend it.\"}]"} {
		if !strings.Contains(given[1], want) {
			t.Errorf("hybrid: no %s in %s", want, given[1])
		}
	}
	if !strings.Contains(given[2], "attached file step-03-1-to-goose.md") || !strings.Contains(given[2], `"uri":"artifact:step-03-1-to-goose.md"`) || !strings.HasPrefix(given[2], `[{"type":"text","text":"Your task`) {
		t.Errorf("artifacts: %s", given[2])
	}
	if !strings.Contains(given[3], `"text":"the plan"`) || strings.Contains(strings.Join(given, ""), r.dir) {
		t.Errorf("attach: %s", given[3])
	}
}

// The planner is told of an action that makes no sense, and can do better; three answers in a
// row without any other end the turn.
func TestBadInput(t *testing.T) {
	bad := map[string]struct {
		step step
		want string
	}{
		"unknown tool":      {call("rm_rf", nil), "there is no tool"},
		"no JSON":           {step{"tool": "finish", "raw": `{"message": "un`}, "the arguments of finish cannot be read"},
		"wrong type":        {call("finish", map[string]any{"message": 3}), "message must not be a JSON number"},
		"a list":            {step{"tool": "finish", "raw": `[]`}, "not an object"},
		"unknown agent":     {delegate("eagle", "", "x"), "choose one of goose, owl"},
		"unready agent":     {delegate("dodo", "", "x"), "dodo is extinct; hatch one"},
		"no message":        {delegate("goose", "", " "), "message is missing"},
		"mode":              {call("delegate_to_agent", map[string]any{"targetAgentId": "goose", "message": "x", "mode": "loud"}), "not one of direct, artifacts, hybrid"},
		"path that leaves":  {call("read_workspace_file", map[string]any{"path": "../../../etc/passwd"}), "leaves the folder"},
		"absolute path":     {call("read_workspace_file", map[string]any{"path": "/etc/passwd"}), "leaves the folder"},
		"backslashes":       {call("write_workspace_file", map[string]any{"path": `run\x`, "content": ""}), "must not have"},
		"a device":          {call("write_workspace_file", map[string]any{"path": "run/con.md", "content": ""}), "device"},
		"no file":           {call("read_workspace_file", map[string]any{"path": "run/none.md"}), "there is no file"},
		"a file too large":  {call("write_workspace_file", map[string]any{"path": "x", "content": strings.Repeat("x", 1<<20+1)}), "more than"},
		"attached host":     {call("delegate_to_agent", map[string]any{"targetAgentId": "goose", "message": "x", "attach": []string{"/etc/passwd"}}), "neither an artifact"},
		"skill of no agent": {call("install_skill", map[string]any{"skillName": "x", "content": "y"}), "name in targetAgentId"},
		"skill of the host": {call("install_skill", map[string]any{"skillName": "x", "targetAgentId": "goose", "sourcePath": "/etc/passwd"}), "artifact of this run"},
	}
	for name, b := range bad {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.want(acp.StopEndTurn, b.step, finish("Well."))
			if told := r.told(); !strings.Contains(told, b.want) {
				t.Errorf("the planner was told %q; want %q", told, b.want)
			}
			if len(r.team.given()) != 0 || r.said() != "Well." {
				t.Errorf("given %q, said %q", r.team.given(), r.said())
			}
		})
	}
	r := newRig(t, nil)
	_, err := r.ask(call("a", nil), call("b", nil), call("c", nil), finish("never"))
	if err == nil || !strings.Contains(err.Error(), "3 answers in a row") || !strings.Contains(r.said(), "I stop here.") {
		t.Errorf("three in a row: %v, said %q", err, r.said())
	}
}

// Each limit ends the turn with a last message, and keeps what was done.
func TestLimits(t *testing.T) {
	again := func(n int) step { return delegate("goose", fmt.Sprint("t", n), fmt.Sprint("task ", n)) }
	tests := map[string]struct {
		limits orchestrator.Limits
		steps  []step
		want   string
	}{
		"steps":       {orchestrator.Limits{Steps: 2, Delegations: 9}, []step{again(1), again(2), again(3)}, "2 steps"},
		"delegations": {orchestrator.Limits{Steps: 9, Delegations: 1}, []step{again(1), again(2), again(3)}, "1 tasks"},
		"tokens":      {orchestrator.Limits{Steps: 9, Delegations: 9, Tokens: 100}, []step{again(1), again(2), again(3)}, "100 tokens"},
		"repeats":     {orchestrator.Limits{Steps: 9, Delegations: 9, Repeats: 3}, []step{again(1), again(1), again(1), again(1), again(1)}, "the same was wanted 4 times"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.limits = tt.limits })
			r.want(acp.StopMaxTurnRequests, tt.steps...)
			if said := r.said(); !strings.Contains(said, "I stop here: ") || !strings.Contains(said, tt.want) || !strings.Contains(said, "goose · t1: done") {
				t.Errorf("said %q", said)
			}
		})
	}
	t.Run("time", func(t *testing.T) {
		r := newRig(t, func(r *rig) {
			r.limits.Time = 300 * time.Millisecond
			r.team.work = untilCancelled
		})
		r.want(acp.StopMaxTurnRequests, again(1), finish("never"))
		if said := r.said(); !strings.Contains(said, "the limit of 300ms") || r.team.cancels == 0 {
			t.Errorf("said %q, cancels %d", said, r.team.cancels)
		}
	})
}

// untilCancelled is work that ends when it is cancelled.
func untilCancelled(ctx context.Context, m *member, _ string) (*acp.PromptResponse, error) {
	select {
	case <-m.cancelled:
		return &acp.PromptResponse{StopReason: acp.StopCancelled}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// The clock of a turn stands while the person is asked something.
func TestClockStandsWhileAsked(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.limits.Time = 2 * time.Second
		r.answer = func(*acp.RequestPermissionRequest) string { time.Sleep(3 * time.Second); return "yes" }
		r.team.work = asks
	})
	r.want(acp.StopEndTurn, delegate("goose", "a", "x"), finish("Done."))
}

// asks is work that the person is asked about.
func asks(ctx context.Context, m *member, _ string) (*acp.PromptResponse, error) {
	resp, err := m.team.client.RequestPermission(ctx, &acp.RequestPermissionRequest{
		SessionID: m.id, ToolCall: json.RawMessage(`{"toolCallId":"7","title":"go test ./…","kind":"execute"}`),
		Options: []acp.PermissionOption{{OptionID: "yes", Name: "Yes", Kind: "allow_once"}},
	})
	if err != nil {
		return nil, err
	}
	m.show(json.RawMessage(`{"sessionUpdate":"tool_call_update","toolCallId":"7","status":"completed"}`))
	m.say("The person said " + resp.Outcome.OptionID)
	return ended()
}

// A question comes to the person under the name of the agent and the task.
func TestQuestion(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.answer = func(*acp.RequestPermissionRequest) string { return "yes" }
		r.team.work = asks
	})
	r.want(acp.StopEndTurn, delegate("goose", "tests", "x"), finish("Done."))
	if len(r.asked) != 1 || !strings.Contains(string(r.asked[0].ToolCall), "goose · tests: go test ./…") {
		t.Fatalf("asked %+v", r.asked)
	}
	id := `"toolCallId":"delegate-turn-1-1-7"`
	all := strings.Join(r.shown(), "\n")
	if !strings.Contains(string(r.asked[0].ToolCall), id) || strings.Count(all, id) != 2 || !strings.Contains(r.told(), "The person said yes") {
		t.Errorf("shown\n%s\ntold %s", all, r.told())
	}
}

// Threads are found again in the same turn, in the next one, and in the next process.
func TestThreads(t *testing.T) {
	r := newRig(t, nil)
	policy := func(task, policy string) step {
		return call("delegate_to_agent", map[string]any{"targetAgentId": "goose", "taskKey": task, "message": "x " + policy, "sessionPolicy": policy})
	}
	r.want(acp.StopEndTurn, delegate("goose", "fix", "one"), delegate("goose", "fix", "two"), policy("fix", "new"), finish("Done."))
	r.want(acp.StopEndTurn, delegate("goose", "fix", "three"), policy("other", "reuse"), finish("Done."))
	if told := r.told(); r.team.opened != 3 || !strings.Contains(told, "There was no such thread to reuse") {
		t.Errorf("%d sessions were opened; told %s", r.team.opened, told)
	}
	id := r.conv.ID()
	_ = r.conv.Close()
	r.open(id)
	r.want(acp.StopEndTurn, delegate("goose", "fix", "four"), finish("Done."))
	if r.team.opened != 3 {
		t.Errorf("the next process has not found the thread: %d sessions", r.team.opened)
	}
	if c := r.steps["1-0"].AgentCall; c.SessionID != "child-2" {
		t.Errorf("the thread that goes on is %s; want the newest", c.SessionID)
	}
	_ = r.conv.Close()
	r.open("another conversation")
	r.want(acp.StopEndTurn, delegate("goose", "fix", "five"), finish("Done."))
	if r.team.opened != 4 {
		t.Errorf("another conversation has found the thread: %d sessions", r.team.opened)
	}
}

// Of threads in which nobody works four stay open.
func TestThreadsAreClosed(t *testing.T) {
	r := newRig(t, nil)
	var steps []step
	for i := range 6 {
		steps = append(steps, delegate("goose", fmt.Sprint("t", i), "x"))
	}
	r.want(acp.StopEndTurn, append(steps, finish("Done."))...)
	if fmt.Sprint(r.team.closed) != "[child-1 child-2]" {
		t.Errorf("closed %v", r.team.closed)
	}
}

// Tasks that only read are done side by side; one that writes is done alone.
func TestSideBySide(t *testing.T) {
	both, alone := make(chan struct{}, 2), 0
	r := newRig(t, func(r *rig) {
		r.team.work = func(ctx context.Context, m *member, _ string) (*acp.PromptResponse, error) {
			if m.agent == "goose" {
				if len(both) != 2 {
					return nil, fmt.Errorf("a writer works beside readers")
				}
				alone++
				return ended()
			}
			both <- struct{}{}
			for len(both) < 2 {
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(time.Millisecond):
				}
			}
			m.say("I looked.")
			return ended()
		}
	})
	r.want(acp.StopEndTurn, calls(delegate("owl", "a", "look here"), delegate("owl", "b", "look there"), delegate("goose", "c", "write")), finish("Done."))
	if alone != 1 || !strings.Contains(r.told(), "agent: goose, task: c") {
		t.Errorf("%d writers, told %s", alone, r.told())
	}
}

// The agents get what the person has chosen, and what the mode says.
func TestChoices(t *testing.T) {
	r := newRig(t, func(r *rig) { r.chosen = map[string]string{"sandbox": "crate"} })
	if err := r.conv.SetMode(t.Context(), orchestrator.ModeAsk); err != nil {
		t.Fatal(err)
	}
	r.want(acp.StopEndTurn, delegate("goose", "a", "x"), finish("Done."))
	if got := r.team.sessions["child-1"].options; got["mode"] != "approve" || got["sandbox"] != "crate" || got["access"] != "write" {
		t.Errorf("options %v", got)
	}
	if err := r.conv.SetMode(t.Context(), orchestrator.ModePlan); err != nil {
		t.Fatal(err)
	}
	r.want(acp.StopEndTurn, delegate("goose", "a", "x"), delegate("goose", "b", "x"), finish("Done."))
	if got := r.team.sessions["child-1"].options; got["mode"] != "auto" {
		t.Errorf("the mode that asks has stayed: %v", got)
	}
	if got := r.team.sessions["child-2"].options; got["access"] != "read" {
		t.Errorf("options %v", got)
	}
	if err := r.conv.SetMode(t.Context(), "wild"); err == nil {
		t.Error("there is a mode wild")
	}
}

// A cancel reaches the agents, and the turn ends when they have.
func TestCancel(t *testing.T) {
	started := make(chan struct{})
	r := newRig(t, func(r *rig) {
		r.team.work = func(ctx context.Context, m *member, text string) (*acp.PromptResponse, error) {
			close(started)
			return untilCancelled(ctx, m, text)
		}
	})
	go func() {
		<-started
		_ = r.conv.Cancel()
	}()
	r.want(acp.StopCancelled, delegate("goose", "a", "x"), finish("never"))
	r.team.work = nil
	r.want(acp.StopEndTurn, delegate("goose", "a", "again"), finish("Done."))
	if r.team.opened != 1 || r.said() != "Done." {
		t.Errorf("%d sessions, said %q", r.team.opened, r.said())
	}
}

// An agent that fails is a result for the planner; one that the person's policy has stopped
// ends the turn.
func TestFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		stop acp.StopReason
		want string
	}{
		"dies":     {acp.Internal("goose has ended", nil), "", "ended: failed: goose has ended"},
		"refuses":  {nil, acp.StopRefusal, "ended: the model refused to answer"},
		"is cut":   {nil, acp.StopMaxTokens, "ended: ended early: max_tokens"},
		"is ended": {nil, acp.StopCancelled, "ended: cancelled by the person"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.team.work = func(context.Context, *member, string) (*acp.PromptResponse, error) {
					return &acp.PromptResponse{StopReason: tt.stop}, tt.err
				}
			})
			r.want(acp.StopEndTurn, delegate("goose", "a", "x"), finish("It failed."))
			if told := r.told(); !strings.Contains(told, tt.want) || r.said() != "It failed." || !strings.Contains(strings.Join(r.shown(), ""), `"status":"failed"`) {
				t.Errorf("told %q, said %q", told, r.said())
			}
		})
	}
	r := newRig(t, func(r *rig) {
		r.team.work = func(context.Context, *member, string) (*acp.PromptResponse, error) {
			return &acp.PromptResponse{StopReason: acp.StopCancelled, Meta: json.RawMessage(`{"gander.dev":{"stoppedBy":"policy","why":"A secret was seen."}}`)}, nil
		}
	})
	_, err := r.ask(delegate("goose", "a", "x"), finish("never"))
	if err == nil || !strings.Contains(err.Error(), "A secret was seen.") {
		t.Errorf("stopped by the policy: %v", err)
	}
}

// A skill is installed when the person allows it, who is shown all of it.
func TestInstallSkill(t *testing.T) {
	install := call("install_skill", map[string]any{"skillName": "tidy", "targetAgentId": "goose", "description": "Sorts: imports", "content": "Sort them."})
	r := newRig(t, nil)
	r.want(acp.StopEndTurn, install, finish("Done."))
	if r.installed != "" || !strings.Contains(r.told(), "did not allow it") {
		t.Errorf("installed %q, told %q", r.installed, r.told())
	}
	r.answer = func(*acp.RequestPermissionRequest) string { return "allow" }
	r.want(acp.StopEndTurn, install, finish("Done."))
	text := "---\nname: tidy\ndescription: \"Sorts: imports\"\n---\nSort them."
	quoted, _ := json.Marshal(text)
	if r.installed != "goose/tidy\n"+text || !strings.Contains(string(r.asked[1].ToolCall), string(quoted)) {
		t.Errorf("installed %q, asked %s", r.installed, r.asked[1].ToolCall)
	}
}

// An endpoint that takes no tools is asked for JSON, and once more where that is none.
func TestWithoutTools(t *testing.T) {
	without := func(r *rig) { r.toolless = true }
	r := newRig(t, without)
	r.want(acp.StopEndTurn,
		step{"text": "Sure!\n```json\n{\"rationale\":\"why\",\"action\":{\"type\":\"delegate_to_agent\",\"targetAgentId\":\"goose\",\"message\":\"x\"}}\n```"},
		step{"text": "I am done"}, step{"text": `{"action":{"type":"finish","message":"Fine."}}`})
	if r.said() != "Fine." || len(r.team.given()) != 1 {
		t.Errorf("said %q, given %q", r.said(), r.team.given())
	}
	r = newRig(t, without)
	_, err := r.ask(step{"text": "no"}, step{"text": "still no"})
	if err == nil || !strings.Contains(err.Error(), "It said: still no") {
		t.Errorf("two answers that are none: %v", err)
	}
}

// An agent plans in the place of a model: in a session that only reads and is not kept, where
// it is told what is new, and is asked once more for JSON where it said something else.
func TestAgentPlans(t *testing.T) {
	decisions := []string{
		"Let me think.", `{"action":{"type":"delegate_to_agent","targetAgentId":"goose","taskKey":"fix","message":"Mend it."}}`,
		"```json\n" + `{"action":{"type":"finish","message":"Mended."}}` + "\n```", `{"action":{"type":"respond_user","message":"Four."}}`,
	}
	var told []string
	r := newRig(t, func(r *rig) {
		r.planner = "owl"
		r.team.work = func(ctx context.Context, m *member, text string) (*acp.PromptResponse, error) {
			if m.agent != "owl" {
				m.say("It is done.")
				return ended()
			}
			told = append(told, text)
			if _, err := asks(ctx, m, ""); err != nil { // which nobody is asked
				return nil, err
			}
			m.show(json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"1","title":"look"}`))
			m.say(decisions[len(told)-1])
			return ended()
		}
	})
	r.want(acp.StopEndTurn, step{"text": "no model is asked"})
	if said := r.said(); said != "Mended." || len(r.model.Requests()) != 0 || len(r.asked) != 0 {
		t.Errorf("said %q, models were asked %d times, and the person %d times", said, len(r.model.Requests()), len(r.asked))
	}
	if owl := r.team.sessions["child-1"]; owl.options["access"] != "read" || owl.key != "" {
		t.Errorf("it plans in %+v", owl)
	}
	for i, want := range []string{"Answer with one JSON object", "That cannot be read: ", "ended: done"} {
		if !strings.Contains(told[i], want) || i > 0 && strings.Contains(told[i], "You are an orchestrator") {
			t.Errorf("it was told %d: %s", i, told[i])
		}
	}
	r.want(acp.StopEndTurn, step{"text": "no model is asked"})
	if r.said() != "Mended.Four." || !strings.Contains(told[3], "- fix: agent goose") || r.team.opened != 2 {
		t.Errorf("said %q, told %s, %d sessions", r.said(), told[3], r.team.opened)
	}
	r = newRig(t, func(r *rig) {
		r.planner, r.team.work = "owl", func(context.Context, *member, string) (*acp.PromptResponse, error) { return ended() }
	})
	if _, err := r.ask(step{"text": "x"}); err == nil || !strings.Contains(err.Error(), "owl, which plans, said nothing and ended by end_turn") {
		t.Errorf("one that says nothing: %v", err)
	}
}

// It can be checked without agents, and says what is missing.
func TestCheck(t *testing.T) {
	r := newRig(t, nil)
	if err := r.agent.Check(t.Context()); err != nil {
		t.Error(err)
	}
	r.agents = r.agents[2:]
	if err := r.agent.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "extinct") {
		t.Errorf("with no agent that works: %v", err)
	}
	var _ sandbox.Hosted = r.agent
}
