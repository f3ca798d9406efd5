package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// What goose did in a sandbox is played back from its transcript and from its
// trace, to the same client: the same words, the same tool call, the same question,
// and nothing is run.
func TestReplay(t *testing.T) {
	w := newWorld(t, home, 0)
	trace := filepath.Join(w.dir, "trace.jsonl")
	project := w.mkdir("project")
	e := w.gander(nil, "--trace", trace)
	e.allows = true
	e.initialize()
	s := e.session(project)
	if err := s.setMode(home.asks); err != nil {
		t.Fatal(err)
	}
	text := script(t, w.shell("echo made >> made.txt; echo out"), says("all done"))
	then := s.prompt(text).done("end_turn")
	e.end()
	files, err := filepath.Glob(filepath.Join(w.ganderHome(), "sessions", "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("transcripts %v, %v", files, err)
	}
	for name, file := range map[string]string{"transcript": files[0], "trace": trace} {
		t.Run(name, func(t *testing.T) {
			e := startEditor(t, launch{command: []string{needGander(t), "replay", file}, env: w.baseEnv(), dir: w.dir})
			e.allows = true
			e.initialize()
			s := e.session(project)
			now := s.prompt("anything").done("end_turn")
			e.permission(1)
			if got, want := now.text(), then.text(); got != want {
				t.Errorf("the agent says %q, and said %q", got, want)
			}
			tool, _ := now.tool(0)
			was, _ := then.tool(0)
			if tool.Status != was.Status || tool.text() != was.text() || tool.Title != was.Title {
				t.Errorf("the tool call is %+v, and was %+v", tool, was)
			}
			over := s.prompt("more").end()
			if !strings.Contains(string(over.err), "the recording is over") {
				t.Errorf("after the last turn: %s %+v", over.err, over.answer)
			}
		})
	}
	if got := w.read(filepath.Join(project, "made.txt")); got != "made\n" {
		t.Errorf("a replay runs commands: made.txt holds %q", got)
	}
}
