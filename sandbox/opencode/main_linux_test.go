package opencode

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"gander.dev/gander/sandbox/inside/supervise"
)

// TestMain makes the test binary its own supervisor, as gander is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.Verb {
		os.Exit(supervise.Main(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}
