package gitconfig_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
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
