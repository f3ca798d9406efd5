package gitconfig_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/rules/gitconfig"
)

// listed returns a configuration as git itself reads it.
func listed(t *testing.T, text []byte) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "git", "config", "--file", file, "--no-includes", "--list", "-z")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
	out, err := cmd.Output()
	return string(out), err
}

// list returns settings in the form of git's.
func list(all []gitconfig.Setting) string {
	var b strings.Builder
	for _, s := range all {
		b.WriteString(s.Name())
		if !s.Bare {
			b.WriteString("\n" + s.Value)
		}
		b.WriteByte(0)
	}
	return b.String()
}

// plain makes the white space in values that is not quoted the same: older versions of git
// make all of it spaces.
var plain = strings.NewReplacer("\t", " ", "\r", " ")

// compare fails where git reads a configuration in another way than we do, or what we write
// of it.
func compare(t *testing.T, text []byte) (accepted bool) {
	t.Helper()
	all, err := gitconfig.Parse(text)
	if err != nil {
		return false
	}
	for _, as := range [][]byte{text, gitconfig.Format(all)} {
		want, err := listed(t, as)
		if err != nil {
			t.Fatalf("git refuses %q: %v", as, err)
		}
		if got := list(all); plain.Replace(got) != plain.Replace(want) {
			t.Fatalf("%q is %q, and git's is %q", as, got, want)
		}
	}
	again, err := gitconfig.Parse(gitconfig.Format(all))
	if err != nil || list(again) != list(all) {
		t.Fatalf("%q is written as %q: %v", text, gitconfig.Format(all), err)
	}
	return true
}

var accepted = []string{
	"", "\n", "# nothing\n", "[a]\n", "[a]b", "[a]b=", "[a]\n\tb = c\n", "[a] b = c ; d\n[A.B]\n c", "[a \"b\"]c=d", `[a "b \"c\" \\ d"]` + "\ne=f",
	"[a]\nb = \"c # d\" e # f\n", "[a]\nb = c \\\n  d\n", "[a]\nb = \\t\\n\\\\\\\"\\b x\n", "\ufeff[a]\r\nb = c\r\nd\r\n", "[a]\nb = c\td \t\n",
	"[a.b \"c\"]\nd = e\n", "[a]\nb=\"\"\n", "[a]\nb = \" c \"\n", "[a]\nb = c;d\n", "[a]b=c\\", "[a \"\\b\"]c=d", "[a \"\\\"\"]c=d",
	"[a]\nb=\xff\xfe\n", "[a  \"b\"]c=d",
}

var refused = []string{
	"a = b", "[a", "[]\n", "[a]\nb c = d", "[a]\nb = \"c\n", "[a]\nb = \\x\n", "[a \"b]\nc=d", "[a b]\nc=d", "[a]\n1b = c", "[a]\nb # c\n", "[a\x00]\n", "[a]\n= b\n",
	"[\"a\"]\n", "[a.]\nb=c", "[.a]\nb=c", "[a \"\"]\nb=c", "[a \"\"\"]c=d", "[a]\nb_c=d", "[a \"b\" ]\nc=d", "[a]\n\xff=b",
}

func TestParse(t *testing.T) {
	for _, text := range accepted {
		if _, err := gitconfig.Parse([]byte(text)); err == nil {
			compare(t, []byte(text))
		} else if _, gitErr := listed(t, []byte(text)); gitErr == nil && !strings.HasSuffix(text, "\\") {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range refused {
		if all, err := gitconfig.Parse([]byte(text)); err == nil {
			t.Errorf("%q is %v", text, all)
		}
	}
}

// git is run twice for each input: run it with -parallel=2.
func FuzzParse(f *testing.F) {
	for _, text := range append(accepted, refused...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) < 1<<12 && !bytes.Contains(text, []byte("[include")) {
			compare(t, text)
		}
	})
}

// settingsOf returns settings as git lists them: a name, a line end and a value, each ended by a
// zero byte.
func settingsOf(listed string) (names map[string][]string) {
	names = map[string][]string{}
	for entry := range strings.SplitSeq(strings.TrimSuffix(listed, "\x00"), "\x00") {
		name, value, _ := strings.Cut(entry, "\n")
		names[name] = append(names[name], value)
	}
	return names
}

// mayChange matches the names of settings that a program inside may have written to a repository that was there.
var mayChange = regexp.MustCompile(`(?s)^(branch\..+\.(merge|rebase|description|remote)|remote\..+\.(url|fetch)|submodule\..+\.(url|active)|core\.sparsecheckout(cone)?|index\.sparse|extensions\.worktreeconfig|core\.repositoryformatversion)$`)

