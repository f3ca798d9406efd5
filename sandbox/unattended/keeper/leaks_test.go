package keeper

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/loop"
)

// leakToken is in a closed file of what watch makes.
const leakToken = "tok-1a2b3c4d5e6f7g8h"

// watch has the run's canaries look for leakToken. It is called before the start.
func (r *rig) watch(canaries string) {
	r.t.Helper()
	spec, err := r.dir.Spec()
	if err != nil {
		r.t.Fatal(err)
	}
	spec.Workspace, r.terms.canaries = r.t.TempDir(), canaries
	if err := os.WriteFile(filepath.Join(spec.Workspace, ".env"), []byte("API_KEY="+leakToken+"\n"), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := r.dir.Write(spec, testToken); err != nil {
		r.t.Fatal(err)
	}
}

// known waits until a run's canaries have looked, and returns them.
func known(t *testing.T, r *rig) *leaks {
	t.Helper()
	l := r.keeper.Load().leaks
	if err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestLeaks checks that what the canaries object to does not leave, and stops the run where the policy says so.
func TestLeaks(t *testing.T) {
	r := newRig(t, func(l *fakeLoop) {
		if _, ok := l.until(loop.CommandStart); ok {
			l.say(begin(1))
			_, _ = l.until(loop.CommandBegin)
			l.say(telemetry.Event{Type: telemetry.Text, Content: "it is " + leakToken}, telemetry.Event{Type: telemetry.Text, Content: "harmless"})
			_, _ = l.until("never")
		}
	})
	r.watch(confine.CanariesStop)
	r.start()
	await(t, "what is harmless", func() bool {
		return r.plane.count(func(e telemetry.Event) bool { return e.Content == "harmless" }) == 1
	})
	await(t, "the pause", func() bool {
		return r.plane.count(func(e telemetry.Event) bool {
			return e.Type == Notice && strings.Contains(e.Content, "the run is paused")
		}) == 1
	})
	if n := r.plane.count(func(e telemetry.Event) bool {
		return e.Type == telemetry.Error && strings.Contains(e.Summary, "not kept")
	}); n != 1 {
		t.Errorf("that an event is not kept was said %d times", n)
	}
	if raw, err := json.Marshal(r.contiguous()); err != nil || strings.Contains(string(raw), leakToken) {
		t.Errorf("%s %v", raw, err)
	}
	if s, err := r.dir.Spec(); err != nil || s.Desired != Paused {
		t.Errorf("the run is to be %s (%v)", s.Desired, err)
	}
}

// Closed content is seen in whatever field of an event a loop writes it to, and in
// letters.
func TestLeaksOfALoop(t *testing.T) {
	r := newRig(t, obey)
	r.watch(confine.CanariesStop)
	r.start()
	l := known(t, r)
	for _, e := range []telemetry.Event{
		{Type: telemetry.ToolResult, Summary: leakToken},
		{Type: telemetry.ToolResult, Content: leakToken},
		{Type: telemetry.ToolResult, Tool: leakToken},
		{Type: telemetry.ToolResult, ToolCallID: leakToken},
		{Type: telemetry.ToolResult, Status: leakToken},
		{Type: telemetry.ToolResult, Reason: leakToken},
		{Type: leakToken},
		{Type: telemetry.Text, Summary: leakToken},
		{Type: telemetry.Text, Tool: leakToken},
	} {
		if l.look(e) == nil {
			raw, _ := json.Marshal(e)
			t.Errorf("%s may be kept", raw)
		}
	}
	pieces := []telemetry.Event{{Type: telemetry.Thought, Content: leakToken[:7]}, {Type: telemetry.Thought, Content: leakToken[7:], Summary: "x", Iteration: 3}}
	if err := l.look(pieces[0]); err != nil {
		t.Error(err)
	}
	if l.look(pieces[1]) == nil {
		t.Error("in pieces it may be kept")
	}
	if err := l.look(telemetry.Event{Type: telemetry.ToolResult, Content: "harmless"}); err != nil {
		t.Error(err)
	}
	if err := l.letter([]byte(`{"message":"` + leakToken + `"}`)); err == nil || !strings.Contains(err.Error(), "policy.canaries") {
		t.Errorf("a letter: %v", err)
	}
}
