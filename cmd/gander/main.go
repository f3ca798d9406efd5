// Command gander runs goose and opencode for ACP editors, each in a sandbox.
//
// main.go starts, root.go holds what every command shares, and each command is a
// file of its own; wire.go is the only place that knows which concrete driver,
// agent and store make up the product. The hidden verbs of processes inside sandboxes
// are dispatched before anything else, because they have to start quickly; the
// supervisor's even before main, by internal/early.
package main

import (
	"context"
	"os"

	_ "gander.dev/gander/cmd/gander/internal/early" // a supervisor does not get to main
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/docker"
	"gander.dev/gander/sandbox/trials/probe"
)

// version is set by the linker.
var version = "devel"

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case docker.Verb:
			os.Exit(docker.Main(os.Args[1:]))
		case sandbox.BridgeVerb:
			os.Exit(bridge(os.Args[2:], stdio{os.Stdin, os.Stdout, os.Stderr}))
		case probe.Verb:
			os.Exit(probe.Main(os.Args[1:], os.Stdin, os.Stdout))
		}
	}
	ctx, signals := watchSignals(context.Background())
	start := run
	if calledGoose(os.Args[0]) {
		start = runGoose
	}
	os.Exit(start(ctx, os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}, os.Environ(), signals))
}
