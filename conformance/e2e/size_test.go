package e2e

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever its size, what the agent says arrives in frames that every client can
// take (checked for all recordings), and text arrives whole.
func TestBigFrames(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		e := w.gander(nil)
		e.initialize()
		project := w.mkdir("project")
		s := e.session(project)

		word := strings.Repeat("0123456789abcde ", w.cell.holds/16)
		word = strings.ReplaceAll(word, " ", "ü") // one word, not ASCII
		if text := s.prompt(script(t, says(word+" end"))).done("end_turn").text(); text != word+" end" {
			t.Errorf("of %d bytes of text %d arrive, ending in %q", len(word)+4, len(text), text[max(0, len(text)-20):])
		}

		content := strings.Repeat("a line of a large file\n", w.cell.holds/23)
		turn := s.prompt(script(t, w.cell.writes(filepath.Join(project, "large.txt"), content), says("written"))).done("end_turn")
		if got := w.read(project + "/large.txt"); got != content {
			t.Errorf("the large file has %d bytes, want %d", len(got), len(content))
		}
		if tool, _ := turn.tool(0); tool.Status != "completed" {
			t.Errorf("the tool call ends as %s", tool.Status)
		}

		// A command that prints much more than anyone reads.
		turn = s.prompt(script(t, w.shell("head -c 50000000 /dev/zero | tr '\\0' x | fold -w 100"), says("printed"))).done("end_turn")
		if !strings.Contains(turn.text(), "printed") {
			t.Errorf("after 50 MB of output the agent says %q", turn.text())
		}
	})
}

// The demonstration needs no configuration, works for everybody, shows every agent
// in every sandbox that the person can use, and cleans up.
func TestDemo(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		env := w.baseEnv()
		env["GANDER_HOME"] = w.ganderHome()
		for _, a := range agents {
			maps.Copy(env, a.env(t))
		}
		var words []string
		for _, c := range all {
			if w.uid == 0 || c.driver.group == nil { // others may not talk to the daemon
				c.driver.need(t)
				maps.Copy(env, c.driver.env())
				words = append(words, c.agent.name+" in the "+c.driver.name+" sandbox")
			}
		}
		out, code := w.run(t, env, needGander(t), "demo")
		if code != 0 {
			t.Errorf("demo ends with %d", code)
		}
		for _, word := range append(words, "cancel") {
			if !strings.Contains(out, word) {
				t.Errorf("demo does not show %q", word)
			}
		}
		if t.Failed() {
			t.Log(out)
		}
		if left := marked(t, w.dir); len(left) > 0 {
			t.Errorf("demo leaves %v", left)
		}
	})
}

// One prompt from a script: the answer on stdout and nothing else.
func TestRun(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		project := w.mkdir("project")
		out, code := w.run(t, w.ganderEnv(nil), needGander(t), "run", "--agent", w.cell.agent.name, "--sandbox", w.cell.driver.name, "--format", "quiet", "--approve", "all", "--cwd", project,
			script(t, w.shell("echo by run > made.txt"), says("all done")))
		if code != 0 || strings.TrimSpace(out) != "all done" {
			t.Errorf("run ends with %d and prints %q", code, out)
		}
		if made, err := os.ReadFile(project + "/made.txt"); err != nil || string(made) != "by run\n" {
			t.Errorf("made.txt holds %q, %v", made, err)
		}
		if left := marked(t, w.dir); len(left) > 0 {
			t.Errorf("run leaves %v", left)
		}
	})
}

// Of a run without a session nothing is kept: neither what was said, by gander or by
// the agent, nor what the files were before.
func TestRunWithoutSession(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		project := w.mkdir("project")
		w.write(project, "notes", "what-it-was-before\n")
		out, code := w.run(t, w.ganderEnv(nil), needGander(t), "run", "--no-session", "--agent", w.cell.agent.name, "--sandbox", w.cell.driver.name, "--format", "quiet", "--approve", "all", "--cwd", project,
			script(t, w.shell("echo what-was-done > notes"), says("what-was-said")))
		if code != 0 || strings.TrimSpace(out) != "what-was-said" {
			t.Errorf("run ends with %d and prints %q", code, out)
		}
		files := 0
		err := filepath.WalkDir(w.ganderHome(), func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			files++
			text, err := os.ReadFile(name)
			for _, word := range []string{"what-it-was-before", "what-was-done", "what-was-said"} {
				if strings.Contains(string(text), word) {
					t.Errorf("%s holds %q", name, word)
				}
			}
			return err
		})
		if err != nil || files == 0 {
			t.Errorf("%d files in gander's home, %v: the search proves nothing", files, err)
		}
	})
}
