package artifacts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox/team/artifacts"
)

func TestWriteAndRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run-1")
	f := artifacts.At(dir, "session-1")
	if _, err := f.Read("a.md"); err == nil || !strings.Contains(err.Error(), "there is no file a.md") {
		t.Errorf("reading nothing: %v", err)
	}
	for _, text := range []string{"one", "two"} {
		if err := f.Write("notes/a.md", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Read("notes/a.md"); err != nil || string(got) != text {
			t.Errorf("read %q, %v; want %q", got, err, text)
		}
	}
	if err := f.Write("large", make([]byte, 1<<20+1)); err == nil {
		t.Error("a file may be larger than its bound")
	}
	if err := f.Write("notes", []byte("x")); err == nil {
		t.Error("a directory was written over")
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"", "..", "../x", "a/../b", "/etc/passwd", `a\b`, "a//b", "./a", ".session", "a/.x", "c:x", "con", "aux.md", "LPT1", "a.", "a ", "a\x00b", "a\nb", "\xff", strings.Repeat("x", 201), "a/b/c/d/e/f/g"} {
		if artifacts.CheckName(name) == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
	for _, name := range []string{"a", "step-01-to-goose.md", "Ünïcode/plan 2.md"} {
		if err := artifacts.CheckName(name); err != nil {
			t.Error(err)
		}
	}
}

// Links lead nowhere, and a pipe is not waited for.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	f := artifacts.At(dir, "")
	if got, err := f.Read("link"); err == nil {
		t.Errorf("read %q through a link", got)
	}
	if err := f.Write("link", []byte("x")); err == nil {
		t.Error("wrote through a link")
	}
	if err := os.Symlink(filepath.Dir(secret), filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Read("out/secret"); err == nil {
		t.Errorf("read %q through a link to a directory", got)
	}
}

func TestForgetAndTidy(t *testing.T) {
	dir := t.TempDir()
	for run, session := range map[string]string{"a": "one", "b": "two", "c": "one"} {
		if err := artifacts.At(filepath.Join(dir, run), session).Write("x", nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "one"), 0o700); err != nil { // an export of a person's
		t.Fatal(err)
	}
	if err := artifacts.Forget(dir, "one"); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(left) != 2 || filepath.Base(left[0]) != "b" || filepath.Base(left[1]) != "one" {
		t.Errorf("left %v", left)
	}
	if err := artifacts.Tidy(dir, time.Nanosecond); err != nil {
		t.Fatal(err)
	}
	if left, _ = filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("left %v", left)
	}
}