// runs matches values that have git run a program, or take a path for one.
var runs = regexp.MustCompile(`^\s*(!|-|ext::|/|\.)`)

// FuzzAccept compares what is written of a program's configuration with what git reads in it: what is
// another than before has a name, and a value, of those that may be.
func FuzzAccept(f *testing.F) {
	const old = "[core]\n\tbare = false\n[remote \"o\"]\n\turl = https://e.org/a\n\tfetch = +refs/heads/*:refs/remotes/o/*\n[branch \"m\"]\n\tremote = o\n"
	for _, more := range slices.Concat(accepted, refused, []string{
		"[branch \"x\"]\n\tremote = o\n\tmerge = refs/heads/x\n\tdescription = a\n", "[remote \"x\"]\n\turl = https://e.org/b\n", "[remote \"o\"]\n\turl = /x\n", "[submodule \"s\"]\n\turl = ext::x\n",
		"[core]\n\tsparseCheckout = true\n", "[alias]\n\tx = !y\n", "[branch \"x\"]merge = refs/heads/x\n[alias]x=y\n", "[branch \"x]\"]\n\tmerge = refs/heads/x\n", "[core]\n\tfilemode = false\n",
	}) {
		f.Add([]byte(old), []byte(old+more))
	}
	f.Fuzz(func(t *testing.T, old, next []byte) {
		if len(old)+len(next) > 1<<12 || bytes.Contains(old, []byte("[include")) {
			return
		}
		was, err := listed(t, old)
		if err != nil {
			return
		}
		a, err := gitconfig.Change{Old: old, New: next}.Accept()
		if err != nil {
			return
		}
		is, err := listed(t, a.Text)
		if err != nil {
			t.Fatalf("git refuses what was written of %q: %q: %v", next, a.Text, err)
		}
		before, now := settingsOf(was), settingsOf(is)
		for name, values := range now {
			switch remote, isURL := strings.CutSuffix(name, ".url"); {
			case slices.Equal(values, before[name]):
			case !mayChange.MatchString(name):
				t.Fatalf("%s is %q now, of %q and %q", name, values, old, next)
			case isURL && strings.HasPrefix(remote, "remote.") && before[name] != nil, isURL && slices.ContainsFunc(values, runs.MatchString):
				t.Fatalf("%s is %q now, and was %q", name, values, before[name])
			}
		}
		for name := range before {
			if _, there := now[name]; !there && !strings.HasPrefix(name, "branch.") && !mayChange.MatchString(name) {
				t.Fatalf("%s is gone, of %q and %q", name, old, next)
			}
		}
	})
}

// FuzzRead compares what is taken of a person's configuration with what git reads in it: nothing is
// there that git does not read, and nothing that runs a program of the host's.
func FuzzRead(f *testing.F) {
	for _, text := range slices.Concat(accepted, refused, []string{
		"[user]\n\tname = T\n[alias]\n\tst = status\n\tx = !y\n", "[core]\n\tsshCommand = x\n[commit]\n\tgpgSign = true\n", "[url \"https://a:b@e.org/\"]\n\tinsteadOf = x:\n",
		"[http \"https://e.org\"]\n\textraHeader = x\n[credential]\n\thelper = store\n", "[filter \"x\"]\n\tclean = cat\n\trequired\n", "[core]\n\tpager = less\n\tautocrlf = input\n",
	}) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<12 || bytes.Contains(bytes.ToLower(text), []byte("include")) {
			return
		}
		home := t.TempDir()
		if err := os.WriteFile(filepath.Join(home, ".gitconfig"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		got := gitconfig.Read(gitconfig.Options{Variable: func(name string) string { return map[string]string{"HOME": home, "PATH": "/usr/bin"}[name] }, Project: home + "/p"})
		if len(got.Taken) == 0 {
			return
		}
		is, err := listed(t, got.Files[".gitconfig"])
		was, wasErr := listed(t, text)
		if err != nil || wasErr != nil {
			t.Fatalf("git refuses %q, or what is taken of it, %q: %v", text, got.Files[".gitconfig"], err)
		}
		before := settingsOf(was)
		for name, values := range settingsOf(is) {
			switch {
			case name == "commit.gpgsign" || name == "tag.gpgsign":
			case len(before[name]) < len(values):
				t.Fatalf("%s is %q inside, and %q outside", name, values, before[name])
			case strings.HasPrefix(name, "alias.") && slices.ContainsFunc(values, func(v string) bool { return strings.HasPrefix(v, "!") }),
				strings.HasPrefix(name, "credential."), strings.HasSuffix(name, ".extraheader"), name == "core.sshcommand", name == "core.hookspath", name == "core.fsmonitor":
				t.Fatalf("%s is %q inside", name, values)
			}
		}
	})
}
