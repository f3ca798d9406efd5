package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox/trials/sandboxtest/usertest"
)

// use is something that people do: what prepares it, outside, and what is compared.
type use struct{ name, setup, do string }

// everyday is work with git that people and agents do. Each is done twice, in a directory of
// its own: outside, and in a sandbox. Both have to print the same and leave the same.
var everyday = []use{
	{
		"the person's settings count", `
			printf 'private-notes.txt\n' > ~/.ignore; git config --global core.excludesFile '~/.ignore'
			git config --global filter.up.clean 'tr a-z A-Z'; git config --global filter.up.smudge cat; git config --global filter.up.required true
			git config --global alias.st 'status --short'
			git init -q .; echo '*.big filter=up' > .gitattributes; echo hello > a.big; git add -A; git commit -qm 1; echo x > private-notes.txt`,
		`echo new > b.big; git add -A; git commit -qm 2; git log -1 --format='%an <%ae> %s'; git show --stat --format= HEAD; git show HEAD:b.big; git st; git branch`,
	},
	{
		"an identity that is set inside", `git init -q .; echo 1 > f; git add f; git commit -qm 1`,
		`git config --global user.name Other; echo 2 > f; git commit -qam 2; git log --format='%an %s'`,
	},
	{
		"a required filter without its program fails", `
			git init -q .; echo '*.big filter=gone' > .gitattributes; git add -A; git commit -qm 1
			git config --global filter.gone.clean ~/bin/gone; git config --global filter.gone.required true`,
		`echo x > a.big; git add a.big 2>/dev/null; echo "add=$?"; git status --short`,
	},
	{
		"templates that are tracked", `git init -q up; cd up; echo K= > .env.example; mkdir s; echo a > s/.env.sample; git add -A; git commit -qm 1; cd ..; git clone -q up cl; rm -rf up; echo p/cl > ../cd`,
		`git status --short; echo n > n; git add -A; echo "add=$?"; git diff --stat; git stash -q; echo "stash=$?"; git stash pop -q; cat .env.example; echo x >> .env.example; git commit -qam 2; git show --stat --format=%s`,
	},
	{
		"a branch of the remote", `
			git init -q up; cd up; echo 1 > f; git add f; git commit -qm 1; git switch -qc feat; echo 2 > f; echo new > g; git add -A; git commit -qm 2; git switch -q main; cd ..; git clone -q up cl; rm -rf up; echo p/cl > ../cd`,
		`git switch -q feat; echo "switch=$?"; git status -sb; echo mine > h; git add -A; git commit -qm mine; git switch -q main; git checkout -q -b x origin/feat; echo "checkout=$?"; git status -sb; git branch -D feat; git branch -m x y; git config --get-regexp '^branch.y'`,
	},
	{
		"remotes and pushing", `git init -q --bare up.git; git clone -q up.git cl; cd cl; echo 1 > f; git add f; git commit -qm 1; echo p > ../../cd`,
		`cd cl; git push -q -u origin main; git status -sb; git remote add more https://git.example/x.git; git remote rename more less; git remote -v; git remote remove less; git clone -q --depth 1 file://$PWD/../up.git one; git -C one status -sb; rm -rf one; git push -q origin main:other; git branch -r`,
	},
	{
		"part of the files", `git init -q .; mkdir a b; echo 1 > a/f; echo 1 > b/f; git add .; git commit -qm 1`,
		`git sparse-checkout set a; echo "sparse=$?"; ls; git status -sb; git sparse-checkout disable; ls`,
	},
	{
		"new repositories below", `git init -q .; echo sub > .gitignore; echo sub2 >> .gitignore; git add .; git commit -qm 1`,
		`git init -q sub; cd sub; echo 1 > f; git add f; git commit -qm 1; cd ..; git clone -q sub sub2; git -C sub2 status -sb; mkdir -p sub2/.vscode; echo '{}' > sub2/.vscode/extensions.json; rm -rf sub2; ls; git status -sb`,
	},
	{
		"new repositories by other programs, as libgit2 and go-git make them", ``,
		`cat > make.py <<-'E'
			import os, sys
			how, at = sys.argv[1], sys.argv[2] + "/.git/"
			for d in "objects", "refs/heads", "hooks": os.makedirs(at + d)
			open(at + "hooks/commit-msg.sample", "x").write("#!/bin/sh\n")
			text = ["[core]\n", "\tbare = false\n", "\trepositoryformatversion = 0\n"]
			if how == "directly":
			    f = open(at + "config", "w", buffering=1)
			    for line in text: f.write(line); os.stat(at)
			else:
			    open(at + "config", "w").close()
			    for n in 2, 3:
			        with open(at + "config.lock", "x") as f: f.write("".join(text[:n]))
			        try: os.link(at + "config.lock", at + "config")
			        except FileExistsError: os.rename(at + "config.lock", at + "config")
			    os.chmod(at + "config", 0o744); os.chmod(at + "config", 0o644)
			open(at + "HEAD", "w").write("ref: refs/heads/main\n")
			E
			for how in by-lock directly; do /usr/bin/python3 make.py $how $how; echo "$how=$?"; cat $how/.git/config; cd $how; echo 1 > f; git add f; git commit -qm 1; git status -sb; cd ..; done`,
	},
	{
		"a repository that is made again", `git init -q .; git config core.fileMode true; echo 1 > f; git add .; git commit -qm 1`,
		`git init; echo $?; git init -q s; git init s; chmod +x f; git status -sb; git config core.fileMode`,
	},
	{
		"part of the files, by hand", `git init -q .; mkdir a b; echo 1 > a/f; echo 1 > b/f; git add .; git commit -qm 1; git worktree add -q w`,
		`git config extensions.worktreeConfig true; git config --worktree core.sparseCheckout true; git config core.sparseCheckoutCone false; echo /a/ > .git/info/sparse-checkout; git read-tree -mu HEAD; ls; git -C w sparse-checkout set b; ls w; git -C w sparse-checkout disable; git status -sb`,
	},
	{
		"work trees that are made", `git init -q .; echo w > .gitignore; echo 1 > f; git add .; git commit -qm 1; echo 2 > f; git commit -qam 2`,
		`git worktree add -q w/a -b a; cd w/a; echo 3 > f; git commit -qam 3; cd ../..; git worktree add -q --detach w/b HEAD~; git worktree list; git worktree lock w/b; git worktree remove w/a; git worktree unlock w/b; rm -rf w/b; git worktree prune; git worktree list; git worktree add -q w/c; git -C w/c status -sb; git merge -q a; git log --oneline`,
	},
	{
		"submodules that are made", `git config --global protocol.file.allow always; git init -q up; cd up; echo 1 > f; git add f; git commit -qm 1; cd ..; git init -q super; cd super; git submodule -q add ../up sub; git commit -qm 1; cd ..; git clone -q super cl`,
		`cd cl; git submodule update -q --init; git submodule status; cd ..; git clone -q --recurse-submodules super cl2; cd cl2; git submodule status; git submodule -q deinit -f sub; git submodule update -q --init; git submodule -q add ../up more; git commit -qm more; git submodule foreach -q 'git log --oneline'; git rm -q more; git commit -qm less; git status -sb`,
	},
	{
		"a linked work tree", `git init -q main; cd main; echo 1 > f; git add f; git commit -qm 1; git worktree add -q ../wt -b wt; git worktree add -q ../other; echo p/wt > ../../cd`,
		`git status -sb; echo 2 > g; git add g; git commit -qm 2; echo 3 > f; git stash -q; git stash pop -q; git log --oneline --all; git branch side; git switch -q side; git tag t; git fetch -q .; git repack -adq; echo $?`,
	},
	{
		"a submodule", `git config --global protocol.file.allow always; git init -q up; cd up; echo 1 > f; git add f; git commit -qm 1; cd ..; git init -q super; cd super; git submodule -q add ../up sub; git commit -qm 1; echo p/super/sub > ../../cd`,
		`git status -sb; echo 2 > g; git add g; git commit -qm 2; git log --oneline; git diff HEAD~ --stat`,
	},
	{
		"a package of a monorepo", `git init -q .; mkdir -p packages/a packages/b node_modules/dep; echo 1 > packages/a/f; echo 1 > packages/b/f; echo node_modules > .gitignore; echo hoisted > node_modules/dep/x; git add .; git commit -qm 1; echo p/packages/a > ../cd`,
		`git status -sb; echo 2 > g; git add g; git commit -qm 2; cat ../b/f ../../node_modules/dep/x; git log --oneline; echo 3 > f; git stash -q; git stash pop -q; git rev-parse --show-prefix`,
	},
	{
		"a package of a repository that may be written", `echo '{"policy": {"project": "repository"}}' > ~/../gander/config.json; git init -q .; mkdir -p packages/a packages/b; echo 1 > packages/a/f; echo 1 > packages/b/f; git add .; git commit -qm 1; git switch -qc x; git rm -qr packages/b; git commit -qm 2; git switch -q main; echo p/packages/a > ../cd`,
		`echo 2 > ../b/f; git commit -qam 3; git switch -q x; git status -sb; ls ..; git switch -q main; git worktree add -q ../../w; git -C ../../w status -sb`,
	},
	{
		"a git directory elsewhere", `git init -q --separate-git-dir=apart.git w; cd w; echo 1 > f; git add f; git commit -qm 1; echo p/w > ../../cd`,
		`git status -sb; echo 2 > g; git add g; git commit -qm 2; git log --oneline`,
	},
	{
		"a clone where closed names are hidden from git", `echo '{"policy": {"git": "hide"}}' > ~/../gander/config.json; git init -q .; echo k > .env; echo 1 > f; git add f; git commit -qm 1; printf 'cl\n.env\n' > .git/info/exclude`,
		`git clone -q . cl; git -C cl log --oneline --stat; cd cl; echo 2 > g; git add g; git commit -qm 2; git switch -qc x; git push -q -u origin x; cd ..; git merge -q x; git log --format=%s; rm -rf cl; git status -sb`,
	},
	{
		"objects elsewhere", `git init -q main; cd main; echo 1 > f; git add f; git commit -qm 1; cd ..; git clone -q --shared main w; echo p/w > ../cd`,
		`git log --oneline; echo 2 > f; git commit -qam 2; git fsck; git log --oneline`,
	},
}

