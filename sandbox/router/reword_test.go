package router

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"gander.dev/gander/acp"
)

var newerUpdates = []string{
	`{"sessionUpdate":"notice","severity":"info","title":"a notice","description":"and more"}`,
	`{"sessionUpdate":"compaction_update","compactionId":"c","status":"completed","summary":[{"type":"text","text":"the gist"}]}`,
	`{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[{"content":"first","priority":"high","status":"pending"}]}}`,
	`{"sessionUpdate":"plan_update","plan":{"type":"markdown","planId":"q","content":"# second"}}`,
	`{"sessionUpdate":"plan_removed","planId":"p"}`,
}

func newer(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
	for _, u := range newerUpdates {
		c.update(u)
	}
	return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
}

// A client that knows no notices, compactions and plans with ids sees them in other words.
func TestNewerUpdatesForOlderClients(t *testing.T) {
	r := newRig(t, func(r *rig) { r.agent.onTurn = newer })
	id := r.open(t).SessionID
	r.wantStop(t, id, "x", acp.StopEndTurn)
	var got []string
	for _, u := range r.updates(id) {
		kind := acp.UpdateKind(u)
		if kind == "plan" {
			got = append(got, string(acp.Member(u, "entries")))
			continue
		}
		got = append(got, kind+" "+acp.ParseContentBlock(acp.Member(u, "content")).Text)
	}
	second := `{"content":"# second","priority":"medium","status":"in_progress"}`
	want := []string{
		"agent_thought_chunk duck says from its sandbox: a notice\nand more\n",
		"agent_thought_chunk duck goes on with a summary of the conversation.\nthe gist\n",
		`[{"content":"first","priority":"high","status":"pending"}]`,
		`[{"content":"first","priority":"high","status":"pending"},` + second + `]`,
		"[" + second + "]",
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("the editor got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if offered := r.agent.conv().params.Capabilities; offered.Session.Notices == nil || offered.Session.Compaction == nil || offered.Plan == nil || offered.Session.PromptSuggestions != nil {
		t.Errorf("the agent is offered %s", marshal(offered))
	}
}

// A client that knows them gets them as they are, and suggestions of prompts with them.
func TestNewerUpdatesForNewerClients(t *testing.T) {
	on := json.RawMessage(`{}`)
	all := acp.ClientCapabilities{Plan: on, Session: acp.ClientSessionCapabilities{Notices: on, Compaction: on, PromptSuggestions: on}}
	const suggestion = `{"sessionUpdate":"prompt_suggestions_update","suggestions":[{"prompt":[{"type":"text","text":"go on"}]}]}`
	r := newRigFor(t, all, func(r *rig) {
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, text string) (*acp.PromptResponse, error) {
			c.update(suggestion)
			return newer(ctx, c, text)
		}
	})
	id := r.open(t).SessionID
	r.wantStop(t, id, "x", acp.StopEndTurn)
	got := r.updates(id)
	want := append([]string{suggestion}, newerUpdates...)
	if len(got) != len(want) {
		t.Fatalf("the editor got %s", got)
	}
	for i := range want {
		if string(got[i]) != want[i] && acp.UpdateKind(got[i]) != "notice" { // which names who says it
			t.Errorf("the editor got\n%s\nwant\n%s", got[i], want[i])
		}
	}
	if r.agent.conv().params.Capabilities.Session.PromptSuggestions == nil {
		t.Error("the agent is not told that suggestions are shown")
	}
}
