package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// keptOf is all that gander keeps of what was said.
func (w *world) keptOf() string {
	w.t.Helper()
	names, err := filepath.Glob(filepath.Join(w.ganderHome(), "sessions", "*.jsonl"))
	if err != nil || len(names) == 0 {
		w.t.Fatalf("there are no transcripts: %v", err)
	}
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			w.t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// What is in a closed file and comes to the agent by another way is noticed when it is
// about to leave; where the policy stops that it comes to nobody.
func TestCanaries(t *testing.T) {
	const token = "tok-1a2b3c4d5e6f7g8h"
	for mode, stop := range map[string]string{"show": "end_turn", "stop": "cancelled"} {
		t.Run(mode, func(t *testing.T) {
			inCells(t, func(t *testing.T, w *world) {
				w.write(w.mkdir("gander"), "config.json", `{"policy": {"canaries": "`+mode+`"}}`)
				project := w.mkdir("project")
				w.write(project, ".env", "\nAPI_KEY="+token+"\n")
				e := w.gander(nil)
				e.initialize()
				s := e.session(project)
				s.prompt(script(t, w.shell("printf '%s%s\\n' "+token[:8]+" "+token[8:]), says("done"))).done(stop)
				e.end()
				if n := logged(e, "closed file .env (line 2) was seen in what the agent says"); n == 0 {
					t.Errorf("the person is not told: %s", e.stderr())
				}
				asked := 0
				for _, r := range w.model.Requests() {
					if strings.Contains(string(r.Body), token) {
						asked++
					}
				}
				kept := strings.Contains(w.keptOf(), token)
				if stopped := mode == "stop"; stopped && (kept || asked > 0) || !stopped && (!kept || asked == 0) {
					t.Errorf("in the transcript: %t, in requests of the model: %d", kept, asked)
				}
			})
		})
	}
}
