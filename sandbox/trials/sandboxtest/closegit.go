package sandboxtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/rules/policy"
)

// gitLeaks are scripts that get at what git keeps.
func gitLeaks() []string {
	const unpack = `python3 -c '
import os,zlib
for d,_,names in os.walk("."):
  for n in names:
    try: raw=open(os.path.join(d,n),"rb").read()
    except OSError: continue
    for i in range(len(raw)):
      if raw[i]&15==8:
        try: print(zlib.decompressobj().decompress(raw[i:]))
        except zlib.error: pass
'`
	return []string{
		"git show HEAD~1:.env", "git log -p --all", "git cat-file --batch-all-objects --batch", "git grep s3cr3t HEAD~1", "git archive HEAD~1",
		"git checkout HEAD~1 -- .env && cat .env", unpack, "cp -r .git/objects o; " + unpack, "for f in .git/objects/pack/*.pack; do ln $f l; cat l; done | wc -c | grep -v '^0$' && echo s3cr3t-raw",
		"mv .git/objects/pack p && cat p/*.pack | wc -c | grep -v '^0$' && echo s3cr3t-raw", "git clone -q . /tmp/c && git -C /tmp/c log -p", "git bundle create /tmp/b --all && git -C /tmp clone -q b && git -C /tmp/b log -p",
		"n=0; for f in .git/objects/??/* .git/objects/pack/*.pack; do n=$((n+1)); ln $f $n.pack; ln $f named$n; mv named$n m$n.pack; done; " + unpack + "; rm -f named* *.pack",
		"mkdir r && cd r && GIT_DIR=/tmp/g git init -q && GIT_DIR=/tmp/g GIT_ALTERNATE_OBJECT_DIRECTORIES=$OLDPWD/.git/objects git cat-file --batch-all-objects --batch",
	}
}

// hiddenProject is a project whose git keeps, besides ordinary files, closed ones: in
// commits, the index, a stash, a reflog alone, an annotated tag, a tree that has a tag, and where nothing leads to.
func hiddenProject(t *testing.T, owner int, pack string) sandbox.Spec {
	t.Helper()
	spec := Spec(t, owner)
	if out, err := outside(t, spec.WorkingDir, `git init -q --template= . && mkdir -p .git/objects/info d && echo s3cr3t-1 > .env && echo one > a && echo s3cr3t-2 > d/secrets.txt && git add -f . && git commit -qm one &&
		echo s3cr3t-3 > .env && echo two > a && git commit -qam two && git checkout -qb side && echo s3cr3t-8 > .env && git add -f .env && git tag snapshot $(git write-tree) && cp .env copied8 && echo s3cr3t-4 > .env && echo side > b && cp .env copied && git add -f . && git commit -qm side && git checkout -q main &&
		echo s3cr3t-5 > .env && git stash -q && echo s3cr3t-6 > .env && git commit -qam lost && git reset -q --hard HEAD~1 && git tag -am tagged s3cr3t HEAD~1:.env && echo s3cr3t-7 | git hash-object -w --stdin &&
		`+pack+` && echo three > a && git commit -qam three`); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	give(t, spec.WorkingDir, owner)
	return spec
}

