package enforce

import "testing"

// A kernel on which receiving never ends is waited for otherwise.
func TestReceiveWithoutEnd(t *testing.T) {
	requireSupport(t)
	ends := receiveEnds
	receiveEnds = func() bool { return false }
	t.Cleanup(func() { receiveEnds = ends })
	dir, _ := stage(t)
	s := start(t, dir, testPolicy(), placement{}, "use", togetherUse)
	var r report
	s.run(t, &r)
	if !r.Leak {
		t.Errorf("the work fails: %s", r.Said)
	}
}
