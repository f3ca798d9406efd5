package acptest_test

import (
	"context"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"gander.dev/gander/acp"
	"gander.dev/gander/acp/acptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEditorAndAgent(t *testing.T) {
	started := make(chan struct{})
	agent := &acptest.Agent{OnPrompt: func(ctx context.Context, c *acp.ClientConn, r *acp.PromptRequest) (*acp.PromptResponse, error) {
		resp, err := c.RequestPermission(ctx, &acp.RequestPermissionRequest{
			SessionID: r.SessionID, ToolCall: acp.ToolCallProgress("t1", "pending", nil),
			Options: []acp.PermissionOption{{OptionID: "no", Name: "No", Kind: "reject_once"}, {OptionID: "yes", Name: "Yes", Kind: "allow_once"}},
		})
		if err != nil {
			return nil, err
		}
		for _, u := range [][]byte{acp.MessageChunk(acp.AgentMessageChunk, "", resp.Outcome.OptionID), acp.CurrentModeUpdate("m")} {
			if err := c.SessionUpdate(ctx, &acp.SessionNotification{SessionID: r.SessionID, Update: u}); err != nil {
				return nil, err
			}
		}
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	e := acptest.NewEditor(t, agent.New, acp.ClientCapabilities{}, nil)
	s := e.NewSession(t, t.TempDir()).SessionID
	go func() {
		<-started
		_ = e.Conn.Cancel(s)
	}()
	resp, err := e.Prompt(t.Context(), s, "hi")
	if err != nil || resp.StopReason != acp.StopCancelled {
		t.Fatalf("got %v, %v", resp, err)
	}
	e.Wait(t, "two updates", func() bool { return len(e.Updates(s)) == 2 })
	if got := e.Kinds(s); !slices.Equal(got, []string{acp.AgentMessageChunk, "current_mode_update"}) {
		t.Errorf("kinds %v", got)
	}
	if got := e.Text("", acp.AgentMessageChunk); got != "yes" {
		t.Errorf("text %q", got)
	}
	if got := agent.Received(); !slices.Equal(got, []string{"initialize", "session/new", "session/prompt", "session/cancel"}) {
		t.Errorf("received %v", got)
	}
}
