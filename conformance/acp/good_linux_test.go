package acp

import (
	"os"
	"testing"
	"time"

	"gander.dev/gander/conformance/harness"
)

// checkFake runs checks against a fake; no defect makes it good.
func checkFake(t *testing.T, defect string, timeout time.Duration, only ...string) *harness.Report {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), Options{
		Command: []string{self, "fake-agent", defect}, MCPServer: []string{self, "fake-mcp"}, Only: only, Timeout: timeout, Environ: os.Environ(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// The good fake passes everything, and everything applies to it.
func TestGoodAgentPasses(t *testing.T) {
	t.Parallel()
	for _, res := range checkFake(t, "", time.Minute).Results {
		if res.Took > 5*time.Second {
			t.Logf("%s took %v", res.ID, res.Took)
		}
		if res.State != harness.Pass {
			t.Errorf("%s: %s: %q", res.ID, res.State, res.Problems)
		}
	}
}