// TestPointersInside writes a pointer of git's again by a descriptor that has stayed open, and by
// another name: what was judged stays.
func TestPointersInside(t *testing.T) {
	const do = `git worktree add -q w; cat > try.py <<-'E'
		import os
		os.mkdir("s")
		f = open("s/.git", "w"); f.write("gitdir: ../.git/modules/m\n"); f.flush(); open("try.py")
		print(open("s/.git").read(), end="")
		f.seek(0); f.truncate(); f.write("gitdir: ../evil\n"); f.flush(); open("try.py")
		for how in (lambda: open("s/.git", "r+"), lambda: open("s/.git", "w").write("gitdir: ../evil\n"), lambda: os.rename("try.py", "s/.git"), lambda: os.link("s/.git", "l"), lambda: os.rename("s/.git", "g")):
		    try: how()
		    except OSError as e: print(e.strerror)
		open("try.py")
		print(open("s/.git").read(), open(".git/worktrees/w/commondir").read(), end="")
	E
	python3 try.py; ls -A s`
	got := doEveryday(t, "git init -q .; echo 1 > f; git add f; git commit -qm 1", do, asGander(t), "--log-level", "error", "sandbox", "exec", "--")
	const pointer, no = "gitdir: ../.git/modules/m\n", "Permission denied\n"
	if want := pointer + no + no + no + no + pointer + " ../..\n.git\n"; !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant first:\n%s", got, want)
	}
}

// TestUnsignedInside commits and tags in a repository whose own configuration has git sign.
func TestUnsignedInside(t *testing.T) {
	got := doEveryday(t, "git init -q .; echo 1 > f; git add f; git commit -qm 1; git config commit.gpgSign true; git config tag.gpgSign true; git config gpg.program false",
		"git commit -qm 2 --allow-empty; git tag -m 1 v1; git log --format='%s %G? %D'", asGander(t), "--log-level", "warn", "sandbox", "exec", "--")
	if !strings.Contains(got, "2 N HEAD -> main, tag: v1\n") || strings.Count(got, "Git signs nothing inside") != 1 {
		t.Error(got)
	}
}

