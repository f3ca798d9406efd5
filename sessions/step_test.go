package sessions_test

import (
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// A planner's steps take the place of the tool calls in a trace; one that is told again
// replaces itself. The graph and the threads follow from them.
func TestPlannedRun(t *testing.T) {
	runs, err := sessions.OpenRuns(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	id := sessions.NewID()
	trace := runs.Start(sessions.RunSession{AgentID: "planner", SessionID: "s", TurnID: id}, time.Now())
	step := func(key, response string) {
		trace.Record(sessions.Record{TurnID: id, Body: sessions.Step{Key: key, StepFacts: sessions.StepFacts{
			PlannerStep: 1, AgentCall: &sessions.AgentCall{TargetAgentID: "goose", TaskKey: "fix", SessionID: "child", Response: response},
		}}})
	}
	step("1-0", "")
	trace.Record(sessions.Record{TurnID: id, Body: sessions.Update{Update: []byte(`{"sessionUpdate":"tool_call","toolCallId":"1","title":"x"}`)}})
	step("1-0", "done\nand more")
	step("2-0", "done again")
	trace.Record(sessions.Record{TurnID: id, Body: sessions.TurnEvent{Event: sessions.TurnEnd, StopReason: acp.StopMaxTurnRequests}})
	trace.Close()
	run, err := runs.Read(id)
	if err != nil {
		t.Fatal(err)
	}
	o := run.Orchestration
	if o.Mode != "ai-loop" || len(o.Steps) != 2 || o.Steps[0].AgentCall.Response != "done\nand more" || run.Status != sessions.RunLimit {
		t.Errorf("the trace is %+v, status %s", o, run.Status)
	}
	if o.Graph == nil || len(o.Graph.Nodes) != 2 || len(o.Graph.Edges) != 2 || len(o.Threads) != 1 || o.Threads[0].LastResponse != "done again" || o.Threads[0].UpdatedStep != 2 {
		t.Errorf("graph %+v, threads %+v", o.Graph, o.Threads)
	}
}
