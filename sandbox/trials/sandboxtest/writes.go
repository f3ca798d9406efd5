package sandboxtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/policy"
)

// gitEnv lets git work in any directory, alike inside and outside.
func gitEnv() []string {
	return []string{
		"HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "GIT_CONFIG_KEY_1=init.defaultBranch", "GIT_CONFIG_VALUE_1=main",
	}
}

// writeAttack is a script that changes what is protected in a project.
type writeAttack struct {
	name, script string
	needs        string // a program, when not every image has it
}

// writeAttacks is the catalogue. Each must change something protected where nothing
// is enforced.
func writeAttacks() []writeAttack {
	python := func(name, code string) writeAttack {
		return writeAttack{name, "python3 -c '" + code + "'", "python3"}
	}
	return []writeAttack{
		{name: "a hook", script: "echo x > .git/hooks/pre-commit"},
		{name: "a hook from inside its directory", script: "cd .git/hooks && echo x > pre-commit"},
		{name: "a hook through /proc", script: "echo x > /proc/self/cwd/.git/hooks/pre-commit"},
		{name: "a hook through a link to the directory", script: "ln -s .git/hooks h && echo x > h/pre-commit"},
		{name: "a hook through a link to .git", script: "ln -s .git g && echo x > g/hooks/pre-commit"},
		{name: "a link as a hook", script: "ln -s ../../evil .git/hooks/pre-commit"},
		{name: "a hard link as a hook", script: "echo x > e; ln e .git/hooks/pre-commit"},
		{name: "a file moved to a hook", script: "echo x > e; mv e .git/hooks/pre-commit"},
		{name: "a hook switched on", script: "chmod +x .git/hooks/post-checkout"},
		{name: "a hook switched on through a link", script: "ln -s .git/hooks h && chmod +x h/post-checkout"},
		{name: "what an undo is about to put back", script: "mkdir -p .gander-undo-A7 && echo x >> .gander-undo-A7/new-0"},
		{name: "the hooks shut", script: "chmod 0 .git/hooks"},
		{name: "the directory of hooks shut, above it", script: "chmod 0 tools"},
		{name: "the configuration shut", script: "chmod 0 .git/config"},
		{name: "another directory of hooks", script: "mv .git/hooks old; mkdir .git/hooks; echo x > .git/hooks/pre-commit"},
		{name: "the hooks removed", script: "rm -rf .git/hooks"},
		{name: "the configuration, added to", script: "echo '[core]' >> .git/config"},
		{name: "the configuration, truncated", script: ": > .git/config"},
		{name: "the configuration, cut", script: "truncate -s 1 .git/config"},
		{name: "the configuration, in place", script: "printf x | dd of=.git/config conv=notrunc 2>/dev/null"},
		{name: "the configuration, replaced", script: "echo '[core]' > e; mv -f e .git/config"},
		{name: "the configuration, by sed", script: "sed -i s/core/kore/ .git/config"},
		{name: "the configuration, by its lock", script: "echo '[core]' > .git/config.lock; mv .git/config.lock .git/config"},
		{name: "the configuration, removed", script: "rm -f .git/config"},
		{name: "the configuration, by a hard link", script: "ln .git/config c && echo '[core]' >> c"},
		{name: "the configuration, by git", script: "git config core.hooksPath evil", needs: "git"},
		{name: "the configuration, by git with a path", script: "git config -f .git/config core.fsmonitor evil", needs: "git"},
		{name: "the configuration, in another case", script: "mkdir .GIT && echo x > .GIT/config"},
		{name: "the configuration, with an invisible character", script: "mkdir \".g\u200cit\" && echo x > \".g\u200cit/config\""},
		{name: "the configuration of a worktree", script: "echo '[core]' > .git/config.worktree"},
		{name: ".git renamed and back", script: "mv .git g; echo '[core]' >> g/config; mv g .git"},
		{name: ".git removed", script: "rm -rf .git"},
		{name: ".git as a file", script: "mkdir s; echo 'gitdir: ../evil' > s/.git; cat AGENTS.md"},
		{name: ".git as a link", script: "mkdir s; ln -s ../evil s/.git"},
		{name: ".git moved into place", script: "mkdir -p e/hooks; echo '[core]' > e/config; mkdir s; mv e s/.git"},
		{name: ".git of a repository inside, renamed", script: "mv nested n; echo '[core]' >> n/.git/config; mv n nested"},
		{name: "a hook of a repository inside, which its configuration names", script: "echo x > nested/scripts/pre-commit"},
		{name: "hooks of a repository inside, with all of it", script: "mv nested n; echo x > n/scripts/pre-commit; mv n nested"},
		{name: "a program that the configuration names", script: "echo x >> tools/diff.sh"},
		{name: "a program that the configuration names, made", script: "mkdir -p bin && echo x > bin/fsmonitor"},
		{name: "a program that the configuration names, replaced", script: "echo x > e; chmod +x e; mv e tools/diff.sh"},
		{name: "a program that a submodule's configuration names", script: "mkdir -p module/bin && echo x > module/bin/filter"},
		{name: "a repository made where a directory was", script: "git init -q src", needs: "git"},
		{name: "a remote that runs a program", script: "git remote add evil 'ext::sh -c evil'", needs: "git"},
		{name: "a remote that is a path", script: "git remote add evil ./evil", needs: "git"},
		{name: "another upstream", script: "git config branch.main.pushRemote evil", needs: "git"},
		{name: "other stores of objects", script: "echo /etc > .git/objects/info/alternates"},
		{name: "other stores of objects moved in", script: "mkdir e; echo /etc > e/alternates; rmdir .git/objects/info; mv e .git/objects/info"},
		{name: "a worktree's directory led elsewhere", script: "mkdir -p .git/worktrees/w; echo ../../../src > .git/worktrees/w/commondir; cat AGENTS.md"},
		{name: "a worktree's directory for what is outside", script: "mkdir -p .git/worktrees/w; echo /etc/.git > .git/worktrees/w/gitdir; cat AGENTS.md"},
		{name: "a worktree's directory for the top", script: "mkdir -p .git/worktrees/w; echo $PWD/.git > .git/worktrees/w/gitdir; cat AGENTS.md"},
		{name: "the .git of a worktree that does not lead back", script: "mkdir -p .git/worktrees/w src/w; echo gitdir: ../../.git/worktrees/w > src/w/.git; cat AGENTS.md"},
		{name: ".git by way of a link", script: "mkdir s; ln -s ../store s/l; echo gitdir: l/../.git/modules/m > s/.git; cat AGENTS.md"},
		{name: ".git with more lines", script: "mkdir s; printf 'gitdir: ../.git/modules/m\nx\n' > s/.git; cat AGENTS.md"},
		{name: "a submodule's .git, to another", script: "echo gitdir: ../.git/modules/a/remotes/b > module/.git; cat AGENTS.md"},
		{name: "git led elsewhere by commondir", script: "mkdir e; echo ../e > .git/commondir"},
		{name: "a remote in an older way", script: "mkdir -p .git/remotes; echo URL: ./up > .git/remotes/origin"},
		{name: "a remote in the oldest way", script: "mkdir -p .git/branches; echo ./up > .git/branches/origin"},
		{name: "a remote moved in", script: "mkdir e; echo URL: ./up > e/origin; mv e .git/remotes"},
		{name: "a submodule's remote", script: "mkdir -p .git/modules/m/remotes; echo URL: ./up > .git/modules/m/remotes/origin"},
		{name: "the remote of a submodule with such a name", script: "mkdir .git/modules/a/remotes/b/remotes; echo URL: ./up > .git/modules/a/remotes/b/remotes/origin"},
		{name: "a submodule with such a name, moved", script: "mv .git/modules/a/remotes/b .git/modules/a/remotes/c"},
		{name: "a submodule's configuration", script: "mkdir -p .git/modules/m; echo '[core]' > .git/modules/m/config"},
		{name: "a submodule of many parts", script: "mkdir -p .git/modules/a/b/hooks; echo x > .git/modules/a/b/hooks/update"},
		{name: "a submodule's directory moved in", script: "mkdir -p e .git/modules; echo '[core]' > e/config; mv e .git/modules/m"},
		{name: "all submodules moved in", script: "mkdir -p e/m; echo '[core]' > e/m/config; mv e .git/modules"},
		{name: "a submodule's directory as a link", script: "mkdir -p e .git/modules; ln -s ../../e .git/modules/refs"},
		{name: "all submodules as a link", script: "mkdir -p e/m; ln -s ../e .git/modules"},
		{name: "all submodules as a link that moves", script: "mkdir -p e/m; ln -s ../../e l; mv -T l nested/.git/modules"},
		{name: "all submodules as a hard link of a link", script: "mkdir -p e/m; ln -s ../../e l; ln -P l nested/.git/modules"},
		{name: "a submodule's directory as a link that moves", script: "mkdir -p e .git/modules; ln -s ../../e l; mv -T l .git/modules/n"},
		{name: "what git writes, through a link", script: "ln -sf ../evil .git/COMMIT_EDITMSG"},
		{name: "what git writes, through a link that moves", script: "ln -s ../evil l; mv -T l .git/COMMIT_EDITMSG"},
		{name: "what git writes, through a hard link of a link", script: "ln -s ../evil l; rm -f .git/FETCH_HEAD; ln -P l .git/FETCH_HEAD"},
		{name: "what git writes in a log, through a link", script: "ln -sf ../../evil .git/logs/HEAD"},
		{name: "what git writes, through a link in a directory that moves", script: "mkdir l; ln -s ../../evil l/HEAD; mv .git/logs old; mv l .git/logs"},
		{name: "what git writes, through a link in a repository inside", script: "ln -s ../../evil nested/.git/MERGE_MSG"},
		{name: "the directory of hooks, above it a link", script: "mkdir -p e/hooks; echo x > e/hooks/pre-commit; mv tools old; ln -s e tools"},
		{name: "the directory of a program that is not there, as a link", script: "mkdir e; echo x > e/fsmonitor; ln -s e bin"},
		{name: "the directory of a program, as a link that moves", script: "mkdir e; echo x > e/fsmonitor; ln -s e l; mv -T l bin"},
		{name: "the directory of a program, as a hard link of a link", script: "mkdir e; echo x > e/fsmonitor; ln -s e l; ln -P l bin"},
		{name: "the directory of a submodule's program, as a link", script: "mkdir e; echo x > e/filter; ln -s ../e module/bin"},
		{name: "a link to the directory of a program, removed", script: "rm lib; mkdir lib"},
		{name: "a link to the directory of a program, moved", script: "mv lib old"},
		{name: "a link to the directory of a program, replaced", script: "echo x > e; mv -T e lib"},
		{name: "a link to the directory of a program, to another", script: "mkdir e; echo x > e/lint.sh; ln -sfn e lib"},
		{name: "a directory of configuration as a link", script: "mkdir -p e/git; echo x > e/git/config; ln -s e .config"},
		{name: "an editor's directory", script: "mkdir .vscode && echo x > .vscode/tasks.json"},
		{name: "an editor's directory moved in", script: "mkdir v; echo x > v/tasks.json; mv v .vscode"},
		{name: "an editor's directory as a link", script: "mkdir v; ln -s v .zed"},
		{name: "an editor's directory in another case", script: "mkdir .VSCode; echo x > .VSCode/tasks.json"},
		{name: "an editor's file that is there", script: "echo x >> .idea/workspace.xml"},
		{name: "an editor's directory from among packages", script: "mkdir -p node_modules/p/.vscode; echo x > node_modules/p/.vscode/tasks.json; mv node_modules/p q"},
		{name: "an editor's directory by tar", script: "mkdir -p node_modules/.vscode; echo x > node_modules/.vscode/tasks.json; tar cf t.tar -C node_modules .vscode; tar xf t.tar"},
		{name: "a workspace by a hard link", script: "echo x > e; ln e x.code-workspace"},
		{name: "direnv's file", script: "echo x > .envrc"},
		{name: "direnv's file in a directory", script: "mkdir d; echo x > d/.envrc"},
		{name: "direnv's file by cp", script: "echo x > e; cp e .envrc"},
		{name: "direnv's file moved in with a directory's name", script: "mkdir e; mv e .envrc"},
		{name: "a shell's file", script: "echo x > .bashrc"},
		{name: "a shell's directory", script: "mkdir -p .config; mkdir c; echo x > c/f; mkdir e; mv c e/fish; mv e .config2; mv .config2/fish .config/fish"},
		{name: "a directory of shells moved in", script: "mkdir -p e/fish; mv e .config"},
		{name: "a linked editor's directory", script: "echo x > ide/tasks.json"},
		{name: "a linked editor's directory, by another name", script: "mkdir w; echo x > w/tasks.json; mv ide ide2; mv w ide"},
		{name: "what an editor's directory has as a link", script: "echo evil > ide/../conf/launch"},
		{name: "a linked shell's file", script: "echo evil > env/rc"},
		{name: "a linked shell's file, made", script: "mkdir -p env; echo x > env/none"},
		{name: "a link between, to another", script: "ln -sfn /etc/hostname between"},
		{name: "gander's own file", script: `echo '{"policy":{"network":{"ask":true}}}' > .gander.json`},
		{name: "an agent's configuration", script: "echo x > opencode.json"},
		{name: "what a hook leads to as a link", script: "echo x >> scripts/check"},
		{name: "what a hook leads to as a link, replaced", script: "echo x > e; mv e scripts/check"},
		{name: "the configuration of a git directory elsewhere", script: "echo '[core]' >> store/apart/config"},
		{name: "the configuration of a git directory elsewhere, by git", script: "git -C apart config core.fsmonitor evil", needs: "git"},
		{name: "a hook of a git directory elsewhere", script: "mkdir -p store/apart/hooks && echo x > store/apart/hooks/pre-commit"},
		{name: "a git directory elsewhere, with all that it is in", script: "mv store s; echo '[core]' >> s/apart/config; mv s store"},
		{name: "a directory of configuration that a link leads to", script: "mkdir -p settings/git && echo x > settings/git/config"},
		{name: "a directory of configuration that a link leads to, replaced", script: "mkdir -p e/git; echo x > e/git/config; mv settings old; mv e settings"},
		{name: "a file that a link leads to, made a directory", script: "rm AGENTS.md; mkdir -p AGENTS.md/hooks && echo x > AGENTS.md/hooks/a"},
		{name: "a file that a link leads to, replaced by a directory", script: "mkdir -p e/hooks; echo x > e/hooks/a; rm AGENTS.md; mv e AGENTS.md"},
		{name: "a repository at the top of the project", script: "mkdir -p objects refs; echo ref: refs/heads/x > HEAD"},
		{name: "a repository at the top of the project, with a file moved", script: "echo ref: refs/heads/x > e; mv e HEAD"},
		{name: "a repository at the top of a work tree", script: "ln -s refs/heads/x module/HEAD"},
		{name: "the rules", script: "echo '!.env' > .gooseignore"},
		{name: "a hook manager's", script: "mkdir .husky; echo x > .husky/pre-commit"},
		{name: "what the configuration names as hooks", script: "echo x > tools/hooks/pre-commit"},
		{name: "what the configuration includes", script: "echo x >> shared.gitconfig"},
		{name: "a commit that brings it", script: `b=$(echo x | git hash-object -w --stdin) && git update-index --add --cacheinfo 100644,$b,.vscode/tasks.json && git checkout -- .vscode`, needs: "git"},
		{name: "a patch that brings it", script: `printf -- '--- /dev/null\n+++ b/.envrc\n@@ -0,0 +1 @@\n+x\n' | git apply`, needs: "git"},
		{name: "git's own template", script: "mkdir -p t/hooks; echo x > t/hooks/post-commit; git init -q --template=t", needs: "git"},
		python("by writing through a descriptor of the directory", `import os; d=os.open(".git/hooks",os.O_PATH); f=os.open("x",os.O_CREAT|os.O_WRONLY,dir_fd=d)`),
		python("by a file without a name", `import os; f=os.open(".",os.O_TMPFILE|os.O_RDWR); os.link("/proc/self/fd/%d"%f,".envrc",dst_dir_fd=os.open(".",0))`),
		python("by exchanging names", `import ctypes; open("e","w").write("x"); c=ctypes.CDLL(None,use_errno=True); c.syscall(316 if __import__("platform").machine()=="x86_64" else 276,-100,b"e",-100,b".git/config",2)`),
		python("a hook switched on by its descriptor", `import os; os.fchmod(os.open(".git/hooks/post-checkout",0),0o755)`),
		python("a hook switched on by another descriptor", `import os; os.chmod("/proc/self/fd/%d"%os.open(".git/hooks/post-checkout",os.O_PATH),0o755)`),
		python("a hook switched on from its directory", `import os; os.chmod("post-checkout",0o755,dir_fd=os.open(".git/hooks",os.O_PATH))`),
		python("a hook switched on by the latest call", `import ctypes,os
if ctypes.CDLL(None).syscall(452,-100,b".git/hooks/post-checkout",0o755,0x100): os.chmod(".git/hooks/post-checkout",0o755)`),
		python("a hook switched on by a list", `import os,struct
os.setxattr(".git/hooks/post-checkout","system.posix_acl_access",struct.pack("<I",2)+b"".join(struct.pack("<HHI",t,p,2**32-1) for t,p in ((1,7),(4,4),(32,4))))`),
		python("the directory of hooks shut by a list, above it", `import os,struct
os.setxattr("tools","system.posix_acl_access",struct.pack("<I",2)+b"".join(struct.pack("<HHI",t,p,2**32-1) for t,p in ((1,0),(4,4),(32,4))))`),
		python("by exchanging a directory for a link", `import ctypes,os; os.mkdir("bin"); os.symlink("src","l"); c=ctypes.CDLL(None,use_errno=True); c.syscall(316 if __import__("platform").machine()=="x86_64" else 276,-100,b"l",-100,b"bin",2)`),
		python("by opening for reading and truncating", `import os; os.open(".git/config",os.O_RDONLY|os.O_TRUNC)`),
		python("by truncate", `import os; os.truncate(".git/config",0)`),
		python("by a name that is replaced meanwhile", `
import os,threading
os.makedirs("m",exist_ok=True)
def swap():
  for i in range(200):
    try: os.symlink(".git/hooks","l")
    except OSError: pass
    try: os.unlink("l")
    except OSError: pass
    try: os.symlink("m","l")
    except OSError: pass
    try: os.unlink("l")
    except OSError: pass
t=threading.Thread(target=swap); t.start()
while t.is_alive():
  try: open("l/x","w").close()
  except OSError: pass
for i in range(20):
  try: os.symlink(".git/hooks","k"); open("k/x","w").close()
  except OSError: pass
`),
		python("by a directory that changes while it moves", `
import os,threading
os.makedirs(".git/modules",exist_ok=True)
stop=False
def fill():
  while not stop:
    try: open("e/config","w").close()
    except OSError: pass
t=threading.Thread(target=fill); t.start()
for i in range(100):
  try: os.makedirs("e"); os.rename("e",".git/modules/m%d"%i)
  except OSError: pass
stop=True; t.join()
`),
	}
}