// prelude makes what git makes the same twice.
const prelude = "export GIT_AUTHOR_DATE=2024-01-01T00:00:00Z GIT_COMMITTER_DATE=2024-01-01T00:00:00Z LC_ALL=C.UTF-8\n"

// left is the state that is compared in the end, looked at from outside.
const left = `for d in . $(find . -mindepth 2 -name .git -not -path './.git/*' -printf '%h\n' | sort); do echo "== $d"; git -C $d status --short --branch; git -C $d for-each-ref; git -C $d log --all --oneline --graph --format='%h %an %s'; done
	find . -name .git -prune -o -type f -printf '%p ' -exec md5sum '{}' ';' | sed 's| [^ ]*$||' | sort`

// toolMakers are for setups: they make a script, or Python, below the home, and put directories
// there into PATH.
const toolMakers = `
tool() { mkdir -p "$(dirname ~/"$1")"; printf '#!/bin/sh\n%s\n' "$2" > ~/"$1"; chmod +x ~/"$1"; }
python() { tool "$1" 'exec /usr/bin/python3 "$@"'; }
path() { for d; do printf '%s:' ~/"$d" >> ~/../path; done; }
`

func TestEverydayGit(t *testing.T) {
	usertest.Run(t, usertest.Options{Tests: "^TestEverydayGitInside$|^TestGitStepsInside$|^TestRoadsInside$|^TestRefusalsInside$"})
}

func TestEverydayTools(t *testing.T) {
	usertest.Run(t, usertest.Options{Tests: "^TestEverydayToolsInside$|^TestToolchainsWithoutSecrets$"})
}

func TestEverydayToolsInside(t *testing.T) { compareEveryday(t, everydayTools) }

// TestToolchainsWithoutSecrets looks for what stands beside toolchains: outside it is all
// there, inside nothing of it.
func TestToolchainsWithoutSecrets(t *testing.T) {
	const setup = `tool tools/bin/mine 'echo token'; tool .cargo/bin/cargo-mine 'echo cargo'; for f in .cargo/credentials.toml .ssh/id .m2/settings.xml; do mkdir -p "$(dirname ~/$f)"; echo token > ~/$f; done
		mkdir -p ~/.nvm ~/.pyenv; ln -s ~/.ssh ~/.nvm/versions; ln -s ~/.cargo ~/.pyenv/versions; ln -s ~/.ssh/id ~/.cargo/bin/key
		printf 'save-exact=true\n//x/:_authToken=token\n' > ~/.npmrc; path tools/bin .cargo/bin`
	const do = `cargo-mine; h=$PWD/../home; cat $h/.cargo/credentials.toml; cat $h/.ssh/id; cat $h/.m2/settings.xml; cat $h/.nvm/versions/id; cat $h/.pyenv/versions/credentials.toml; cat $h/.cargo/bin/key; mine; cat ~/.npmrc; cat $h/.npmrc; echo x > $h/.cargo/bin/cargo-mine`
	gander := asGander(t)
	if out := doEveryday(t, setup, do); strings.Count(out, "token\n") != 9 {
		t.Fatalf("outside not all was read:\n%s", out)
	}
	if out := doEveryday(t, setup, do, gander, "--log-level", "error", "sandbox", "exec", "--"); strings.Contains(out, "token\n") || !strings.Contains(out, "save-exact") || !strings.Contains(out, "cargo\n") || !strings.Contains(out, "cargo-mine: Read-only file system") {
		t.Errorf("in a sandbox:\n%s", out)
	}
	const off = `echo '{"toolchains": false, "toolSettings": false}' > ~/../gander/config.json;`
	if out := doEveryday(t, off+setup, "cargo-mine; echo $?; cat ~/.npmrc", gander, "--log-level", "error", "sandbox", "exec", "--"); !strings.Contains(out, "127\n") || strings.Contains(out, "save-exact") {
		t.Errorf("switched off:\n%s", out)
	}
	if out := doEveryday(t, setup, gander+" policy show"); !strings.Contains(out, "BASE/home/tools/bin: no toolchain") {
		t.Errorf("policy show:\n%s", out)
	} else if !strings.Contains(out, "BASE/home/.npmrc (without //x/)") {
		t.Errorf("policy show says of settings of tools:\n%s", out)
	}
}

func TestEverydayGitInside(t *testing.T) { compareEveryday(t, everyday) }

//go:embed testdata/git-steps.txt
var gitSteps string

// TestGitStepsInside does a hundred things with git outside and in sandboxes, one after the other in the
// same repository. After each its exit code, what git status says and the tree have to be the same.
func TestGitStepsInside(t *testing.T) {
	const setup = `git config --global protocol.file.allow always
		git config --global filter.up.clean 'tr a-z A-Z'; git config --global filter.up.smudge 'tr A-Z a-z'; git config --global filter.up.required true
		git init -q --bare sub.git; git clone -q sub.git s 2>/dev/null; cd s; echo 1 > lib.c; git add .; git commit -qm lib; git push -q; cd ..; rm -rf s
		git init -q --bare up.git; git init -q .; printf '%s\n' up.git sub.git > .git/info/exclude
		git remote add origin $PWD/up.git; git submodule -q add ../sub.git lib; git commit -qm start`
	const do = `exec 2>&1
		said=$(mktemp); while IFS= read -r step; do case $step in "#"*) continue;; esac
			(eval "$step") > $said 2>&1 < /dev/null; echo "$?: $step"; sed 's/^/# /' $said; echo; git rev-parse HEAD; git status --short --branch
			find . -name '*.git' -prune -o -type f -printf '%p %m\n' -exec md5sum '{}' + | sort | md5sum
		done <<-'STEPS'
`
	steps := func(command ...string) (all []string, said string) {
		said = doEveryday(t, setup, do+gitSteps+"STEPS\n", command...)
		for line := range strings.Lines(said) {
			if line != "\n" && !strings.HasPrefix(line, "# ") { // what a step prints may differ, as temporary names do
				all = append(all, line)
			}
		}
		return all, said
	}
	gander := asGander(t)
	drivers := everydayDrivers(t, gander)
	want, outside := steps()
	if len(want) < 300 || strings.Contains(outside, "\n127: ") {
		t.Fatalf("outside not all was done:\n%s", outside)
	}
	for _, driver := range drivers {
		got, inside := steps(gander, "--log-level", "error", "sandbox", "exec", "--sandbox", driver, "--")
		if slices.Equal(got, want) {
			continue
		}
		step := ""
		for i, line := range want {
			if isStep := regexp.MustCompile(`^[0-9]+: `).MatchString(line); isStep {
				step = line
			}
			if i >= len(got) || got[i] != line {
				t.Fatalf("in a %s sandbox, at %q line %d: %.300q, and %q outside\n%s\noutside:\n%s", driver, step, i, got[min(i, len(got)-1)], line, inside, outside)
			}
		}
		t.Fatalf("in a %s sandbox more is said:\n%s", driver, inside)
	}
}

