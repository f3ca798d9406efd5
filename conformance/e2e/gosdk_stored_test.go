package e2e

import (
	"strings"
	"testing"

	acp "github.com/coder/acp-go-sdk"
)

// coder/acp-go-sdk lists, loads, resumes and forks what another process has left.
// (It has no session/delete.)
func TestGoSDKStoredSessions(t *testing.T) {
	w := newWorld(t, home, 0)
	cwd := w.mkdir("project")
	var id acp.SessionId
	t.Run("before", func(t *testing.T) { // gander ends with it
		first := startGoClient(t, w.in(t))
		id = first.open(t, cwd).SessionId
		first.prompt(t, id, w.shell("echo medlar"), says("it was quince")).done(t, acp.StopReasonEndTurn)
	})

	c := startGoClient(t, w)
	ctx := soon(t)
	if _, err := c.conn.Initialize(ctx, acp.InitializeRequest{ProtocolVersion: acp.ProtocolVersionNumber}); err != nil {
		t.Fatal(err)
	}
	list, err := c.conn.ListSessions(ctx, acp.ListSessionsRequest{Cwd: &cwd})
	if err != nil || len(list.Sessions) != 1 || list.Sessions[0].SessionId != id {
		t.Fatalf("session/list: %+v, %v", list, err)
	}
	fork, err := c.conn.UnstableForkSession(ctx, acp.UnstableForkSessionRequest{SessionId: id, Cwd: cwd})
	if err != nil || fork.SessionId == id || fork.SessionId == "" {
		t.Fatalf("session/fork: %+v, %v", fork, err)
	}
	if _, err := c.conn.LoadSession(ctx, acp.LoadSessionRequest{SessionId: id, Cwd: cwd, McpServers: []acp.McpServer{}}); err != nil {
		t.Fatalf("session/load: %v", err)
	}
	c.mu.Lock()
	said, output := c.said.String(), c.output.String()
	c.mu.Unlock()
	if said != "it was quince" || !strings.Contains(output, "medlar") {
		t.Errorf("the thread says %q, and its tool %q", said, output)
	}
	if _, err := c.conn.ResumeSession(ctx, acp.ResumeSessionRequest{SessionId: id, Cwd: cwd}); err != nil {
		t.Fatalf("session/resume: %v", err)
	}
	for _, session := range []acp.SessionId{id, fork.SessionId} {
		before := len(w.model.Requests())
		c.prompt(t, session, says("yes")).done(t, acp.StopReasonEndTurn)
		w.told(before, "it was quince", "medlar")
	}
}
