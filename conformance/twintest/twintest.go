// Package twintest runs checks of the conformance harness against broken servers and agents,
// each of which has to be caught.
package twintest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/conformance/harness"
)

// A Twin is good but for what one check is about.
type Twin struct {
	Name string
	// Words are a part of what the check has to say about it.
	Words string
	// Patience bounds each wait; zero means as long as a slow machine needs.
	Patience time.Duration
	// Check makes the check.
	Check func(t *testing.T, patience time.Duration) harness.Result
}

// slow is the patience on a machine that has much else to do.
const slow = 2 * time.Minute

// Catch fails the test for each twin that is not caught for its reason. Eight run at once,
// as most of their time goes by with waiting. Where a patience was too short for something
// else that the check waits for, the check is made again, with more of it.
func Catch(t *testing.T, twins []Twin) {
	free := make(chan struct{}, 8)
	var running sync.WaitGroup
	for _, twin := range twins {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			t.Run(twin.Name, twin.caught)
		})
	}
	running.Wait()
}

func (tw Twin) caught(t *testing.T) {
	patience := tw.Patience
	if patience == 0 {
		patience = slow
	}
	res := tw.Check(t, patience)
	if patience < slow && res.State != harness.Pass && !tw.fits(res) {
		t.Logf("a patience of %v was too short: %q", patience, res.Problems)
		res = tw.Check(t, 10*patience)
	}
	if !tw.fits(res) {
		t.Errorf("%s, %q; want a failure with %q", res.State, res.Problems, tw.Words)
	}
}

// fits reports whether a twin was caught for its reason. That it could not be used at all is
// another.
func (tw Twin) fits(res harness.Result) bool {
	problems := strings.Join(res.Problems, "\n")
	return res.State == harness.Fail && strings.Contains(problems, tw.Words) && !strings.Contains(problems, "cannot be used: ")
}
