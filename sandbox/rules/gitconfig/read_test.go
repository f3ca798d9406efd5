package gitconfig_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/rules/gitconfig"
)

// person makes a home, and a project beside it, and returns how Read reads them.
func person(t *testing.T, files map[string]string) (home, proj string, read func() gitconfig.Settings) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, proj = filepath.Join(base, "home"), filepath.Join(base, "work", "p")
	for _, dir := range []string{home, filepath.Join(proj, ".git")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		file := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "BASE", base)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return home, proj, func() gitconfig.Settings {
		return gitconfig.Read(gitconfig.Options{
			Variable: func(name string) string { return map[string]string{"HOME": home}[name] },
			Project:  proj, Writable: []string{proj, filepath.Join(base, "gander")},
		})
	}
}

// global returns the values that git inside reads, without conditions.
func global(t *testing.T, s gitconfig.Settings) map[string]string {
	t.Helper()
	all, err := gitconfig.Parse(s.Files[".gitconfig"])
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, s := range all {
		values[s.Name()] = s.Value
	}
	return values
}

func TestReadTakes(t *testing.T) {
	_, _, read := person(t, map[string]string{
		"home/.config/git/config": "[user]\n\tname = X\n[color]\n\tui = auto\n",
		"home/.config/git/ignore": "default\n",
		"home/.gitconfig": `[user]
	name = T
[init]
	defaultBranch = trunk
[core]
	excludesFile = ~/.ignore
	autocrlf = input
[pull]
	rebase
[alias]
	st = status -s
[url "git@example.org:"]
	insteadOf = https://example.org/
[filter "up"]
	clean = tr a-z A-Z
	required = true
[include]
	path = more
[includeIf "gitdir:BASE/work/"]
	path = ~/work.inc
[includeIf "onbranch:x"]
	path = branch.inc
`,
		"home/.ignore":    "private-notes.txt\n",
		"home/more":       "[diff]\n\talgorithm = histogram\n",
		"home/work.inc":   "[user]\n\temail = work@example.org\n",
		"home/branch.inc": "[user]\n\temail = branch@example.org\n",
	})
	s := read()
	if len(s.Left) > 0 {
		t.Errorf("left out: %v", s.Left)
	}
	got := global(t, s)
	for name, want := range map[string]string{
		"user.name": "T", "color.ui": "auto", "init.defaultbranch": "trunk", "core.autocrlf": "input", "pull.rebase": "", "alias.st": "status -s",
		"url.git@example.org:.insteadof": "https://example.org/", "filter.up.clean": "tr a-z A-Z", "filter.up.required": "true", "diff.algorithm": "histogram",
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %q %v, want %q", name, value, ok, want)
		}
	}
	for name, want := range map[string]string{"core.excludesfile": "private-notes.txt\n", "includeif.onbranch:x.path": "[user]\n\temail = \"branch@example.org\"\n"} {
		if text := string(s.Files[strings.TrimPrefix(got[name], "~/")]); text != want {
			t.Errorf("%s leads to %q, want %q", name, text, want)
		}
	}
	if text := string(s.Files[".config/git/ignore"]); text != "default\n" {
		t.Errorf("the default file of patterns is %q", text)
	}
	found := false
	for name, to := range got {
		found = found || strings.HasPrefix(name, "includeif.gitdir:/") && strings.Contains(string(s.Files[strings.TrimPrefix(to, "~/")]), "work@example.org")
	}
	if !found {
		t.Errorf("what is for the project's directory is not there: %v", got)
	}
}

