package acpagent

import (
	"testing"

	"gander.dev/gander/acp"
)

// An agent of another version than the tested one is told of, but for the last part of it.
func TestVersionNotice(t *testing.T) {
	for version, want := range map[string]bool{"": false, "1.18.33": false, "1.18.40": false, "1.19.0": true, "2.0.1": true, "local": true} {
		s := &Session{opts: Options{Name: "duck", Tested: "1.18.33"}}
		if got := s.versionNotice(&acp.Implementation{Name: "duck", Version: version}); (got != "") != want {
			t.Errorf("%q: %q", version, got)
		}
	}
	untested := &Session{opts: Options{Name: "duck"}}
	if got := untested.versionNotice(&acp.Implementation{Version: "9"}) + untested.versionNotice(nil); got != "" {
		t.Errorf("of an agent that gander does not bring it says %q", got)
	}
}
