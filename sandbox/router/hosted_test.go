package router

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sessions"
)

// fakeHosted is an agent that runs in gander itself.
type fakeHosted struct {
	*fakeAgent
	params []sandbox.HostedParams
}

func (h *fakeHosted) OpenHosted(ctx context.Context, p sandbox.HostedParams) (sandbox.AgentSession, error) {
	h.params = append(h.params, p)
	return h.Open(ctx, nil, p.SessionParams)
}

// An agent that runs in gander has the model, no sandbox and no home; what it shows and asks
// is passed on as it is.
func TestHosted(t *testing.T) {
	h := &fakeHosted{}
	r := newRig(t, func(r *rig) {
		h.fakeAgent = &fakeAgent{name: "planner", journal: r.journal}
		r.opts.Agents, r.opts.Agent, r.opts.Spares = append(r.opts.Agents, h), "planner", 1
		r.opts.Runs, _ = sessions.OpenRuns(r.dir+"/runs", nil)
		h.onTurn = func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			p := h.params[len(h.params)-1]
			p.Live(acp.ToolCallProgress("d", "", []json.RawMessage{acp.ToolContent("live work")}))
			p.Step(sessions.Step{Key: "1", StepFacts: sessions.StepFacts{Raw: "raw of " + p.Turn()}})
			c.say(c.ask(ctx, `{"toolCallId":"d-1","title":"duck: go test"}`))
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	id := r.open(t).SessionID
	r.wantStop(t, id, "hello", acp.StopEndTurn)
	if n := r.journal.count("create"); n != 0 {
		t.Errorf("%d sandboxes were made", n)
	}
	if p := h.params[0]; p.Session != id || p.ModelToken != "token" || p.Chosen()["sandbox"] != "box" {
		t.Errorf("opened with %+v", p)
	}
	shown := strings.Join(r.written(), "\n")
	if !strings.Contains(shown, "selected yes") {
		t.Errorf("shown\n%s", shown)
	}
	live := 0
	for _, u := range r.updates(id) {
		if strings.Contains(string(u), "live work") {
			live++
		}
	}
	info, err := r.store.Info(t.Context(), id)
	if err != nil || live != 1 || info.ToolCalls != 0 {
		t.Errorf("%d live updates, in the transcript %d calls, %v", live, info.ToolCalls, err)
	}
	if info.AgentSessions["planner"] != "planner-1" {
		t.Errorf("its conversations: %v", info.AgentSessions)
	}
}

// The sessions of a router for tasks are those of its parent: they have its budget, are in
// its list alone, and go with it.
func TestTasksOfAParent(t *testing.T) {
	r := newRig(t, func(r *rig) { r.opts.Parent = "parent" })
	parent, err := r.store.Create(sessions.Header{SessionID: "parent", AgentID: "planner", WorkingPath: r.dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Close(); err != nil {
		t.Fatal(err)
	}
	id := r.open(t).SessionID
	resp, err := r.editor.Prompt(t.Context(), id, "do it")
	if err != nil || !strings.Contains(string(resp.Meta), `"gander.dev":{"turn":"`) {
		t.Errorf("the answer is %+v, %v", resp, err)
	}
	if got := r.router.account(id); got != "parent" {
		t.Errorf("the account is %s", got)
	}
	all, err := r.editor.Conn.ListSessions(t.Context(), &acp.ListSessionsRequest{})
	if err != nil || len(all.Sessions) != 1 || all.Sessions[0].SessionID != id || !strings.Contains(string(all.Sessions[0].Meta), `"stopReason":"end_turn"`) {
		t.Errorf("listed %+v, %v", all, err)
	}
	page, err := r.store.List(t.Context(), sessions.ListOptions{})
	if err != nil || len(page.Sessions) != 1 || page.Sessions[0].ID != "parent" {
		t.Errorf("others list %+v, %v", page.Sessions, err)
	}
	if _, err := r.editor.Conn.CloseSession(t.Context(), &acp.CloseSessionRequest{SessionID: id}); err != nil {
		t.Fatal(err)
	}
	if err := r.router.kept().Erase(t.Context(), "parent"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.Info(t.Context(), id); err == nil {
		t.Error("the session is there without its parent")
	}
}
