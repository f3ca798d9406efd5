package sandboxtest

import (
	"strings"
	"testing"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
)

// The repositories below a project with hiddenBelow, as far as they have a work tree.
func belowProject() []string { return []string{"c/clone", "sub", "linked"} }

// hiddenBelow is a project whose own git keeps nothing of closed files, but for what one
// below it had closed: a clone, a submodule, one whose work tree is gone, and a linked
// work tree.
func hiddenBelow(t *testing.T, owner int) sandbox.Spec {
	t.Helper()
	spec := Spec(t, owner)
	if out, err := outside(t, spec.WorkingDir, `fill() { (cd $1 && echo s3cr3t-$2 > .env && echo one > a && git add -f . && git commit -qm one && echo s3cr3t-$2-too > .env && echo two > a && git commit -qam two); }
git init -q --template= . && echo one > a && echo s3cr3t-clone > copied && git add a copied && git commit -qm one && git rm -q copied && git commit -qm two &&
git init -q --template= c/clone && fill c/clone clone && git -C c/clone worktree add -q --detach ../../linked && echo s3cr3t-linked > linked/.env && git -C linked add -f .env && git -C linked commit -qm linked &&
git init -q --template= ../up && fill ../up sub && git -c protocol.file.allow=always submodule --quiet add ../up sub && git commit -qam three &&
git init -q --template= ../gone && fill ../gone gone && git clone -q --bare ../gone .git/modules/gone`); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	give(t, spec.WorkingDir, owner, belowProject()...)
	return spec
}

// testHideBelow tests TestHideGit's promises about repositories below a project.
func testHideBelow(t *testing.T, d sandbox.Driver, owner int) {
	spec := hiddenBelow(t, owner)
	sb, found := hide(t, d, spec)
	said := strings.Join(found.Notices(), " ")
	if !strings.Contains(said, "git works without it") || !strings.Contains(said, "(c/clone/.env, gone/.env, linked/.env, …)") {
		t.Errorf("the person reads %q", said)
	}
	for _, dir := range belowProject() {
		useGit(t, sb, dir, [2]string{"git show $(git rev-list --max-parents=0 HEAD):a", "one"})
	}
	if out, errs, st := Run(t, sb, "git log --oneline && git show HEAD:a && git status -s && git -C .git/modules/gone show HEAD:a", gitEnv()...); st.Code != 0 || !strings.Contains(out, " M sub") || !strings.Contains(out, "two") {
		t.Errorf("in the project: exit code %d, %s%s", st.Code, out, errs)
	}
	leaks := append(gitLeaks(), "git show HEAD:.env HEAD~1:.env HEAD~2:.env", "git show HEAD~2:copied HEAD~1:copied",
		"GIT_DIR=/tmp/g git init -q; GIT_OBJECT_DIRECTORY=$(git rev-parse --path-format=absolute --git-path objects) GIT_DIR=/tmp/g git cat-file --batch-all-objects --batch",
		"for d in $(cat $(git rev-parse --git-path objects/info/alternates)); do cd $d && find . -type f | xargs cat; cd $OLDPWD; done | grep -a s3cr3t")
	for _, dir := range append(belowProject(), ".", ".git/modules/gone") {
		if out, err := outside(t, spec.WorkingDir, "cd "+dir+" && git log -p --all"); err != nil || !strings.Contains(out, "s3cr3t-") {
			t.Fatalf("the control does not find the secret in %s: %v: %s", dir, err, out)
		}
		for _, script := range leaks {
			if out, _, _ := Run(t, sb, "cd "+dir+" && "+script+"; cd; rm -rf /tmp/c /tmp/b /tmp/g", gitEnv()...); strings.Contains(out, "s3cr3t-") {
				t.Errorf("what git keeps in %s can be read by: %s: %s", dir, script, out)
			}
		}
	}
	for _, dir := range belowProject() {
		if out, err := outside(t, spec.WorkingDir, "cd "+dir+" && git fsck --full --strict && git log --oneline && git show HEAD:.env"); err != nil || !strings.Contains(out, "three") || !strings.Contains(out, "s3cr3t-") || strings.Contains(out, "missing") {
			t.Errorf("%s is not what it should be outside: %v: %s", dir, err, out)
		}
	}
	testBelowFollows(t, sb, found, spec, owner)
}

// testBelowFollows is testGitFollows for repositories below the project.
func testBelowFollows(t *testing.T, sb sandbox.Sandbox, found *confine.Examined, spec sandbox.Spec, owner int) {
	t.Helper()
	if said, err := found.Again(t.Context()); err != nil || len(said) > 0 {
		t.Errorf("looking again says %q, %v", said, err)
	}
	if out, err := outside(t, spec.WorkingDir, "for d in c/clone sub; do (cd $d && git reset -q --hard && echo s3cr3t-8 > .env && echo outside > a && git add -f . && git commit -qam outside) || exit; done; git commit -qam outside"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	give(t, spec.WorkingDir, owner, belowProject()...)
	for _, dir := range []string{"c/clone", "sub"} {
		if out, _, _ := Run(t, sb, "cd "+dir+"; git cat-file -p :.env; git log -p --all", gitEnv()...); strings.Contains(out, "outside") || strings.Contains(out, "s3cr3t-8") {
			t.Errorf("what came to %s outside can be read: %s", dir, out)
		}
	}
	if said, err := found.Again(t.Context()); err != nil || len(said) == 0 {
		t.Errorf("looking again says %q, %v", said, err)
	}
	for _, dir := range []string{"c/clone", "sub"} {
		out, errs, _ := Run(t, sb, "cd "+dir+"; git log --oneline; git show HEAD:a; git show HEAD:.env", gitEnv()...)
		if strings.Count(out, "outside") != 2 || strings.Contains(out, "s3cr3t-8") {
			t.Errorf("git does not work in %s, or shows too much: %s%s", dir, out, errs)
		}
	}
}
