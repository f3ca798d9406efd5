//go:build unix

package ignore_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gander.dev/gander/sandbox/rules/ignore"
)

// What an agent may put in place of a rules file. None of it may hang, leave the
// root, or mean that nothing is hidden.
var breakages = []struct {
	name, why string
	do        func(path string) error
}{
	{"a pipe", "not a regular file", func(p string) error { return syscall.Mkfifo(p, 0o644) }},
	{"a directory", "not a regular file", func(p string) error { return os.Mkdir(p, 0o755) }},
	{"a link out", "escapes", func(p string) error { return os.Symlink("/etc/passwd", p) }},
	{"a relative link out", "escapes", func(p string) error { return os.Symlink("../../../../../../../../etc/passwd", p) }},
	{"a link to nothing", "link to nothing", func(p string) error { return os.Symlink("nothing", p) }},
	{"a link to a device", "escapes", func(p string) error { return os.Symlink("/dev/zero", p) }},
	{"a link to itself", "too many", func(p string) error { return os.Symlink(filepath.Base(p), p) }},
	{"a huge file", "larger than", func(p string) error { return os.WriteFile(p, make([]byte, 2<<20), 0o644) }},
	{"a hole", "larger than", func(p string) error { return os.Truncate(p, 1<<40) }},
	{"a line without end", "line of", func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("?", 100_000)), 0o644) }},
	{"too many rules", "more than", func(p string) error {
		return os.WriteFile(p, []byte(strings.Repeat("{a,b,c,d}{a,b,c,d}\n", 10_000)), 0o644)
	}},
	{"no text", "not text", func(p string) error { return os.WriteFile(p, []byte("a\x00b\n"), 0o644) }},
}

func breakIt(t *testing.T, path string, do func(string) error) {
	t.Helper()
	if err := do(path); err == nil {
		return
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil { // for those that need a file
		t.Fatal(err)
	}
	if err := do(path); err != nil {
		t.Fatal(err)
	}
}

func TestBrokenRulesKeepTheLastGood(t *testing.T) {
	for _, b := range breakages {
		t.Run(b.name, func(t *testing.T) {
			p := newProject(t, ".gooseignore", "*.key\n", "sub/.gooseignore", "*.pem\n")
			p.hides("x.key sub/x.pem !ok")
			for _, name := range []string{".gooseignore", "sub/.gooseignore"} {
				p.remove(name)
				breakIt(t, p.path(name), b.do)
			}
			p.hides("x.key sub/x.pem !ok !sub/ok")
			if err := p.Err(); err == nil || !strings.Contains(err.Error(), b.why) {
				t.Errorf("Err: %v, want %q", err, b.why)
			}
			p.remove(".gooseignore")
			p.remove("sub/.gooseignore")
			p.write(".gooseignore", "new\n")
			p.hides("new !x.key !sub/x.pem")
			if err := p.Err(); err != nil {
				t.Error("after mending: ", err)
			}
		})
	}
}

func TestBrokenRulesFromTheStartHideEverything(t *testing.T) {
	for _, b := range breakages {
		t.Run(b.name, func(t *testing.T) {
			p := newProject(t)
			p.write("sub/file", "")
			breakIt(t, p.path("sub/.gooseignore"), b.do)
			p.hides("sub/x sub/a/b !x .env")
			breakIt(t, p.path(".gooseignore"), b.do)
			p.open(ignore.SetOptions{})
			p.hides("x a/b sub/x")
			if d := p.Explain(p.path("x"), false); !strings.Contains(d.Rule.String(), "cannot be read") {
				t.Errorf("it explains itself as %v", d.Rule)
			}
			p.remove(".gooseignore")
			p.write(".gooseignore", "k\n")
			p.hides("k !x sub/x")
		})
	}
}

func TestLinksToRules(t *testing.T) {
	p := newProject(t, "rules/mine", "*.key\n", "real/.gooseignore", "*.pem\n")
	if err := os.Symlink("rules/mine", p.path(".gooseignore")); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, ".gooseignore"), []byte("*\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"inside": "real", "outside": outside} {
		if err := os.Symlink(target, p.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	p.open(ignore.SetOptions{})
	p.hides("x.key !.env real/x.pem !inside/x.pem !outside/x")
	p.write("rules/mine", "*.txt\n") // the link itself does not change
	p.hides("x.txt !x.key")
	if err := p.Err(); err != nil {
		t.Error(err)
	}
}

// Whoever is kept from files by rules does not write them by another name.
func TestLinksToSharedRules(t *testing.T) {
	const weak = "none\n"
	for target, hides := range map[string]string{
		"../.gooseignore": "sub/in/x.key !sub/in/x",
		"mine":            "sub/in/x sub/in/x.key", "./.gooseignore/../mine": "sub/in/x", "../sub/.gooseignore": "sub/in/x", "../../link/.gooseignore": "sub/in/x",
	} {
		p := newProject(t, "sub/.gooseignore", "*.key\n", "sub/in/mine", weak, "top/.gooseignore", weak)
		for name, target := range map[string]string{"link": "top", "sub/in/.gooseignore": target} {
			if err := os.Symlink(target, p.path(name)); err != nil {
				t.Fatal(err)
			}
		}
		p.open(ignore.SetOptions{Shared: true})
		p.hides(hides)
	}
	p := newProject(t, "mine", weak)
	if err := os.Symlink("mine", p.path(".gooseignore")); err != nil {
		t.Fatal(err)
	}
	p.open(ignore.SetOptions{Shared: true})
	p.hides("x sub/x")
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "a link to what can be written") {
		t.Error(err)
	}
	p.remove(".gooseignore")
	p.write(".gooseignore", "*.key\n")
	p.hides("x.key !x")
}

func TestTheRootMayBeALink(t *testing.T) {
	p := newProject(t, ".gooseignore", "/x\n")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(p.root, link); err != nil {
		t.Fatal(err)
	}
	real := p.root
	p.root = link
	p.open(ignore.SetOptions{})
	p.hides("x !y " + filepath.Join(real, "x") + " !" + filepath.Join(real, "y"))
}

// A directory whose rules could not be read is looked at again at once, as after a chmod.
func TestMaxAgeIsNotForBrokenRules(t *testing.T) {
	p := newProject(t, "sub/plain", "")
	breakIt(t, p.path("sub/.gooseignore"), func(path string) error { return os.Symlink("nothing", path) })
	p.open(ignore.SetOptions{MaxAge: time.Hour})
	p.hides("sub/plain")
	p.remove("sub/.gooseignore")
	p.hides("!sub/plain")
}

// Rules at a path that is too long cannot be looked at: whether there are any is not known.
func TestRulesThatCannotBeLookedAt(t *testing.T) {
	const longest = 4095
	p := newProject(t, "sub/.gooseignore", "/key\n", "sub/key", "", "sub/plain", "")
	p.hides("sub/key !sub/plain")
	deep := p.root
	for room := longest - len("/sub/plain") - 1; len(deep)+1 < room; {
		deep = filepath.Join(deep, strings.Repeat("n", min(250, room-len(deep)-1)))
	}
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(p.path("sub"), filepath.Join(deep, "sub")); err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(p.root, filepath.Join(deep, "sub"))
	if err != nil {
		t.Fatal(err)
	}
	p.hides(rel + "/key " + rel + "/plain !sub/key !sub/plain")
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("Err: %v", err)
	}
	if err := os.Rename(filepath.Join(deep, "sub"), p.path("sub")); err != nil {
		t.Fatal(err)
	}
	p.hides("sub/key !sub/plain")
}
