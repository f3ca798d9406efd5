package mcpcmd

import (
	"fmt"
	"io"
	"net"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/sandbox"
)

// Bridge is gander as an agent inside a sandbox starts it in the place of an MCP
// server that runs outside: its streams are those of the door at an address.
func Bridge(args []string, streams cli.Stdio) int {
	if len(args) != 1 {
		fmt.Fprintf(streams.Err, "gander %s takes the address of a door; it is for agents in gander's sandboxes\n", sandbox.BridgeVerb)
		return cli.ExitUsage
	}
	conn, err := net.Dial("tcp", args[0])
	if err != nil {
		fmt.Fprintln(streams.Err, "gander: the MCP server outside of the sandbox cannot be reached:", err)
		return cli.ExitFailed
	}
	defer func() { _ = conn.Close() }()
	go func() { // ends with the process
		_, _ = io.Copy(conn, streams.In)
		if c, ok := conn.(*net.TCPConn); ok {
			_ = c.CloseWrite()
		}
	}()
	if _, err := io.Copy(streams.Out, conn); err != nil {
		return cli.ExitFailed
	}
	return cli.ExitDone
}
