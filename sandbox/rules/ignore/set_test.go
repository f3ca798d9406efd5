package ignore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gander.dev/gander/sandbox/rules/ignore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A project is a directory with a Set, and beside it a person's own rules file.
type project struct {
	*testing.T
	*ignore.Set
	root, global string
}

func newProject(t *testing.T, files ...string) *project {
	t.Helper()
	dir := t.TempDir()
	p := &project{T: t, root: filepath.Join(dir, "project"), global: filepath.Join(dir, "config", ignore.FileName)}
	for _, d := range []string{p.root, filepath.Dir(p.global)} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < len(files); i += 2 {
		p.write(files[i], files[i+1])
	}
	p.open(ignore.SetOptions{})
	return p
}

func (p *project) open(o ignore.SetOptions) {
	p.Helper()
	o.Root, o.Global = p.root, p.global
	set, err := ignore.NewSet(o)
	if err != nil {
		p.Fatal(err)
	}
	p.Set = set
}

func (p *project) path(rel string) string {
	if rel == "GLOBAL" {
		return p.global
	}
	return filepath.Join(p.root, filepath.FromSlash(rel))
}

func (p *project) write(rel, text string) {
	p.Helper()
	name := p.path(rel)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		p.Fatal(err)
	}
}

func (p *project) remove(rel string) {
	p.Helper()
	if err := os.RemoveAll(p.path(rel)); err != nil {
		p.Fatal(err)
	}
}

// hides checks a space-separated list of paths; those with "!" are not hidden,
// those that end with "/" are directories.
func (p *project) hides(list string) {
	p.Helper()
	for want := range strings.FieldsSeq(list) {
		rel, visible := strings.CutPrefix(want, "!")
		abs := rel
		if !filepath.IsAbs(rel) {
			abs = p.path(rel)
		}
		d := p.Explain(filepath.Clean(abs), strings.HasSuffix(rel, "/"))
		if d.Ignored == visible {
			p.Errorf("%s is hidden: %v (%v)", rel, d.Ignored, d.Rule)
		}
	}
}

func TestWhichRulesHold(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files []string
		hides string
	}{
		{"the defaults without files", nil, ".env a/.env .env.local a/b/secrets.json secrets.d/x !env !.envrc !secrets"},
		{"an empty file has no rules", []string{".gooseignore", ""}, "!.env"},
		{"an empty file of the person, neither", []string{"GLOBAL", "# nothing\n"}, "!.env"},
		{"the person's own", []string{"GLOBAL", "*.key\n"}, "a/x.key !.env"},
		{"the project says the last word", []string{"GLOBAL", "*.key\n", ".gooseignore", "!public.key\n*.pem\n"}, "a/x.key a.pem !a/public.key"},
		{"and a directory over the project", []string{".gooseignore", "*.key\n", "sub/.gooseignore", "!x.key\n/only\n"}, "x.key sub/y.key sub/only !only !sub/x.key !sub/d/only sub/d/y.key"},
		{"deeper over deep", []string{"a/.gooseignore", "*.x\n", "a/b/.gooseignore", "!1.x"}, "a/1.x a/c/1.x !a/b/1.x a/b/2.x"},
		{"a directory brings back nothing that is in a hidden one", []string{".gooseignore", "sub/\n", "sub/.gooseignore", "!x\n"}, "sub/ sub/x sub/a/x"},
		{"only a rules file counts, not git's", []string{".gitignore", "x\n"}, "!x .env"},
		{"outside, rules without a place", []string{".gooseignore", "*.pem\n/x\nbin/\n**/deep/*.txt\n"}, "/other/a.pem /other/bin/ /deep/a.txt /a/deep/b.txt !/other/bin/sh !/other/x !/x"},
		{"outside, the person's with what is in directories", []string{"GLOBAL", ".ssh/\n", ".gooseignore", "!id\n"}, "/home/me/.ssh/ /home/me/.ssh/id !/home/me/id"},
		{"outside, the defaults", nil, "/home/me/.env /etc/secrets.d/x !/etc/passwd"},
		{"the root itself is not hidden", []string{".gooseignore", "*\nproject\n"}, "!. x"},
	} {
		t.Run(tt.name, func(t *testing.T) { newProject(t, tt.files...).hides(tt.hides) })
	}
}

