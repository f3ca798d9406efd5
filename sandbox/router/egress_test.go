package router

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/acp/acptest"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/egress"
	"gander.dev/gander/sessions"
)

// fakeEgress is a way out that nobody takes.
type fakeEgress struct{ journal *journal }

func (e *fakeEgress) Dial(context.Context) (net.Conn, error) { return nil, errors.New("nobody there") }

func (e *fakeEgress) Close() error { e.journal.add("close egress"); return nil }

// hostRig is a rig with a way out, whose agent wants to reach a host in each turn.
func hostRig(t *testing.T, way *confine.Way, answers *[]egress.Answer) *rig {
	t.Helper()
	return newRig(t, func(r *rig) {
		r.driver.isolated = true
		r.opts.Approve = PermissionsAll // which answers the agent's questions only
		r.terms.openEgress = func(w confine.Way) (confine.Egress, error) { *way = w; return &fakeEgress{r.journal}, nil }
		r.agent.onTurn = func(ctx context.Context, _ *fakeConv, _ string) (*acp.PromptResponse, error) {
			*answers = append(*answers, way.Ask(ctx, "new.example", 443))
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
}

func TestHostIsAskedFor(t *testing.T) {
	var way confine.Way
	var answers []egress.Answer
	var doors []sandbox.Door
	r := hostRig(t, &way, &answers)
	r.driver.onCreate = func(_ context.Context, spec sandbox.Spec) error { doors = spec.Doors; return nil }
	choice := egress.Once
	r.editor.Permission = func(context.Context, *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
		if choice == egress.Unasked {
			return acp.CancelledOutcome(), nil
		}
		return acptest.Selected(string(choice)), nil
	}
	id := r.open(t).SessionID
	all := []egress.Answer{egress.Once, egress.Session, egress.Project, egress.Deny, egress.Unasked}
	for _, choice = range all {
		r.wantStop(t, id, "go", acp.StopEndTurn)
	}
	if !slices.Equal(answers, all) {
		t.Errorf("answers %q", answers)
	}
	if asked := r.editor.Asked(); len(asked) != len(all) || !strings.Contains(string(asked[0].ToolCall), "new.example:443") {
		t.Errorf("asked %v", asked)
	}
	var open, ended int
	for _, u := range r.updates(id) {
		var call struct{ ToolCallID, Status string }
		if json.Unmarshal(u, &call) == nil && strings.HasPrefix(call.ToolCallID, "gander-host-") {
			switch call.Status {
			case "pending":
				open++
			case "completed", "failed":
				ended++
			}
		}
	}
	if open != len(all) || ended != len(all) {
		t.Errorf("%d questions began and %d ended in sight of the editor", open, ended)
	}
	if len(doors) != 2 || doors[1].Name != confine.EgressDoor {
		t.Errorf("doors %+v", doors)
	}
	if got := way.Ask(t.Context(), "new.example", 443); got != egress.Unasked || len(r.editor.Asked()) != len(all) {
		t.Errorf("between turns: %q", got)
	}
}

// What was decided about hosts is in the transcript and in the trace of the turn.
func TestDecisionsAreRecorded(t *testing.T) {
	decided := []sessions.Network{
		{Host: "a.example", Port: 443, Allowed: true, By: "*.example", Times: 1},
		{Host: "b.example", Port: 22, Reason: "no rule", Times: 1},
	}
	var way confine.Way
	r := newRig(t, func(r *rig) {
		traces, err := sessions.OpenRuns(filepath.Join(r.dir, "runs"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.opts.Runs = traces
		r.terms.openEgress = func(w confine.Way) (confine.Egress, error) { way = w; return &fakeEgress{r.journal}, nil }
		r.agent.onTurn = func(context.Context, *fakeConv, string) (*acp.PromptResponse, error) {
			for _, n := range decided {
				way.Decided(egress.Tally{Decision: egress.Decision{Host: n.Host, Port: n.Port, Allowed: n.Allowed, By: n.By, Reason: n.Reason}, Times: n.Times})
			}
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	id := r.open(t).SessionID
	r.wantStop(t, id, "go", acp.StopEndTurn)
	r.closeSession(t, id)
	var recorded []sessions.Network
	var turn string
	for rec, err := range r.store.Entries(t.Context(), id) {
		if err != nil {
			t.Fatal(err)
		}
		switch b := rec.Body.(type) {
		case sessions.Network:
			recorded = append(recorded, b)
		case sessions.TurnEvent:
			turn = rec.TurnID
		}
	}
	if !slices.Equal(recorded, decided) {
		t.Errorf("the transcript has %+v", recorded)
	}
	if run, err := r.opts.Runs.Read(turn); err != nil || !slices.Equal(run.Execution.Network, decided) {
		t.Errorf("the trace is %+v, %v", run, err)
	}
}

// A cancelled turn takes its question back.
func TestHostQuestionIsCancelled(t *testing.T) {
	var way confine.Way
	var answers []egress.Answer
	r := hostRig(t, &way, &answers)
	asked := make(chan struct{})
	r.editor.Permission = func(ctx context.Context, _ *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
		close(asked)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	id := r.open(t).SessionID
	turn := r.prompt(t, id, "go")
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatal("the person was not asked")
	}
	r.cancel(t, id)
	if got := <-turn; got.stop != acp.StopCancelled {
		t.Errorf("%+v", got)
	}
}
