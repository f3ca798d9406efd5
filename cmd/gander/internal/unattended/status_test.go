package unattended

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

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

// TestCurrent checks that status shows what runs and what has ended on this day, else the last.
func TestCurrent(t *testing.T) {
	now := time.Date(2026, 11, 27, 0, 30, 0, 0, time.Local)
	run := func(id string, ago time.Duration) controlplane.Run {
		if ago == 0 {
			return controlplane.Run{RunID: id}
		}
		at := now.Add(-ago).UTC().Format(time.RFC3339Nano)
		return controlplane.Run{RunID: id, StoppedAt: &at}
	}
	for _, tt := range []struct{ runs, want []controlplane.Run }{
		{nil, nil},
		{[]controlplane.Run{run("a", 0), run("b", 10*time.Minute), run("c", time.Hour)}, []controlplane.Run{run("a", 0), run("b", 10*time.Minute)}},
		{[]controlplane.Run{run("b", time.Hour), run("c", 2*time.Hour)}, []controlplane.Run{run("b", time.Hour)}},
	} {
		same := func(a, b controlplane.Run) bool { return a.RunID == b.RunID }
		if got := current(tt.runs, now); !slices.EqualFunc(got, tt.want, same) {
			t.Errorf("%v", got)
		}
	}
}

// TestTokens checks that the iteration that runs counts, and that nothing counted is no 0.
func TestTokens(t *testing.T) {
	for want, run := range map[string]controlplane.Run{
		"-":  {},
		"7":  {Using: telemetry.Usage{Total: 7}},
		"12": {Usage: telemetry.Usage{Total: 5}, Using: telemetry.Usage{Total: 7}},
	} {
		if got := tokensOf(&run); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
