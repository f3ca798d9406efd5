package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// A skill that is installed is listed to the model by the agent itself, can be loaded by it, its
// script runs inside, and nothing inside can write it. An agent's own with the same id counts first.
func TestSkills(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		env := w.ganderEnv(nil)
		install := func(name, description, prints string, flags ...string) {
			dir := w.mkdir("made/" + name)
			w.write(dir, "SKILL.md", "---\nname: tidy-up\ndescription: "+description+"\n---\nRun scripts/tidy.sh, the quincunx way.\n")
			w.write(w.mkdir("made/"+name+"/scripts"), "tidy.sh", "echo "+prints+"\n")
			command := append([]string{needGander(t), "skill", "install", dir}, flags...)
			if out, code := w.run(t, env, command...); code != 0 {
				t.Fatalf("%v: exit code %d, %s", command, code, out)
			}
		}
		install("all", "Sorts the heliotrope imports.", "by all")

		e := w.gander(nil)
		e.initialize()
		project := w.mkdir("project")
		s := e.session(project)
		skill := "$HOME/.agents/skills/tidy-up"
		s.prompt(script(t, w.shell("sh "+skill+"/scripts/tidy.sh > ran; (echo x >> "+skill+"/SKILL.md) 2> refused; rm -rf "+skill+"/scripts 2>> refused; mv "+skill+" away; ls > after"), says("done"))).done("end_turn")
		if got := w.read(filepath.Join(project, "ran")); got != "by all\n" {
			t.Errorf("its script printed %q", got)
		}
		if got := w.read(filepath.Join(project, "refused")); !strings.Contains(got, "Read-only file system") {
			t.Errorf("writing it was refused with %q", got)
		}
		if got := w.read(filepath.Join(w.ganderHome(), "skills", "tidy-up", "SKILL.md")); !strings.HasSuffix(got, "way.\n") {
			t.Errorf("the skill is now %q", got)
		}
		if !w.heard("heliotrope") {
			t.Error("the model was not told of the skill")
		}

		install("own", "Sorts the own vermilion imports.", "by its own", "--agent", w.cell.agent.name)
		s = e.session(project)
		s.prompt(script(t, w.shell("sh "+skill+"/scripts/tidy.sh > ran"), says("done"))).done("end_turn")
		if got := w.read(filepath.Join(project, "ran")); got != "by its own\n" || !w.heard("vermilion") {
			t.Errorf("with a skill of the agent's own the script printed %q; told: %v", got, w.heard("vermilion"))
		}
	})
}

// heard reports whether the model was told of something.
func (w *world) heard(word string) bool {
	for _, r := range w.model.Requests() {
		if strings.Contains(string(r.Body), word) {
			return true
		}
	}
	return false
}
