//go:build linux

package usertest

import (
	"flag"
	"os"
	"slices"
	"testing"
	"time"
)

// onlyFacts chooses TestFacts, and nobody else writes it like this.
const onlyFacts = "^(?:TestFacts)$"

// TestAgain runs TestFacts as another user.
func TestAgain(t *testing.T) {
	t.Setenv("GANDER_ROUNDS", "7")
	t.Setenv("OTHER", "7")
	Run(t, Options{Tests: onlyFacts})
}

// TestFacts tests what a test finds that Run has started.
func TestFacts(t *testing.T) {
	if flag.Lookup("test.run").Value.String() != onlyFacts {
		return // it is not started by Run
	}
	if os.Geteuid() != stranger || os.Getenv("GANDER_ROUNDS") != "7" || os.Getenv("OTHER") != "" {
		t.Errorf("uid %d, environment %q", os.Geteuid(), os.Environ())
	}
	if deadline, ok := t.Deadline(); ok && time.Until(deadline) < time.Second {
		t.Errorf("there is time until %v", deadline)
	}
	if err := os.WriteFile("mine", nil, 0o600); err != nil {
		t.Error(err)
	}
}

func TestJudge(t *testing.T) {
	const out = "=== RUN   TestA\n    a_test.go:7: no rights\n--- SKIP: TestA (0.00s)\n=== RUN   TestB\n    --- SKIP: TestB/sub (0.00s)\n--- PASS: TestB (0.00s)\nPASS\n"
	for _, tt := range []struct {
		out     string
		maySkip []string
		check   bool
		want    []string
	}{
		{out, nil, false, nil},
		{out, []string{"TestA", "TestB"}, true, nil},
		{out, []string{"TestA", "TestB/sub"}, true, nil},
		{out, []string{"TestA", "TestB/other"}, true, []string{"skipped: --- SKIP: TestB/sub"}},
		{out, []string{"TestB"}, true, []string{"skipped: --- SKIP: TestA"}},
		{"testing: warning: no tests to run\nPASS\n", nil, false, []string{"no test has passed: choose others besides this one"}},
	} {
		if got := judge(tt.out, tt.maySkip, tt.check); !slices.Equal(got, tt.want) {
			t.Errorf("%v, %v: %q, want %q", tt.maySkip, tt.check, got, tt.want)
		}
	}
}
