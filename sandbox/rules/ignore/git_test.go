package ignore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A gitTree is a directory that git looks at, with names that rules like to match.
type gitTree struct {
	dir   string
	paths []string // directories end with a slash
}

var gitNames = []string{
	"a", "b", "ab", "abc", "a.b", "A", ".env", ".ENV", ".env.local", "secrets.txt", "foo1", "foo ", " foo", "a b",
	"é", "\xff", "[a]", "a*b", "a?c", `x\y`, "a\nb", "(x)", "$HOME", "^x", "x{1}", "a|b", "foo(", "#x", "!x", "a+b", "-", "]", "{a,b}", "~", "k", "\u212a",
}

func newGitTree(tb testing.TB) *gitTree {
	tb.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("GANDER_CHECK") != "" {
			tb.Fatal("git is needed to compare with: ", err)
		}
		tb.Skip("git is not installed: ", err)
	}
	g := &gitTree{dir: tb.TempDir()}
	g.git(tb, "", "init", "-q")
	for _, name := range gitNames {
		g.add(tb, name, false)
	}
	dirs := []string{"d/", "d/a/", "d/a/b/", "x/", "x/a/", "x/d/", "ab.d/", "a.d/", "a.d/b/", "secrets/"}
	for _, d := range dirs {
		g.add(tb, strings.TrimSuffix(d, "/"), true)
	}
	for _, d := range dirs {
		for _, name := range []string{"a", "b", "ab", ".env", "foo1", "x.pem", "é"} {
			if _, err := os.Lstat(filepath.Join(g.dir, d, name)); err != nil {
				g.add(tb, d+name, false)
			}
		}
	}
	return g
}

func (g *gitTree) add(tb testing.TB, rel string, dir bool) {
	tb.Helper()
	abs := filepath.Join(g.dir, rel)
	var err error
	if dir {
		err = os.MkdirAll(abs, 0o755)
		rel += "/"
	} else {
		err = os.WriteFile(abs, nil, 0o644)
	}
	if err != nil {
		tb.Fatal(err)
	}
	g.paths = append(g.paths, rel)
}

// git runs git without anybody's settings.
func (g *gitTree) git(tb testing.TB, stdin string, args ...string) []byte {
	tb.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = g.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "LC_ALL=C"}
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); err != nil && (!ok || exit.ExitCode() != 1) { // 1: nothing is ignored
		tb.Fatalf("git %q: %v\n%s", args, err, stderr.Bytes())
	}
	return out
}

// ignored asks git about every path, with these rules files by directory.
func (g *gitTree) ignored(tb testing.TB, rules map[string]string, foldCase bool) map[string]bool {
	tb.Helper()
	for dir, text := range rules {
		name := filepath.Join(g.dir, dir, ".gitignore")
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
		defer os.Remove(name)
	}
	var in strings.Builder
	for _, p := range g.paths {
		in.WriteString(strings.TrimSuffix(p, "/") + "\x00")
	}
	out := g.git(tb, in.String(), "-c", "core.excludesFile="+os.DevNull, "-c", fmt.Sprintf("core.ignoreCase=%v", foldCase),
		"check-ignore", "--no-index", "-z", "-v", "-n", "--stdin")
	fields := strings.Split(string(out), "\x00")
	if len(fields) != 4*len(g.paths)+1 {
		tb.Fatalf("git answered %d fields for %d paths", len(fields), len(g.paths))
	}
	verdicts := map[string]bool{}
	for i, p := range g.paths {
		source, pattern := fields[4*i], fields[4*i+2]
		verdicts[p] = source != "" && !strings.HasPrefix(pattern, "!")
	}
	return verdicts
}