// roads lists projects whose git data is elsewhere, or seems to be, and attempts there, a command a line,
// that a sandbox blocks. $G is the git directory.
var roads = []use{
	{
		"a linked work tree", `git init -q m; cd m; echo 1 > f; git add f; git commit -qm 1; git remote add origin https://e.org/a; git worktree add -q ../wt; git worktree add -q ../other; echo p/wt > ../../cd`,
		`G=../m/.git
		git config alias.probe x
		git config remote.origin.url /x
		git config extensions.worktreeConfig true; git config --worktree core.fsmonitor x && git config core.fsmonitor
		mkdir -p $G/hooks && echo x > $G/hooks/pre-commit
		mkdir -p $G/objects/info && echo /x > $G/objects/info/alternates && rm $G/objects/info/alternates
		cat ../m/f
		cat ../other/f
		test -s ../m/f && echo x > ../m/f
		echo x >> $G/HEAD
		git symbolic-ref main-worktree/HEAD refs/heads/wt
		cp $G/index $G/i && mv -f $G/i $G/index
		git update-ref --no-deref worktrees/other/HEAD HEAD
		echo x > $G/worktrees/other/ORIG_HEAD
		rm $G/worktrees/other/index
		mv $G/worktrees/other $G/worktrees/o
		mkdir $G/worktrees/e
		mkdir -p $G/modules/e && echo x > $G/modules/e/config
		ln -s /x $G/refs/heads/l && rm $G/refs/heads/l
		echo ../x > $G/commondir && rm $G/commondir
		echo x > $G/config.lock && mv $G/config.lock $G/config
		cp $G/worktrees/wt/commondir c && mv c $G/worktrees/wt/commondir
		echo /x/.git > $G/worktrees/wt/gitdir && cat $G/worktrees/wt/gitdir | grep /x
		mv .git g && mv g .git
		echo "gitdir: /x" > .git && cat .git | grep /x`,
	},
	{
		"a submodule", `git config --global protocol.file.allow always; git init -q up; cd up; echo 1 > f; git add f; git commit -qm 1; cd ..; git init -q super; cd super; echo 1 > f; git submodule -q add ../up sub; git commit -qm 1; echo p/super/sub > ../../cd`,
		`G=../.git/modules/sub
		git config alias.probe x
		mkdir -p $G/hooks && echo x > $G/hooks/pre-commit
		mkdir -p $G/objects/info && echo /x > $G/objects/info/alternates && rm $G/objects/info/alternates
		cat ../.git/config
		cat ../f
		test -s ../f && echo x > ../f
		git config core.worktree /
		rm .git`,
	},
	{
		"a package of a monorepo", `git init -q .; mkdir -p packages/a packages/b; echo 1 > packages/a/f; echo 1 > packages/b/f; echo 1 > packages/b/key; echo packages/b/key > .gooseignore; git add .; git commit -qm 1; echo p/packages/a > ../cd`,
		`G=../../.git
		cat ../b/key
		echo x > ../b/f
		ln -s $PWD ../b/l
		mv ../b ../c && mv ../c ../b
		rm ../b/f
		mkdir ../new
		echo x > ../../.gooseignore
		git config alias.probe x
		mkdir -p $G/hooks && echo x > $G/hooks/pre-commit
		mkdir -p $G/objects/info && echo /x > $G/objects/info/alternates`,
	},
	{
		"a directory alone", `echo '{"policy": {"project": "directory"}}' > ~/../gander/config.json; git init -q .; mkdir -p a b; echo 1 > a/f; echo 1 > b/f; git add .; git commit -qm 1; echo p/a > ../cd`,
		`cat ../b/f
		git log
		ls ../.git`,
	},
	{
		"a git directory elsewhere", `git init -q --separate-git-dir=apart.git w; cd w; echo 1 > f; git add f; git commit -qm 1; echo p/w > ../../cd`,
		`G=../apart.git
		git config alias.probe x
		mkdir -p $G/hooks && echo x > $G/hooks/pre-commit
		mkdir -p $G/objects/info && echo /x > $G/objects/info/alternates
		echo x > .git`,
	},
	{
		"objects elsewhere", `git init -q main; cd main; echo 1 > f; git add f; git commit -qm 1; cd ..; git clone -q --shared main w; echo p/w > ../cd`,
		`G=../main/.git
		cat $G/config
		cat ../main/f
		echo x > $G/objects/x
		rm -rf $G/objects/??`,
	},
	{
		"objects that came later", `git init -q later; echo found > later/.git/objects/x; git init -q w; cd w; GANDER --log-level error sandbox exec -- true; echo $PWD/../later/.git/objects > .git/objects/info/alternates; echo p/w > ../../cd`,
		`cat ../later/.git/objects/x`,
	},
	{
		"a repository made without git", ``,
		`mkdir -p n/.git && printf '[core]\n\tfsmonitor = x\n' > n/.git/config && grep fsmonitor n/.git/config
		mkdir -p o/.git && printf '[core]\n\tbare = false\n' > o/.git/config && printf '[core]\n\tfsmonitor = x\n' > o/.git/config && grep fsmonitor o/.git/config
		mkdir -p q/.git && /usr/bin/python3 -c 'f = open("q/.git/config", "w", buffering=1); f.write("[core]\n"); open("q/.git/config").read(); f.write("\tfsmonitor = x\n")' && grep fsmonitor q/.git/config
		mkdir -p r/.git && : > r/.git/config && exec 3<>r/.git/config && printf '[core]\n\tfsmonitor = x\n' >&3 && grep fsmonitor r/.git/config
		mkdir -p s/.git && exec 3> s/.git/config && printf '[core]\n' >&3 && grep core s/.git/config && printf '\tfsmonitor = x\n' > /proc/self/fd/3 && grep fsmonitor s/.git/config
		mkdir -p u/.git && : > u/.git/config && echo x > u/.git/x && ln u/.git/config u/l && printf '[core]\n\tfsmonitor = x\n' > u/l`,
	},
	{
		"another's repository", `git init -q main; git -C main commit -q --allow-empty -m 1; mkdir w; echo "gitdir: $PWD/main/.git" > w/.git; echo p/w > ../cd`,
		`git log
		cat ../main/.git/config`,
	},
	{
		"another's work tree", `git init -q main; git -C main commit -q --allow-empty -m 1; git -C main worktree add -q ../wt; mkdir w; cp wt/.git w; echo p/w > ../cd`,
		`git log
		cat ../main/.git/config`,
	},
	{
		"a common directory of lies", `git init -q main; git -C main commit -q --allow-empty -m 1; mkdir -p x/w w; echo $PWD/w/.git > x/w/gitdir; echo $PWD/main/.git > x/w/commondir; cp main/.git/HEAD x/w; echo "gitdir: $PWD/x/w" > w/.git; echo p/w > ../cd`,
		`git log
		cat ../main/.git/config`,
	},
	{
		"over a link", `git init -q main; git -C main commit -q --allow-empty -m 1; git -C main worktree add -q ../w; ln -s main/.git l; echo "gitdir: $PWD/l/worktrees/w" > w/.git; echo p/w > ../cd`,
		`git log
		cat ../main/.git/config`,
	},
}

