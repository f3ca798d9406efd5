package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The directories that an editor adds are in the sandbox at their own paths, with what
// their rules close closed, and only for reading where the configuration says so.
func TestAdditionalDirectories(t *testing.T) {
	inCells(t, testAdditionalDirectories)
}

func testAdditionalDirectories(t *testing.T, w *world) {
	project, beside, shown := w.mkdir("project"), w.mkdir("beside"), w.mkdir("shown")
	inner, library := w.mkdir("project/inner"), w.mkdir("shown/library")
	w.write(project, ".gooseignore", "/inner/closed\n")
	for dir, names := range map[string][]string{inner: {"open", "closed"}, beside: {"open", ".env"}, library: {"open", ".env"}} {
		for _, name := range names {
			w.write(dir, name, name+"\n")
		}
	}
	w.write(w.mkdir("gander"), "config.json", encode(t, map[string]any{"sandbox": map[string]any{"readOnlyPaths": []string{shown}}}))
	commits(t, beside, "git init -q . && git add -f . && git commit -qm one")
	command := strings.NewReplacer("INNER", inner, "BESIDE", beside, "LIBRARY", library).Replace(`
		for f in INNER/open INNER/closed BESIDE/open BESIDE/.env LIBRARY/open LIBRARY/.env; do cat $f >/dev/null 2>&1 && echo "read $f"; done
		for f in INNER/made BESIDE/made BESIDE/.git/config LIBRARY/made; do (echo x > $f) 2>/dev/null && echo "wrote $f"; done; echo end`)
	want := strings.NewReplacer("INNER", inner, "BESIDE", beside, "LIBRARY", library).Replace(
		"read INNER/open\nread BESIDE/open\nread LIBRARY/open\nwrote INNER/made\nwrote BESIDE/made\nend")

	e := w.gander(nil)
	e.initialize()
	s := e.sessionWith(map[string]any{"cwd": project, "mcpServers": []any{}, "additionalDirectories": []string{inner, beside, library}})
	turn := s.prompt(script(t, w.shell(command), says("done"))).done("end_turn")
	if tool, _ := turn.tool(0); strings.TrimSpace(tool.text()) != want {
		t.Errorf("inside:\n%s\nwant:\n%s", tool.text(), want)
	}
	var said strings.Builder
	for _, u := range turn.updates {
		said.WriteString(u.text())
	}
	if !strings.Contains(said.String(), "Git keeps content of files that rules close ("+beside+"/.env)") {
		t.Errorf("the person reads %q", said.String())
	}
	if got := w.read(filepath.Join(beside, "made")); got != "x\n" {
		t.Errorf("what was written inside is %q", got)
	}
	if said := s.prompt("/status").done("end_turn").text(); !strings.Contains(said, "`"+library+"`, only for reading") || !strings.Contains(said, "`"+beside+"`\n") {
		t.Errorf("/status says %q", said)
	}
	if got := e.list(map[string]any{"cwd": project}); len(got) != 1 || strings.Join(got[0].AdditionalDirectories, " ") != inner+" "+beside+" "+library {
		t.Errorf("the list is %+v", got)
	}
}

// commits is what a script with git says in a project, outside.
func commits(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
	return string(out)
}
