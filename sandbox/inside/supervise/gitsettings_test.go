package supervise

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestGitSettings compares with what git itself reads of files that are odd.
func TestGitSettings(t *testing.T) {
	for name, text := range map[string]string{
		"a comment that ends in a backslash":     "[core]\n# C:\\hooks\\\n\thooksPath = .githooks\n",
		"one with a semicolon":                   "[core]\n; C:\\hooks\\\n\thooksPath = .githooks\n",
		"one behind a value":                     "[color]\n\tui = auto # x\\\n[core]\n\thooksPath = .githooks\n",
		"one behind a section":                   "[core] # x\\\nhooksPath = .githooks\n",
		"one with a quote":                       "[core]\n# it's \"\nhooksPath = .githooks # \"\neditor = ed\n",
		"one between lines of a value":           "[core]\neditor = vim \\\n# -S x\nhooksPath = h\n",
		"a mark of the order of bytes":           "\ufeff[include]\n path = tools/x.inc\n",
		"another one, in a value":                "[core]\nhooksPath = \ufeffh\n",
		"a section and a key in a line":          "[core]hooksPath=h\n[include] path = x",
		"no end of the last line":                "[core]\nhooksPath=h\\",
		"lines of other systems":                 "[core]\r\n\thooksPath = h\r\n# x\\\r\n\teditor = vim \\\r\n\t-S x\r\n",
		"returns":                                "[core]\n\r hooksPath = a\rb \r\r\nx = \r\n",
		"lines that go on":                       "[core]\neditor = a\\\n  b\\\n\\\n  c\nhooksPath = \\\nh\n",
		"two backslashes at an end":              "[core]\neditor = a\\\\\nhooksPath = h\n",
		"a quote over a line":                    "[core]\neditor = \"a \\\n b\"\nhooksPath = h\n",
		"signs of comments in quotes":            "[core]\neditor = \"a # b\" ; c\nhooksPath = a\"#\"b#c\n",
		"quotes and escapes":                     "[core]\neditor = \" a\\tb\\nc\\\"d\\\\e\" \"f \" \nhooksPath = a\" b \"c  d\n",
		"white space":                            " [core]\n\t hooksPath\t =\t h \t\n editor=x ;\n",
		"white space that git does not know":     "[core]\nhooksPath = \u00a0h\u00a0\neditor = \f\ve\f\n",
		"other letters":                          "[CoRe]\nHooksPath = H\n[INCLUDE]\nPATH=x\n[IncludeIf \"gitdir:A\"]\nPath=y\n",
		"subsections":                            "[a \"b]c\"]\npath=1\n[a \"b\\\"]\\\\\"]path=2\n[a.b]path=3\n[a.b \"c.d\"]\npath=4\n[a\t\"x#y\"]path=5\n",
		"a subsection that is a command":         "[url \"ext::sh -c \\\"a b\\\" c\\\\d\"]\n\tinsteadOf = x:\n",
		"conditions":                             "[includeIf \"hasconfig:remote.*.url:https://x/**\"]\n\tpath = \"a b\"\n[includeIf \"onbranch:x\"] path = c\n",
		"keys without values":                    "[core]\nbare\nhooksPath = h\npager \n[x]\n[y]z\n",
		"empty values":                           "[core]\nhooksPath =\neditor = \"\"\npager = ; x\naskpass = \\\n\n[x]y=z",
		"an equals sign in a value":              "[alias]\nx = !a=b c\n",
		"a value that ends before its line does": "[core]\nhooksPath = h\x00oks\neditor = e\n",
		"nothing":                                "",
	} {
		t.Run(name, func(t *testing.T) {
			ours := gitSettings([]byte(text))
			dotted := strings.Contains(text, "[a.b") // that is no matter to us
			// Some versions of git have a space for a tab.
			spaces := strings.NewReplacer("\t", " ", "\r", " ")
			for _, s := range asGit(t, text) {
				if !slices.ContainsFunc(ours, func(o gitSetting) bool {
					return o.section == s.section && (o.subsection == s.subsection || dotted) && o.key == s.key && spaces.Replace(o.value) == spaces.Replace(s.value)
				}) {
					t.Errorf("git reads %q, and we do %q", s, ours)
				}
			}
		})
	}
}

// asGit are the keys with values that git reads.
func asGit(t *testing.T, text string) (all []gitSetting) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("GANDER_CHECK") != "" {
			t.Fatal("git is needed to compare with: ", err)
		}
		t.Skip("git is not installed: ", err)
	}
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("git", "config", "-f", path, "--list", "-z").Output()
	if err != nil {
		t.Fatalf("git reads none of it: %v", err)
	}
	for entry := range bytes.SplitSeq(out, []byte{0}) {
		name, value, ok := strings.Cut(string(entry), "\n")
		if !ok {
			continue
		}
		section, name, _ := strings.Cut(name, ".")
		dot := strings.LastIndexByte(name, '.')
		all = append(all, gitSetting{section, name[:max(dot, 0)], name[dot+1:], value})
	}
	return all
}
