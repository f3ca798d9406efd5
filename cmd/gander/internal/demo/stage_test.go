package demo

import (
	"bytes"
	"strings"
	"testing"
)

// A demo that shows a broken promise says so and fails.
func TestDemoVerdict(t *testing.T) {
	var out bytes.Buffer
	s := &stage{out: &out}
	s.promise(true, "held")
	s.noPromise("not here")
	if err := s.verdict(); err != nil || !strings.Contains(out.String(), "✓ held\n  – not here") {
		t.Errorf("%v:\n%s", err, out.String())
	}
	s.promise(false, "broken")
	out.Reset()
	if err := s.verdict(); err == nil || !strings.Contains(out.String(), "✗ BROKEN: broken") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}
