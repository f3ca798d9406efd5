package router

import (
	"os"
	"strings"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
)

// TestOfferIsKept checks that the offer of an agent is kept when it changes, and else is not written again.
func TestOfferIsKept(t *testing.T) {
	r := newRig(t, nil)
	file := r.router.stateFile(r.agent)
	kept := func(mode string) (string, os.FileInfo) {
		t.Helper()
		r.router.saveState(r.agent, sandbox.AgentState{Modes: &acp.SessionModeState{CurrentModeID: mode}})
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text), info
	}
	first, was := kept("ask")
	same, is := kept("ask")
	if first != same || !os.SameFile(was, is) || !is.ModTime().Equal(was.ModTime()) {
		t.Errorf("the same offer is written again: %s", same)
	}
	if changed, _ := kept("code"); !strings.Contains(changed, `"code"`) {
		t.Errorf("another offer is not kept: %s", changed)
	}
}
