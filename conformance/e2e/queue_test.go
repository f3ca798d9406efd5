package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// A prompt that waits can be taken back while the turn before it runs; /now ends that, what it
// has done stays, and the agent goes on.
func TestQueueAndNow(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		e := w.gander(nil)
		e.initialize()
		project := w.mkdir("project")
		s := e.session(project)
		running := s.prompt(script(t, w.shell("echo kept > kept.txt; sleep 600"), says("too late")))
		eventually(t, "the command to run", func() bool { return exists(filepath.Join(project, "kept.txt")) })
		dropped := s.prompt("say dropped " + script(t, w.shell("touch dropped"), says("dropped")))
		if got := s.prompt("/queue").done("end_turn"); !strings.Contains(everything(got)+everything(running.turn), "1. say dropped") {
			t.Errorf("/queue says %q", everything(got))
		}
		s.prompt("/queue drop 1").done("end_turn")
		dropped.done("cancelled")
		now := s.prompt("/now " + script(t, w.shell("cat kept.txt"), step{"text": "{{last_tool_result}}"}))
		running.done("cancelled")
		if got := now.done("end_turn").text(); !strings.Contains(got, "kept") {
			t.Errorf("the turn that takes its place says %q", got)
		}
		if exists(filepath.Join(project, "dropped")) {
			t.Error("the prompt that was taken back was carried out")
		}
	})
}
