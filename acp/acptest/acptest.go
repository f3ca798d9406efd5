// Package acptest has both ends of an ACP connection in memory, for tests of
// what lies between them: an [Editor] that records what it is shown and answers
// permissions, and an [Agent] whose turns are functions.
//
// [NewEditor] connects an editor to an acp.Agent under test; [Agent.Serve] runs
// a fake agent on any stream. Everything is stopped and waited for when the test ends.
package acptest

import (
	"context"
	"io"
	"net"
	"testing"

	"gander.dev/gander/acp"
)

// Pipe is a connection in memory; both ends are closed when the test ends.
func Pipe(t testing.TB) (client, agent net.Conn) {
	client, agent = net.Pipe()
	t.Cleanup(func() {
		_ = client.Close()
		_ = agent.Close()
	})
	return client, agent
}

// serve runs an agent on rwc until the test ends.
func serve(t testing.TB, rwc io.ReadWriteCloser, newAgent func(*acp.ClientConn) acp.Agent, o *acp.Options) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = acp.ServeAgent(ctx, rwc, newAgent, o) // how it ended is the test's to look at
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}
