package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
		"a git directory elsewhere", `git init -q --separate-git-dir=apart.git w; cd w; echo 1 > f; git add f; git commit -qm 1; echo p/w > ../../cd`,
		`git status -sb; echo 2 > g; git add g; git commit -qm 2; git log --oneline`,
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
	usertest.Run(t, usertest.Options{Tests: "^TestEverydayGitInside$"})
}

func TestEverydayTools(t *testing.T) {
	usertest.Run(t, usertest.Options{Tests: "^TestEverydayToolsInside$|^TestToolchainsWithoutSecrets$"})
}

func TestEverydayToolsInside(t *testing.T) { compareEveryday(t, everydayTools) }

// TestToolchainsWithoutSecrets looks for what stands beside toolchains: outside it is all
// there, inside nothing of it.
func TestToolchainsWithoutSecrets(t *testing.T) {
	const setup = `tool tools/bin/mine 'echo token'; tool .cargo/bin/cargo 'echo cargo'; for f in .cargo/credentials.toml .ssh/id .m2/settings.xml; do mkdir -p "$(dirname ~/$f)"; echo token > ~/$f; done
		mkdir -p ~/.nvm ~/.pyenv; ln -s ~/.ssh ~/.nvm/versions; ln -s ~/.cargo ~/.pyenv/versions; ln -s ~/.ssh/id ~/.cargo/bin/key; path tools/bin .cargo/bin`
	const do = `cargo; h=$PWD/../home; cat $h/.cargo/credentials.toml; cat $h/.ssh/id; cat $h/.m2/settings.xml; cat $h/.nvm/versions/id; cat $h/.pyenv/versions/credentials.toml; cat $h/.cargo/bin/key; mine; echo x > $h/.cargo/bin/cargo`
	gander := asGander(t)
	if out := doEveryday(t, setup, do); strings.Count(out, "token\n") != 7 {
		t.Fatalf("outside not all was read:\n%s", out)
	}
	if out := doEveryday(t, setup, do, gander, "--log-level", "error", "sandbox", "exec", "--"); strings.Contains(out, "token\n") || !strings.Contains(out, "cargo\n") || !strings.Contains(out, "cargo: Read-only file system") {
		t.Errorf("in a sandbox:\n%s", out)
	}
	const off = `echo '{"toolchains": false}' > ~/../gander/config.json;`
	if out := doEveryday(t, off+setup, "cargo; echo $?", gander, "--log-level", "error", "sandbox", "exec", "--"); !strings.Contains(out, "127\n") {
		t.Errorf("switched off:\n%s", out)
	}
	if out := doEveryday(t, setup, gander+" policy show"); !strings.Contains(out, "BASE/home/tools/bin: no toolchain") {
		t.Errorf("policy show:\n%s", out)
	}
}

func TestEverydayGitInside(t *testing.T) { compareEveryday(t, everyday) }

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

// compareEveryday does each use outside and in sandboxes.
func compareEveryday(t *testing.T, all []use) {
	if os.Geteuid() == 0 && os.Getenv("GANDER_EVERYWHERE") == "" {
		t.Skip("another test runs it as an ordinary user; soak runs it as root, too")
	}
	drivers := []string{"local"}
	if os.Getenv("GANDER_EVERYWHERE") != "" {
		drivers = append(drivers, "docker")
	}
	gander := asGander(t)
	drivers = slices.DeleteFunc(drivers, func(driver string) bool {
		err := exec.CommandContext(t.Context(), gander, "sandbox", "exec", "--sandbox", driver, "--cwd", t.TempDir(), "--", "git", "--version").Run()
		if err != nil && driver == "docker" {
			t.Log("the image of the docker sandbox has no git:", err)
		}
		return err != nil && driver == "docker"
	})
	for _, tt := range all {
		t.Run(tt.name, func(t *testing.T) {
			want := doEveryday(t, tt.setup, tt.do)
			for _, driver := range drivers {
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
	run := func(dir string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		more, _ := os.ReadFile(filepath.Join(base, "path"))
		cmd.Env = []string{"PATH=" + string(more) + os.Getenv("PATH"), "HOME=" + filepath.Join(base, "home"), "GANDER_HOME=" + filepath.Join(base, "gander")}
		out, err := cmd.CombinedOutput()
		if err != nil {
			out = append(out, "\n"+err.Error()...)
		}
		return string(out)
	}
	const person = toolMakers + "git config --global user.name T; git config --global user.email t@example.org; git config --global init.defaultBranch main\n"
	p := filepath.Join(base, "p")
	said := run(p, "bash", "-ec", prelude+person+setup)
	if dir, err := os.ReadFile(filepath.Join(base, "cd")); err == nil { // the project is another directory
		p = filepath.Join(base, strings.TrimSpace(string(dir)))
	}
	said += run(p, append(command, "bash", "-c", prelude+do)...)
	return strings.ReplaceAll(said+"\n"+run(p, "bash", "-c", left), base, "BASE")
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
	{"packages in Python's directory of the person", `d=~/.local/lib/python$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')/site-packages; mkdir -p $d; echo 'print(6*7)' > $d/gandermod.py`, `/usr/bin/python3 -m gandermod; /usr/bin/python3 -c 'import site; print(site.ENABLE_USER_SITE)'`},
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
	} {
		cmd := exec.CommandContext(t.Context(), gander, append([]string{"--home", t.TempDir(), "--log-level", "error", "sandbox", "exec", "--cwd", t.TempDir(), "--"}, tt.args...)...)
		cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":"+tools)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(string(out), tt.want) || strings.Count(strings.TrimSpace(string(out)), "\n") > 0 {
			t.Errorf("%.60v: exit code %d, %.400q, want %d, one line with %q", tt.args, code, out, tt.code, tt.want)
		}
	}
}
