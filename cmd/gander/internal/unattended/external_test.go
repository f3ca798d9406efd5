package unattended

import (
	"testing"

	"gander.dev/gander/sandbox/unattended/controlplane"
)

// TestStartedHere checks that only a run that is named by its id is steered although it was
// started elsewhere.
func TestStartedHere(t *testing.T) {
	runs := []controlplane.Run{{RunID: "elsewhere-1", Driver: controlplane.External}, {RunID: "own", Driver: "local"}}
	for ref, want := range map[string]int{"": 1, "goose": 1, "elsewhere-1": 2} {
		if got := startedHere(runs, ref); len(got) != want {
			t.Errorf("%q: %v", ref, got)
		}
	}
}
