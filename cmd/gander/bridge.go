package main

import (
	"fmt"
	"io"
	"net"

	"gander.dev/gander/sandbox"
)

// bridge is gander as an agent inside a sandbox starts it in the place of an MCP
// server that runs outside: its streams are those of the door at an address.
func bridge(args []string, streams stdio) int {
	if len(args) != 1 {
		fmt.Fprintf(streams.err, "gander %s takes the address of a door; it is for agents in gander's sandboxes\n", sandbox.BridgeVerb)
		return exitUsage
	}
	conn, err := net.Dial("tcp", args[0])
	if err != nil {
		fmt.Fprintln(streams.err, "gander: the MCP server outside of the sandbox cannot be reached:", err)
		return exitFailed
	}
	defer func() { _ = conn.Close() }()
	go func() { // ends with the process
		_, _ = io.Copy(conn, streams.in)
		if c, ok := conn.(*net.TCPConn); ok {
			_ = c.CloseWrite()
		}
	}()
	if _, err := io.Copy(streams.out, conn); err != nil {
		return exitFailed
	}
	return exitDone
}
