package unattended

import (
	"bytes"
	"strings"
	"testing"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane"
)

// A run whose workspace is not whole cannot go on, which is said before anything else.
func TestStatusOfHalfWorkspace(t *testing.T) {
	const torn = "the workspace is not whole: restoring snapshot 3 in it has not ended"
	run := controlplane.Run{RunID: "run-00001", State: telemetry.Paused, Reason: "5 iterations in a row have failed", Torn: torn}
	var out bytes.Buffer
	a := &cli.App{Stdio: cli.Stdio{Out: &out, Err: &out}, Config: &config.Config{}, Secrets: cli.NewSecrets(nil)}
	if err := printRuns(a, []controlplane.Run{run}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "paused: the workspace is not whole") {
		t.Errorf("the table is\n%s", out.String())
	}
	out.Reset()
	if err := printRun(a, &run); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{torn, run.Reason} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
