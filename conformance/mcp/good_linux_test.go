package mcp

import (
	"os"
	"slices"
	"testing"
	"time"
)

// TestMain makes this program the fake server, and what watches it, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "fake-server":
			runFake(os.Args[2], os.Args[3])
			return
		case "fake-watch":
			watch(os.Args[2])
			return
		}
	}
	os.Exit(m.Run())
}

// fakeCommand is the command of a fake server; no defect makes it good.
func fakeCommand(t *testing.T, profile, defect string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self, "fake-server", profile, defect}
}

// checkFake runs checks against a fake.
func checkFake(t *testing.T, profile, defect string, timeout time.Duration, only ...string) *Report {
	t.Helper()
	report, err := Run(t.Context(), Options{
		Command: fakeCommand(t, profile, defect), Profile: profile, Only: only, Timeout: timeout, Environ: os.Environ(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// The good fake passes everything that applies to it, in either profile. What takes longest
// is the same in both.
func TestGoodServerPasses(t *testing.T) {
	for profile, left := range map[string][]string{
		Classic: nil,
		Current: {"growth.calls", "growth.cancels", "output.memory", "cancel.escapes", "end.eof-running", "end.sigterm", "end.sigkill"},
	} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			var only []string
			for _, c := range Checks() {
				if os.Getenv("GANDER_EVERYWHERE") == "1" || !slices.Contains(left, c.ID) {
					only = append(only, c.ID)
				}
			}
			for _, res := range checkFake(t, profile, "events", time.Minute, only...).Results {
				if res.Took > 5*time.Second {
					t.Logf("%s took %v", res.ID, res.Took)
				}
				if res.State == Fail {
					t.Errorf("%s: %q", res.ID, res.Problems)
				}
				c := check(res.ID)
				if res.State == NotApplicable && c.Profile == "" && len(c.needs) == 0 && c.area() != "policy" {
					t.Errorf("%s does not apply: %q", res.ID, res.Problems)
				}
			}
		})
	}
}

// check is the check with an id.
func check(id string) Check {
	for _, c := range Checks() {
		if c.ID == id {
			return c
		}
	}
	return Check{}
}
