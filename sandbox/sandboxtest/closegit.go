package sandboxtest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"gander.dev/gander/sandbox"
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
		"mkdir r && cd r && GIT_DIR=/tmp/g git init -q && GIT_DIR=/tmp/g GIT_ALTERNATE_OBJECT_DIRECTORIES=$OLDPWD/.git/objects git cat-file --batch-all-objects --batch",
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
			if err := sb.(sandbox.RuleKeeper).CloseGit(ctx); err != nil {
				t.Fatal(err)
			}
			for _, script := range gitLeaks() {
				if try(script) {
					t.Errorf("what git keeps can be read by: %s", script)
				}
			}
		})
	}
}
