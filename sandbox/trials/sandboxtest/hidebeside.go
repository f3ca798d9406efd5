package sandboxtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/rules/policy"
)

// hiddenBeside is a project with a directory beside it, whose repository, and a clone
// below it, keep closed files. The project's own keeps the same content under an open name,
// and the directory copy has the objects without a repository.
func hiddenBeside(t *testing.T, owner int) (spec sandbox.Spec, beside, copied string) {
	t.Helper()
	spec = Spec(t, owner)
	top := filepath.Dir(Spec(t, owner).WorkingDir)
	beside, copied = filepath.Join(top, "beside"), filepath.Join(top, "copy")
	if err := os.Mkdir(beside, 0o755); err != nil {
		t.Fatal(err)
	}
	const made = `git init -q --template= . && mkdir -p .git/objects/info && echo s3cr3t-1 > .env && echo one > a && git add -f . && git commit -qm one &&
		echo s3cr3t-2 > .env && echo two > a && git commit -qam two`
	if out, err := outside(t, beside, made+` && mkdir c && cd c && `+strings.ReplaceAll(made, "s3cr3t-", "s3cr3t-c")); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := outside(t, spec.WorkingDir, `git init -q --template= . && mkdir -p .git/objects/info && echo s3cr3t-1 > copied && git add . && git commit -qm copied`); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	give(t, spec.WorkingDir, owner)
	give(t, beside, owner, "c")
	if out, err := outside(t, beside, "cp -a .git/objects ../copy"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Path: beside, Writable: true, Ruled: true}, sandbox.Mount{Path: copied, Ruled: true})
	return spec, beside, copied
}

// testHideBeside tests what a policy's git says about the repositories of a directory
// that is added to the project.
func testHideBeside(t *testing.T, d sandbox.Driver, owner int) {
	spec, beside, copied := hiddenBeside(t, owner)
	open := Create(t, d, spec)
	readCopy := "GIT_DIR=/tmp/g git init -q; GIT_OBJECT_DIRECTORY=" + copied + " GIT_DIR=/tmp/g git cat-file --batch-all-objects --batch"
	if out, errs, _ := Run(t, open, readCopy, gitEnv()...); !strings.Contains(out, "s3cr3t-") {
		t.Fatalf("the control does not find the secret in the copy: %s%s", out, errs)
	}
	found, err := confine.Examination{Driver: d, Spec: spec, Git: policy.GitWarn}.Examine(t.Context(), open)
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Join(found.Notices(), " ")
	if !strings.Contains(said, "default rules close 2 files") || !strings.Contains(said, "keeps content") || strings.Count(said, beside+"/.env") != 2 || strings.Count(said, beside+"/c/.env") != 2 {
		t.Errorf("the person reads %q", said)
	}
	if _, err := (confine.Examination{Driver: d, Spec: spec, Git: policy.GitRefuse}).Examine(t.Context(), open); err == nil || !strings.Contains(err.Error(), beside+"/.env") {
		t.Errorf("it is not refused: %v", err)
	}
	spec.ID += "-hides"
	sb, found := hide(t, d, spec)
	if said := strings.Join(found.Notices(), " "); !strings.Contains(said, "git works without it") || !strings.Contains(said, beside+"/.env") {
		t.Errorf("the person reads %q", said)
	}
	dirs := []string{beside, beside + "/c"}
	for _, dir := range dirs {
		useGit(t, sb, dir)
	}
	leaks := append(gitLeaks(), "git show HEAD:.env HEAD~1:.env HEAD~2:.env HEAD:copied",
		"for d in $(cat $(git rev-parse --git-path objects/info/alternates)); do cd $d && find . -type f | xargs cat; cd $OLDPWD; done | grep -a s3cr3t")
	for _, dir := range append(dirs, spec.WorkingDir) {
		if out, err := outside(t, dir, "git log -p --all"); err != nil || !strings.Contains(out, "s3cr3t-") {
			t.Fatalf("the control does not find the secret in %s: %v: %s", dir, err, out)
		}
		for _, script := range leaks {
			script = "cd " + dir + " && rm -f copied; " + script + "; cd; rm -rf /tmp/c /tmp/b /tmp/g"
			if out, _, _ := Run(t, sb, script, gitEnv()...); strings.Contains(out, "s3cr3t-") {
				t.Errorf("what git keeps in %s can be read by: %s: %s", dir, script, out)
			}
		}
	}
	if out, _, _ := Run(t, sb, readCopy, gitEnv()...); strings.Contains(out, "s3cr3t-") {
		t.Errorf("the copy can be read: %s", out)
	}
	for _, dir := range dirs {
		if out, err := outside(t, dir, "git fsck --full --strict && git log --oneline && git show HEAD:.env"); err != nil || !strings.Contains(out, "three") || !strings.Contains(out, "s3cr3t-") || strings.Contains(out, "missing") {
			t.Errorf("%s is not what it should be outside: %v: %s", dir, err, out)
		}
	}
	if out, err := outside(t, beside, "git reset -q --hard && echo s3cr3t-3 > .env && echo four > a && git commit -qam four"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	give(t, beside, owner, "c")
	const look = "git log --oneline; git show HEAD:a; git show HEAD:.env; git log -p --all"
	if out, _, _ := Run(t, sb, "cd "+beside+"; "+look, gitEnv()...); strings.Contains(out, "four") || strings.Contains(out, "s3cr3t-") {
		t.Errorf("what came to it outside can be read: %s", out)
	}
	if said, err := found.Again(t.Context()); err != nil || len(said) == 0 {
		t.Errorf("looking again says %q, %v", said, err)
	}
	if out, errs, _ := Run(t, sb, "cd "+beside+"; "+look, gitEnv()...); strings.Count(out, "four") < 2 || strings.Contains(out, "s3cr3t-") {
		t.Errorf("git does not work, or shows too much: %s%s", out, errs)
	}
}
