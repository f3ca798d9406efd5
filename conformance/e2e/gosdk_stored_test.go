package e2e

import (
	"context"
	"encoding/json"
	"log/slog"
	"os/exec"
	"strings"
	"testing"

	acp "github.com/coder/acp-go-sdk"
)

// coder/acp-go-sdk lists, loads, resumes, forks and deletes what another process has left.
func TestGoSDKStoredSessions(t *testing.T) {
	w := newWorld(t, home, 0)
	cwd := w.mkdir("project")
	var id, fork acp.SessionId
	t.Run("before", func(t *testing.T) { // gander ends with it
		first := startGoClient(t, w.in(t))
		id = first.open(t, cwd).SessionId
		first.prompt(t, id, w.shell("echo medlar"), says("it was quince")).done(t, acp.StopReasonEndTurn)
	})

	t.Run("in another process", func(t *testing.T) {
		w := w.in(t)
		c := startGoClient(t, w)
		ctx := soon(t)
		if _, err := c.conn.Initialize(ctx, acp.InitializeRequest{ProtocolVersion: acp.ProtocolVersionNumber}); err != nil {
			t.Fatal(err)
		}
		list, err := c.conn.ListSessions(ctx, acp.ListSessionsRequest{Cwd: &cwd})
		if err != nil || len(list.Sessions) != 1 || list.Sessions[0].SessionId != id {
			t.Fatalf("session/list: %+v, %v", list, err)
		}
		forked, err := c.conn.UnstableForkSession(ctx, acp.UnstableForkSessionRequest{SessionId: id, Cwd: cwd})
		if err != nil || forked.SessionId == id || forked.SessionId == "" {
			t.Fatalf("session/fork: %+v, %v", forked, err)
		}
		fork = forked.SessionId
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
		for _, session := range []acp.SessionId{id, fork} {
			before := len(w.model.Requests())
			c.prompt(t, session, says("yes")).done(t, acp.StopReasonEndTurn)
			w.told(before, "it was quince", "medlar")
		}
	})
	t.Run("in a third one", func(t *testing.T) { deleteByGoSDK(t, w.in(t), id, fork) })
}

// deleteByGoSDK deletes all the sessions that there are. The SDK's client has no method
// for that, its connection sends any.
func deleteByGoSDK(t *testing.T, w *world, ids ...acp.SessionId) {
	ctx := soon(t)
	command := w.acp()
	process := exec.CommandContext(ctx, command[0], command[1:]...)
	for name, value := range w.ganderEnv(nil) {
		process.Env = append(process.Env, name+"="+value)
	}
	stdin, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	conn := acp.NewConnection(func(context.Context, string, json.RawMessage) (any, *acp.RequestError) { return nil, nil }, stdin, stdout)
	conn.SetLogger(slog.New(slog.DiscardHandler)) // of its end
	if _, err := acp.SendRequest[acp.InitializeResponse](conn, ctx, acp.AgentMethodInitialize, acp.InitializeRequest{ProtocolVersion: acp.ProtocolVersionNumber}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // what is not there is deleted already
		for _, id := range ids {
			if err := conn.SendRequestNoResult(ctx, "session/delete", map[string]any{"sessionId": id}); err != nil {
				t.Errorf("session/delete: %v", err)
			}
		}
	}
	list, err := acp.SendRequest[acp.ListSessionsResponse](conn, ctx, acp.AgentMethodSessionList, acp.ListSessionsRequest{})
	if err != nil || len(list.Sessions) != 0 {
		t.Errorf("then there are %+v, %v", list, err)
	}
	_ = stdin.Close()
	if err := process.Wait(); err != nil {
		t.Errorf("gander: %v", err)
	}
}