// repository makes a project with a git repository, as a person has it.
func repository(t *testing.T, dir string) {
	t.Helper()
	script := `git init -q --template= . && mkdir -p src tools/hooks .idea nested node_modules/old && echo one > src/a && : > tools/hooks/keep && echo x > .idea/workspace.xml && echo y > shared.gitconfig &&
		mkdir -p .git/hooks && echo exit 0 > .git/hooks/post-checkout && git config core.hooksPath tools/hooks && git config include.path ../shared.gitconfig && : > shared.gitconfig &&
		echo : > tools/diff.sh && git config diff.external "sh tools/diff.sh" && git config alias.watch '!bin/fsmonitor' &&
		mkdir libexec && echo : > libexec/lint.sh && ln -s libexec lib && git config alias.lint '!lib/lint.sh' && git -C nested init -q --template= && mkdir nested/scripts && git -C nested config core.hooksPath scripts &&
		git init -q --template= module && mkdir .git/modules && mv module/.git .git/modules/m && echo "gitdir: ../.git/modules/m" > module/.git && git -C module config core.worktree ../../../module && git -C module config alias.filter '!bin/filter' &&
		git init -q --template= deep && mkdir -p .git/modules/a/remotes && mv deep/.git .git/modules/a/remotes/b && echo "gitdir: ../.git/modules/a/remotes/b" > deep/.git && git -C deep config core.worktree ../../../../../deep &&
		mkdir store && git init -q --template= --separate-git-dir store/apart apart && echo "gitdir: ../store/apart" > apart/.git && mkdir scripts && echo exit 0 > scripts/check && ln -s ../../scripts/check .git/hooks/update &&
		mkdir area settings && ln -s ../settings area/.config && echo x > AGENTS.md && ln -s AGENTS.md .clinerules &&
		mkdir ide conf env && echo x > conf/launch && ln -s ../conf/launch ide/launch.json && ln -s ide .fleet && echo x > env/rc && ln -s env/rc between && ln -s between .zlogin && ln -s env/none .zlogout &&
		printf "node_modules\\nnested\\nmodule\\ndeep\\napart\\nstore\\n" > .gitignore && git add . && git commit -qm first && git branch other`
	if out, err := outside(t, dir, script); err != nil {
		t.Fatalf("making a repository: %v: %s", err, out)
	}
}