func TestChangesHoldAtOnce(t *testing.T) {
	p := newProject(t, ".gooseignore", "aaa\n")
	p.hides("aaa !bbb !.env")
	p.write(".gooseignore", "bbb\n") // the same size, within the same second
	p.hides("bbb !aaa")
	p.write("new", "ccc\n")
	if err := os.Rename(p.path("new"), p.path(".gooseignore")); err != nil {
		t.Fatal(err)
	}
	p.hides("ccc !bbb")
	p.write(".gooseignore", "")
	p.hides("!ccc !.env")
	p.remove(".gooseignore")
	p.hides("!ccc .env")
	p.write("GLOBAL", "global\n")
	p.hides("global !.env")
	p.hides("!a/b/x")
	p.write("a/b/.gooseignore", "x\n")
	p.hides("a/b/x a/b/c/x !a/x")
	p.remove("a/b/.gooseignore")
	p.hides("!a/b/x")
	p.remove("a")
	p.hides("!a/b/x")
}

// Time does not tell: whoever writes the file can set it.
func TestAForgedTimeHidesNoChange(t *testing.T) {
	p := newProject(t, ".gooseignore", "aaa\n")
	old := time.Now().Add(-time.Hour)
	for _, text := range []string{"bbb\n", "ccc\n"} {
		if err := os.Chtimes(p.path(".gooseignore"), old, old); err != nil {
			t.Fatal(err)
		}
		p.hides("!bbb")
		p.write(".gooseignore", text)
		if err := os.Chtimes(p.path(".gooseignore"), old, old); err != nil {
			t.Fatal(err)
		}
		p.hides(strings.TrimSpace(text))
		p.write(".gooseignore", "aaa\n")
	}
}

// TestMoving: a directory with rules of its own may get a name where there were none.
func TestMoving(t *testing.T) {
	p := newProject(t, "ruled/.gooseignore", "key\n", "plain/key", "")
	p.open(ignore.SetOptions{MaxAge: time.Hour})
	p.hides("!plain/key")
	over := p.Moving()
	p.hides("!plain/key") // looked at, but not for an hour
	p.remove("plain")
	if err := os.Rename(p.path("ruled"), p.path("plain")); err != nil {
		t.Fatal(err)
	}
	p.hides("plain/key")
	over()
	p.hides("plain/key")
}

func TestMaxAgeLooksLess(t *testing.T) {
	p := newProject(t)
	p.open(ignore.SetOptions{MaxAge: time.Hour})
	p.hides("!x")
	p.write(".gooseignore", "x\n")
	p.hides("!x sub/x") // the directory sub is asked about for the first time
	p.open(ignore.SetOptions{MaxAge: time.Nanosecond})
	p.hides("x")
	p.write(".gooseignore", "y\n")
	p.hides("y !x")
}

func TestListIsIgnored(t *testing.T) {
	p := newProject(t, ".gooseignore", "*.o\nhidden/\n/a/b/*.txt\n", "a/.gooseignore", "!x.o\n")
	for _, dir := range []string{".", "a", "a/b", "hidden", "hidden/sub", "../config"} {
		list := p.List(filepath.Clean(p.path(dir)))
		for _, name := range []string{"x.o", "y.o", "z.txt", "hidden", "b"} {
			for _, isDir := range []bool{true, false} {
				if got, want := list(name, isDir), p.Ignored(filepath.Join(p.path(dir), name), isDir); got != want {
					t.Errorf("in %s, %s (directory: %v) is hidden: %v, by its path: %v", dir, name, isDir, got, want)
				}
			}
		}
	}
}

func TestExplain(t *testing.T) {
	p := newProject(t, ".gooseignore", "# secrets\n\n*.key\nkeys/\n!open.key\n")
	for rel, want := range map[string]string{
		"a/x.key":  p.path(".gooseignore") + ":3: *.key",
		"keys/a/b": p.path(".gooseignore") + ":4: keys/",
		"open.key": p.path(".gooseignore") + ":5: !open.key",
	} {
		if got := p.Explain(p.path(rel), false).Rule.String(); got != want {
			t.Errorf("%s: %s, want %s", rel, got, want)
		}
	}
	p.remove(".gooseignore")
	if got := p.Explain(p.path("x/.env"), false); got.Rule.String() != "built-in rule: **/.env" || got.Path != "x/.env" {
		t.Errorf("the built-in rules explain themselves as %+v", got)
	}
}

func TestNoRulesFileIsEverCreated(t *testing.T) {
	p := newProject(t)
	p.hides(".env sub/.env")
	p.Refresh()
	for _, name := range []string{p.path(".gooseignore"), p.global} {
		if _, err := os.Lstat(name); !os.IsNotExist(err) {
			t.Errorf("%s: %v, want that it does not exist", name, err)
		}
	}
}

