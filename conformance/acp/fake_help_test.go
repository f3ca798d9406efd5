package acp

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"gander.dev/gander/conformance/harness"
)

// startWatch starts the process that ends the fake's commands when the fake is
// killed: its stdin ends then.
func startWatch(owner string) {
	self, err := os.Executable()
	if err != nil {
		return
	}
	in, out, err := os.Pipe()
	if err != nil {
		return
	}
	cmd := exec.Command(self, "fake-watch", owner)
	cmd.Stdin = in
	apart(cmd)
	_ = cmd.Start()
	_ = in.Close()
	watched = out
}

// watched is held open for as long as the fake runs.
var watched *os.File

// watch is the program of that process.
func watch(owner string) {
	_, _ = io.Copy(io.Discard, os.Stdin)
	// Its own arguments have the mark, which is why it must not look for itself;
	// Marked leaves the caller out.
	harness.KillMarked(owner)
}

// leak leaves processes behind.
func leak(n int) {
	for range n {
		cmd := exec.Command("sleep", "600")
		apart(cmd)
		_ = cmd.Start()
	}
}

// toolsOf asks an MCP server, in the crudest way, what it has.
func toolsOf(name, command string, args []string) []string {
	cmd := exec.Command(command, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil
	}
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return nil
	}
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	line, _ := bufio.NewReader(out).ReadString('\n')
	_ = in.Close()
	_ = cmd.Wait()
	if !strings.Contains(line, "greet") {
		return nil
	}
	return []string{name + "__greet"}
}

// mcpServer is the program of an MCP server that is good enough for toolsOf.
func mcpServer() {
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	fmt.Println(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"greet"}]}}`)
}