// outside runs a script without any enforcement.
func outside(t *testing.T, dir, script string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script)
	cmd.Dir, cmd.Env = dir, append(Env(), gitEnv()...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// protectedFiles is everything in a project that the protection is about, with its content.
func protectedFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	p, err := policy.NewProtection(policy.Writes{Protect: []string{"/tools/hooks", "/shared.gitconfig", "/tools/diff.sh", "/bin/fsmonitor", "/lib/lint.sh", "/libexec/lint.sh", "/nested/scripts", "/module/bin/filter", "/ide", "/conf/launch", "/env/rc", "/env/none", "/between", "/scripts/check", "/settings/git", "/AGENTS.md/hooks"}}, policy.GitPlaces{Dirs: []string{"store/apart"}, Works: []string{"module"}})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		if errors.Is(err, fs.ErrPermission) { // a directory that was shut, and is in found
			return nil
		}
		if err != nil || rel == "." {
			return err
		}
		_, protected := p.Protects(rel)
		info, err := d.Info()
		if err != nil {
			return err
		}
		if entries, _ := os.ReadDir(path); d.IsDir() && len(entries) == 0 && p.MayBegin(rel, true, true) {
			protected = false // what comes there is protected
		}
		shut := d.IsDir() && info.Mode()&0o500 != 0o500
		if protected || !p.MayLink(rel) && (d.Type() == fs.ModeSymlink || shut) {
			raw, _ := os.ReadFile(path)
			link, _ := os.Readlink(path)
			found[rel] = fmt.Sprintf("%v %s %d bytes %x", info.Mode(), link, len(raw), sha256.Sum256(raw))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// renew makes dir a copy of template again.
func renew(t *testing.T, template, dir string) {
	t.Helper()
	script := `chmod -R u+rwX "$2" && find "$2" -mindepth 1 -delete && cp -a "$1/." "$2/"`
	if out, err := exec.Command("/bin/sh", "-c", script, "sh", template, dir).CombinedOutput(); err != nil {
		t.Fatalf("renewing the project: %v: %s", err, out)
	}
}

// controlTries is how often a control may be tried: some attacks are races, which
// are not won every time.
const controlTries = 30

// TestWriteControls shows that every attack of the catalogue works where nothing is
// enforced: one that does not proves nothing.
func TestWriteControls(t *testing.T) {
	template, control := t.TempDir(), t.TempDir()
	repository(t, template)
	t.Cleanup(func() { renew(t, template, control) }) // what was shut can be removed then
	for _, a := range writeAttacks() {
		if _, err := exec.LookPath(a.needs); a.needs != "" && err != nil {
			t.Logf("%s: not tried, there is no %s", a.name, a.needs)
			continue
		}
		works, out := false, ""
		for try := 0; try < controlTries && !works; try++ {
			renew(t, template, control)
			before := protectedFiles(t, control)
			out, _ = outside(t, control, a.script)
			works = !cmp.Equal(before, protectedFiles(t, control))
		}
		if !works {
			t.Errorf("%s: the attack changes nothing that is protected: %s", a.name, out)
		}
	}
}

// TestWrites tests that files which would make the host do something cannot be
// written, by no attack of the catalogue, and that ordinary work with git goes on.
// owner is as for TestDriver. See TestWriteControls.
func TestWrites(t *testing.T, newDriver NewDriver, owner int) {
	template := t.TempDir()
	repository(t, template)
	spec := Spec(t, owner)
	if owner >= 0 && os.Geteuid() == 0 {
		if out, err := exec.Command("chown", "-R", "--from=0", "12345", template).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	renew(t, template, spec.WorkingDir)
	denials := make(chan sandbox.Denial, 1000)
	spec.Rules = &sandbox.Rules{Denied: func(d sandbox.Denial) { denials <- d }}
	sb := Create(t, newDriver(t), spec)
	keeper := sb.(sandbox.RuleKeeper)
	if _, err := keeper.Repositories(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := keeper.ProtectNamed(t.Context()); err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{"": true}
	for _, program := range []string{"git", "python3"} {
		_, _, st := Run(t, sb, "command -v "+program)
		if has[program] = st.Code == 0; !has[program] && os.Getenv("GANDER_CHECK") == "1" {
			t.Fatalf("%s is missing in the sandbox, so that attacks cannot be tried", program)
		}
	}
	t.Run("ordinary git", func(t *testing.T) {
		if !has["git"] {
			t.Skip("no git inside")
		}
		testGitWorks(t, sb)
		Eventually(t, "being told of the rule that refused git config", patience, func() bool {
			select {
			case d := <-denials:
				return d.Rule == ".git/config of @git" && d.Why != "" && d.Allow == "@git"
			default:
				return false
			}
		})
	})
	t.Run("a lock that stays open", func(t *testing.T) {
		if !has["git"] {
			t.Skip("no git inside")
		}
		testOpenLock(t, sb, spec.WorkingDir)
	})
	t.Run("repositories in the place of directories", func(t *testing.T) { testAgain(t, sb, spec.WorkingDir) })
	t.Run("a later repository", func(t *testing.T) { testLaterRepository(t, sb, spec.WorkingDir) })
	for _, a := range writeAttacks() {
		if !has[a.needs] {
			t.Logf("%s: not tried, there is no %s inside", a.name, a.needs)
			continue
		}
		renew(t, template, spec.WorkingDir)
		before := protectedFiles(t, spec.WorkingDir)
		Run(t, sb, a.script, gitEnv()...)
		if diff := cmp.Diff(before, protectedFiles(t, spec.WorkingDir)); diff != "" {
			t.Errorf("%s: something protected was changed:\n%s", a.name, diff)
		}
	}
}

// testOpenLock tests that git's configuration gets what the lock had when it took its place, and
// nothing that is written to the lock's descriptor, or its other names, later.
func testOpenLock(t *testing.T, sb sandbox.Sandbox, project string) {
	t.Helper()
	const script = `set -C; exec 9> .git/config.lock; ln .git/config.lock other; cat .git/config >&9; printf '[branch "main"]\n\tdescription = kept\n' >&9
		mv .git/config.lock .git/config; printf '[core]\n\tsshCommand = evil\n' >&9; printf '[core]\n\tsshCommand = evil\n' >> other; printf '[core]\n\tsshCommand = evil\n' >> .git/config; rm -f other`
	Run(t, sb, script, gitEnv()...)
	text, err := os.ReadFile(filepath.Join(project, ".git", "config"))
	if err != nil || !strings.Contains(string(text), "description = kept") || strings.Contains(string(text), "evil") {
		t.Errorf("the configuration is %v:\n%s", err, text)
	}
	if left, _ := filepath.Glob(filepath.Join(project, ".git", ".gander-new-*")); len(left) > 0 {
		t.Errorf("%v is left over", left)
	}
}

// testAgain tests that repositories which are made outside are protected although their directories
// may get the numbers of such that were made inside, and removed outside.
func testAgain(t *testing.T, sb sandbox.Sandbox, project string) {
	t.Helper()
	Run(t, sb, "for i in $(seq 400); do mkdir -p again/$i; done")
	if out, err := outside(t, project, "rm -rf again; mkdir again; for i in $(seq 40); do git init -q --template= again/$i; done; chmod -R a+rwX again"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	Run(t, sb, "rm -f again/*/.git/config")
	if left, _ := filepath.Glob(filepath.Join(project, "again", "*", ".git", "config")); len(left) != 40 {
		t.Errorf("%d of 40 configurations are left", len(left))
	}
}

// testLaterRepository tests that what a repository names that comes to the project later
// is protected from the next look on, and that it cannot be hidden from that.
func testLaterRepository(t *testing.T, sb sandbox.Sandbox, project string) {
	t.Helper()
	keeper := sb.(sandbox.RuleKeeper)
	Run(t, sb, "for i in $(seq 100 170); do mkdir -p 00/$i/objects 00/$i/refs; : > 00/$i/HEAD; done")
	if out, err := outside(t, project, "git init -q --template= lib/late && git -C lib/late config core.hooksPath hk && chmod -R a+rwX lib"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found, err := keeper.ProtectNamed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(found.Found, sandbox.Repository{Dir: "libexec/late/.git", Tree: "libexec/late"}) { // lib leads there
		t.Errorf("the later repository is not among %+v", found)
	}
	for _, script := range []string{"mkdir -p lib/late/hk && echo x > lib/late/hk/pre-commit", "mv lib l"} {
		if _, _, st := Run(t, sb, script); st.Code == 0 {
			t.Errorf("%s: it was done", script)
		}
	}
}

// testGitWorks does what agents do with git.
func testGitWorks(t *testing.T, sb sandbox.Sandbox) {
	t.Helper()
	for _, script := range []string{
		"git status --short", "echo two > src/b && git add . && git commit -qm second", "git log --oneline | wc -l", "git checkout -q other",
		"echo three > src/c && git add src && git commit -qm third && git merge -q -m merged main", "git checkout -q -b topic main",
		"echo x >> src/a && git stash -q && git stash pop -q && git commit -qam fourth", "git rebase -q other", "git tag v1", "git diff HEAD~1",
		"git reset -q --hard HEAD~1", "git gc -q", "git fsck", "git config --get core.hooksPath", "git branch renamed topic", "git clean -fdxq src",
		"mkdir -p node_modules/.new/.vscode && mv node_modules/.new node_modules/new", "mkdir -p dir/sub && echo x > dir/sub/f && mv dir dir2 && rm -r dir2",
		`d=$(mktemp -d) && git init -q "$d" && rm -rf "$d"`, "mkdir .github && echo x > .github/CODEOWNERS", "ln -s src link && rm link",
		"chmod +x src/a && test -x src/a && chmod -x src/a", "chmod -R u+r .", "cp -a src src2 && rm -r src2", "chmod 0 src && chmod 755 src",
		"echo x > deep/f && git -C deep add f && git -C deep commit -qm one && git -C deep branch topic",
		"echo y >> AGENTS.md && echo z > new && mv new AGENTS.md && echo x > settings/app.toml && rm settings/app.toml",
		"git checkout -q --track -b tracked main && git config branch.tracked.merge && git checkout -q main && git branch -D tracked",
		"git remote add up https://git.example/x.git && git remote remove up", "mkdir -p .idea/codeStyles && echo x > .idea/codeStyles/Project.xml && rm .idea/codeStyles/Project.xml",
		"git init -q sub && git -C sub commit -q --allow-empty -m one && git clone -q sub sub2 && ! git -C sub config core.fsmonitor evil && ! touch sub/.git/hooks/pre-commit && rm -rf sub sub2",
		"echo x > apart/f && git -C apart add f && git -C apart commit -qm one && git -C apart gc -q && git -C apart branch topic",
	} {
		if out, errs, st := Run(t, sb, script, gitEnv()...); st.Code != 0 {
			t.Errorf("%s: %+v\n%s%s", script, st, out, errs)
		}
	}
	_, errs, st := Run(t, sb, "git config user.name agent", gitEnv()...)
	if st.Code == 0 || !strings.Contains(errs, "config file .git/config: Permission denied") {
		t.Errorf("git config: %+v, %q", st, errs)
	}
}