// An agent can make as many rules as it likes; they cost it its own access.
func TestRulesAreBounded(t *testing.T) {
	p := newProject(t)
	long := "#" + strings.Repeat("x", 1_000_000) + "\n"
	for i := range 17 {
		p.write(fmt.Sprintf("d%d/.gooseignore", i), long+"rule\n")
		p.hides(fmt.Sprintf("d%d/rule", i))
	}
	p.hides("!d0/x !d14/x d16/x d16/rule d0/rule !x")
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "too many rules") {
		t.Errorf("Err: %v", err)
	}
}

// One question is enough to have all of a deep path read.
func TestRulesOfOnePathAreBounded(t *testing.T) {
	p := newProject(t)
	text := "#" + strings.Repeat("x", 1_000_000) + "\nrule\n"
	deep := strings.Repeat("d/", 20)
	for i := range len(deep) / 2 {
		p.write(deep[:2*(i+1)]+".gooseignore", text)
	}
	p.hides(deep + "x")
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "too many rules") {
		t.Errorf("Err: %v", err)
	}
}

// Rules that were unreadable before they became many are counted, too.
func TestBrokenRulesAreBounded(t *testing.T) {
	p := newProject(t)
	const files = 17
	name := func(i int) string { return fmt.Sprintf("d%d/.gooseignore", i) }
	text := "#" + strings.Repeat("x", 900_000) + "\n" + strings.Repeat("x\n", 50_001)
	for i := range files {
		p.write(name(i), "a\x00b")
		p.hides(fmt.Sprintf("d%d/x", i))
		p.write(name(i), text)
		p.hides(fmt.Sprintf("d%d/x", i))
	}
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "too many rules") {
		t.Errorf("Err: %v", err)
	}
	for i := range files {
		p.write(name(i), "rule\n")
		p.hides(fmt.Sprintf("d%d/rule !d%d/x", i, i))
	}
	if err := p.Err(); err != nil {
		t.Errorf("what they took is not free again: %v", err)
	}
}

func TestConcurrentDecisions(t *testing.T) {
	p := newProject(t, ".gooseignore", "*.key\nx[ab]y\n")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 200 {
				switch {
				case i == 0 && n%20 == 0:
					p.write("sub/.gooseignore", "added\n")
				case i == 0 && n%20 == 10:
					p.write("sub/.gooseignore", "added\nmore\n")
				case !p.Ignored(p.path("a/b.key"), false) || !p.Ignored(p.path("xay"), false) || p.Ignored(p.path("ok"), false):
					t.Error("a decision is wrong")
				}
			}
		})
	}
	wg.Wait()
	p.hides("sub/added")
}

func TestLoosens(t *testing.T) {
	for _, tt := range []struct {
		name       string
		files      []string
		file, text string
		want       bool
	}{
		{"the built-in rules go", nil, ".gooseignore", "*.pem\n", true},
		{"the built-in rules stay", nil, ".gooseignore", "*.pem\n" + ignore.Defaults, false},
		{"there are only the person's", []string{"GLOBAL", "x\n"}, ".gooseignore", "*.pem\n", false},
		{"the person's come back", []string{"GLOBAL", "x\n"}, ".gooseignore", "!x\n", true},
		{"the person's own file", []string{"GLOBAL", "x\n"}, "GLOBAL", "", true},
		{"the person's own file, stricter", []string{"GLOBAL", "x\n"}, "GLOBAL", "x\ny\n", false},
		{"a rule is added", []string{".gooseignore", "x\n"}, ".gooseignore", "y\nx\n", false},
		{"a rule is removed", []string{".gooseignore", "x\n"}, ".gooseignore", "y\n", true},
		{"a directory's first rules", nil, "sub/.gooseignore", "y\n", false},
		{"a directory's exception", nil, "sub/.gooseignore", "!y\n", true},
		{"a directory's rules go", []string{"sub/.gooseignore", "y\n"}, "sub/.gooseignore", "", true},
		{"rules that cannot be read", []string{".gooseignore", "a\x00b"}, ".gooseignore", "a\n", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newProject(t, tt.files...)
			if got := p.Loosens(p.path(tt.file), tt.text); got != tt.want {
				t.Errorf("%q in %s loosens: %v", tt.text, tt.file, got)
			}
		})
	}
	p := newProject(t)
	if p.Loosens(filepath.Join(filepath.Dir(p.root), "elsewhere", ".gooseignore"), "!x\n") {
		t.Error("a rules file of another project is none of ours")
	}
}
