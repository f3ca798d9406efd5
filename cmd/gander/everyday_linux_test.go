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

// everyday is work with git that people and agents do. Each is done twice, in a directory of
// its own: outside, and in a sandbox. Both have to print the same and leave the same.
var everyday = []struct{ name, setup, do string }{
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
			git init -q up; cd up; echo 1 > f; git add f; git commit -qm 1; git switch -qc feat; echo 2 > f; echo new > g; git add -A; git commit -qm 2; git switch -q main; cd ..; git clone -q up cl
			git config --global branch.autoSetupMerge false; rm -rf up; echo p/cl > ../cd`,
		`git switch feat; echo "switch=$?"; git status --short; echo mine > h; git add -A; git commit -qm mine; git switch -q main; git checkout -q -b x origin/feat; echo "checkout=$?"; git branch --show-current`,
	},
}

// prelude makes what git makes the same twice.
const prelude = "export GIT_AUTHOR_DATE=2024-01-01T00:00:00Z GIT_COMMITTER_DATE=2024-01-01T00:00:00Z LC_ALL=C.UTF-8\n"

// left is the state that is compared in the end, looked at from outside.
const left = `for d in . $(find . -mindepth 2 -name .git -not -path './.git/*' -printf '%h\n' | sort); do echo "== $d"; git -C $d status --short --branch; git -C $d for-each-ref; git -C $d log --all --oneline --graph --format='%h %an %s'; done
	find . -name .git -prune -o -type f -printf '%p ' -exec md5sum '{}' ';' | sed 's| [^ ]*$||' | sort`

func TestEverydayGit(t *testing.T) {
	usertest.Run(t, usertest.Options{Tests: "^TestEverydayGitInside$"})
}

func TestEverydayGitInside(t *testing.T) {
	if os.Geteuid() == 0 && os.Getenv("GANDER_EVERYWHERE") == "" {
		t.Skip("TestEverydayGit runs it as an ordinary user; soak runs it as root, too")
	}
	drivers := []string{"local"}
	if os.Getenv("GANDER_EVERYWHERE") != "" {
		drivers = append(drivers, "docker")
	}
	gander := filepath.Join(t.TempDir(), "gander")
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, gander)
	}
	if err != nil {
		t.Fatal(err)
	}
	drivers = slices.DeleteFunc(drivers, func(driver string) bool {
		err := exec.CommandContext(t.Context(), gander, "sandbox", "exec", "--sandbox", driver, "--cwd", t.TempDir(), "--", "git", "--version").Run()
		if err != nil && driver == "docker" {
			t.Log("the image of the docker sandbox has no git:", err)
		}
		return err != nil && driver == "docker"
	})
	for _, tt := range everyday {
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
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(base, "home"), "GANDER_HOME=" + filepath.Join(base, "gander")}
		out, err := cmd.CombinedOutput()
		if err != nil {
			out = append(out, "\n"+err.Error()...)
		}
		return string(out)
	}
	const person = "git config --global user.name T; git config --global user.email t@example.org; git config --global init.defaultBranch main\n"
	p := filepath.Join(base, "p")
	said := run(p, "bash", "-ec", prelude+person+setup)
	if dir, err := os.ReadFile(filepath.Join(base, "cd")); err == nil { // the project is another directory
		p = filepath.Join(base, strings.TrimSpace(string(dir)))
	}
	said += run(p, append(command, "bash", "-c", prelude+do)...)
	return strings.ReplaceAll(said+"\n"+run(p, "bash", "-c", left), base, "BASE")
}
