package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// With "git": "hide" an agent works with git in a project whose history has a secret: it
// commits, does not get at what .gooseignore closes, and sees with the next prompt what
// the person committed meanwhile. The repository has both afterwards, in order. All of
// that git does in sandboxes.
func TestGitIsHidden(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		w.write(w.mkdir("gander"), "config.json", `{"policy": {"git": "hide"}}`)
		dir := w.mkdir("project")
		git := func(script string) string { return commits(t, dir, script) }
		git("git init -q . && git config user.name a && git config user.email a@b && echo s3cr3t-one > .env && echo one > a && git add -f . && git commit -qm one && touch -d '1 hour ago' .env a && git status -s && git gc -q")
		path, unused := w.watchedPath()
		e := w.gander(map[string]string{"PATH": path})
		e.initialize()
		s := e.session(dir)
		turn := s.prompt(script(t, w.shell("git log --oneline; echo two >> a && git commit -qam two; git log -p --all; git show HEAD~1:.env; cat .git/objects/pack/*; git status -s"), says("done"))).done("end_turn")
		tool, _ := turn.tool(0)
		asked := tool.text()
		if !strings.Contains(asked, "two") || strings.Contains(asked, "s3cr3t-") {
			t.Errorf("the agent saw %q", asked)
		}
		var said strings.Builder
		for _, u := range turn.updates {
			said.WriteString(u.text())
		}
		if !strings.Contains(said.String(), "git works without it") {
			t.Errorf("the person reads %q", said.String())
		}
		git("echo s3cr3t-two > .env && echo three >> a && git commit -qam three && touch -d '1 hour ago' .env a && git status -s")
		turn = s.prompt(script(t, w.shell("git log --oneline; git show HEAD:a; git show HEAD:.env; git diff HEAD~1"), says("done"))).done("end_turn")
		tool, _ = turn.tool(0)
		asked = tool.text()
		if !strings.Contains(asked, "three") || strings.Contains(asked, "s3cr3t-") {
			t.Errorf("the agent saw %q", asked)
		}
		if out := git("git fsck --full --strict; git log --format=%s; git show HEAD~2:.env HEAD:.env"); !strings.Contains(out, "three\ntwo\none\ns3cr3t-one\ns3cr3t-two\n") || strings.Contains(out, "missing") {
			t.Errorf("the repository has %q", out)
		}
		if left, _ := filepath.Glob(filepath.Join(w.ganderHome(), "sandboxes", "*-git")); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
		unused()
	})
}

// watchedPath is a PATH whose first programs, those that could act on a project, note that
// they were run on this machine; a sandbox has others. unused fails when one was.
func (w *world) watchedPath() (path string, unused func()) {
	w.t.Helper()
	dir, noted := w.mkdir("watched"), filepath.Join(w.mkdir("noted"), "programs")
	for _, name := range []string{"git", "sh", "bash", "make", "node", "npm", "python3", "go", "rg"} {
		if err := os.Chmod(w.write(dir, name, "#!/bin/sh\necho \"$0 $*\" >> "+noted+"\nexit 1\n"), 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
	path = dir + ":" + os.Getenv("PATH")
	return path, func() {
		w.t.Helper()
		if run, err := os.ReadFile(noted); err == nil {
			w.t.Errorf("run on this machine: %s", run)
		}
		_ = exec.Command(filepath.Join(dir, "git"), "status").Run() // which fails
		if run := w.read(noted); !strings.Contains(run, "git status") {
			w.t.Errorf("what is run is not noted: %q", run)
		}
	}
}

// So does a loop's agent, with the next iteration, also in a clone below its workspace.
func TestLoopGitIsHidden(t *testing.T) {
	w := newWorld(t, home, 0)
	w.write(w.mkdir("gander"), "config.json", `{"policy": {"git": "hide"}}`)
	work := w.mkdir("work")
	commits(t, work, "git init -q . && git init -q c && cd c && echo s3cr3t-one > .env && echo plank-one > a && git add -f . && git commit -qm one && touch -d '1 hour ago' .env a && git status -s")
	p := w.serve(t)
	r := p.loop(home, script(t, home.runs("cd c; (git show HEAD:a; git log -p --all; git show HEAD:.env; cat .git/objects/*/*) > ../now 2>&1; mv ../now ../seen"), says("done with it.")), map[string]any{"workspace": work})
	sees := func(text string) {
		t.Helper()
		defer func() {
			if t.Failed() {
				seen, _ := os.ReadFile(filepath.Join(work, "seen"))
				t.Logf("the agent saw %.3000q", seen)
			}
		}()
		eventually(t, "the agent to see "+text, func() bool {
			seen, _ := os.ReadFile(filepath.Join(work, "seen"))
			if strings.Contains(string(seen), "s3cr3t-") {
				t.Fatalf("the agent saw %q", seen)
			}
			return strings.Contains(string(seen), text)
		})
	}
	sees("plank-one")
	commits(t, filepath.Join(work, "c"), "echo s3cr3t-two > .env && echo plank-two > a && git commit -qam two && touch -d '1 hour ago' .env a && git status -s")
	sees("plank-two")
	if made := slices.DeleteFunc(r.events(), func(e told) bool { return e.State != "waiting" || !strings.Contains(e.Reason, "made again") }); len(made) > 0 {
		t.Errorf("the sandbox was made again: %+v", made)
	}
	if out, code := w.run(t, p.env, needGander(t), "loop", "stop", r.id); code != 0 {
		t.Fatalf("gander loop stop ends with %d: %s", code, out)
	}
	gone(t, patience, p.keepers)
	r.checkWhole()
}
