package shell_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"gander.dev/gander/sandbox/inside/supervise"
	"gander.dev/gander/sandbox/trials/probe"
)

// TestMain makes the test binary its own supervisor, and its own attempts of the probe, as
// gander is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.Verb {
		os.Exit(supervise.Main(os.Args[1:]))
	}
	if len(os.Args) > 1 && os.Args[1] == probe.Verb {
		os.Exit(probe.Main(os.Args[1:], os.Stdin, os.Stdout))
	}
	if os.Getenv(serverEnv) != "" {
		os.Exit(serve())
	}
	if file := os.Getenv(beatEnv); file != "" {
		os.Exit(beat(file))
	}
	goleak.VerifyTestMain(m)
}