// Secrets and programs of the host's are named and not there.
func TestReadLeavesOut(t *testing.T) {
	const secret = "s3cret"
	left := []string{
		"[http \"https://example.org\"]\n\textraHeader = AUTHORIZATION: " + secret,
		"[http]\n\textraHeader = " + secret, "[http]\n\tproxy = http://u:" + secret + "@proxy", "[http]\n\tcookieFile = ~/" + secret,
		"[credential]\n\thelper = store --file " + secret, "[credential \"https://example.org\"]\n\thelper = !echo " + secret,
		"[url \"https://u:" + secret + "@example.org/\"]\n\tinsteadOf = https://example.org/", "[url \"https://" + secret + "@example.org/\"]\n\tinsteadOf = x:",
		"[url \"ext::" + secret + "\"]\n\tinsteadOf = x:", "[url \"https://example.org/\"]\n\tinsteadOf = https://u:" + secret + "@example.org/",
		"[url \"ssh://u:" + secret + "@example.org/\"]\n\tinsteadOf = x:", "[url \"https://example.org/?t=" + secret + "\"]\n\tinsteadOf = x:", "[url \"" + secret + "\"]\n\tinsteadOf = https://u:" + secret + "@h/",
		"[core]\n\tsshCommand = ssh -i " + secret, "[core]\n\teditor = " + secret, "[core]\n\tpager = " + secret, "[core]\n\thooksPath = ~/" + secret, "[core]\n\tfsmonitor = " + secret, "[core]\n\taskPass = " + secret,
		"[alias]\n\tx = !echo " + secret, "[alias \"x\"]\n\tcommand = \" !echo " + secret + "\"", "[github]\n\ttoken = " + secret, "[sendemail]\n\tsmtpPass = " + secret, "[user]\n\tsigningKey = " + secret, "[gpg]\n\tprogram = " + secret,
		"[diff \"x\"]\n\ttextconv = /home/" + secret, "[diff]\n\texternal = " + secret, "[merge \"x\"]\n\tdriver = " + secret, "[remote \"x\"]\n\turl = https://" + secret + "@h/", "[init]\n\ttemplateDir = ~/" + secret,
		"[filter \"x\"]\n\tsmudge = f() { echo " + secret + "; }; f", "[include]\n\tpath = BASE/work/p/" + secret, "[includeIf \"gitdir:BASE/other/\"]\n\tpath = ~/other.inc", "[core]\n\texcludesFile = BASE/work/p/ignore",
		"[core]\n\texcludesFile = BASE/gander/ignore", "[core]\n\texcludesFile = ~/dir", "[core]\n\texcludesFile = ~/large", "[core]\n\tattributesFile = ~/to-project", "[core]\n\tattributesFile = ~/over-project", "[commit]\n\ttemplate = ~/pipe-like",
		"[trailer \"x\"]\n\tcommand = " + secret, "[protocol \"ext\"]\n\tallow = always", "[maintenance]\n\trepo = /" + secret, "[gui]\n\tx = " + secret, "[user \"x\"]\n\tname = " + secret,
	}
	for _, text := range left {
		home, _, read := person(t, map[string]string{
			"home/.gitconfig": text + "\n", "work/p/ignore": secret, "work/p/" + secret: "[user]\n\tname = " + secret, "gander/ignore": secret, "home/large": strings.Repeat(secret, 1<<18),
			"home/other.inc": "[user]\n\tname = " + secret, "home/dir/x": "",
		})
		for name, to := range map[string]string{"to-project": "../work/p/ignore", "over-project": "../work/p/link", "../work/p/link": "../../home/.gitconfig"} {
			if err := os.Symlink(to, filepath.Join(home, name)); err != nil {
				t.Fatal(err)
			}
		}
		s := read()
		if len(s.Left) != 1 || len(s.Taken) != 0 || s.Left[0].Why == "" {
			t.Errorf("%q: %v are taken, and %v left out", text, s.Taken, s.Left)
		}
		for name, content := range s.Files {
			if strings.Contains(string(content), secret) || strings.Contains(name, secret) {
				t.Errorf("%q: %s has the secret", text, name)
			}
		}
	}
}

// A filter without its program keeps that it is required, and fails by its name.
func TestReadFilterWithoutProgram(t *testing.T) {
	_, _, read := person(t, map[string]string{"home/.gitconfig": "[filter \"x\"]\n\tclean = ~/bin/up --key s3cret\n\trequired\n"})
	s := read()
	if got := global(t, s); got["filter.x.clean"] != "/not-inside/up" || len(s.Left) > 0 || !slices.ContainsFunc(s.Taken, func(o gitconfig.Origin) bool { return o.Why != "" }) {
		t.Errorf("%v, taken %v, left out %v", got, s.Taken, s.Left)
	}
}

func TestReadSignsNothing(t *testing.T) {
	for text, want := range map[string]bool{"[commit]\n\tgpgSign": true, "[tag]\n\tgpgSign = yes": true, "[commit]\n\tgpgSign = false": false, "[user]\n\tname = x": false} {
		_, _, read := person(t, map[string]string{"home/.gitconfig": text + "\n"})
		s := read()
		if got := global(t, s); s.Unsigned != want || want && (got["commit.gpgsign"] != "false" || got["tag.gpgsign"] != "false") {
			t.Errorf("%q: %v, %v", text, s.Unsigned, got)
		}
	}
}

// A file that is no configuration is left out as a whole, and so are loops.
func TestReadBroken(t *testing.T) {
	for _, text := range []string{"[user\nname = x", "[user]\nname = \"x"} {
		_, _, read := person(t, map[string]string{"home/.gitconfig": text})
		if s := read(); len(global(t, s)) > 1 || len(s.Left) != 1 || !strings.Contains(s.Left[0].Why, "line ") {
			t.Errorf("%q: %v", text, s)
		}
	}
	_, _, read := person(t, map[string]string{"home/.gitconfig": "[include]\npath = .gitconfig\npath = .gitconfig\n"})
	if s := read(); len(s.Left) == 0 || len(global(t, s)) > 1 {
		t.Errorf("a loop: %v", s.Left)
	}
}