// TestRoadsInside tries roads: outside each attempt gets through, in sandboxes none does.
func TestRoadsInside(t *testing.T) {
	gander := asGander(t)
	drivers := everydayDrivers(t, gander)
	for _, tt := range roads {
		t.Run(tt.name, func(t *testing.T) {
			setup := strings.ReplaceAll(tt.setup, "GANDER", gander)
			attempts := strings.Split(tt.do, "\n")
			var do strings.Builder
			for i, attempt := range attempts {
				if attempt = strings.TrimSpace(attempt); strings.HasPrefix(attempt, "G=") {
					do.WriteString(attempt + "\n")
				} else {
					fmt.Fprintf(&do, "( %s ) >/dev/null 2>&1 && echo 'through %d:'\n", attempt, i)
				}
			}
			through := func(said string) (all []string) {
				for i, attempt := range attempts {
					if strings.Contains(said, fmt.Sprintf("through %d:\n", i)) {
						all = append(all, strings.TrimSpace(attempt))
					}
				}
				return all
			}
			want := len(attempts) - strings.Count(tt.do, "G=")
			if said := doEveryday(t, setup, do.String()); len(through(said)) != want {
				t.Errorf("outside %d of %d attempts get through: %q\n%s", len(through(said)), want, through(said), said)
			}
			for _, driver := range drivers {
				if said := doEveryday(t, setup, do.String()+"echo all", gander, "--log-level", "error", "sandbox", "exec", "--sandbox", driver, "--"); len(through(said)) > 0 || !strings.Contains(said, "all\n") {
					t.Errorf("in a %s sandbox these get through: %q\n%s", driver, through(said), said)
				}
			}
		})
	}
}

// asGander returns a name by which this program is gander.
func asGander(t *testing.T) string {
	t.Helper()
	gander := filepath.Join(t.TempDir(), "gander")
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, gander)
	}
	if err != nil {
		t.Fatal(err)
	}
	return gander
}

// notInImage are uses of programs that the docker sandbox's image does not have.
var notInImage = []string{"Node", "Go", "Rust", "Java", "settings of tools", "pip with an index"}

// everydayDrivers returns the drivers that uses are tried with.
func everydayDrivers(t *testing.T, gander string) []string {
	t.Helper()
	if os.Geteuid() == 0 && os.Getenv("GANDER_EVERYWHERE") == "" {
		t.Skip("another test runs it as an ordinary user; soak runs it as root, too")
	}
	drivers := []string{"local"}
	if os.Getenv("GANDER_EVERYWHERE") != "" {
		drivers = append(drivers, "docker")
	}
	return slices.DeleteFunc(drivers, func(driver string) bool {
		err := exec.CommandContext(t.Context(), gander, "sandbox", "exec", "--sandbox", driver, "--cwd", t.TempDir(), "--", "git", "--version").Run()
		if err != nil && driver == "docker" {
			t.Log("the image of the docker sandbox has no git:", err)
		}
		return err != nil && driver == "docker"
	})
}

// compareEveryday does each use outside and in sandboxes.
func compareEveryday(t *testing.T, all []use) {
	gander := asGander(t)
	drivers := everydayDrivers(t, gander)
	for _, tt := range all {
		t.Run(tt.name, func(t *testing.T) {
			want := doEveryday(t, tt.setup, tt.do)
			if steps, good := strings.Count(want, "\nexit "), strings.Count(want, "\nexit 0\n"); good < steps/2 {
				t.Fatalf("outside %d of %d steps succeed: is the language there?\n%s", good, steps, want)
			}
			if strings.Contains(want, ": command not found") {
				t.Fatalf("outside a program is missing:\n%s", want)
			}
			for _, driver := range drivers {
				if driver == "docker" && slices.Contains(notInImage, tt.name) {
					continue
				}
				if got := doEveryday(t, tt.setup, tt.do, gander, "--log-level", "error", "sandbox", "exec", "--sandbox", driver, "--"); got != want {
					t.Errorf("in a %s sandbox:\n%s\noutside:\n%s", driver, got, want)
				}
			}
		})
	}
}