// compare holds the matcher against git: exactly the same with git's own reading
// of the lines, and never less with ours.
func (g *gitTree) compare(tb testing.TB, rules map[string]string, foldCase bool) {
	tb.Helper()
	var sources []Source
	for dir, text := range rules {
		sources = append(sources, Source{File: dir + "/.gitignore", Dir: dir, Text: text})
	}
	o := Options{FoldCase: foldCase}
	exact := assemble(compileAll(sources, o, dialect{fold: foldCase, exact: true}), o)
	wider := Compile(sources, o)
	git := g.ignored(tb, rules, foldCase)
	for _, p := range g.paths {
		rel, dir := strings.CutSuffix(p, "/")
		if got := exact.Explain(rel, dir); got.Ignored != git[p] {
			tb.Errorf("rules %q, fold %v: %q is ignored: %v, git says %v (%v)", rules, foldCase, p, got.Ignored, git[p], got.Rule)
		}
		if git[p] && !wider.Ignored(rel, dir) {
			tb.Errorf("rules %q, fold %v: %q is not ignored, but git ignores it", rules, foldCase, p)
		}
	}
}

func FuzzAgainstGit(f *testing.F) {
	for _, seed := range [][2]string{
		{"foo?\nf?o\n[!a]\n", ""},
		{"a+b\n(x)\nfoo(\n$HOME\n^x\nx{1}\na|b\n", ""},
		{"foo\\ \nfoo \n foo\n", ""},
		{"a/b\nd/*\na/**\n", ""},
		{"secrets/\n!secrets/a\n", ""},
		{"\xef\xbb\xbf.env\r\n*.pem\r\n", ""},
		{"d/**\n!d/a/\nd/a/**\n!d/a/b\n", "!ab\n.env\n"},
		{"**/.env\n**/.env.*\n**/secrets.*\n", "!.env\n"},
		{"a**/b\n/a**\n**/a/**\nd/**/b\n***\n!a\n", ""},
		{"[[:alpha:]]\n[]a]\n[a-\n[z/]\n[\\]]\n[a-c-e]\n[[:x:]]\n[!!]\n", ""},
		{"\\#x\n\\!x\n#x\n!x\n\\\nab\\\n", "/a\nb/\n"},
		{"*\n!*/\n!*.b\n", "*\n!a\n"},
		{"{a,b}\n{.e,.}nv*\n", ""},
		{"A\n[A-Z]\n[!A]*\nÉ\n", "[[:upper:]]"},
		{"0", "\\A"},
		{"[!a]*\n![!a]\n", "É\n!é\n"},
	} {
		f.Add(seed[0], seed[1], false)
		f.Add(seed[0], seed[1], true)
	}
	g := newGitTree(f)
	f.Fuzz(func(t *testing.T, root, nested string, foldCase bool) {
		if len(root)+len(nested) > 4096 {
			t.Skip("git would be slow")
		}
		g.compare(t, map[string]string{"": root, "d": nested}, foldCase)
	})
}

// The fuzz target finds odd bytes; this finds odd combinations.
func TestAgainstGit(t *testing.T) {
	g := newGitTree(t)
	sets := 150
	if testing.Short() {
		sets = 20
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range sets {
		g.compare(t, map[string]string{"": randomRules(random), "d": randomRules(random), "d/a": randomRules(random)}, random.IntN(4) == 0)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func randomRules(r *rand.Rand) string {
	pieces := []string{
		"a", "b", "ab", "d", "x", "foo1", ".env", "secrets", "é", "A", "/", "/", "/", "*", "*", "**", "**/", "/**", "/**/", "?", "[ab]", "[!a]", "[^b]", "[a-f]",
		"[[:alpha:]]", "[[:upper:]]", "[]-]", "[é]", "[", "]", `\`, `\a`, `\*`, `\/`, " ", "#", "!", ".", ".*", "*.pem", "+", "(", ")", "$", "{", "}", ",", "|", "^", "\t", "\xff", "\r",
	}
	var b strings.Builder
	for range r.IntN(7) {
		if r.IntN(3) == 0 {
			b.WriteByte('!')
		}
		for range 1 + r.IntN(5) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		if r.IntN(4) == 0 {
			b.WriteByte('/')
		}
		b.WriteByte('\n')
	}
	return b.String()
}
