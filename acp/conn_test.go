package acp_test

import (
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/acp/acptest"
)

func TestPromptRoundTrip(t *testing.T) {
	agent := &acptest.Agent{}
	e := acptest.NewEditor(t, agent.New, acp.ClientCapabilities{}, nil)
	s := e.NewSession(t, t.TempDir())
	resp, err := e.Prompt(t.Context(), s.SessionID, "grüße <&> \u2028")
	if err != nil || resp.StopReason != acp.StopEndTurn {
		t.Fatalf("got %v, %v", resp, err)
	}
	if got := e.Text(s.SessionID, acp.AgentMessageChunk); got != "grüße <&> \u2028" {
		t.Fatalf("got %q", got)
	}
}