// doEveryday prepares a directory, does something in it, behind a command, and returns what
// was printed, and is there in the end.
func doEveryday(t *testing.T, setup, do string, command ...string) string {
	t.Helper()
	base := t.TempDir()
	for _, dir := range []string{"home", "gander", "p"} {
		if err := os.Mkdir(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := func(dir string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		more, _ := os.ReadFile(filepath.Join(base, "path"))
		cmd.Env = []string{"PATH=" + string(more) + os.Getenv("PATH"), "HOME=" + filepath.Join(base, "home"), "GANDER_HOME=" + filepath.Join(base, "gander")}
		out, err := cmd.CombinedOutput()
		if err != nil {
			out = append(out, "\n"+err.Error()...)
		}
		return string(out), err
	}
	const person = toolMakers + "git config --global user.name T; git config --global user.email t@example.org; git config --global init.defaultBranch main\n"
	p := filepath.Join(base, "p")
	said, err := run(p, "bash", "-ec", prelude+person+setup)
	if err != nil {
		t.Fatalf("the setup fails:\n%s", said)
	}
	if dir, err := os.ReadFile(filepath.Join(base, "cd")); err == nil { // the project is another directory
		p = filepath.Join(base, strings.TrimSpace(string(dir)))
	}
	done, _ := run(p, append(command, "bash", "-c", prelude+do)...) // the output ends with the error
	there, _ := run(p, "bash", "-c", left)
	return strings.ReplaceAll(said+done+"\n"+there, base, "BASE")
}

// everydayTools are uses of toolchains below the home. Managers that package sources do not have are there by their layout, around the
// system's Python.
var everydayTools = []use{
	{
		"rustup and cargo", `
			tool .cargo/bin/rustup 'exec "${RUSTUP_HOME:-$HOME/.rustup}/toolchains/stable/bin/${0##*/}" "$@"'; ln ~/.cargo/bin/rustup ~/.cargo/bin/cargo
			tool .rustup/toolchains/stable/bin/cargo 'echo "cargo 1.80 $*"'; path .cargo/bin`,
		`cargo build; command -v cargo`,
	},
	{"nvm", `python .nvm/versions/node/v20.1.0/bin/node; path .nvm/versions/node/v20.1.0/bin`, `node -c 'print(6*7)'; command -v node`},
	{"fnm, by the link of the shell", `python .local/share/fnm/node-versions/v20/installation/bin/node; mkdir -p ~/.local/state/fnm_multishells; ln -s ~/.local/share/fnm/node-versions/v20/installation ~/.local/state/fnm_multishells/7_1; path .local/state/fnm_multishells/7_1/bin`, `node -c 'print(6*7)'`},
	{"volta", `tool .volta/bin/volta-shim 'exec "${0%/bin/*}/tools/image/node/20/bin/${0##*/}" "$@"'; ln -s volta-shim ~/.volta/bin/node; python .volta/tools/image/node/20/bin/node; path .volta/bin`, `node -c 'print(6*7)'`},
	{"pyenv", `tool .pyenv/shims/py 'exec "${0%/shims/*}/libexec/pyenv" exec "$@"'; tool .pyenv/libexec/pyenv 'shift; exec "${0%/libexec/*}/versions/$(cat "${0%/libexec/*}/version")/bin/python" "$@"'; echo 3.12 > ~/.pyenv/version; python .pyenv/versions/3.12/bin/python; path .pyenv/shims`, `py -c 'print(6*7)'`},
	{"a venv whose python is below the home", `python .local/share/uv/python/cpython-3.12/bin/python3; mkdir -p .venv/bin; ln -s ~/.local/share/uv/python/cpython-3.12/bin/python3 .venv/bin/python`, `.venv/bin/python -c 'print(6*7)'`},
	{"rbenv", `tool .rbenv/shims/ruby 'exec "${0%/shims/*}/versions/3.3/bin/ruby" "$@"'; python .rbenv/versions/3.3/bin/ruby; path .rbenv/shims`, `ruby -c 'print(6*7)'`},
	{"asdf", `tool .asdf/shims/erl 'exec "${0%/shims/*}/installs/erlang/26/bin/erl" "$@"'; python .asdf/installs/erlang/26/bin/erl; path .asdf/shims`, `erl -c 'print(6*7)'`},
	{"mise, whose shims lead to its program", `tool .local/bin/mise 'exec "${MISE_DATA_DIR:-$HOME/.local/share/mise}/installs/node/20/bin/${0##*/}" "$@"'; mkdir -p ~/.local/share/mise/shims; ln -s ~/.local/bin/mise ~/.local/share/mise/shims/node; python .local/share/mise/installs/node/20/bin/node; path .local/share/mise/shims`, `node -c 'print(6*7)'`},
	{"sdkman, by the link to the current one", `python .sdkman/candidates/java/21/bin/java; touch ~/.sdkman/candidates/java/21/release; ln -s 21 ~/.sdkman/candidates/java/current; path .sdkman/candidates/java/current/bin`, `java -c 'print(6*7)'; command -v java`},
	{"Go, bun and deno", `tool sdk/go1.26/bin/go 'echo go "$@"'; touch ~/sdk/go1.26/VERSION; tool go/bin/gopls 'echo gopls'; tool .bun/bin/bun 'echo bun'; tool .deno/bin/deno 'echo deno'; path sdk/go1.26/bin go/bin .bun/bin .deno/bin`, `go version; gopls; bun; deno`},
	{"pipx, by its link in ~/.local/bin", `python .local/share/pipx/venvs/black/bin/python; mkdir -p ~/.local/bin; printf '#!%s\nprint(6*7)\n' ~/.local/share/pipx/venvs/black/bin/python > ~/.local/share/pipx/venvs/black/bin/black; chmod +x ~/.local/share/pipx/venvs/black/bin/black; ln -s ~/.local/share/pipx/venvs/black/bin/black ~/.local/bin/black; path .local/bin`, `black; command -v black`},
	{
		"settings of tools", `
			printf 'registry=https://npm.example.org/\nsave-exact=true\n' > ~/.npmrc; mkdir -p ~/.config/pip ~/.config/go; printf '[global]\ntimeout = 7\n' > ~/.config/pip/pip.conf
			echo GOPRIVATE=git.example.org > ~/.config/go/env; echo root=true > ~/.editorconfig`,
		`unset PIP_DEFAULT_TIMEOUT; npm config get registry; npm config get save-exact; /usr/bin/python3 -m pip config get global.timeout; go env GOPRIVATE; cat ../home/.editorconfig`,
	},
	{
		"pip with an index", `
			mkdir -p ../idx/dep; cd ..; /usr/bin/python3 -c 'import zipfile; z = zipfile.ZipFile("idx/dep/dep-1.0-py3-none-any.whl", "w"); d = "dep-1.0.dist-info/"; [z.writestr(*f) for f in (("dep.py", "TWO = 2"), (d + "METADATA", "Metadata-Version: 2.1\nName: dep\nVersion: 1.0\n"), (d + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"), (d + "RECORD", ""))]; z.close()'
			echo '<a href="dep-1.0-py3-none-any.whl">dep-1.0-py3-none-any.whl</a>' > idx/dep/index.html; mv idx p/; mkdir -p ~/.config/pip; printf '[global]\ndisable-pip-version-check = true\n' > ~/.config/pip/pip.conf`,
		`/usr/bin/python3 -m pip install -q --target t --index-url file://$PWD/idx dep; echo "install=$?"; PYTHONPATH=t /usr/bin/python3 -c 'import dep; print(dep.TWO)'; /usr/bin/python3 -m pip install -q --target t --index-url file://$PWD/idx nosuch 2>&1 | tail -1; rm -rf idx t`,
	},
	{"packages in Python's directory of the person", `d=~/.local/lib/python$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')/site-packages; mkdir -p $d; echo 'print(6*7)' > $d/gandermod.py`, `/usr/bin/python3 -m gandermod; /usr/bin/python3 -c 'import site; print(site.ENABLE_USER_SITE)'`},
}

// TestCaches fills the caches of a project in one sandbox, and looks for what is in them in the next
// ones of this project, of another one and of another driver.
func TestCaches(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a project to somebody else")
	}
	const fill = `for d in .npm .cache/go-build go/pkg/mod .cargo/registry .cache/pip/http-v2 .cache/uv .m2/repository .gradle/caches "$(sed 's/store-dir=.*agent.//' ~/.config/pnpm/rc)"; do echo x > ~/$d/kept && echo $d; done; echo x > ~/.cargo/config.toml`
	const look = `find -L ~ -name kept | wc -l; ls ~/.cargo/config.toml 2>/dev/null; ls -A`
	gander, home := asGander(t), t.TempDir()
	newProject := func() string {
		dir := t.TempDir()
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	one, other := newProject(), newProject()
	run := func(driver, project, script string) string {
		args := []string{"--home", home, "--log-level", "error", "sandbox", "exec", "--sandbox", driver, "--cwd", project, "--", "bash", "-c", script}
		out, err := exec.CommandContext(t.Context(), gander, args...).CombinedOutput()
		if err != nil {
			t.Errorf("in a %s sandbox: %v\n%s", driver, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if got := run("local", one, fill); strings.Count(got, "\n") != 8 {
		t.Errorf("filled:\n%s\nwant 9 caches", got)
	}
	for _, tt := range []struct{ driver, project, want string }{{"local", one, "9"}, {"local", other, "0"}, {"docker", one, "0"}} {
		if got := run(tt.driver, tt.project, look); got != tt.want {
			t.Errorf("a %s sandbox finds %s, want %s", tt.driver, got, tt.want)
		}
	}
	if err := os.Chown(one, 23456, 23456); err != nil { // the same directory, given to somebody else
		t.Fatal(err)
	}
	if got := run("local", one, look); got != "0" {
		t.Errorf("another owner's sandbox of the same directory finds %s", got)
	}
	if err := os.Chown(one, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	run("docker", one, fill)
	if got := run("docker", one, look); got != "9" {
		t.Errorf("the next docker sandbox finds %s, want 9", got)
	}
	if err := os.WriteFile(filepath.Join(home, "config.json"), []byte(`{"sandbox": {"caches": "0"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run("local", one, look); got != "0" {
		t.Errorf("with sandbox.caches 0 a sandbox finds %s", got)
	}
}

// TestWhoAmI asks the password file and its kin inside, as programs do that find no variables.
// Outside, the user that it is asked for has no name at all.
func TestWhoAmI(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a project to somebody else")
	}
	const ask = `
		test "$(getent passwd "$(id -u)" | cut -d: -f6)" = "$HOME"; echo "home=$?"; test "$(id -un)" = "$USER"; echo "user=$?"; id -gn > /dev/null; echo "group=$?"
		getent hosts "$(hostname)" | grep -q 127.0.0.1; echo "host=$?"; cd "$(env -u HOME bash -c 'echo ~')"; test "$PWD" = "$HOME"; echo "tilde=$?"
		for f in passwd group hosts; do echo x 2>/dev/null >> /etc/$f; echo "write=$?"; rm -f /etc/$f 2>/dev/null; echo "rm=$?"; done`
	const want = "home=0\nuser=0\ngroup=0\nhost=0\ntilde=0\nwrite=1\nrm=1\nwrite=1\nrm=1\nwrite=1\nrm=1\n"
	gander := asGander(t)
	for _, driver := range []string{"local", "docker"} {
		project := t.TempDir()
		if err := os.Chown(project, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		args := []string{"--home", t.TempDir(), "--log-level", "error", "sandbox", "exec", "--sandbox", driver, "--cwd", project, "--", "bash", "-c", ask}
		out, err := exec.CommandContext(t.Context(), gander, args...).CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("in a %s sandbox: %v\n%s\nwant:\n%s", driver, err, out, want)
		}
	}
}

// TestDevices looks for a device that the person's configuration gives, that a project's asks
// for, and that is refused.
func TestDevices(t *testing.T) {
	gander := asGander(t)
	const device, disk = "/dev/net/tun", "/dev/loop0"
	if _, err := os.Stat(device); err != nil {
		t.Skip("there is no ", device)
	}
	for _, tt := range []struct{ name, person, project, want string }{
		{"by default", `{}`, "", "no device"},
		{"named", `{"sandbox": {"devices": ["` + device + `"]}}`, "", "device"},
		{"named by a directory", `{"sandbox": {"devices": ["/dev/net"]}}`, "", "device"},
		{"asked for by the project", `{}`, `{"sandbox": {"devices": ["` + device + `"]}}`, "not allowed in a project's file"},
		{"a disk", `{"sandbox": {"devices": ["` + disk + `"]}}`, "", "is a disk, and no sandbox gets one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := os.Stat(disk); err != nil && tt.name == "a disk" {
				t.Skip("there is no ", disk)
			}
			home, project := t.TempDir(), t.TempDir()
			err := os.WriteFile(filepath.Join(home, "config.json"), []byte(tt.person), 0o600)
			if err == nil && tt.project != "" {
				err = os.WriteFile(filepath.Join(project, ".gander.json"), []byte(tt.project), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			out, _ := exec.CommandContext(t.Context(), gander, "--home", home, "--log-level", "error", "--log-format", "pretty", "sandbox", "exec", "--cwd", project, "--",
				"sh", "-c", "test -c "+device+" && echo device || echo no device; find /dev -type b").CombinedOutput()
			if text := strings.TrimSpace(string(out)); text != tt.want && (len(tt.want) < 10 || !strings.Contains(text, tt.want)) {
				t.Errorf("it says %q, want %q", text, tt.want)
			}
		})
	}
}

// TestAuthorities reads inside, by a variable of the person's, the certificates of a file
// outside of the project, and not the key that is beside them.
func TestAuthorities(t *testing.T) {
	bundle, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		t.Skip("this machine has no certificates:", err)
	}
	const end = "-----END CERTIFICATE-----\n"
	cert, _, _ := strings.Cut(string(bundle), end)
	cert = cert[strings.Index(cert, "-----BEGIN"):] + end
	const key = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"
	file := filepath.Join(t.TempDir(), "corp.pem")
	if err := os.WriteFile(file, []byte("a comment\n"+cert+key+cert), 0o644); err != nil {
		t.Fatal(err)
	}
	gander := asGander(t)
	for _, name := range []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT"} {
		cmd := exec.CommandContext(t.Context(), gander, "--home", t.TempDir(), "--log-level", "error", "sandbox", "exec", "--cwd", t.TempDir(), "--", "sh", "-c", "cat $"+name)
		cmd.Env = append(os.Environ(), name+"="+file)
		var says strings.Builder
		cmd.Stderr = &says
		if out, err := cmd.Output(); err != nil || string(out) != cert+cert {
			t.Errorf("%s: %v, %q\n%s", name, err, says.String(), out)
		}
	}
}

// TestNpmGivesUp installs more packages than npm has connections at once, from a registry that
// is not allowed: npm ends by itself, and both it and gander name the host.
func TestNpmGivesUp(t *testing.T) {
	if _, err := exec.LookPath("npm"); err != nil {
		t.Fatal(err)
	}
	project := t.TempDir()
	var depends, packages []string
	for i := range 40 {
		name := fmt.Sprintf("gander-none-%d", i)
		depends = append(depends, fmt.Sprintf("%q: %q", name, "1.0.0"))
		packages = append(packages, fmt.Sprintf(`"node_modules/%[1]s": {"version": "1.0.0", "integrity": "sha512-%[2]s=="}`, name, strings.Repeat("A", 86)))
	}
	for file, text := range map[string]string{
		"package.json":      fmt.Sprintf(`{"name": "p", "version": "1.0.0", "dependencies": {%s}}`, strings.Join(depends, ", ")),
		"package-lock.json": fmt.Sprintf(`{"name": "p", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": {"name": "p", "version": "1.0.0", "dependencies": {%s}}, %s}}`, strings.Join(depends, ", "), strings.Join(packages, ", ")),
	} {
		if err := os.WriteFile(filepath.Join(project, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gander := asGander(t)
	for name, tt := range map[string]struct{ config, want string }{
		"nothing is allowed":      {`{}`, "ENOTFOUND"},
		"another host is allowed": {`{"policy": {"network": {"allow": ["example.org"]}}}`, "packages.example port 443"},
	} {
		home := t.TempDir()
		if err := os.WriteFile(filepath.Join(home, "config.json"), []byte(tt.config), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		began := time.Now()
		out, err := exec.CommandContext(ctx, gander, "--home", home, "--log-level", "error", "sandbox", "exec", "--cwd", project, "--", "npm", "ci", "--no-audit", "--registry", "https://packages.example/").CombinedOutput()
		t.Logf("%s: npm ends after %s: %v\n%s", name, time.Since(began), err, out)
		for _, want := range []string{"npm error", tt.want, "gander policy allow packages.example"} {
			if ctx.Err() != nil || !strings.Contains(string(out), want) {
				t.Errorf("%s: nothing says %q; %v", name, want, ctx.Err())
			}
		}
		stop()
	}
}

// TestExecSays compares what is said of programs that do not start.
func TestExecSays(t *testing.T) {
	gander, tools := asGander(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "mine"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"no-such-program"}, 127, "nor outside"},
		{[]string{"mine"}, 127, "is outside (" + tools + "/mine) and not in the sandbox, or what it is run by is not; name its directory in policy.readOnlyPaths"},
		{[]string{filepath.Join(tools, "mine")}, 127, "policy.readOnlyPaths"},
		{[]string{"bash", "-c", "mine 2>&1 >&2 | cat >&2; mine; exit 3"}, 3, "mine is outside (" + tools + "/mine) and not in the sandbox, or what it is run by is not; name its directory in policy.readOnlyPaths"},
		{[]string{"sh", "-c", "mine"}, 127, "mine is outside"},
		{[]string{"env", "mine"}, 127, "mine is outside"},
		{[]string{"bash", "-c", filepath.Join(tools, "mine")}, 127, "mine is outside"},
		{[]string{"bash", "-c", "/bin/echo $(head -c 3000000 /dev/zero | tr '\\0' x)"}, 126, "longer than the kernel takes"},
	} {
		cmd := exec.CommandContext(t.Context(), gander, append([]string{"--home", t.TempDir(), "--log-level", "error", "sandbox", "exec", "--cwd", t.TempDir(), "--"}, tt.args...)...)
		cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":"+tools)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(string(out), tt.want) || strings.Count(string(out), "gander:") != 1 {
			t.Errorf("%.60v: exit code %d, %.400q, want %d, one line with %q", tt.args, code, out, tt.code, tt.want)
		}
	}
}