// give makes everything in a project its owner's, and has git see that, also in the
// repositories below it that are named.
func give(t *testing.T, project string, owner int, below ...string) {
	t.Helper()
	if owner >= 0 && os.Geteuid() == 0 {
		if out, err := exec.Command("chown", "-R", strconv.Itoa(owner), project).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	// Git reads files again, and inside cannot, that are as young as its index.
	for _, dir := range append([]string{"."}, below...) {
		dir = filepath.Join(project, dir)
		if out, err := outside(t, dir, "git ls-files -z | xargs -0 touch -d '1 hour ago' && git status -s -uno"); err != nil || out != "" {
			t.Fatalf("%s: %v: %s", dir, err, out)
		}
		if owner < 0 || os.Geteuid() != 0 {
			continue
		}
		if out, err := outside(t, dir, fmt.Sprintf("chown %[1]d:%[1]d $(git rev-parse --git-path index)", owner)); err != nil {
			t.Fatalf("%s: %v: %s", dir, err, out)
		}
	}
}

// gitUses are what people do with git, in this order, each with what it prints at
// least. Where the history is not hidden they go just as well.
func gitUses() [][2]string {
	return [][2]string{
		{"git status -s && echo clean", "clean"},
		{"git log --oneline", "three"},
		{"git log -p -- a", "+two"},
		{"git diff HEAD~1", "+three"},
		{"git show HEAD:a", "three"},
		{"git blame -s a", "three"},
		{"git branch -a", "side"},
		{"git stash list", "stash@{0}"},
		{"git reflog", "lost"},
		{"git tag", "s3cr3t"},
		{"echo four > a && git add a && git commit -qm four && git log --oneline", "four"},
		{"echo new > n && git add . && git commit -qam five && git show --stat", "five"},
		{"git checkout -q HEAD~2 -- a && cat a", "three"},
		{"git reset -q --hard && cat a", "four"},
		{"git checkout -qb work && echo w > w && git add w && git commit -qm w && git checkout -q main && git merge -q --no-ff -m merged work && git log --oneline", "merged"},
		{"echo s > a && git stash -q && git stash pop -q && cat a && git checkout a", "s"},
		{"git checkout -q work && echo x > x && git add x && git commit -qm x && git rebase -q main && git checkout -q main && git log --oneline work", "x"},
		{"git cherry-pick work && git revert --no-edit HEAD && git log --oneline", "Revert"},
		{"git gc -q; git repack -q; git prune; git log --oneline", "four"},
		{"git init -q --bare bare && echo hi | git --git-dir=bare hash-object -w --stdin | xargs git --git-dir=bare cat-file -p && rm -r bare", "hi"},
		{"echo 1 > 0.pack_ && mv 0.pack_ 0.pack && cat 0.pack && rm 0.pack", "1"},
		{"git grep -h two HEAD~8 -- a || git grep -h one $(git rev-list --max-parents=0 HEAD) -- a", "o"},
	}
}

// useGit does in a repository with two commits what people do with git: each use prints
// something at least. The last one commits a third time.
func useGit(t *testing.T, sb sandbox.Sandbox, dir string, more ...[2]string) {
	t.Helper()
	for _, use := range append(more, [][2]string{
		{"git status -s && echo clean", "clean"},
		{"git log --oneline", "two"},
		{"git log -p -- a", "+two"},
		{"echo three > a && git commit -qam three && git log --oneline && git show HEAD:a", "three"},
	}...) {
		out, errs, st := Run(t, sb, "cd "+dir+" && "+use[0], gitEnv()...)
		if !strings.Contains(out, use[1]) || st.Code != 0 {
			t.Errorf("%s in %s: exit code %d, %s%s", use[0], dir, st.Code, out, errs)
		}
	}
}

// hiddenLeaks are further scripts that get at what git keeps, also by the stores that
// are beside its own.
func hiddenLeaks() []string {
	return append(gitLeaks(),
		"git show HEAD:.env side:.env HEAD:d/secrets.txt", "git show side:copied", "git checkout -q side -- copied; cat copied", "git stash show -p", "git show 'HEAD@{1}:.env' 'HEAD@{2}:.env'", "git show s3cr3t", "git fsck --lost-found; cat .git/lost-found/other/*",
		"for d in $(cat .git/objects/info/alternates); do cd $d && find . -type f | xargs cat; cd $OLDPWD; done | grep -a s3cr3t", "for o in $(git rev-list --all --reflog --objects | cut -c1-40); do git cat-file -p $o; done",
		"git fast-export --all", "git format-patch --root --stdout side", "git difftool -y -x cat HEAD~1 HEAD", "git checkout -q side; cat .env", "git restore -s side .env; cat .env", "git diff main side", "git merge side; git diff",
		"git gc -q --prune=now; git log -p --all", "git repack -adfq; git log -p --all", "for d in $(cat .git/objects/info/alternates); do GIT_DIR=/tmp/g git init -q; echo $d > /tmp/g/objects/info/alternates; GIT_DIR=/tmp/g git cat-file --batch-all-objects --batch; done",
	)
}

// TestHideGit tests a policy whose git is "hide" as drivers keep it: git works inside,
// nothing inside reads what it keeps of closed files, nor what comes to git later, and
// the repository outside is whole. It keeps that loose, or in packs. owner is as for TestDriver.
func TestHideGit(t *testing.T, newDriver NewDriver, owner int, packed bool) {
	name, pack := "loose", "true"
	if packed {
		name, pack = "packed", "git gc -q && git multi-pack-index write && git commit-graph write --reachable"
	}
	t.Run(name, func(t *testing.T) {
		spec := hiddenProject(t, owner, pack)
		sb, found := hide(t, newDriver(t), spec)
		if said := strings.Join(found.Notices(), " "); !strings.Contains(said, "git works without it") {
			t.Errorf("the person reads %q", said)
		}
		for _, use := range gitUses() {
			out, errs, st := Run(t, sb, use[0], gitEnv()...)
			if !strings.Contains(out, use[1]) || st.Code != 0 {
				t.Errorf("%s: exit code %d, %s%s", use[0], st.Code, out, errs)
			}
		}
		for _, script := range hiddenLeaks() {
			if out, _, _ := Run(t, sb, script+"; cd; rm -rf /tmp/c /tmp/b /tmp/g", gitEnv()...); strings.Contains(out, "s3cr3t-") {
				t.Errorf("what git keeps can be read by: %s: %s", script, out)
			}
		}
		if out, err := outside(t, spec.WorkingDir, "git fsck --full --strict && git log --oneline main && git show side:.env"); err != nil || !strings.Contains(out, "merged") || !strings.Contains(out, "s3cr3t-4") || strings.Contains(out, "missing") {
			t.Errorf("the repository is not what it should be outside: %v: %s", err, out)
		}
		testGitFollows(t, sb, found, spec, owner)
	})
}

// TestHideGitAround tests that what git keeps of closed files is found in repositories below
// and beside the project, too. owner is as for TestDriver.
func TestHideGitAround(t *testing.T, newDriver NewDriver, owner int) {
	t.Run("repositories below", func(t *testing.T) { testHideBelow(t, newDriver(t), owner) })
	t.Run("repositories beside", func(t *testing.T) { testHideBeside(t, newDriver(t), owner) })
}

// hide makes a sandbox whose policy's git is "hide".
func hide(t *testing.T, d sandbox.Driver, spec sandbox.Spec) (sandbox.Sandbox, *confine.Examined) {
	t.Helper()
	store := filepath.Join(filepath.Dir(spec.Home), "git")
	if err := confine.GiveGitStore(&spec, policy.GitHide, store); err != nil {
		t.Fatal(err)
	}
	sb := Create(t, d, spec)
	found, err := confine.Examination{Driver: d, Spec: spec, StateDir: t.TempDir(), Git: policy.GitHide}.Examine(t.Context(), sb)
	if err != nil {
		t.Fatal(err)
	}
	return sb, found
}

// testGitFollows: what comes to git outside is closed at once and there, but for closed
// files, when it was looked at again; rules that change close all until then.
func testGitFollows(t *testing.T, sb sandbox.Sandbox, found *confine.Examined, spec sandbox.Spec, owner int) {
	sees := func(script, want string) bool {
		out, _, _ := Run(t, sb, script, gitEnv()...)
		return strings.Contains(out, want)
	}
	again := func(wants bool) {
		t.Helper()
		if said, err := found.Again(t.Context()); err != nil || (len(said) > 0) != wants {
			t.Errorf("looking again says %q, %v", said, err)
		}
	}
	again(false)
	// What tried to show closed content was stopped half-way.
	if out, err := outside(t, spec.WorkingDir, "git merge --abort; git checkout -qf main && git reset -q --hard"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	give(t, spec.WorkingDir, owner)
	for _, script := range []string{"git commit -qam outside", "git gc -q --prune=now", "git repack -adfq"} {
		if out, err := outside(t, spec.WorkingDir, "echo s3cr3t-8 > .env && git add -f .env && echo outside >> a && git add a && "+script+" && git commit -q --allow-empty -am outside"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if sees("git cat-file -p :.env; git log -p --all; git cat-file --batch-all-objects --batch; cat .git/objects/pack/*.pack .git/objects/*/*", "s3cr3t-8") {
			t.Errorf("after %s outside its content can be read", script)
		}
		give(t, spec.WorkingDir, owner)
		again(true)
		if !sees("git log --oneline && git show HEAD:a", "outside") || sees("git cat-file -p :.env; git show HEAD:.env", "s3cr3t-8") {
			t.Errorf("after %s outside git does not work inside, or shows too much", script)
		}
	}
	if err := os.WriteFile(filepath.Join(spec.WorkingDir, ".gooseignore"), []byte(".env\nsecrets.*\n/a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "git's objects are closed when the rules change", patience, func() bool { return !sees("git show HEAD~1:a HEAD:a", "outside") })
	again(true)
	if sees("git show HEAD:a; git show HEAD~1:a; git show HEAD~2:a", "outside") {
		t.Error("what was closed later can be read")
	}
	if !sees("git log --oneline", "outside") || !sees("git show main:n", "new") {
		out, errs, _ := Run(t, sb, "git log --oneline | head -5; git show main:n; git branch -av", gitEnv()...)
		t.Errorf("git does not work after rules have changed: %s%s", out, errs)
	}
}

// TestCloseGit tests that what git keeps cannot be read once its objects are
// closed, loose and in packs; owner is as for TestDriver.
func TestCloseGit(t *testing.T, newDriver NewDriver, owner int) {
	for name, pack := range map[string]string{"loose": "true", "packed": "git gc -q"} {
		t.Run(name, func(t *testing.T) {
			spec := Spec(t, owner)
			if out, err := outside(t, spec.WorkingDir, `git init -q --template= . && echo s3cr3t-in-git > .env && echo x > a && git add -f . && git commit -qm one &&
				git rm -q --cached .env && rm .env && git commit -qm two && `+pack); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if owner >= 0 && os.Geteuid() == 0 {
				if out, err := exec.Command("chown", "-R", "12345", spec.WorkingDir).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			sb := Create(t, newDriver(t), spec)
			try := func(script string) bool {
				out, _, _ := Run(t, sb, script+"; cd; rm -rf /tmp/c /tmp/b /tmp/g", gitEnv()...)
				return strings.Contains(out, "s3cr3t-")
			}
			if !try("git log -p --all") {
				t.Fatal("the control does not find the secret: git does not work inside")
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if _, err := sb.(sandbox.RuleKeeper).CloseGit(ctx); err != nil {
				t.Fatal(err)
			}
			for _, script := range gitLeaks() {
				if try(script) {
					t.Errorf("what git keeps can be read by: %s", script)
				}
			}
			if got := readRemoved(t, sb, spec.WorkingDir); got != "" {
				t.Errorf("what git has just packed elsewhere can be read: %s", got)
			}
		})
	}
}

// readRemoved reads what git keeps by descriptors from before it was removed.
func readRemoved(t *testing.T, sb sandbox.Sandbox, project string) string {
	const script = `
import glob, os
files = {n: os.open(n, os.O_PATH) for n in glob.glob(".git/objects/??/*") + glob.glob(".git/objects/pack/*.pack")}
print(len(files) > 0, flush=True)
input()
for name, fd in files.items():
    try: open("/proc/self/fd/%d" % fd, "rb").read(1); print(name)
    except OSError: pass
`
	p := StartCommand(t, sb, sandbox.Command{Args: []string{"python3", "-c", script}, Env: Env()})
	if line := readLine(t, p.Stdout()); strings.TrimSpace(line) != "True" {
		t.Fatalf("there is nothing that git keeps: %q", line)
	}
	if out, err := outside(t, project, "find .git/objects -type f -delete"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := p.Stdin().Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	return readAll(t, p.Stdout())
}
